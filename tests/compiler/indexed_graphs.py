"""Graphs of one GATHER, SCATTER or RESIZE with inputs that suit them, and how they run."""

import numpy as np
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.program import Program
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, Instruction, decode
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate

Values = dict[str, np.ndarray]


def random_values(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Any value of the type."""
    return random.integers(dtype.min, dtype.max, shape, endpoint=True).astype(dtype.numpy)


def move_graph(
    op: str,
    shape: tuple[int, int, int],
    count: int,
    dtype: DType = DType.INT8,
    *,
    constant: bool = False,
    same: bool = False,
    beyond: int = 0,
    seed: int = 1,
) -> tuple[Graph, Values]:
    """GATHER or SCATTER of `count` rows of a table [N, K, C]. `constant` indices, the `same` in every batch, or up to
    `beyond` places outside the table."""
    build, (batches, rows, elements) = LayerBuilder(seed), shape
    random = build.random
    if op == "GATHER":
        indices = random.integers(-beyond, rows + beyond, (batches, count))
    else:
        indices = np.stack([random.permutation(rows)[:count] for _ in range(batches)])
    indices = np.ascontiguousarray(np.broadcast_to(indices[:1], indices.shape) if same else indices)
    indices = indices.astype(np.int32)
    operands = [build.input("values", shape, dtype)]
    values = {"values": random_values(random, shape, dtype)}
    if constant:
        operands.append(build.constant(indices, DType.INT32))
    else:
        operands.append(build.input("indices", indices.shape, DType.INT32))
        values["indices"] = indices
    if op == "SCATTER":
        operands.append(build.input("rows", (batches, count, elements), dtype))
        values["rows"] = random_values(random, (batches, count, elements), dtype)
    build.output(build.add(op, operands))
    return build.finish(), values


def resize_graph(
    shape: tuple[int, int, int, int],
    height: tuple[int, int, int, int],
    width: tuple[int, int, int, int],
    mode: str,
    dtype: DType = DType.INT8,
    seed: int = 1,
) -> tuple[Graph, Values]:
    """RESIZE of an image [N, H, W, C]; `height` and `width` are (numerator, denominator, offset, border)."""
    build = LayerBuilder(seed)
    parameters = [[*height[:2], *width[:2]], [height[2], width[2]], [height[3], width[3]]]
    wide = DType.INT32 if dtype is DType.INT8 else DType.INT48
    operands = [build.input("x", shape, dtype), *(build.shape(values) for values in parameters)]
    build.output(build.add("RESIZE", operands, mode=mode, dtype=wide if mode == "BILINEAR" else dtype))
    return build.finish(), {"x": random_values(build.random, shape, dtype)}


def assert_equal_to_golden(graph: Graph, values: Values, config: Config) -> Program:
    """Runs the graph on the emulator, which looks for races; the program."""
    program = compile_graph(graph, config)
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    Emulator(config, check_hazards=True).run(memory, program.program_address, program.program_bytes)
    wanted = evaluate(graph, values)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name])
    return program


def instructions(program: Program) -> list[Instruction]:
    start = program.program_address
    code = program.image[start : start + program.program_bytes]
    return [decode(code[i : i + INSTRUCTION_BYTES]) for i in range(0, len(code), INSTRUCTION_BYTES)]
