"""Elementwise layers whose slots are rows: what a whole row shares is loaded and computed once, before the repetitions
that walk along the row.

A micro-operation loads one operand. Where it needs an element of a row and the row's own number (a mean, a maximum, a
scale), the number must be in a register, and would be brought there for every vector of the row.
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
    distinct = len(set(program.loads)) == len(program.loads)
    if not distinct or not isinstance(root, Node):
        return None
    rows = {program.loads[stream].tensor for stream in program.splats}
    root = _added(root, rows)
    uses = Uses()
    order = [value for value in uses.postorder(root) if isinstance(value, Node)]
    assembler = UopAssembler(config, uses, program.loads)
    shared = _shared(order, rows)
    if id(root) in shared:
        # A row is one number all along.
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
        rows=program.splats,
    )
    saves = sum(found.uop_beats(stored)[body_start:]) < program.beats(stored)
    return found if saves else None


def _added(root: Node, rows: Container[str]) -> Node:
    """A copy of an expression in which a RESCALE adds what its row has, negated, in place of a SUB behind it."""
    uses = Uses()
    order = [value for value in uses.postorder(root) if isinstance(value, Node)]
    shared, copies = _shared(order, rows), dict[int, Node]()

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


def _shared(order: list[Node], rows: Container[str]) -> set[int]:
    """The nodes, by id, that have one value for a whole row."""
    found = set[int]()

    def of_row(value: Value | None) -> bool:
        if isinstance(value, Load):
            return value.tensor in rows
        return value is None or isinstance(value, Immediate) or id(value) in found

    for node in order:
        if of_row(node.a) and of_row(node.b) and not (node.bias or node.per_channel):
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
