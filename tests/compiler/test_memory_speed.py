"""Programs are made for a memory of some bandwidth and latency."""

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.driver.session import Session
from tosaic.errors import InputError
from tosaic.hw.config_text import get_config
from tosaic.hw.constants import OUTSTANDING_BURSTS
from tosaic.hw.isa import Opcode, decode


def two_convolutions() -> Graph:
    """The image has 3 channels, and so 1,024 short runs by im2col; the second layer has 2,304 bytes of weights."""
    build = LayerBuilder(5)
    x = build.input("x", (1, 32, 32, 3), DType.INT8)
    y = build.rescale(build.conv(x, 16, (3, 3), pad=(1, 1, 1, 1)), DType.INT8)
    build.output(build.rescale(build.conv(y, 16, (3, 3), pad=(1, 1, 1, 1)), DType.INT8))
    return build.finish()


def first_kernel_rows(speed: MemorySpeed) -> int:
    """1: the first layer runs by im2col; 3: as it is."""
    program = compile_graph(two_convolutions(), get_config("base"), speed=speed)
    raw = program.image[program.program_address :][: program.program_bytes]
    found = [decode(raw[start : start + 16]) for start in range(0, len(raw), 16)]
    return next(i.ky_count for i in found if i.opcode is Opcode.ARRAY_KERNEL)


@pytest.mark.parametrize(
    ("bandwidth", "latency", "rows"),
    [(None, 50, 1), (16, 50, 1), (64, 50, 1), (8, 50, 3), (4, 50, 3), (16, 200, 3)],
)
def test_im2col_where_its_bursts_are_no_limit(bandwidth, latency, rows):
    assert first_kernel_rows(MemorySpeed(bandwidth, latency)) == rows


@pytest.mark.parametrize("bandwidth", [8, 4])
def test_a_program_for_its_memory_is_faster_there(bandwidth):
    graph, cycles = two_convolutions(), []
    for speed in (MemorySpeed(), MemorySpeed(bandwidth)):
        program = compile_graph(graph, get_config("base"), speed=speed)
        session = Session(program, "emulator", memory_bandwidth=bandwidth)
        session.run(feeds(graph, 3))
        cycles.append(session.stats["cycles"])
    assert cycles[1] < cycles[0]


def test_a_session_compiles_for_the_memory_it_is_told():
    graph = two_convolutions()
    images = []
    for bandwidth in (None, 4):
        program = Session(graph, "emulator", "base", memory_bandwidth=bandwidth).program
        assert program is not None
        images.append(program.image)
    assert images == [compile_graph(graph, get_config("base"), speed=MemorySpeed(b)).image for b in (None, 4)]
    assert images[0] != images[1]


def test_short_bursts_are_limited_by_the_latency():
    assert MemorySpeed().burst_cycles == 58 / OUTSTANDING_BURSTS
    assert MemorySpeed(latency_cycles=24).burst_cycles == 1.0


def test_a_memory_is_no_faster_than_the_bus():
    config = get_config("base")
    assert [MemorySpeed(b).bytes_per_cycle(config) for b in (None, 4, 16, 64)] == [16, 4, 16, 16]


def test_memories_that_cannot_be():
    with pytest.raises(InputError, match=r"^memory bandwidth must be at least 0\.01 bytes per cycle, not 0$"):
        MemorySpeed(0)
    with pytest.raises(InputError, match="^memory latency must be at least 0 cycles, not -1$"):
        MemorySpeed(latency_cycles=-1)


@pytest.mark.parametrize("dilation", [(1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("kernel", [(3, 2), (2, 3), (2, 1), (1, 2)])
def test_dilated_kernels_of_few_channels(kernel, dilation):
    """They do not run by im2col along an axis with gaps."""
    build = LayerBuilder(6)
    x = build.input("x", (1, 16, 16, 3), DType.INT8)
    build.output(build.conv(x, 16, kernel, dilation=dilation))
    assert_equal_to_golden(build.finish(), "base")
