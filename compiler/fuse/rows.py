"""Elementwise layers that load and compute once what many vectors share, before the repetitions that walk over them.

A micro-operation loads one operand, and int32 elements take four cycles. By rows, slots are rows and the repetitions
walk along them: what has one number for a whole row (a mean, a maximum, a scale) stays in a register. By channels, the
repetitions walk over the pixels of a group of channels: what differs along the channels only (a gate, a scale) stays,
and with it all that comes of it by the channels' own parameters.
"""

import dataclasses
from collections.abc import Container

from tosaic.compiler.fuse.expression import Immediate, Load, Node, Value
from tosaic.compiler.fuse.microprogram import MicroProgram, TooComplex, UopAssembler, Uses
from tosaic.hw.config import Config
from tosaic.hw.isa import Element, Op


def by_rows(root: Value, program: MicroProgram, stored: Element, config: Config) -> MicroProgram | None:
    """The micro-program of an elementwise layer that computes what its splats alone lead to before its body, which
    stores a vector in each repetition; its streams are those of `program`. None where it saves nothing."""
    return _held(root, program, program.splats, stored, config, parameters=False)


def by_channels(
    root: Value, program: MicroProgram, lines: frozenset[int], stored: Element, config: Config
) -> MicroProgram | None:
    """The same of streams that differ along the channels only: `lines`. Each group of channels has its parameters."""
    return _held(root, program, lines, stored, config, parameters=True)


def _held(
    root: Value,
    program: MicroProgram,
    streams: frozenset[int],
    stored: Element,
    config: Config,
    *,
    parameters: bool,
) -> MicroProgram | None:
    distinct = len(set(program.loads)) == len(program.loads)
    if not streams or not distinct or not isinstance(root, Node):
        return None
    rows = {program.loads[stream].tensor for stream in streams}
    root = _added(root, rows, parameters=parameters)
    uses = Uses()
    order = [value for value in uses.postorder(root) if isinstance(value, Node)]
    assembler = UopAssembler(config, uses, program.loads)
    shared = _shared(order, rows, parameters=parameters)
    if id(root) in shared:
        # All vectors are the same.
        return None
    try:
        for node in order:
            _before(assembler, node, shared, rows)
        body_start = assembler.count
        for node in order:
            if id(node) not in shared:
                assembler.evaluate(node, to_memory=node is root)
    except TooComplex:
        return None
    found = dataclasses.replace(
        program,
        instructions=assembler.instructions,
        uops=assembler.count,
        body_start=body_start,
        body_end=assembler.count,
        rows=streams,
    )
    saves = sum(found.uop_beats(stored)[body_start:]) < program.beats(stored)
    return found if saves else None


def _added(root: Node, rows: Container[str], *, parameters: bool) -> Node:
    """A copy of an expression in which a RESCALE adds what its row has, negated, in place of a SUB behind it."""
    uses = Uses()
    order = [value for value in uses.postorder(root) if isinstance(value, Node)]
    shared, copies = _shared(order, rows, parameters=parameters), dict[int, Node]()

    def copy(value: Value | None) -> Value | None:
        return copies[id(value)] if isinstance(value, Node) else value

    for node in order:
        own, scaled = copy(node.b), node.a
        of_row = id(node.b) in shared or (isinstance(node.b, Load) and node.b.tensor in rows)
        plain = not (node.a_zp or node.bias or node.out_zp)
        if node.op is Op.SUB and of_row and plain and isinstance(scaled, Node) and uses[id(scaled)] == 1:
            free = scaled.op is Op.RESCALE and scaled.b is None and scaled.clamp is None and not scaled.out_zp
            if free and id(scaled) not in shared and (node.wrap32 or not scaled.wrap32):
                negative = Node(Op.MUL, own, Immediate(-1))  # type: ignore[arg-type]
                copies[id(node)] = dataclasses.replace(
                    copies[id(scaled)], b=negative, wrap32=node.wrap32, clamp=node.clamp
                )
                continue
        copies[id(node)] = dataclasses.replace(node, a=copy(node.a), b=own)  # type: ignore[arg-type]
    return copies[id(root)]


def _shared(order: list[Node], rows: Container[str], *, parameters: bool) -> set[int]:
    """The nodes, by id, that have one value for a whole row, or, with `parameters`, for all pixels."""
    found = set[int]()

    def of_row(value: Value | None) -> bool:
        if isinstance(value, Load):
            return value.tensor in rows
        return value is None or isinstance(value, Immediate) or id(value) in found

    for node in order:
        if of_row(node.a) and of_row(node.b) and (parameters or not (node.bias or node.per_channel)):
            found.add(id(node))
    return found


def _before(assembler: UopAssembler, node: Node, shared: set[int], rows: Container[str]) -> None:
    """Emits a node that rows share; of another node, loads what its row has for it. Registers that the body reads are
    kept."""
    if id(node) in shared:
        assembler.evaluate(node, to_memory=False)
        return
    for value in (node.a, node.b):
        if isinstance(value, Load) and value.tensor in rows:
            assembler.held[value] = assembler.into_register(value)
            assembler.keep(assembler.held[value])
        elif isinstance(value, Node) and id(value) in shared:
            assembler.keep(value)
