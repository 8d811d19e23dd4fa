"""The memory image of a program: constants, then instructions; addresses are settled here.

Behind the image lie the weights that the boot part decodes, then data."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from tosaic.compiler.emit.commands import Block, Command, Label, command
from tosaic.compiler.place.address import Region
from tosaic.compiler.place.external import ALIGNMENT_BYTES, LARGEST_BYTES, ExternalMemory
from tosaic.compiler.program_image import ImageParts
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.schedule.tracker import Tracker
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import (
    CHECKED_FIELD,
    INSTRUCTION_BYTES,
    ISA_HASH,
    Condition,
    CoreProgram,
    Opcode,
    encode,
    make,
)
from tosaic.hw.row_crc import rows_crc

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
        first = len(self._commands)
        for item in interleave(self._tracker.items):
            own = item.commands()
            self._commands += own
            self._layers += [item.work.layer] * len(own)
        self._tracker = Tracker()
        if self._config.load_crc and any(map(_is_checked, self._commands[first:])):
            # One for the whole block: LOAD stands still until all that it brings is there.
            self._put(command(Opcode.LOAD_CHECK, crc=0))
        if block.branch is not None:
            self._branches[len(self._commands)] = block.branch
            self._put(command(Opcode.NOP))

    def _put(self, item: Command) -> None:
        self._commands.append(item)
        self._layers.append(None)


def _is_checked(item: Command) -> bool:
    """Whether it loads constants, which LOAD_CHECK covers where a machine has it."""
    return (
        item.instruction.opcode is Opcode.LOAD_GO
        and item.address is not None
        and item.address.region is Region.CONSTANTS
    )


def sequence(config: Config, blocks: list[Block]) -> InstructionStream:
    """The instruction stream of blocks, whose work it takes."""
    return InstructionSequencer(config).stream(blocks)


def lay_out(
    commands: list[Command],
    boot: list[Command],
    memory: ExternalMemory,
    others: Sequence[list[Command]] = (),
    *,
    word_bytes: int = 0,
) -> MemoryImage:
    """Places constants, program, boot part, the programs of `others` cores, decoded weights and data one after the
    other. `word_bytes`: of a machine that checks what it loads; 0: it does not.

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
    content = np.frombuffer(b"".join(memory.parts()), np.uint8) if word_bytes else None
    encoded = [
        (address, _encoded(part, base) if content is None else _with_checks(part, base, content, word_bytes))
        for address, part in code
        if part
    ]
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


def _with_checks(
    commands: list[Command], base: dict[Region, int], content: np.ndarray, word_bytes: int
) -> bytes:
    """The instructions' bytes; LOADs of constants, which lie at the beginning of memory, are checked, and LOAD_CHECK
    has their CRC."""
    crc, pitch, settled = 0, 0, list[Command]()
    for item in commands:
        instruction = item.settled(0 if item.address is None else base[item.address.region])
        if instruction.opcode is Opcode.LOAD_PITCH:
            pitch = instruction.memory_pitch
        elif instruction.opcode is Opcode.LOAD_CHECK:
            instruction, crc = make(Opcode.LOAD_CHECK, crc=crc), 0
        elif _is_checked(item):
            instruction = make(Opcode.LOAD_GO, **{**instruction.fields, CHECKED_FIELD: 1})
            starts = instruction.memory_address + np.arange(instruction.rows) * pitch
            rows = content[starts[:, None] + np.arange(instruction.row_bytes)]
            crc = rows_crc(crc, starts.tolist(), rows, word_bytes)
        settled.append(item if instruction is item.instruction else Command(instruction))
    return _encoded(settled, base)


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
