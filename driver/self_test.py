"""What the driver asks of a machine before it trusts it: a program with a known answer, and how fast its clock is."""

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.compiler.program import Program
from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import Condition, CoreProgram, Opcode
from tosaic.sim.assembler import Assembler

from .transports import Transport

IMAGE = 8
"""Rows and columns of the known-answer program's image."""
WINDOW_BYTES = 4096
"""Bytes of the window of the program that runs while the clock is looked at."""
CLOCK_SECONDS = (0.02, 2.0)
"""The shortest and the longest time over which cycles are counted."""
READS_APART = 20
"""Cycles are counted over as long as this number of reads of a register takes: how long one takes is the error."""
CLOCK_TOLERANCE = 0.02
"""Share of the clock, for which the bitstream was made, that it may be off. Crystals are better by far; a
wrong divider is worse.
"""
WAY_OUT = "selftest=0 in the URI leaves this test out"


@dataclasses.dataclass(frozen=True)
class KnownAnswer:
    """A program, the memory before its run, and the output that golden computes."""

    program: Program
    memory: np.ndarray
    wanted: np.ndarray


@functools.lru_cache(maxsize=8)
def known_answer(config: Config) -> KnownAnswer:
    """A 3x3 convolution to int8 of made-up numbers, with a channel for each row and each column of the array."""
    from tosaic.compiler.build import compile_graph
    from tosaic.sim.golden import evaluate

    random = np.random.default_rng(0)
    graph = _convolution(config, random)
    x = random.integers(-128, 128, graph.tensor("x").shape, dtype=np.int8)
    program = compile_graph(graph, config)
    memory = program.memory()
    program.inputs[0].write(memory, x)
    return KnownAnswer(program, memory, evaluate(graph, {"x": x})["y"])


def _convolution(config: Config, random: np.random.Generator) -> Graph:
    build = GraphBuilder("self_test")
    channels, results = config.rows, config.columns
    x = build.input("x", (1, IMAGE, IMAGE, channels), DType.INT8)
    weights = build.constant(random.integers(-127, 128, (results, 3, 3, channels)), DType.INT8)
    bias = build.constant(random.integers(-1000, 1000, results), DType.INT32)
    zero, zero32 = build.constant([0], DType.INT8), build.constant([0], DType.INT32)
    sums = build.add(
        "CONV2D",
        [x, weights, bias, zero, zero],
        pad=[1] * 4,
        stride=[1, 1],
        dilation=[1, 1],
        acc_type=DType.INT32,
        local_bound=False,
    )
    # Products of 127 * 127, of which 9 * channels add up at random, come to fill int8.
    multiplier, shift = build.constant([1 << 30], DType.INT32), build.constant([39], DType.INT8)
    y = build.add(
        "RESCALE",
        [sums, multiplier, shift, zero32, zero],
        dtype=DType.INT8,
        output="y",
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )
    build.output(y)
    return build.finish()


def require_answer(name: str, config: Config, found: np.ndarray, wanted: np.ndarray) -> None:
    """Raises DeviceError that names what differs, unless these are the same numbers."""
    wrong = np.argwhere(found != wanted)
    if wrong.size == 0:
        return
    first = tuple(int(index) for index in wrong[0])
    raise DeviceError(
        f"{name}: this machine computes wrong numbers: {len(wrong)} of {wanted.size} elements of the known-answer "
        f"program of {config.name} differ, the first at {list(first)}: {found[first]}, not {wanted[first]}: its clock "
        "is too fast for its bitstream, a port to its memory has another width than was built, or the bitstream is "
        f"damaged (docs/boards.md); {WAY_OUT}"
    )


def check_clock(
    transport: Transport, config: Config, start: Callable[[Program, Sequence[CoreProgram]], None]
) -> None:
    """A UserWarning where the machine's clock is not the one that its bitstream was made for.

    A program without an end runs meanwhile, and is stopped. Nothing is done where nobody knows what was built, or where
    the machine's time is not the host's.
    """
    built_hz = transport.identity.clock_hz
    if not built_hz or not transport.has_real_clock:
        return
    program = _endless(config)
    transport.write_memory(0, program.image)
    start(program, program.streams)
    slowest_hz, fastest_hz = _clock_hz(transport)
    transport.make_idle()
    if slowest_hz > (1 + CLOCK_TOLERANCE) * built_hz:
        meaning = "its results may be wrong"
    elif fastest_hz < (1 - CLOCK_TOLERANCE) * built_hz:
        meaning = "its results are right, and late"
    else:
        return
    warnings.warn(
        f"{transport.name}: the machine's clock is {(slowest_hz + fastest_hz) / 2e6:.3g} MHz, its bitstream was made "
        f"for {built_hz / 1e6:g} MHz: {meaning}: set the clock (docs/boards.md); {WAY_OUT}",
        stacklevel=2,
    )


def _endless(config: Config) -> Program:
    """Branches to itself until it is stopped."""
    assembler = Assembler(config)
    assembler.emit(Opcode.BRANCH, target=assembler.offset, condition=Condition.ALWAYS)
    image = np.zeros(WINDOW_BYTES, np.uint8)
    size = assembler.place(image, 0)
    return Program(config, image[:size].tobytes(), 0, size, WINDOW_BYTES, [], [], [])


def _clock_hz(transport: Transport) -> tuple[float, float]:
    """Returns the least and the largest clock that the running machine may have: a read of its counter has
    happened at some time while the host waited for it.
    """
    shortest, longest = CLOCK_SECONDS
    before, first, behind = _cycles(transport)
    time.sleep(min(max(shortest, READS_APART * (behind - before)), longest))
    later_before, last, later_behind = _cycles(transport)
    cycles = (last - first) % (1 << 32)
    return cycles / (later_behind - before), cycles / (later_before - behind)


def _cycles(transport: Transport) -> tuple[float, int, float]:
    """When the host asked, the machine's cycles, and when they had come."""
    before = time.perf_counter()
    (cycles,) = transport.read_registers(REGISTER["CYCLES"].offset, 1)
    return before, cycles, time.perf_counter()
