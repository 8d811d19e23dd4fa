"""Bits that flip in a machine that protects its data end the run in DATA, before outputs are given."""

import pathlib

import numpy as np
import pytest
from unit_programs import command

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir.tosa_file import read_tosa
from tosaic.errors import DeviceError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import CoreProgram, Opcode, Space
from tosaic.hw.row_crc import rows_crc
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator
from tosaic.sim.emulator.external_memory import ExternalBytes
from tosaic.sim.emulator.stepped import SteppedCore
from tosaic.sim.program import decode_program

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
CHECKING, PARITY, PLAIN = map(get_config, ("nano,load_crc=1", "nano,memory_parity=1", "nano"))
WORD = CHECKING.word_bytes
PROGRAM, SIZE = 2048, 1 << 12


def window(*commands, config=CHECKING):
    """Memory with a program of these commands, one after the other, and the program."""
    assembler = Assembler(config)
    for each in commands:
        assembler.instructions.append(each)
        assembler.fence()
    memory = np.arange(SIZE).astype(np.uint8)
    return memory, CoreProgram(PROGRAM, assembler.place(memory, PROGRAM))


def load(start, row_bytes=10, rows=1, **fields):
    return command(Opcode.LOAD_GO, memory_address=start, row_bytes=row_bytes, rows=rows, **fields)


def failure(memory, program, config=CHECKING):
    with pytest.raises(DeviceError) as caught:
        Emulator(config).run(memory, *program)
    return caught.value


@pytest.mark.parametrize("space", [Space.AM, Space.WM])
def test_a_check_covers_the_checked_rows_before_it(space):
    """Rows at odd places, several at a pitch; what is loaded without `checked` does not count; a CHECK begins anew."""
    step = WORD if space == Space.WM else 1
    pitch = command(Opcode.LOAD_PITCH, memory_pitch=17 * step, local_pitch=64)
    fields = {"space": space, "row_bytes": 3 * step * (1 if space == Space.WM else 4)}
    where, row_bytes = [5 * step, 22 * step, 39 * step], fields["row_bytes"]
    content = np.arange(SIZE).astype(np.uint8)
    rows = np.stack([content[start : start + row_bytes] for start in where])
    crc = rows_crc(0, where, rows, WORD)
    again = rows_crc(0, where[:1], rows[:1], WORD)
    commands = (
        pitch,
        load(where[0], rows=3, checked=1, **fields),
        load(900, **fields),
        command(Opcode.LOAD_CHECK, crc=crc),
        load(where[0], checked=1, **fields),
        command(Opcode.LOAD_CHECK, crc=again),
    )
    memory, program = window(*commands)
    Emulator(CHECKING).run(memory, *program)
    counted = {at for start in where for at in range(start, start + row_bytes)}
    for at in range(where[0] - WORD, where[-1] + row_bytes + WORD):
        memory, program = window(*commands)
        memory[at] ^= 1 << at % 8
        if at not in counted:
            Emulator(CHECKING).run(memory, *program)
            continue
        error = failure(memory, program)
        assert (error.fault.code, error.fault.unit) == ("DATA", "LOAD")
        assert str(error).startswith(
            f"DATA at program counter {error.fault.program_counter} (LOAD_CHECK crc={crc}): the CRC of"
        )


@pytest.mark.parametrize(
    "instruction", [command(Opcode.LOAD_CHECK, crc=0), load(0, checked=1)], ids=["check", "checked"]
)
def test_a_machine_without_a_crc_has_no_checks(instruction):
    memory, program = window(instruction, config=PLAIN)
    error = failure(memory, program, PLAIN)
    assert (error.fault.code, error.fault.unit) == ("ILLEGAL", "SEQUENCER")
    assert "configuration nano has no CRC of loads (load_crc): LOAD_" in str(error)


def digits(config):
    """The program of the small digits network and a window for it, with random pixels."""
    program = compile_graph(read_tosa(DIGITS), config)
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, np.random.default_rng(3).integers(-128, 128, port.shape).astype(port.numpy))
    return program, memory


def outputs(program, memory):
    return [port.read(memory).tobytes() for port in program.outputs]


def test_flips_in_constants_are_all_told():
    """250 of 250 in what LOAD brings; the run takes no cycle more. Without a CRC none is told, and some are seen."""
    plain, before = digits(PLAIN)
    program, memory = digits(CHECKING)
    (stream,) = program.streams
    loads = [
        each
        for each in decode_program(program.image[stream.address :][: stream.bytes])
        if each.opcode == Opcode.LOAD_GO and each.checked
    ]
    brought = sorted(
        {at for go in loads for at in range(go.memory_address, go.memory_address + go.row_bytes)}
    )
    emulators, right = {each: Emulator(each) for each in (PLAIN, CHECKING)}, before.copy()
    cycles = emulators[PLAIN].run(right, *plain.streams[0]).cycles
    assert emulators[CHECKING].run(memory.copy(), *stream).cycles == cycles
    dice, told, wrong = np.random.default_rng(7), 0, 0
    for at in dice.choice(brought, 250):
        bit = 1 << int(dice.integers(8))
        flipped = memory.copy()
        flipped[at] ^= bit
        with pytest.raises(DeviceError, match=r"^DATA at program counter \d+ \(LOAD_CHECK"):
            emulators[CHECKING].run(flipped, *stream)
        told += 1
        flipped = before.copy()
        flipped[at] ^= bit
        emulators[PLAIN].run(flipped, *plain.streams[0])
        wrong += outputs(plain, flipped) != outputs(plain, right)
    assert told == 250 and wrong > 0


def stepped(config, steps):
    """The network's core behind some instructions."""
    program, memory = digits(config)
    core = SteppedCore(config, ExternalBytes.of(memory), program.streams[0])
    for _ in range(steps):
        core.step()
    return program, memory, core


@pytest.mark.parametrize("memory_name", ["activation", "weight"])
def test_a_flip_in_a_memory_is_told_when_it_is_read(memory_name):
    """One flipped bit of a byte that was loaded just now is told, but not two; and none without parity."""
    program, _ = digits(PARITY)
    (stream,) = program.streams
    code = decode_program(program.image[stream.address :][: stream.bytes])
    space = Space.AM if memory_name == "activation" else Space.WM
    first = next(
        number for number, go in enumerate(code) if go.opcode == Opcode.LOAD_GO and go.space == space
    )
    for config, bits, told in ((PARITY, (3,), True), (PARITY, (3, 5), False), (PLAIN, (3,), False)):
        _, _, core = stepped(config, first + 1)
        for bit in bits:
            getattr(core, f"flip_{memory_name}")(code[first].local_address + 1, bit)
        if told:
            with pytest.raises(DeviceError, match="^DATA at program counter .*has flipped") as caught:
                core.run()
            assert caught.value.fault.unit == "ARRAY"
        else:
            core.run()


def test_a_flip_that_is_written_over_is_not_told():
    program, _, core = stepped(PARITY, 1)
    (stream,) = program.streams
    code = decode_program(program.image[stream.address :][: stream.bytes])
    for go in code:
        if go.opcode == Opcode.LOAD_GO and go.space == Space.AM:
            core.flip_activation(go.local_address, 0)
        elif go.opcode == Opcode.LOAD_GO:
            core.flip_weight(go.local_address, 0)
    core.run()
