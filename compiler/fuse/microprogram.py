"""Turns an expression into the vector unit's micro-program: order, registers, load streams."""

import dataclasses
import functools
import sys
from collections.abc import Sequence

from tosaic.compiler.fuse.expression import ArrayResult, Immediate, Iteration, Load, Node, Reduced, Value
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Element, Instruction, Op, Opcode, Source, make, width

LOAD_STREAMS = STORE_STREAM
"""Streams that operands in memory may take: those before the stream of the result."""
_IMMEDIATE_BITS = width(Opcode.VECTOR_BOUNDS, "immediate") - 1
_COMMUTATIVE = (Op.ADD, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.EQ)


class TooComplex(UnsupportedError):
    """The expression needs more registers, micro-operations or load streams than the vector unit has."""


class TooManyOperands(TooComplex):
    """The expression needs more load streams than there are. Operators that read what it reads already need none."""


@dataclasses.dataclass
class MicroProgram:
    """Micro-operations as instructions, ready but for the addresses of the streams."""

    instructions: list[Instruction]
    uops: int
    body_start: int
    body_end: int
    loads: list[Load]
    """Operand of each load stream."""
    body_loads: int
    """The first streams are read in the body, the others once per batch."""
    bias: bool
    per_channel: bool
    average: int | None
    """Place in `instructions` of the RESCALE that divides by a pool's window, see `averaged`."""
    lane_columns: int
    """Columns of a lane: least cycles of a vector."""
    splats: frozenset[int] = frozenset()
    """Streams of which all lanes get the same element."""
    rows: frozenset[int] = frozenset()
    """Streams that are read once per batch, before a body that stores a vector in each repetition: see `rows.py`."""
    turns: tuple[str, ...] = ()
    """The two parts of a tensor that the first stream brings in turn."""
    peeled: "dict[int, tuple[MicroProgram, int]]" = dataclasses.field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """What `peeled` has made of the program, by repetitions of the body."""

    @functools.cached_property
    def moves(self) -> dict[int, tuple[int, int]]:
        """How often a vector moves each stream on outside of the body, and in each repetition of the body."""
        found: dict[int, tuple[int, int]] = {}
        body = range(self.body_start, self.body_end)
        uops = [each for each in self.instructions if each.opcode is Opcode.VECTOR_UOP]
        for place, uop in enumerate(uops):
            operands = ((uop.a_source, uop.a_index), (uop.b_source, uop.b_index))
            moved = [index for source, index in operands if source == Source.LOAD]
            for stream in [*moved, STORE_STREAM] if uop.to_memory else moved:
                outside, inside = found.get(stream, (0, 0))
                found[stream] = (outside, inside + 1) if place in body else (outside + 1, inside)
        return found

    def averaged(self, multiplier: int, shift: int) -> "MicroProgram":
        """This program with the dividing RESCALE set."""
        if self.average is None:
            return self
        instructions = list(self.instructions)
        fields = dict(instructions[self.average].fields, multiplier=multiplier, shift=shift)
        instructions[self.average] = make(Opcode.VECTOR_UOP, **fields)
        return dataclasses.replace(self, instructions=instructions)

    def beats(self, stored: Element) -> int:
        """Cycles of the vector unit for a vector of all lanes whose result is of type `stored`: a micro-operation takes
        one for each word of its widest elements, and for each column of a lane."""
        return sum(self.uop_beats(stored))

    def uop_beats(self, stored: Element) -> list[int]:
        """The same for each micro-operation."""
        return [self._beats(uop, stored) for uop in self.instructions if uop.opcode is Opcode.VECTOR_UOP]

    def held_beats(self, stored: Element) -> tuple[list[int], list[int]]:
        """The same before the body and in the body, of a program that holds `rows`."""
        beats = self.uop_beats(stored)
        return beats[: self.body_start], beats[self.body_start :]

    def body_beats(self) -> tuple[int, ...]:
        """Cycles of each micro-operation of the body for a vector."""
        uops = [uop for uop in self.instructions if uop.opcode is Opcode.VECTOR_UOP]
        return tuple(
            max([self.lane_columns, *self._loaded(uop)]) for uop in uops[self.body_start : self.body_end]
        )

    def _beats(self, uop: Instruction, stored: Element) -> int:
        return max([self.lane_columns, stored.bytes if uop.to_memory else 1, *self._loaded(uop)])

    def _loaded(self, uop: Instruction) -> list[int]:
        """Bytes of the elements that a micro-operation loads."""
        operands = ((uop.a_source, uop.a_index), (uop.b_source, uop.b_index))
        streams = [index for source, index in operands if source == Source.LOAD]
        return [1 if index in self.splats else self.loads[index].element.bytes for index in streams]


@functools.lru_cache(1 << 12)
def _uop(
    what: tuple[int, ...], destination: int | None, flags: tuple[bool, ...], numbers: tuple[int, ...]
) -> Instruction:
    """A micro-operation; the fuser assembles most of them many times."""
    names = ("index", "op", "a_source", "a_index", "b_source", "b_index")
    fields = dict(zip(names, what, strict=True))
    fields |= zip(("bias", "per_channel", "round", "clamp", "wrap32"), flags, strict=True)
    fields |= zip(("shift", "a_zp", "out_zp", "multiplier"), numbers, strict=True)
    return make(Opcode.VECTOR_UOP, **fields, to_memory=destination is None, destination=destination or 0)


class UopAssembler:
    """A micro-program on its way; `loads`: the operands of load streams that are numbered already."""

    def __init__(self, config: Config, uses: dict[int, int], loads: Sequence[Load] = ()):
        self.config, self.uses = config, uses
        self.free = list(range(config.vector_registers))[::-1]
        self.register: dict[int, int] = {}
        self.loads = list(loads)
        self.numbered = bool(loads)
        self.held: dict[Load, Node] = {}
        """Operands that are in registers."""
        self.instructions: list[Instruction] = []
        self.average: int | None = None
        self.count = 0
        self.turns: list[str] = []
        """The parts of a tensor that a stream brings in turn."""

    def stream(self, load: Load) -> int:
        """Number of the stream that brings an operand."""
        # Every read of a load stream moves it on, so each operand has a stream of its own, unless that is
        # what it wants.
        if load.turn:
            self.turns.append(load.turn)
        if (load.shared or self.numbered) and load in self.loads:
            return self.loads.index(load)
        if len(self.loads) == LOAD_STREAMS:
            raise TooManyOperands(f"more than {LOAD_STREAMS} operands in memory")
        self.loads.append(load)
        return len(self.loads) - 1

    def take(self) -> int:
        """Number of a free register."""
        if not self.free:
            raise TooComplex(f"more than {self.config.vector_registers} live values")
        return self.free.pop()

    def release(self, value: Value) -> None:
        """Frees the register of a value that was read for the last time."""
        if id(value) in self.register:
            self.uses[id(value)] -= 1
            if self.uses[id(value)] == 0:
                self.free.append(self.register.pop(id(value)))

    def keep(self, value: Node) -> None:
        """Lets a value stay in its register to the end."""
        self.uses[id(value)] = sys.maxsize

    def source(self, value: Value | None) -> tuple[Source, int, int]:
        """Returns (source, index, immediate) of an operand."""
        match value:
            case None:
                return Source.NONE, 0, 0
            case Load():
                return Source.LOAD, self.stream(value), 0
            case Immediate():
                return Source.IMMEDIATE, 0, value.value
            case ArrayResult():
                return Source.ARRAY, 0, 0
            case Iteration():
                return Source.ITERATION, 0, 0
            case _:
                return Source.REGISTER, self.register[id(value)], 0

    def emit(self, node: Node, a: Value, b: Value | None, destination: int | None) -> None:
        """Adds the micro-operation of a node to register `destination`, or to memory."""
        if self.count == self.config.vector_uops:
            raise TooComplex(f"more than {self.config.vector_uops} micro-operations")
        a_source, a_index, a_immediate = self.source(a)
        b_source, b_index, b_immediate = self.source(b)
        low, high = node.clamp or (0, 0)
        if node.average:
            self.average = len(self.instructions)
        self.instructions.append(
            _uop(
                (self.count, node.op, a_source, a_index, b_source, b_index),
                destination,
                (node.bias, node.per_channel, node.round, node.clamp is not None, node.wrap32),
                (node.shift, node.a_zp, node.out_zp, node.multiplier),
            )
        )
        if node.clamp is not None or Source.IMMEDIATE in (a_source, b_source):
            immediate = a_immediate if a_source is Source.IMMEDIATE else b_immediate
            self.instructions.append(
                make(Opcode.VECTOR_BOUNDS, index=self.count, low=low, high=high, immediate=immediate)
            )
        self.count += 1

    def start(self, value: int, register: int) -> None:
        """Sets a running value; one that is wider than an immediate is rounded up."""
        spare = max(0, max(value, ~value).bit_length() - _IMMEDIATE_BITS)
        node = Node(Op.RESCALE, Immediate(0), multiplier=1 << spare) if spare else Node(Op.MOV, Immediate(0))
        self.emit(node, Immediate(-(-value >> spare)), None, register)

    def into_register(self, value: Value) -> Node:
        """A MOV of a leaf, for when an instruction cannot take it directly."""
        move, register = Node(Op.MOV, value), self.take()
        self.emit(move, value, None, register)
        self.register[id(move)], self.uses[id(move)] = register, 1
        return move

    def evaluate(self, node: Node, to_memory: bool) -> None:
        """Emits `node`; its operands are evaluated already."""
        a: Value = self.held.get(node.a, node.a) if isinstance(node.a, Load) else node.a
        b = self.held.get(node.b, node.b) if isinstance(node.b, Load) else node.b
        if isinstance(b, ArrayResult) and node.op in _COMMUTATIVE and not (node.a_zp or node.bias):
            a, b = b, a
        if isinstance(b, ArrayResult):
            b = self.into_register(b)
        if isinstance(a, Load) and a == b and not a.shared:
            # A square: its operand is loaded once.
            a = b = self.into_register(a)
            self.uses[id(a)] += 1
        # One operand may come from memory and one may be immediate.
        if (isinstance(a, Load) and isinstance(b, Load)) or (
            isinstance(a, Immediate) and isinstance(b, Immediate)
        ):
            a = self.into_register(a)
        operands = [value for value in (a, b) if value is not None and id(value) in self.register]
        held = {id(value): self.register[id(value)] for value in operands}
        # Operands die before the result is born: it may take their register, since a slot reads before it writes.
        for value in operands:
            self.release(value)
        destination = None if to_memory else self.take()
        dead = {key: register for key, register in held.items() if key not in self.register}
        self.register.update(dead)
        self.emit(node, a, b, destination)
        for key in dead:
            del self.register[key]
        if destination is not None:
            self.register[id(node)] = destination


class Uses(dict[int, int]):
    """How often each node and reduction is an operand, by id."""

    def postorder(self, root: Node | Reduced) -> list[Node | Reduced]:
        """The nodes of an expression, operands first; what is inside of a reduction is left out."""
        out: list[Node | Reduced] = []
        self._visit(root, set(), out)
        return out

    def _visit(self, value: Node | Reduced, seen: set[int], out: list[Node | Reduced]) -> None:
        seen.add(id(value))
        # One that an earlier expression had, too, has been counted.
        counts = id(value) not in self
        self.setdefault(id(value), 0)
        for operand in (value.a, value.b) if isinstance(value, Node) else ():
            if isinstance(operand, Node | Reduced):
                if id(operand) not in seen:
                    self._visit(operand, seen, out)
                if counts:
                    self[id(operand)] += 1
        out.append(value)


def _added(reduced: Reduced, accumulator: Node) -> Node:
    """The micro-operation that joins a term and the running value; a RESCALE that makes the term adds as well."""
    term = reduced.term
    if isinstance(term, Node) and term.op is Op.RESCALE and reduced.combine is Op.ADD and not reduced.a_zp:
        if term.b is None and term.clamp is None and not term.wrap32 and term.out_zp == 0:
            return dataclasses.replace(term, b=accumulator)
    return Node(reduced.combine, term, accumulator, a_zp=reduced.a_zp, wrap32=reduced.wrap32)


def assemble(root: Value, config: Config, turning: Load | None = None) -> MicroProgram:
    """The micro-program that stores `root`; TooComplex when it does not fit the vector unit. `turning`: what the first
    stream brings in turn."""
    if not isinstance(root, Node):
        root = Node(Op.MOV, root)
    uses = Uses()
    assembler = UopAssembler(config, uses)
    if turning is not None:
        assembler.loads.append(turning)
    order = uses.postorder(root)
    reductions = [value for value in order if isinstance(value, Reduced)]
    if len(reductions) > 1:
        raise TooComplex("more than one reduction")
    body_start = body_end = body_loads = 0
    body: list[Node | Reduced] = []
    if reductions:
        reduced = reductions[0]
        running = assembler.take()
        assembler.start(reduced.start, running)
        body_start = assembler.count
        body = uses.postorder(reduced.term) if isinstance(reduced.term, Node | Reduced) else []
        uses[id(reduced.term)] = uses.get(id(reduced.term), 0) + 1
        accumulator = Node(Op.MOV, Immediate(0))
        assembler.register[id(accumulator)] = running
        assembler.keep(accumulator)
        combine = _added(reduced, accumulator)
        for node in body[:-1] if combine.op is Op.RESCALE else body:
            assert isinstance(node, Node)
            assembler.evaluate(node, to_memory=False)
        assembler.emit(combine, combine.a, accumulator, running)
        assembler.release(combine.a)
        body_end, body_loads = assembler.count, len(assembler.loads)
        assembler.register[id(reduced)] = running
    nodes = [value for value in order if isinstance(value, Node)]
    for node in nodes:
        assembler.evaluate(node, to_memory=node is root)
    if turning is not None and (body or len(set(assembler.turns)) != 2 or len(assembler.turns) != 2):
        raise TooManyOperands("parts of a tensor that are not read once each, in turn")
    return MicroProgram(
        instructions=assembler.instructions,
        uops=assembler.count,
        body_start=body_start,
        body_end=body_end,
        loads=assembler.loads,
        body_loads=body_loads if turning is None else 1,
        bias=any(node.bias for node in [*body, *nodes] if isinstance(node, Node)),
        per_channel=any(node.per_channel for node in [*body, *nodes] if isinstance(node, Node)),
        average=assembler.average,
        lane_columns=config.lane_columns,
        turns=tuple(assembler.turns),
    )
