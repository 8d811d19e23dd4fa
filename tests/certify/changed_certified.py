"""A small network, its program's instructions, and programs with one seeded fault."""

import dataclasses
from collections.abc import Iterator

import numpy as np
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.program import Program
from tosaic.hw.isa import INSTRUCTION_BYTES, FieldRangeError, Instruction, Opcode, decode, encode, make

UNTOUCHED = {Opcode.BEGIN, Opcode.END, Opcode.NOP, Opcode.VECTOR_MARK, Opcode.BRANCH}
"""And WAIT and SIGNAL: what those order is not what a certificate shows."""


def network() -> Graph:
    """Padded and depthwise convolutions, a residual sum, limits, pooling."""
    build = LayerBuilder(7)
    x = build.input("x", (1, 6, 7, 5), DType.INT8)
    first = build.rescale(
        build.conv(x, 9, (3, 3), pad=(1, 1, 1, 1), input_zp=-3), DType.INT8, per_channel=True, output_zp=4
    )
    second = build.rescale(
        build.conv(first, 1, (3, 3), pad=(1, 1, 1, 1), input_zp=4, depthwise=True), DType.INT8, shift=42
    )
    total = build.clamp(build.residual(first, second), -100, 90)
    pooled = build.add(
        "MAX_POOL2D", [total], kernel=[2, 2], stride=[2, 2], pad=[0, 0, 0, 1], nan_mode="PROPAGATE"
    )
    build.output(pooled)
    return build.finish()


def code(program: Program) -> list:
    raw = program.image[program.program_address :][: program.program_bytes]
    return [decode(raw[i : i + INSTRUCTION_BYTES]) for i in range(0, len(raw), INSTRUCTION_BYTES)]


def faulty_programs(program: Program, count: int, seed: int) -> Iterator[tuple[str, Program]]:
    """Programs with a field of one instruction changed, or with one bit of the constants, every fourth one."""
    rng, text = np.random.default_rng(seed), code(program)
    places = [
        number
        for number, each in enumerate(text)
        if each.opcode not in UNTOUCHED and not each.opcode.name.endswith(("WAIT", "SIGNAL"))
    ]
    made = 0
    while made < count:
        image = bytearray(program.image)
        if made % 4 == 3:
            at = int(rng.integers(len(image)))
            if program.program_address <= at < program.program_address + program.program_bytes:
                continue
            image[at] ^= 1 << int(rng.integers(8))
            name = f"byte {at} of the image"
        else:
            number = int(rng.choice(places))
            old = text[number]
            field = str(rng.choice(list(old.fields)))
            step = 1 if rng.random() < 0.7 else 1 << int(rng.integers(1, 8))
            value = old.fields[field] + int(rng.choice([-1, 1])) * step
            try:
                new: Instruction = make(old.opcode, **{**old.fields, field: value})
            except FieldRangeError:
                continue
            start = program.program_address + number * INSTRUCTION_BYTES
            image[start : start + INSTRUCTION_BYTES] = encode(new)
            name = f"{field} {value} of {old}"
        made += 1
        yield name, dataclasses.replace(program, image=bytes(image))
