"""The memory image of a program: constants, then instructions; addresses are settled here.

Behind the image lie the weights that the boot part decodes, then data."""

import dataclasses
from collections.abc import Sequence

from tosaic.compiler.emit.commands import Block, Command, Label, command
from tosaic.compiler.place.address import Region
from tosaic.compiler.place.external import ALIGNMENT_BYTES, LARGEST_BYTES, ExternalMemory
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.schedule.tracker import Tracker
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, ISA_HASH, Condition, CoreProgram, Opcode, encode, make

_PAGE_BYTES = 4096
"""What program and data begin at multiples of."""


@dataclasses.dataclass(frozen=True)
class MemoryImage:
    """The start of external memory, and what lies where."""

    bytes: bytes
    program_address: int
    program_bytes: int
    boot_address: int
    """Address of the boot part, whose `boot_bytes` are 0 where there is none."""
    boot_bytes: int
    base: dict[Region, int]
    """Where the regions of external memory begin."""
    memory_bytes: int
    others: tuple[CoreProgram, ...]
    """The programs of the cores behind core 0."""


@dataclasses.dataclass(frozen=True)
class InstructionStream:
    """The instructions of a core in order."""

    commands: list[Command]
    layers: list[int | None]
    """The number of the layer that each instruction belongs to; None for what belongs to none."""


def sequence(config: Config, blocks: list[Block]) -> InstructionStream:
    """BEGIN, the blocks with their waits, signals and branches, END."""
    commands = [command(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=config.hash)]
    layers: list[int | None] = [None]
    places: dict[Label, int] = {}
    branches: dict[int, tuple[Condition, Label]] = {}
    for block in blocks:
        places |= {label: len(commands) for label in block.labels}
        tracker = Tracker()
        for work in block.work:
            tracker.add(work)
        for item in interleave(tracker.items):
            own = item.commands()
            commands += own
            layers += [item.work.layer] * len(own)
        if block.branch is not None:
            branches[len(commands)] = block.branch
            commands.append(command(Opcode.NOP))
            layers.append(None)
    commands.append(command(Opcode.END))
    layers.append(None)
    for number, (condition, label) in branches.items():
        target = places[label] * INSTRUCTION_BYTES
        commands[number] = command(Opcode.BRANCH, target=target, condition=condition)
    return InstructionStream(commands, layers)


def lay_out(
    commands: list[Command],
    boot: list[Command],
    memory: ExternalMemory,
    others: Sequence[list[Command]] = (),
) -> MemoryImage:
    """Places constants, program, boot part, the programs of `others` cores, decoded weights and data one after the
    other.

    Raises UnsupportedError where they exceed what instructions address."""
    program_address = _page(memory.constants_bytes)
    program_bytes, boot_bytes = len(commands) * INSTRUCTION_BYTES, len(boot) * INSTRUCTION_BYTES
    boot_address = _multiple(program_address + program_bytes, ALIGNMENT_BYTES)
    streams, end = [], boot_address + boot_bytes
    for each in others:
        streams.append(CoreProgram(_multiple(end, ALIGNMENT_BYTES), len(each) * INSTRUCTION_BYTES))
        end = streams[-1].address + streams[-1].bytes
    unpacked_address = _page(end)
    data_address = _page(unpacked_address + memory.unpacked_bytes)
    memory_bytes = _page(data_address + memory.data_bytes)
    if memory_bytes > LARGEST_BYTES:
        raise UnsupportedError(
            f"the program needs {memory_bytes} bytes of external memory ({memory.constants_bytes} of constants, "
            f"{memory.unpacked_bytes} of decoded weights, {memory.data_bytes} of tensors); instructions address "
            f"{LARGEST_BYTES >> 30} GiB: split the network"
        )
    base = {Region.CONSTANTS: 0, Region.UNPACKED: unpacked_address, Region.DATA: data_address}
    image = memory.constants()
    behind = [(stream.address, part) for stream, part in zip(streams, others, strict=True)]
    for address, part in ((program_address, commands), (boot_address, boot), *behind):
        if part:
            image += bytes(address - len(image)) + b"".join(_encoded(item, base) for item in part)
    return MemoryImage(
        image, program_address, program_bytes, boot_address, boot_bytes, base, memory_bytes, tuple(streams)
    )


def _page(size_bytes: int) -> int:
    return _multiple(size_bytes, _PAGE_BYTES)


def _multiple(size_bytes: int, of_bytes: int) -> int:
    return -(-size_bytes // of_bytes) * of_bytes


def _encoded(item: Command, base: dict[Region, int]) -> bytes:
    instruction, address = item.instruction, item.address
    if address is not None:
        fields = {**instruction.fields, "memory_address": base[address.region] + address.offset}
        instruction = make(instruction.opcode, **fields)
    return encode(instruction)
