"""Constants that a machine checks: programs compute what they do without, and a check ends each block with loads."""

import numpy as np
import pytest
from cascade_graphs import inverted_bottleneck
from compressed_graphs import sparse_network
from control_graphs import Control, finished
from emulation import assert_equal_to_golden
from layer_graphs import feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.errors import DeviceError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate
from tosaic.sim.program import decode_program

SMALL = "small,load_crc=1,memory_parity=1"


def looked_up(turns=3):
    """A table and a product with constants in a loop, and others before and behind it."""
    build = Control()
    x = build.input("x", (1, 4, 4, 8), DType.INT8)
    table = build.constant(np.arange(255, -1, -1, dtype=np.uint8).view(np.int8), DType.INT8)
    count = build.input("turns", (1, 1, 1, 1), DType.INT32)

    def body(g, state):
        own = g.constant(np.arange(256, dtype=np.uint8).view(np.int8)[::-1].copy(), DType.INT8)
        return [g.add("TABLE", [state[0], own])]

    (y,) = build.counted(count, [build.add("TABLE", [x, table])], body)
    return finished(build, [build.add("TABLE", [y, table])]), {
        "turns": np.full((1, 1, 1, 1), turns, np.int32)
    }


def streams_of(program):
    return [decode_program(program.image[address:][:size]) for address, size in program.streams]


def assert_each_block_is_checked(program):
    """Behind the last checked load before each branch and the end there is a check, and none without a load."""
    loads = 0
    for stream in streams_of(program):
        unchecked = 0
        for each in stream:
            if each.opcode is Opcode.LOAD_GO and each.memory_address < program.program_address:
                assert each.checked
                unchecked += 1
            elif each.opcode is Opcode.LOAD_CHECK:
                assert unchecked
                loads, unchecked = loads + unchecked, 0
            elif each.opcode in (Opcode.BRANCH, Opcode.END):
                assert not unchecked
    assert loads


def test_a_loop():
    graph, values = looked_up()
    values = feeds(graph, 1) | values
    assert_equal_to_golden(graph, SMALL, values, check_hazards=True)
    program = compile_graph(graph, get_config(SMALL))
    assert_each_block_is_checked(program)
    (stream,) = streams_of(program)
    assert sum(each.opcode is Opcode.LOAD_CHECK for each in stream) >= 2


@pytest.mark.parametrize(
    "options", [{}, {"compress": "fast", "speed": MemorySpeed(1)}], ids=["plain", "packed"]
)
def test_a_network(options):
    """Nothing but the checks is another program, and a flip in each load of constants is told."""
    graph, config = sparse_network(channels=64), get_config(SMALL)
    assert_equal_to_golden(graph, config, check_hazards=True, **options)
    program, plain = (compile_graph(graph, get_config(each), **options) for each in (SMALL, "small"))
    assert_each_block_is_checked(program)
    (stream,), (before,) = streams_of(program), streams_of(plain)
    kept = [each for each in stream if each.opcode is not Opcode.LOAD_CHECK]
    assert [each.opcode for each in kept] == [each.opcode for each in before]
    memory, emulator = program.memory(), Emulator(config)
    cycles = emulator.run(memory.copy(), *program.streams[0]).cycles
    assert cycles <= 1.01 * Emulator(get_config("small")).run(plain.memory(), *plain.streams[0]).cycles
    for go in [each for each in stream if each.opcode is Opcode.LOAD_GO and each.checked and not each.packed]:
        flipped = memory.copy()
        flipped[go.memory_address + go.row_bytes - 1] ^= 64
        with pytest.raises(DeviceError, match=r"^DATA at program counter \d+ \(LOAD_CHECK crc="):
            emulator.run(flipped, *program.streams[0])


def test_two_cores():
    graph, config = inverted_bottleneck(28, 1, channels=16, wide=48), get_config("small,cores=2,load_crc=1")
    program, values = compile_graph(graph, config), feeds(graph, 1)
    assert len(program.streams) == 2
    assert_each_block_is_checked(program)
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    Emulator(config).run(memory, *program.streams[0], others=program.others)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), evaluate(graph, values)[port.name])
