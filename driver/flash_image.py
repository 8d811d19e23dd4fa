"""What a board's flash holds for it to start a program by itself."""

import struct
from collections.abc import Sequence

from tosaic.compiler.program import Program
from tosaic.hw.bridge.boot_image import BootRecord, RecordKind, boot_image
from tosaic.hw.isa import CoreProgram
from tosaic.sim.registers import Registers


class _Writes:
    """Keeps register writes as records."""

    def __init__(self) -> None:
        self.records: list[BootRecord] = []

    def read_registers(self, offset: int, count: int) -> list[int]:
        raise NotImplementedError("what is written does not depend on what is read")

    def write_register(self, offset: int, value: int) -> None:
        self.records.append(BootRecord(RecordKind.REGISTERS, offset, struct.pack("<I", value)))


def program_boot_image(program: Program, memory_base: int) -> bytes:
    """The boot image that loads a program, decodes its weights if there is a boot part, and runs it once, on inputs of
    whatever is in memory, so that a machine that does not work is seen before its first use. States are left as they
    begin. `memory_base`: the bus address of the board's memory (Identity.memory_base)."""
    records = [BootRecord(RecordKind.MEMORY, memory_base, program.image)]
    if program.boot is not None:
        part = CoreProgram(program.boot.program_address, program.boot.program_bytes)
        records += _run(program, memory_base, (part,))
    states = [
        BootRecord(RecordKind.MEMORY, memory_base + state.address, state.initial(program.image).tobytes())
        for state in program.states
    ]
    records += [*states, *_run(program, memory_base, program.streams), *states]
    return boot_image(records)


def _run(program: Program, memory_base: int, streams: Sequence[CoreProgram]) -> list[BootRecord]:
    writes = _Writes()
    registers = Registers(writes, program.config.cores)
    registers.start(memory_base, program.memory_bytes, streams)
    writes.records.append(BootRecord(RecordKind.RUN))
    registers.acknowledge()
    return writes.records
