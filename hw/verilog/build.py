"""Turns RTLIL into Verilog's statements: one for each cell."""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping

from . import rtlil
from .expressions import (
    COMPARISONS,
    Concatenation,
    Expression,
    MemoryWord,
    VerilogOperation,
    choice,
    complement,
    constant,
    cut,
    extend,
    join,
    operation,
)
from .module import (
    Assign,
    Branch,
    Fill,
    Instance,
    Module,
    Process,
    Set,
    Signal,
    Statement,
    Step,
    Target,
    VerilogSelect,
)
from .rtlil import Cell, Constant, Memory, Netlist, RtlilCase, RtlilSlice, Switch, Value, Wire

_OF_VIEWERS = ("src", "generator", "top", "init")
_UNARY = {
    "$not": "~",
    "$neg": "-",
    "$reduce_and": "&",
    "$reduce_or": "|",
    "$reduce_bool": "|",
    "$reduce_xor": "^",
}
_BINARY = {
    "$and": "&",
    "$or": "|",
    "$xor": "^",
    "$add": "+",
    "$sub": "-",
    "$mul": "*",
    "$divfloor": "/",
    "$modfloor": "%",
    "$eq": "==",
    "$ne": "!=",
    "$lt": "<",
    "$le": "<=",
    "$gt": ">",
    "$ge": ">=",
    "$shl": "<<",
    "$shr": ">>",
    "$sshr": ">>>",
    "$shift": ">>",
}


def build(netlist: Netlist, directions: Mapping[str, Mapping[str, str]]) -> Module:
    """The module of a netlist, with the names of RTLIL. `directions`: of the ports of each module that is known."""
    return _Builder(netlist, directions).module


class _Builder:
    def __init__(self, netlist: Netlist, directions: Mapping[str, Mapping[str, str]]) -> None:
        self.netlist, self.directions = netlist, directions
        source = str(netlist.attributes.get("src", ""))
        self.module = Module(netlist.name, source=source, original=netlist.name)
        for wire in netlist.wires.values():
            if not wire.bits:
                continue
            initial = wire.attributes.get("init")
            self.module.signals[wire.name] = Signal(
                wire.name,
                wire.bits,
                wire.direction,
                initial if isinstance(initial, Constant) else None,
                attributes=_of_synthesis(wire),
            )
        for memory in netlist.memories.values():
            self.module.signals[memory.name] = Signal(
                memory.name, memory.bits, depth=memory.depth, attributes=_of_synthesis(memory)
            )
        for content in netlist.contents:
            if isinstance(content, Cell):
                if all(content.ports.get(output, True) for output in ("Y", "Q")):
                    self._cell(content)
            elif steps := _steps(content.body):
                self._add(Process((), steps))
        for target, value in netlist.connections:
            if target:
                self._connect(target, join(value))

    def _add(self, statement: Statement) -> None:
        self.module.statements.append(statement)

    def _connect(self, target: Value, value: Expression) -> None:
        """A port is driven, and a wire with an attribute keeps its name; any other is one more name of a value."""
        wire = target[0]
        assert isinstance(wire, RtlilSlice)
        signal = self.module.signals[wire.wire]
        if len(target) > 1 or signal.direction or signal.attributes:
            self._add(Assign(_driven(join(target)), value))
        else:
            self.module.aliases.append((wire, value))

    def _cell(self, cell: Cell) -> None:
        if not cell.kind.startswith("$"):
            self._instance(cell)
        elif cell.kind in ("$dff", "$adff"):
            self._register(cell)
        elif cell.kind == "$meminit_v2":
            self._contents(cell)
        elif cell.kind == "$memwr_v2":
            self._write_port(cell)
        elif cell.kind == "$memrd_v2":
            self._read_port(cell)
        elif cell.kind == "$tribuf":
            nothing = Constant("z" * cell.number("WIDTH"))
            value = VerilogOperation(
                "?:", (self._port(cell, "EN"), self._port(cell, "A"), nothing), nothing.bits
            )
            self._add(Assign(_driven(self._port(cell, "Y")), value))
        else:
            self._add(Assign(_driven(self._port(cell, "Y")), self._operation(cell)))

    def _port(self, cell: Cell, name: str) -> Expression:
        return join(cell.ports[name])

    def _instance(self, cell: Cell) -> None:
        kind = cell.kind.removeprefix("\\")
        known = self.directions.get(kind, {})
        driving = {port for port in cell.ports if known.get(f"\\{port}") in ("output", "inout")}
        self.module.instances.append(
            Instance(
                kind,
                cell.name,
                {port: join(value) for port, value in cell.ports.items() if value},
                cell.parameters,
                {name: value for name, value in cell.attributes.items() if name not in _OF_VIEWERS},
                driving,
            )
        )

    def _register(self, cell: Cell) -> None:
        clock, data, register = (self._port(cell, name) for name in ("CLK", "D", "Q"))
        edges = [("posedge" if cell.number("CLK_POLARITY") else "negedge", clock)]
        steps: list[Step] = [Set(_driven(register), data)]
        if cell.kind == "$adff":
            reset, start = self._port(cell, "ARST"), cell.parameters["ARST_VALUE"]
            assert isinstance(start, Constant)
            edges.append(("posedge", reset))
            steps = [Branch([(reset, [Set(_driven(register), start)]), (None, steps)])]
        self._add(Process(tuple(edges), steps))

    def _contents(self, cell: Cell) -> None:
        digits, bits = join(cell.ports["DATA"]), cell.number("WIDTH")
        words = tuple(cut(digits, low, bits) for low in range(0, digits.bits, bits))
        assert all(isinstance(word, Constant) for word in words)
        self._add(Fill(_memory(cell), words))  # type: ignore[arg-type]

    def _write_port(self, cell: Cell) -> None:
        address = self._port(cell, "ADDR")
        steps: list[Step] = [
            _under(bit, [Set(MemoryWord(_memory(cell), address, low, data.bits), data)])
            for bit, low, data in self._lanes(cell)
        ]
        self._add(Process((("posedge", self._port(cell, "CLK")),), steps))

    def _lanes(self, cell: Cell) -> Iterator[tuple[Expression, int, Expression]]:
        """The parts of a write port: bits with the same enable, the place of the lowest one, and what is written."""
        data, enable, low = self._port(cell, "DATA"), self._port(cell, "EN"), 0
        while low < data.bits:
            bit, bits = cut(enable, low, 1), 1
            while low + bits < data.bits and cut(enable, low + bits, 1) == bit:
                bits += 1
            yield bit, low, cut(data, low, bits)
            low += bits

    def _read_port(self, cell: Cell) -> None:
        """A transparent port reads what is written at the same edge."""
        address, data = self._port(cell, "ADDR"), _driven(self._port(cell, "DATA"))
        word = MemoryWord(_memory(cell), address, 0, data.bits)
        if not cell.number("CLK_ENABLE"):
            self._add(Assign(data, word))
            return
        steps: list[Step] = [Set(data, word)]
        seen = cell.number("TRANSPARENCY_MASK") if cell.parameters["TRANSPARENCY_MASK"] != Constant("") else 0
        for write in self.netlist.contents:
            if not isinstance(write, Cell) or write.kind != "$memwr_v2" or _memory(write) != _memory(cell):
                continue
            if seen >> write.number("PORTID") & 1:
                same = operation("==", (self._port(write, "ADDR"), address), 1)
                for bit, low, value in self._lanes(write):
                    steps.append(
                        _under(
                            operation("&", (bit, same), 1), [Set(_driven(cut(data, low, value.bits)), value)]
                        )
                    )
        self._add(Process((("posedge", self._port(cell, "CLK")),), [_under(self._port(cell, "EN"), steps)]))

    def _operation(self, cell: Cell) -> Expression:
        if cell.kind == "$mux":
            return choice(*(self._port(cell, name) for name in ("S", "B", "A")))
        bits = cell.number("Y_WIDTH") if "Y_WIDTH" in cell.parameters else 0
        signed = bool(cell.number("A_SIGNED")) if bits else False
        if cell.kind in _UNARY:
            return _unary(_UNARY[cell.kind], self._port(cell, "A"), bits, signed)
        if cell.kind not in _BINARY:
            raise ValueError(f"{self.module.name}: cells of the kind {cell.kind} are not written as Verilog")
        operator = _BINARY[cell.kind]
        a, b = self._port(cell, "A"), self._port(cell, "B")
        if operator in ("<<", ">>", ">>>"):
            width = bits if operator == "<<" else max(bits, a.bits)
            return _shift(operator, extend(a, width, signed), extend(b, max(b.bits, 1)), bits)
        if operator in "/%" and signed:
            raise ValueError(f"{self.module.name}: a signed division rounds down, and Verilog's does not")
        return _binary(operator, a, b, bits, signed)


def _under(condition: Expression, steps: list[Step]) -> Step:
    """Steps under a condition; one step under none, where it always holds."""
    if condition == Constant("1") and len(steps) == 1:
        return steps[0]
    return Branch([(condition, steps)])


def _unary(operator: str, a: Expression, bits: int, signed: bool) -> Expression:
    if operator in "~-":
        value = extend(a, bits, signed)
        return (
            complement(value) if (operator, bits) == ("~", 1) else VerilogOperation(operator, (value,), bits)
        )
    if not a.bits:
        return Constant("1" if operator == "&" else "0")
    return VerilogOperation(operator, (a,), 1) if a.bits > 1 else a


def _binary(operator: str, a: Expression, b: Expression, bits: int, signed: bool) -> Expression:
    width = max(a.bits, b.bits, 1)
    if operator in ("+", "-", "*", "&", "|", "^"):
        width = min(width, bits)
    # The carry of a sum is one bit more than its operands, as everybody knows; a product has the bits of both.
    carry = operator in ("+", "-") and bits <= width + 1
    if operator not in COMPARISONS and not carry and operator != "*":
        width = max(width, bits)
    if isinstance(b, Constant) and not signed and (simple := _by_constant(operator, a, b, bits)) is not None:
        return simple
    if operator == "*":
        a, b = (extend(operand, max(min(operand.bits, bits), 1)) for operand in (a, b))
    else:
        a, b = extend(a, width, signed), extend(b, width, signed)
    if signed and operator not in ("==", "!="):
        a, b = (VerilogOperation("$signed", (operand,), operand.bits) for operand in (a, b))
    return operation(operator, (a, b), 1 if operator in COMPARISONS else bits)


def _by_constant(operator: str, a: Expression, b: Constant, bits: int) -> Expression | None:
    """A sum with 0 and a product with a power of two are no arithmetic."""
    number = int(b.digits or "0", 2)
    if operator in ("+", "-") and number == 0:
        return extend(a, bits)
    if operator == "*" and number.bit_count() == 1:
        return extend(join([a, constant(0, number.bit_length() - 1)]), bits)
    return None


def _shift(operator: str, value: Expression, amount: Expression, bits: int) -> Expression:
    if isinstance(amount, Constant) and operator != ">>>":
        places = min(int(amount.digits, 2), value.bits)
        if operator == "<<":
            return extend(join([value, constant(0, places)]), bits)
        return extend(cut(value, places, value.bits - places), bits)
    if operator == ">>>":
        value = VerilogOperation("$signed", (value,), value.bits)
    return VerilogOperation(operator, (value, amount), bits)


def _driven(value: Expression) -> Target:
    assert isinstance(value, RtlilSlice | Concatenation), value
    return value


def _memory(cell: Cell) -> str:
    return str(cell.parameters["MEMID"])


def _of_synthesis(of: Wire | Memory) -> dict[str, object]:
    """Attributes that are not for waveform viewers."""
    return {
        name: value
        for name, value in of.attributes.items()
        if name not in _OF_VIEWERS and not name.startswith("enum_")
    }


def _steps(body: list[rtlil.RtlilAssignment | Switch]) -> list[Step]:
    """The steps of a process; a switch that does nothing is none."""
    steps: list[Step] = []
    for item in body:
        if isinstance(item, rtlil.RtlilAssignment):
            if not item.target:
                continue
            steps.append(Set(_driven(join(item.target)), join(item.value)))
        elif not item.selector:
            steps += [step for case in item.cases for step in _steps(case.body)]
        else:
            steps += _choice(item)
    return steps


def _choice(switch: Switch) -> list[Step]:
    selector, cases = _asked(join(switch.selector), switch.cases)
    last = next((place for place, case in enumerate(cases) if not case.patterns), len(cases))
    arms = [(case.patterns, _steps(case.body)) for case in cases[: last + 1]]
    while arms and not arms[-1][1]:
        arms.pop()
    if not arms:
        return []
    if not arms[0][0]:
        return arms[0][1]
    conditions = [_condition(selector, patterns) for patterns, _ in arms]
    if all(
        condition is not None or not patterns
        for condition, (patterns, _) in zip(conditions, arms, strict=True)
    ):
        return [Branch([(condition, steps) for condition, (_, steps) in zip(conditions, arms, strict=True)])]
    return [VerilogSelect(selector, arms)]


def _asked(selector: Expression, cases: list[RtlilCase]) -> tuple[Expression, list[RtlilCase]]:
    """Without the bits of the selector that are constants, and the cases that these leave."""
    fixed = [cut(selector, low, 1) for low in reversed(range(selector.bits))]
    if not any(isinstance(bit, Constant) for bit in fixed):
        return selector, cases
    free = [place for place, bit in enumerate(fixed) if not isinstance(bit, Constant)]
    left = []
    for case in cases:
        possible = [
            pattern
            for pattern in case.patterns
            if all(
                digit == "-" or not isinstance(bit, Constant) or bit.digits == digit
                for digit, bit in zip(pattern, fixed, strict=True)
            )
        ]
        patterns = tuple("".join(pattern[place] for place in free) for pattern in possible)
        if patterns or not case.patterns:
            # What matches whatever the other bits are is every other value.
            left.append(
                RtlilCase(() if any(not pattern.strip("-") for pattern in patterns) else patterns, case.body)
            )
    return join([fixed[place] for place in free]), left


def _condition(selector: Expression, patterns: Collection[str]) -> Expression | None:
    """One bit for each pattern, any of them; None where a pattern asks for more."""
    bits: list[Expression] = []
    for pattern in patterns:
        places = [place for place, digit in enumerate(pattern) if digit != "-"]
        if len(places) != 1:
            return None
        bit = cut(selector, len(pattern) - 1 - places[0], 1)
        bits.append(bit if pattern[places[0]] == "1" else complement(bit))
    either: Callable[[Expression, Expression], Expression] = lambda a, b: VerilogOperation("|", (a, b), 1)  # noqa: E731
    return functools.reduce(either, bits) if bits else None
