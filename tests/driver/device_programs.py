"""Programs for tests of devices: a network with known outputs, and hand-written ones that go wrong."""

from pathlib import Path

import numpy as np

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.compiler.program import Program
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Condition, Opcode, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.golden import evaluate

GRAPH = read_tosa(Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa")
WINDOW_BYTES, CODE_AT = 8192, 4096


def tiny(config: str) -> Program:
    """The small digits network."""
    return compile_graph(GRAPH, get_config(config))


def check_run(device, program: Program, seed: int) -> None:
    """Runs the small digits network; fails unless its outputs are golden's."""
    image = np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
    window = program.memory()
    program.inputs[0].write(window, image)
    device.run(program, window)
    wanted = evaluate(GRAPH, {"image": image})["scores"]
    np.testing.assert_array_equal(program.outputs[0].read(window), wanted)


def _program(config: str, assembler: Assembler) -> Program:
    image = np.zeros(WINDOW_BYTES, np.uint8)
    size = assembler.place(image, CODE_AT)
    return Program(get_config(config), image.tobytes(), CODE_AT, size, WINDOW_BYTES, [], [], [])


def endless(config: str) -> Program:
    """Branches to itself for ever."""
    assembler = Assembler(get_config(config))
    assembler.emit(Opcode.BRANCH, target=assembler.offset, condition=Condition.ALWAYS)
    return _program(config, assembler)


def stuck(config: str) -> Program:
    """STORE waits for a semaphore that nobody signals."""
    assembler = Assembler(get_config(config))
    assembler.emit(Opcode.STORE_WAIT, semaphore=3, count=1)
    return _program(config, assembler)


def loading(config: str, address: int) -> Program:
    """Loads 64 bytes from `address` of its window."""
    assembler = Assembler(get_config(config))
    assembler.emit(
        Opcode.LOAD_GO, memory_address=address, space=Space.AM, local_address=0, row_bytes=64, rows=1
    )
    return _program(config, assembler)


def storing(config: str, address: int) -> Program:
    """Stores 64 bytes to `address` of its window."""
    assembler = Assembler(get_config(config))
    assembler.emit(Opcode.STORE_GO, memory_address=address, local_address=0, row_bytes=64, rows=1)
    return _program(config, assembler)
