"""Operands of equal widths: what Verilog would extend by itself is extended in the text.

Yosys writes one operator in each assignment and leaves short constants short. A reader has to know the rules of
contexts then, and lint cannot tell what is meant from what is forgotten.
"""

import re

from .module import Module
from .tokens import NAME, closed, plain

_PLAIN = rf"(?:{NAME}\s*(?:\[\d+(?::\d+)?\])?|\d+'s?[bodh][0-9a-f]+|\{{[^{{}}]*\}})"
_ATOM = rf"({_PLAIN}|\$signed\({_PLAIN}\s*\))\s*"
_ASSIGN = re.compile(rf"  assign ({_PLAIN})\s*= (.*);")
_BINARY = re.compile(rf"{_ATOM} (==|!=|<=|>=|<|>|\+|-|&|\||\^|%|/) {_ATOM}")
_SHIFT = re.compile(rf"{_ATOM} (<<) (.*)")
_CHOICE = re.compile(rf"{_ATOM} \? {_ATOM} : {_ATOM}")
_LOGICAL_NOT = re.compile(rf"! ?{_ATOM}")
_NEGATION = re.compile(rf"- ?{_ATOM}")
_CONSTANT = re.compile(r"(\d+)'(s?)([bodh])([0-9a-f]+)")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_BASES = {"b": 2, "o": 8, "d": 10, "h": 16}


def write_widths(module: Module) -> None:
    """Every operator's operands get the width at which Verilog computes."""
    for index, statement in enumerate(module.statements):
        if match := _ASSIGN.fullmatch(statement):
            target = _Operand(module, match[1])
            if target.bits:
                head = statement[: match.start(2)]
                module.statements[index] = f"{head}{_explicit(module, target.bits, match[2])};"


class _Operand:
    """A name, a slice, a constant or a concatenation, signed or not; `bits` is 0 where its width is not known."""

    def __init__(self, module: Module, text: str) -> None:
        text = text.strip()
        self.module = module
        self.signed = text.startswith("$signed(")
        self.text = closed(text[8:-1] if self.signed else text)
        self.bits = self._bits(self.text.strip())

    def _bits(self, text: str) -> int:
        if text.startswith("{"):
            parts = [self._bits(part.strip()) for part in text[1:-1].split(",")]
            return sum(parts) if all(parts) else 0
        if constant := _CONSTANT.fullmatch(text):
            return int(constant[1])
        if piece := re.fullmatch(r".*\S\s*\[(\d+)(?::(\d+))?\]", text, re.DOTALL):
            return int(piece[1]) - int(piece[2] or piece[1]) + 1
        signal = self.module.signals.get(plain(f"{text} ") if text.startswith("\\") else text)
        return signal.bits if signal is not None and not signal.depth else 0

    def at(self, bits: int) -> str:
        """The text of the same value in `bits` bits."""
        text = self.text
        if self.bits and bits > self.bits:
            text = self._signed_at(bits) if self.signed else self._unsigned_at(bits)
        return f"$signed({text})" if self.signed else text

    def _unsigned_at(self, bits: int) -> str:
        text, zeros = self.text.strip(), _hex(bits - self.bits, 0)
        if constant := _CONSTANT.fullmatch(text):
            return _hex(bits, int(constant[4], _BASES[constant[3]]))
        if text.startswith("{"):
            return f"{{ {zeros}, {text[1:-1].strip()} }}"
        return f"{{ {zeros}, {self.text} }}"

    def _signed_at(self, bits: int) -> str:
        text, more = self.text.strip(), bits - self.bits
        if constant := _CONSTANT.fullmatch(text):
            value = int(constant[4], _BASES[constant[3]])
            return _hex(bits, value - (value >> self.bits - 1 << self.bits) & (1 << bits) - 1)
        inner = text[1:-1].strip() if text.startswith("{") else self.text
        first = inner.split(",")[0].strip()
        if constant := _CONSTANT.fullmatch(first):
            if int(constant[4], _BASES[constant[3]]) == 0:
                return f"{{ {_hex(more, 0)}, {inner} }}"
            return self.text
        if piece := re.fullmatch(r"(.*\S\s*)\[(\d+)(?::\d+)?\]", first, re.DOTALL):
            sign = f"{piece[1]}[{piece[2]}]"
        else:
            last = self._bits(first) - 1
            sign = f"{closed(first)}[{last}]" if last else closed(first)
        signs = closed(sign) if more == 1 else f"{{{more}{{{sign}}}}}"
        return f"{{ {signs}, {inner} }}"


def _hex(bits: int, value: int) -> str:
    return f"{bits}'h{value:0{-(-bits // 4)}x}"


def _explicit(module: Module, target: int, text: str) -> str:
    """The same expression; an operator that is not one of those below stays as it is."""
    if match := _LOGICAL_NOT.fullmatch(text):
        operand = _Operand(module, match[1])
        return f"{operand.at(0)} == {_hex(operand.bits, 0)}" if operand.bits > 1 else text
    if match := _NEGATION.fullmatch(text):
        return f"- {_Operand(module, match[1]).at(target)}"
    if match := _CHOICE.fullmatch(text):
        yes, no = _Operand(module, match[2]), _Operand(module, match[3])
        bits = max(target, yes.bits, no.bits)
        return f"{closed(match[1])} ? {yes.at(bits)} : {no.at(bits)}"
    if match := _SHIFT.fullmatch(text):
        return f"{_Operand(module, match[1]).at(target)} {match[2]} {match[3]}"
    match = _BINARY.fullmatch(text)
    if match is None:
        return text
    left, right = _Operand(module, match[1]), _Operand(module, match[3])
    if not left.bits or not right.bits or left.signed != right.signed:
        return text
    bits = max(left.bits, right.bits)
    # The carry of a sum is one bit more than its operands, as everybody knows.
    if match[2] not in _COMPARISONS and target > bits + (match[2] in "+-"):
        bits = target
    return f"{left.at(bits)} {match[2]} {right.at(bits)}"
