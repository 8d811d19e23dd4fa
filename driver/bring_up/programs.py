"""Programs with known answers, one for each unit: only the units before it, and one more."""

import dataclasses
import functools

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.compiler.program import Program
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode
from tosaic.sim.assembler import Assembler

from ..self_test import KnownAnswer, known_answer

WINDOW_BYTES = 16384
SOURCE, TARGET, COPIED = 4096, 8192, 1024
"""Places in the window of the program that copies, and how many bytes it copies."""


@dataclasses.dataclass(frozen=True)
class Check:
    """A program, the memory before it, and what its run must leave at a place."""

    program: Program
    memory: np.ndarray
    place: int
    wanted: np.ndarray
    """Bytes."""


@functools.lru_cache(maxsize=4)
def copy_check(config: Config) -> Check:
    """LOAD brings bytes into activation memory, STORE takes them to another place."""
    assembler = Assembler(config)
    assembler.emit(Opcode.LOAD_PITCH, memory_pitch=COPIED, local_pitch=COPIED)
    assembler.emit(Opcode.LOAD_GO, memory_address=SOURCE, space=0, local_address=0, row_bytes=COPIED, rows=1)
    assembler.emit(Opcode.LOAD_SIGNAL, semaphore=2, count=1)
    assembler.emit(Opcode.STORE_PITCH, memory_pitch=COPIED, local_pitch=COPIED)
    assembler.emit(Opcode.STORE_WAIT, semaphore=2, count=1)
    assembler.emit(Opcode.STORE_GO, memory_address=TARGET, local_address=0, row_bytes=COPIED, rows=1)
    assembler.fence()
    memory = np.zeros(WINDOW_BYTES, np.uint8)
    size = assembler.place(memory, 0)
    # No byte is 0, so that one that was not written is seen.
    wanted = np.random.default_rng(1).integers(1, 256, COPIED, dtype=np.uint8)
    memory[SOURCE : SOURCE + COPIED] = wanted
    return Check(Program(config, memory.tobytes(), 0, size, WINDOW_BYTES, [], [], []), memory, TARGET, wanted)


@functools.lru_cache(maxsize=4)
def vector_check(config: Config) -> Check:
    """Sums, products, shifts and comparisons of int32, without the array."""
    from tosaic.compiler.build import compile_graph
    from tosaic.sim.golden import evaluate

    random = np.random.default_rng(2)
    graph = _elementwise()
    given = {name: random.integers(-(2**15), 2**15, (64,), dtype=np.int32) for name in ("a", "b")}
    program = compile_graph(graph, config)
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, given[port.name])
    (output,) = program.outputs
    wanted = evaluate(graph, given)["y"]
    return Check(program, memory, output.address, np.frombuffer(wanted.tobytes(), np.uint8))


def _elementwise() -> Graph:
    build = GraphBuilder("bring_up_vector")
    a, b = (build.input(name, (64,), DType.INT32) for name in ("a", "b"))
    total, most = build.add("ADD", [a, b]), build.add("MAXIMUM", [a, b])
    shift = build.constant([0], DType.INT8)
    product = build.add("MUL", [total, most, shift], dtype=DType.INT32)
    y = build.add("BITWISE_XOR", [product, build.add("SUB", [a, b])], output="y")
    build.output(y)
    return build.finish()


def array_check(config: Config) -> Check:
    """A convolution that uses each row and each column of the array."""
    known: KnownAnswer = known_answer(config)
    (output,) = known.program.outputs
    wanted = np.frombuffer(np.ascontiguousarray(known.wanted).tobytes(), np.uint8)
    return Check(known.program, known.memory, output.address, wanted)
