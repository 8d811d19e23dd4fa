"""Hand-written programs for machines of several cores."""

import numpy as np

from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import variant
from tosaic.hw.isa import STORE_STREAM, CoreProgram, Op, Opcode, Source
from tosaic.sim.assembler import Assembler

PROGRAM, PITCH, MEMORY_BYTES = 0x8000, 0x1000, 0x10000
"""Where core 0's program lies in the window, and how far behind it each other core's."""


def machine(cores, bus_words=1, base="nano"):
    """A small configuration with `cores` cores."""
    return variant(CONFIGS[base], {"cores": cores, "bus_words": bus_words})


def window(seed=0):
    """External memory with random bytes."""
    return np.random.default_rng(seed).integers(0, 256, MEMORY_BYTES, np.uint8)


def place(memory, assemblers):
    """Writes the programs into memory; (address, bytes) of core 0's, and the other streams."""
    streams = [
        CoreProgram(PROGRAM + core * PITCH, assembler.place(memory, PROGRAM + core * PITCH))
        for core, assembler in enumerate(assemblers)
    ]
    return streams[0], tuple(streams[1:])


def run(machine, memory, assemblers, **options):
    """The result of the programs, one for each core, on an emulator or a simulator."""
    first, others = place(memory, assemblers)
    return machine.run(memory, *first, others=others, **options)


def copy(assembler, source, target, size, local=0, rows=1):
    """LOAD rows of memory and STORE them elsewhere."""
    assembler.emit(Opcode.LOAD_PITCH, memory_pitch=size, local_pitch=size)
    assembler.emit(Opcode.STORE_PITCH, memory_pitch=size, local_pitch=size)
    assembler.emit(Opcode.LOAD_GO, memory_address=source, local_address=local, row_bytes=size, rows=rows)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
    assembler.emit(Opcode.STORE_GO, memory_address=target, local_address=local, row_bytes=size, rows=rows)


def add(assembler, value, size):
    """AM[0..size] + value to AM[size..2 size], by VECTOR; LOAD has signalled semaphore 1."""
    width = assembler.config.columns
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 1)
    for stream, address in ((0, 0), (STORE_STREAM, size)):
        assembler.emit(Opcode.VECTOR_STREAM, stream=stream, address=address)
        assembler.emit(
            Opcode.VECTOR_DIMS, stream=stream, count_low=size // width, stride_low=width, count_high=1
        )
    assembler.emit(
        Opcode.VECTOR_UOP,
        op=Op.ADD,
        a_source=Source.LOAD,
        b_source=Source.IMMEDIATE,
        to_memory=1,
    )
    assembler.emit(Opcode.VECTOR_BOUNDS, immediate=value)
    assembler.emit(
        Opcode.VECTOR_GO,
        vectors=size // width,
        slots=min(size // width, assembler.config.vector_slots),
        repeats=1,
        body_end=1,
        uops=1,
        lanes=width,
        tail_lanes=width,
    )
    assembler.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, 2)


def ping_pong(config, rounds, size=64):
    """Core 0 adds 1 to the bytes at 0 and stores them at 0x100; core 1 adds 2 to these and stores them at 0; again."""
    cores = []
    for core, (source, target, value) in enumerate(((0, 0x100, 1), (0x100, 0, 2))):
        assembler = Assembler(config)
        for turn in range(rounds):
            if turn or core:
                assembler.emit(Opcode.LOAD_WAIT, semaphore=5, count=1)
            assembler.emit(Opcode.LOAD_GO, memory_address=source, row_bytes=size, rows=1)
            add(assembler, value, size)
            assembler.emit(Opcode.STORE_GO, memory_address=target, local_address=size, row_bytes=size, rows=1)
            # What VECTOR and STORE still read is written again in the next round.
            assembler.pass_token(Opcode.STORE_SIGNAL, Opcode.VECTOR_WAIT, 3)
            assembler.pass_token(Opcode.VECTOR_SIGNAL, Opcode.LOAD_WAIT, 4)
            assembler.emit(Opcode.STORE_SIGNAL, semaphore=5, count=1, cores=2 >> core)
        cores.append(assembler)
    return cores
