"""The memory image of a program: constants, then instructions; addresses are settled here.

Behind the image lie the weights that the boot part decodes, then data."""

import dataclasses
from collections.abc import Iterator, Sequence

from tosaic.compiler.emit.commands import Block, Command, Label, command
from tosaic.compiler.place.address import Region
from tosaic.compiler.place.external import ALIGNMENT_BYTES, LARGEST_BYTES, ExternalMemory
from tosaic.compiler.program_image import ImageParts
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.schedule.tracker import Tracker
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, ISA_HASH, Condition, CoreProgram, Opcode, encode

_PAGE_BYTES = 4096
"""What program and data begin at multiples of."""


@dataclasses.dataclass(frozen=True)
class MemoryImage:
    """The start of external memory, and what lies where."""

    parts: ImageParts
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

    @property
    def bytes(self) -> bytes:
        """The start of external memory in one piece."""
        return self.parts.whole()


@dataclasses.dataclass(frozen=True)
class InstructionStream:
    """The instructions of a core in order."""

    commands: list[Command]
    layers: list[int | None]
    """The number of the layer that each instruction belongs to; None for what belongs to none."""


class InstructionSequencer:
    """Makes an instruction stream of blocks: BEGIN, each block with its waits, signals and branch, END."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._commands: list[Command] = []
        self._layers: list[int | None] = []
        self._places: dict[Label, int] = {}
        self._branches: dict[int, tuple[Condition, Label]] = {}
        self._tracker = Tracker()
        """Of the block that is under way."""

    def take(self, blocks: list[Block]) -> None:
        """Takes the work out of blocks under construction, of which the last one stays for what comes: the spans that
        work reads and writes take most of the memory of a large program."""
        for block in blocks:
            for work in block.work:
                self._tracker.add(work)
                work.reads = work.writes = work.streams = ()
            block.begun = block.begun or bool(block.work)
            block.work = []
            if block is not blocks[-1]:
                self._close(block)
        del blocks[:-1]

    def stream(self, blocks: list[Block]) -> InstructionStream:
        """The whole stream, which ends with these blocks."""
        self.take(blocks)
        self._close(blocks[-1])
        self._put(command(Opcode.END))
        for number, (condition, label) in self._branches.items():
            target = self._places[label] * INSTRUCTION_BYTES
            self._commands[number] = command(Opcode.BRANCH, target=target, condition=condition)
        return InstructionStream(self._commands, self._layers)

    def _close(self, block: Block) -> None:
        if not self._commands:
            self._put(command(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=self._config.hash))
        self._places |= {label: len(self._commands) for label in block.labels}
        for item in interleave(self._tracker.items):
            own = item.commands()
            self._commands += own
            self._layers += [item.work.layer] * len(own)
        self._tracker = Tracker()
        if block.branch is not None:
            self._branches[len(self._commands)] = block.branch
            self._put(command(Opcode.NOP))

    def _put(self, item: Command) -> None:
        self._commands.append(item)
        self._layers.append(None)


def sequence(config: Config, blocks: list[Block]) -> InstructionStream:
    """The instruction stream of blocks, whose work it takes."""
    return InstructionSequencer(config).stream(blocks)


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
    code = [(program_address, commands), (boot_address, boot)]
    code += [(stream.address, part) for stream, part in zip(streams, others, strict=True)]
    encoded = [(address, _encoded(part, base)) for address, part in code if part]
    size_bytes = max([memory.constants_bytes, *(address + len(raw) for address, raw in encoded)])
    parts = ImageParts(size_bytes, lambda: _parts(memory, encoded))
    return MemoryImage(
        parts, program_address, program_bytes, boot_address, boot_bytes, base, memory_bytes, tuple(streams)
    )


def _parts(memory: ExternalMemory, code: Sequence[tuple[int, bytes]]) -> Iterator[bytes | memoryview]:
    """Constants, then instructions at their addresses."""
    place = memory.constants_bytes
    yield from memory.parts()
    for address, raw in code:
        yield bytes(address - place)
        yield raw
        place = address + len(raw)


def _page(size_bytes: int) -> int:
    return _multiple(size_bytes, _PAGE_BYTES)


def _multiple(size_bytes: int, of_bytes: int) -> int:
    return -(-size_bytes // of_bytes) * of_bytes


def _encoded(commands: list[Command], base: dict[Region, int]) -> bytes:
    """The instructions' bytes. Most instructions come again and again."""
    known: dict[int, bytes] = {}
    found = []
    for item in commands:
        if item.address is not None:
            found.append(encode(item.settled(base[item.address.region])))
            continue
        raw = known.get(id(item.instruction))
        if raw is None:
            raw = known[id(item.instruction)] = encode(item.instruction)
        found.append(raw)
    return b"".join(found)
