"""A byte of microcode that changed on its way ends in an error at its instruction: no hang, no wrong answer."""

import functools
from pathlib import Path

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.driver.targets import make_runner
from tosaic.errors import DeviceError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, decode, encode, make

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
WAITS = (Opcode.ARRAY_WAIT, Opcode.VECTOR_WAIT, Opcode.STORE_WAIT)
NANO = pytest.mark.xdist_group("nano")


@functools.cache
def program():
    return compile_graph(read_tosa(DIGITS / "digits_tiny.tosa"), get_config("nano"))


@functools.cache
def runner(target):
    return make_runner(target, program())


def run_error(target, memory):
    with pytest.raises(DeviceError) as caught:
        runner(target)(memory)
    text = str(caught.value)
    assert "\n" not in text
    return text


def corrupted(offset, change):
    memory = program().memory()
    memory[program().program_address + offset] ^= change
    return memory


def changes():
    """A non-zero value for every byte of the program."""
    return np.random.default_rng(7).integers(1, 256, program().program_bytes)


def test_the_program_runs_when_nothing_is_changed():
    assert runner("emulator")(program().memory()).cycles > 0


def test_every_byte_on_the_emulator():
    for offset, change in enumerate(changes()):
        counter = offset // INSTRUCTION_BYTES * INSTRUCTION_BYTES
        text = run_error("emulator", corrupted(offset, int(change)))
        assert text.startswith(f"ILLEGAL at program counter {counter}: "), (offset, change)


@NANO
@pytest.mark.nightly
def test_every_byte_on_the_rtl():
    for offset, change in enumerate(changes()):
        counter = offset // INSTRUCTION_BYTES * INSTRUCTION_BYTES
        text = run_error("sim", corrupted(offset, int(change)))
        assert text.startswith(f"ILLEGAL in SEQUENCER at program counter {counter} ("), (offset, change)


def with_endless_wait(opcode):
    """The program with a legal instruction that waits for more tokens than there are, and where it is."""
    memory, start = program().memory(), program().program_address
    for counter in range(0, program().program_bytes, INSTRUCTION_BYTES):
        place = slice(start + counter, start + counter + INSTRUCTION_BYTES)
        instruction = decode(memory[place].tobytes())
        if instruction.opcode == opcode:
            wait = make(opcode, **{**instruction.fields, "count": 255})
            memory[place] = np.frombuffer(encode(wait), np.uint8)
            return memory, counter, wait
    raise LookupError(f"the program has no {opcode.name}")


@pytest.mark.parametrize("opcode", WAITS)
def test_wait_that_is_never_satisfied_on_the_emulator(opcode):
    memory, counter, wait = with_endless_wait(opcode)
    text = run_error("emulator", memory)
    assert text.startswith(f"PROGRAM at program counter {counter} ({wait}): semaphore {wait.semaphore} is ")
    assert text.endswith(" and no earlier SIGNAL raises it to 255: deadlock in program order")


@NANO
@pytest.mark.parametrize("opcode", WAITS)
def test_wait_that_is_never_satisfied_ends_in_the_watchdog(opcode):
    memory, counter, wait = with_endless_wait(opcode)
    text = run_error("sim", memory)
    unit = opcode.name.removesuffix("_WAIT")
    # While VECTOR waits, ARRAY comes to wait for VECTOR, and the machine names the first unit that waits.
    blamed = (
        f"{unit} at program counter {counter} ({wait})" if unit != "VECTOR" else "ARRAY at program counter "
    )
    assert text.startswith(f"WATCHDOG in {blamed}")
    assert f"{unit} at {counter} ({wait})" in text.partition("; UNITS is 0x")[2]
