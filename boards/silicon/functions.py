"""A netlist as the functions of its cells, for a simulator: an assignment for a gate, a register for a flip-flop."""

import functools
import itertools
import re

import numpy as np

from .liberty import LibertyError, Library, LibraryCell

_INSTANCE = re.compile(r"^  (\\\S+ |\w+) +(\\\S+ |\w+) \(\n((?:    \.\w+\(.*\),?\n)*)  \);\n", re.MULTILINE)
_PIN = re.compile(r"    \.(\w+)\((.*?) *\),?\n")
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][\w\[\]]*|[01](?![\w]))|(.))")
_OPERATORS = {"*": "&", "&": "&", "+": "|", "|": "|", "^": "^"}
_STRENGTH = {"|": 1, "^": 2, "&": 3}


def with_functions(verilog: str, library: Library) -> str:
    """The modules of a netlist, with the same nets, in which each cell of the library is what it does. LibertyError
    for a cell whose function the library does not tell."""

    def replaced(found: re.Match[str]) -> str:
        cell = library.cells.get(found[1].strip(" \\"))
        if cell is None:
            return found[0]
        pins = dict(_PIN.findall(found[3]))
        return _statements(cell, f"state_{found.start()}", pins)

    return _INSTANCE.sub(replaced, verilog)


def _statements(cell: LibraryCell, register: str, pins: dict[str, str]) -> str:
    text = ""
    if cell.state is not None:
        state = cell.state
        pins = pins | {state.name: register, state.inverse: f"(~{register})"}
        clock = _expression(state.clocked_on)
        edge, pin = ("negedge", clock[1:]) if clock.startswith("~") else ("posedge", clock)
        if pin not in cell.inputs:
            raise LibertyError(
                f"{cell.name} is a latch, or has a clear or a preset: no such cell can be simulated"
            )
        text = f"  reg {register};\n  always @({edge} {pins[pin]}) {register} <= {_filled(state.next_state, pins)};\n"
    for output, function in cell.function.items():
        if net := pins.get(output):
            text += f"  assign {net} = {_filled(function, pins)};\n"
    return text


def _filled(function: str, pins: dict[str, str]) -> str:
    """The function, in Verilog, of what is on the pins."""
    expression = _expression(function)
    # The space ends a name with a backslash.
    return re.sub(r"(?<!')\b[A-Za-z_]\w*", lambda found: f"{pins.get(found[0], found[0])} ", expression)


@functools.cache
def _expression(function: str) -> str:
    """Verilog of a function in Liberty's words, in which `A B` is AND and `A'` is NOT."""
    tokens = [name or sign for name, sign in _TOKEN.findall(function) if (name or sign).strip()]
    parser = _FunctionParser(tokens)
    text = parser.sum(1)
    if parser.rest:
        raise LibertyError(f"the function {function!r} is not one of Liberty's")
    return text


@functools.cache
def truth(function: str, pins: tuple[str, ...]) -> np.ndarray:
    """The function's value, bool, for each value of the pins, the first of which is the highest bit."""
    code = compile(_expression(function).replace("1'b", ""), function, "eval")
    cases = itertools.product((0, 1), repeat=len(pins))
    values = [eval(code, {"__builtins__": {}}, dict(zip(pins, case, strict=True))) & 1 for case in cases]
    return np.array(values, bool)


class _FunctionParser:
    def __init__(self, tokens: list[str]) -> None:
        self.rest = tokens[::-1]

    def sum(self, least: int) -> str:
        """Operators at least as strong as `least`."""
        text = self.factor()
        while self.rest:
            sign = _OPERATORS.get(self.rest[-1])
            # Two factors side by side are AND.
            strength = _STRENGTH[sign] if sign else 3 if self.rest[-1] not in ")'" else 0
            if strength < least:
                break
            if sign:
                self.rest.pop()
            text = f"({text} {sign or '&'} {self.sum(strength + 1)})"
        return text

    def factor(self) -> str:
        token = self.rest.pop() if self.rest else ""
        if token == "!":
            return f"~{self.factor()}"
        if token == "(":
            text = self.sum(1)
            if not self.rest or self.rest.pop() != ")":
                raise LibertyError("a parenthesis of a function is not closed")
        elif token in ("0", "1"):
            text = f"1'b{token}"
        elif re.fullmatch(r"[A-Za-z_]\w*", token):
            text = token
        else:
            raise LibertyError(f"a function has {token or 'an end'!r} in place of a pin")
        while self.rest and self.rest[-1] == "'":
            self.rest.pop()
            text = f"~{text}"
        return text
