"""The first and the last repetition of a reduction outside of its body: the first element takes the place of a start
value, and the last sum is stored as it is made."""

import dataclasses

from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.hw.isa import Instruction, Op, Opcode, Source, make

_PLAIN = ("bias", "per_channel", "round", "clamp", "wrap32", "a_zp", "out_zp")
"""Fields that are zero where a micro-operation does nothing beside its operation."""


def peeled(program: MicroProgram, repeats: int) -> tuple[MicroProgram, int]:
    """The program with fewer repetitions, and how many are left; as it is where its start value is needed."""
    if repeats not in program.peeled:
        program.peeled[repeats] = _peeled(program, repeats)
    return program.peeled[repeats]


def _peeled(program: MicroProgram, repeats: int) -> tuple[MicroProgram, int]:
    uops = [item for item in program.instructions if item.opcode is Opcode.VECTOR_UOP]
    bounds = {item.index: item for item in program.instructions if item.opcode is Opcode.VECTOR_BOUNDS}
    first, last = program.body_start, program.body_end
    body = uops[first:last]
    # The first repetition of a longer body would take more than the one micro-operation of the start value.
    if program.rows or first != 1 or not 1 <= len(body) <= 2 or repeats < 2:
        return program, repeats
    start, combine = uops[0], body[-1]
    sources = {source for uop in body for source in (uop.a_source, uop.b_source)}
    running = (combine.b_source, combine.b_index) == (Source.REGISTER, combine.destination)
    if not running or start.destination != combine.destination or Source.ITERATION in sources:
        return program, repeats
    scales = combine.op == Op.RESCALE
    if len(body) == 1:
        op = Op.RESCALE if scales else Op.MOV
        head = _changed(combine, index=0, op=op, b_source=Source.NONE, b_index=0)
    else:
        term = (combine.a_source, combine.a_index) == (Source.REGISTER, body[0].destination)
        if not term or scales or combine.a_zp or combine.destination in _registers(body[0]):
            return program, repeats
        head = _changed(body[0], index=0, destination=combine.destination)
    uops[0], left = head, repeats - 1
    _copy_bounds(bounds, first, 0)
    if (
        len(body) == 1
        and left > 1
        and len(uops) == last + 1
        and _only_stores(uops[last], combine.destination)
    ):
        uops[last], left = _changed(combine, index=last, to_memory=1, destination=0), left - 1
        _copy_bounds(bounds, first, last)
    instructions = [item for uop in uops for item in (uop, bounds.get(uop.index)) if item is not None]
    return dataclasses.replace(program, instructions=instructions), left


def _changed(uop: Instruction, **fields: int) -> Instruction:
    return make(Opcode.VECTOR_UOP, **{**uop.fields, **fields})


def _copy_bounds(bounds: dict[int, Instruction], source: int, target: int) -> None:
    """Gives a micro-operation the bounds and the immediate of another one, if that has any."""
    bounds.pop(target, None)
    if source in bounds:
        bounds[target] = make(Opcode.VECTOR_BOUNDS, **{**bounds[source].fields, "index": target})


def _registers(uop: Instruction) -> set[int]:
    """The registers that a micro-operation reads."""
    pairs = ((uop.a_source, uop.a_index), (uop.b_source, uop.b_index))
    return {index for source, index in pairs if source == Source.REGISTER}


def _only_stores(uop: Instruction, register: int) -> bool:
    """Whether a micro-operation does no more than to store a register."""
    reads = (uop.op, uop.a_source, uop.a_index) == (Op.MOV, Source.REGISTER, register)
    return bool(uop.to_memory) and reads and not any(uop.fields[name] for name in _PLAIN)
