"""One VECTOR_GO with all that it needs: streams, parameters, a table, offsets."""

import dataclasses

from tosaic.compiler.emit.commands import Command, command
from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.place.address import Span, activation_span
from tosaic.hw.isa import STREAM_DIMS, Element, Opcode, width

_ADDRESSES = 1 << width(Opcode.VECTOR_STREAM, "address")
_PAIRS = STREAM_DIMS // 2


@dataclasses.dataclass(frozen=True)
class Dim:
    """One loop of a stream."""

    count: int
    stride: int
    """Bytes."""


@dataclasses.dataclass(frozen=True)
class Access:
    """What one stream of a vector program walks over. `dims` fastest first."""

    address: int
    element: Element
    dims: tuple[Dim, ...]
    splat: bool = False
    indexed: bool = False
    """Offsets add to the address, one per turn of the second of `dims`."""


@dataclasses.dataclass(frozen=True)
class ParamUse:
    """Parameters of `blocks` batches, from an activation-memory address on."""

    address: int
    bias: bool
    scale: bool
    blocks: int = 1


@dataclasses.dataclass(frozen=True)
class Entries:
    """A table or offsets in activation memory: four bytes each."""

    address: int
    count: int

    @property
    def span(self) -> Span:
        return activation_span(self.address, self.address + 4 * self.count)


@dataclasses.dataclass(frozen=True)
class VectorGo:
    """A run of a micro-program over `vectors` vectors."""

    program: MicroProgram
    streams: dict[int, Access]
    vectors: int
    slots: int
    lanes: int
    tail_lanes: int
    reads: list[Span]
    writes: list[Span]
    repeats: int = 1
    consumes_array: bool = False
    params: ParamUse | None = None
    table: Entries | None = None
    offsets: Entries | None = None

    def configuration(self) -> dict[tuple, Command]:
        """Instructions that hold until others of the same key replace them."""
        wanted: dict[tuple, Command] = {}
        for instruction in self.program.instructions:
            wanted[instruction.opcode, instruction.index] = Command(instruction)
        for number, access in self.streams.items():
            wanted[Opcode.VECTOR_STREAM, number] = command(
                Opcode.VECTOR_STREAM,
                stream=number,
                address=access.address % _ADDRESSES,
                element=access.element,
                splat=access.splat,
                indexed=access.indexed,
            )
            dims = [*access.dims, *(Dim(1, 0) for _ in range(STREAM_DIMS - len(access.dims)))]
            for pair in range(_PAIRS):
                low, high = dims[2 * pair : 2 * pair + 2]
                wanted[Opcode.VECTOR_DIMS, number, pair] = command(
                    Opcode.VECTOR_DIMS,
                    stream=number,
                    pair=pair,
                    count_low=low.count,
                    stride_low=low.stride,
                    count_high=high.count,
                    stride_high=high.stride,
                )
        return wanted

    def commands(self) -> list[Command]:
        """Parameters, table and offsets, and the GO."""
        found = []
        if self.params is not None:
            use = self.params
            found.append(command(Opcode.VECTOR_PARAM, address=use.address, bias=use.bias, scale=use.scale))
        if self.table is not None:
            found.append(command(Opcode.VECTOR_TABLE, address=self.table.address, entries=self.table.count))
        if self.offsets is not None:
            found.append(
                command(Opcode.VECTOR_OFFSETS, address=self.offsets.address, count=self.offsets.count)
            )
        go = command(
            Opcode.VECTOR_GO,
            vectors=self.vectors,
            slots=self.slots,
            repeats=self.repeats,
            body_start=self.program.body_start,
            body_end=self.program.body_end,
            uops=self.program.uops,
            lanes=self.lanes,
            tail_lanes=self.tail_lanes,
            next_params=self.params is not None and self.params.blocks > 1,
        )
        return [*found, go]

    def all_reads(self, columns: int) -> list[Span]:
        """What the GO reads, with parameters, table and offsets, on a machine of `columns` lanes."""
        reads = list(self.reads)
        if self.params is not None:
            use = self.params
            size = columns * (4 * use.bias + 5 * use.scale) * use.blocks
            reads.append(activation_span(use.address, use.address + size))
        return reads + [entries.span for entries in (self.table, self.offsets) if entries is not None]
