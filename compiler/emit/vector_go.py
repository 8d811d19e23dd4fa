"""One VECTOR_GO with all that it needs: streams, parameters, a table, offsets."""

import dataclasses
from collections.abc import Mapping

from tosaic.compiler.emit.commands import Command, CommandTable
from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.place.address import Span, activation_span
from tosaic.hw.constants import NARROW_BIAS_BYTES, SCALE_BYTES
from tosaic.hw.isa import STORE_STREAM, STREAM_DIMS, Element, Opcode, width

_ADDRESSES = 1 << width(Opcode.VECTOR_STREAM, "address")
_PAIRS = STREAM_DIMS // 2
_ONE_TURN = {"count_low": 1, "stride_low": 0, "count_high": 1, "stride_high": 0}


@dataclasses.dataclass(frozen=True, slots=True)
class Dim:
    """One loop of a stream."""

    count: int
    stride: int
    """Bytes of a step."""


@dataclasses.dataclass(frozen=True, slots=True)
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
    bias_bytes: int
    """Bytes of one bias; 0: there are none."""
    scale: bool
    blocks: int = 1


@dataclasses.dataclass(frozen=True)
class Entries:
    """A table or offsets in activation memory: four bytes each."""

    address: int
    count: int

    @property
    def span(self) -> Span:
        return activation_span(self.address, self.address + Element.INT32.bytes * self.count)


@dataclasses.dataclass
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
    _configured: dict = dataclasses.field(default_factory=dict, init=False, compare=False, repr=False)
    """What `configuration` was asked last, and what it said: a GO that is emitted again mostly comes after the same."""

    def configuration(self, held: Mapping[tuple, Command], table: CommandTable) -> dict[tuple, Command]:
        """The streams' instructions, which hold until others of the same key replace them. Of the dimensions, what no
        access of this GO comes to is as `held` has it, and left out where that has nothing."""
        pairs = [(Opcode.VECTOR_DIMS, number, pair) for number in self.streams for pair in range(_PAIRS)]
        before = tuple(held.get(key) for key in pairs)
        if self._configured.get("before") != before:
            self._configured.update(before=before, wanted=self._configuration(held, table))
        return self._configured["wanted"]

    def _configuration(self, held: Mapping[tuple, Command], table: CommandTable) -> dict[tuple, Command]:
        wanted: dict[tuple, Command] = {}
        for number, access in self.streams.items():
            wanted[Opcode.VECTOR_STREAM, number] = table.command(
                Opcode.VECTOR_STREAM,
                stream=number,
                address=access.address % _ADDRESSES,
                element=access.element,
                splat=access.splat,
                indexed=access.indexed,
            )
            wanted |= self._dims(number, access, held, table)
        return wanted

    def _dims(
        self, number: int, access: Access, held: Mapping[tuple, Command], table: CommandTable
    ) -> dict[tuple, Command]:
        """The turns and strides of a stream, by pairs of dimensions."""
        # Turns of dimension 1 are compared with the number of offsets, and the store stream's dimension 0 tells where
        # the shorter vectors are, whatever the accesses come to.
        exact = 1 if access.indexed else 0 if number == STORE_STREAM and self.tail_lanes != self.lanes else -1
        before = tuple(held.get((Opcode.VECTOR_DIMS, number, pair)) for pair in range(_PAIRS))
        walk = (number, access.dims, self._accesses(number), exact)
        # The table keeps what is held, so that nothing else has its identity.
        key = (walk, tuple(map(id, before)))
        if key not in table.dims:
            table.dims[key] = _dims_of(*walk, before, table)
        return table.dims[key]

    def _accesses(self, number: int) -> int:
        """Steps that a stream takes."""
        outside, inside = self.program.moves[number]
        return (outside + inside * self.repeats) * self.vectors

    def commands(self, table: CommandTable) -> list[Command]:
        """Parameters, table and offsets, and the GO."""
        command, found = table.command, []
        if self.params is not None:
            use = self.params
            bias, narrow = use.bias_bytes > 0, use.bias_bytes == NARROW_BIAS_BYTES
            found.append(
                command(Opcode.VECTOR_PARAM, address=use.address, bias=bias, scale=use.scale, narrow=narrow)
            )
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
            size = columns * (use.bias_bytes + SCALE_BYTES * use.scale) * use.blocks
            reads.append(activation_span(use.address, use.address + size))
        return reads + [entries.span for entries in (self.table, self.offsets) if entries is not None]


def _dims_of(
    number: int,
    dims: tuple[Dim, ...],
    accesses: int,
    exact: int,
    held: tuple[Command | None, ...],
    table: CommandTable,
) -> dict[tuple, Command]:
    """The dimensions of a stream of some `accesses`, by pairs: `exact` is the last one that is told in any case, and
    `held` what the unit has."""
    turns, wanted = 1, {}
    dims = (*dims, *(Dim(1, 0) for _ in range(STREAM_DIMS - len(dims))))
    for pair, before in enumerate(held):
        fields: dict[str, int] = {}
        for dim, name in ((2 * pair, "low"), (2 * pair + 1, "high")):
            count, stride = dims[dim].count, dims[dim].stride
            if turns < accesses or dim <= exact:
                fields[f"count_{name}"] = count
                if count > 1:
                    fields[f"stride_{name}"] = stride
            turns *= count
        if not fields and before is None:
            continue
        kept = before.instruction.fields if before is not None else _ONE_TURN
        wanted[Opcode.VECTOR_DIMS, number, pair] = table.command(
            Opcode.VECTOR_DIMS, **{**kept, **fields, "stream": number, "pair": pair}
        )
    return wanted
