"""Emits work for the units, leaving out configuration that is already in place."""

import dataclasses
from collections.abc import Callable, Hashable

from tosaic.compiler.emit.commands import Blocks, Command, CommandTable, Label, Work
from tosaic.compiler.emit.unit_work import unit_work
from tosaic.compiler.emit.vector_go import VectorGo
from tosaic.compiler.emit.weight_ring import WeightRing
from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.machine_numbers import CODED_UNARY_LENGTH, STREAMED_LOAD_BYTES, WEIGHT_LOAD_BYTES
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.place.address import Address, Region, Span, activation_span
from tosaic.compiler.place.external import ExternalMemory, PlacedBlock
from tosaic.compiler.place.placement import Copy
from tosaic.hw.config import Config
from tosaic.hw.isa import FIELDS, Condition, Opcode, Space, Unit, largest

MAX_ROWS = largest(Opcode.LOAD_GO, "rows")
_STREAMS = sum(field.name.startswith("length_") for field in FIELDS[Opcode.LOAD_STREAMS])
"""Lengths that LOAD_STREAMS has."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of bytes to copy; pitches are bytes from row to row."""

    memory: Address
    memory_pitch: int
    am_address: int
    am_pitch: int
    row_bytes: int
    count: int


@dataclasses.dataclass(frozen=True)
class RowCopies:
    """Rows that are copied as one piece of work within two spans."""

    rows: list[Rows]
    memory: Span
    am: Span


@dataclasses.dataclass(frozen=True, slots=True)
class Taped:
    """A piece of work that waits for its place in the order, with all configuration that it needs."""

    work: Work
    go: VectorGo | None = None
    """What VECTOR's configuration is made of."""


@dataclasses.dataclass(frozen=True)
class WeightsHere:
    """Weights in weight memory."""

    address: int
    """Byte address."""
    loaded: bool
    """They come now: they were not there."""


class Emitter:
    """The program under construction. `memory` is the plan's: constants and coded weights."""

    def __init__(self, config: Config, memory: ExternalMemory, speed: MemorySpeed = FULL_SPEED):
        self.config, self.memory, self.speed = config, memory, speed
        self.blocks = Blocks()
        self.table = CommandTable()
        self.command = self.table.command
        # Only weights that begin at a whole step let the rows be divided.
        self.ring = WeightRing(config.wm_bytes, config.columns**2 if config.most_row_parts > 1 else 1)
        self.first_layer: int | None = 0
        """What is added to the numbers of layers in marks; None: no marks."""
        self.layer: int | None = None
        """The number in its graph of the layer that is being emitted; None between layers."""
        self.layers_before: int | None = 0
        """What is added to it; None where the program lists no layers for this core's work."""
        self.bus_is_free = False
        """Whether more instructions, for the array to begin earlier, cost nothing."""
        self.weights_ahead: frozenset[Hashable] = frozenset()
        """Addresses of weights that the bus has time to bring before their layers begin."""
        self.early: Span | None = None
        """The first part of the last layer's result, which is there some time before the rest."""
        self._coding: Command | None = None
        self._array: dict[Opcode, Command] = {}
        self._vector: dict[tuple, Command] = {}
        self._program: MicroProgram | None = None
        """The micro-program that VECTOR holds."""
        self.woven = False
        """Whether the layer that is emitted runs together with others."""
        self.tape: list[Taped] | None = None
        """Takes the work that comes, if it has yet to find its order."""
        self.costed = False
        """Whether somebody asks what each piece costs its unit."""

    def add(self, work: Work, go: VectorGo | None = None) -> None:
        """Appends a piece of work of the present layer, with all configuration that it needs; VECTOR's is that of
        `go`."""
        if self.layer is not None and self.layers_before is not None:
            work.layer = self.layers_before + self.layer
        if self.costed or self.tape is not None:
            work.cost = unit_work(work, go, self.config, self.speed)
        if self.tape is None:
            self.play(Taped(work, go))
        else:
            self.tape.append(Taped(work, go))

    def play(self, taped: Taped) -> None:
        """Appends a piece of work, without the configuration that is there already."""
        work, go = taped.work, taped.go
        if go is not None:
            work.configuration = self._fresh_of(go)
        elif work.unit is Unit.ARRAY:
            fresh = [
                item for item in work.configuration if self._array.get(item.instruction.opcode) is not item
            ]
            self._array.update({item.instruction.opcode: item for item in fresh})
            work.configuration = tuple(fresh)
        elif work.configuration:
            [tensor] = work.configuration
            work.configuration = () if tensor == self._coding else (tensor,)
            self._coding = tensor
        self.blocks.current.work.append(work)

    # --- branches

    def branch(self, condition: Condition, label: Label) -> None:
        """A branch, decided when all units are idle."""
        self.blocks.branch(condition, label)
        self._forget()

    def place(self, label: Label) -> None:
        """Branches to `label` lead here."""
        self.blocks.place(label)
        self._forget()

    def test(self, am_address: int) -> None:
        """Lets the branches to come go by whether this byte is 0."""
        read = activation_span(am_address, am_address + 1)
        self.add(Work(Unit.VECTOR, [self.command(Opcode.VECTOR_TEST, address=am_address)], reads=[read]))

    def _forget(self) -> None:
        """What the units hold depends on the way that led here."""
        self._array.clear()
        self._vector.clear()
        self._program = None
        self._coding = None
        self.early = None
        self.ring.forget()

    # --- transfers

    def copy(self, copy: Copy) -> None:
        """Copies bytes between external and activation memory, in the direction that the copy tells."""
        loads = copy.target.region is Region.ACTIVATION
        memory, am = (copy.source, copy.target) if loads else (copy.target, copy.source)
        size = copy.size_bytes
        rows = Rows(memory, 0, am.offset, 0, size, 1)
        self.add(
            Work(
                Unit.LOAD if loads else Unit.STORE,
                (self._load_go(rows) if loads else self._store_go(rows),),
                reads=[copy.source.span(size)],
                writes=[copy.target.span(size)],
            )
        )

    def load(self, source: Address, am_address: int, size_bytes: int) -> None:
        """Copies external memory to activation memory."""
        self.copy(Copy(source, Address(Region.ACTIVATION, am_address), size_bytes))

    def store(self, am_address: int, target: Address, size_bytes: int) -> None:
        """Copies activation memory to external memory."""
        self.copy(Copy(Address(Region.ACTIVATION, am_address), target, size_bytes))

    def gather(self, copies: RowCopies) -> None:
        """Copies rows of external memory to activation memory."""
        commands = self._with_pitches(Opcode.LOAD_PITCH, self._load_go, copies.rows)
        self.add(Work(Unit.LOAD, tuple(commands), reads=[copies.memory], writes=[copies.am]))

    def scatter(self, copies: RowCopies) -> None:
        """Copies rows of activation memory to external memory."""
        commands = self._with_pitches(Opcode.STORE_PITCH, self._store_go, copies.rows)
        self.add(Work(Unit.STORE, tuple(commands), reads=[copies.am], writes=[copies.memory]))

    # --- weights

    def weights(
        self, source: Address, size_bytes: int, *, streamed: bool = False, piece_bytes: int | None = None
    ) -> WeightsHere:
        """Brings a blob of weights into the ring unless it is there, in loads of `piece_bytes` bytes. `streamed`: what
        comes is for array GOs that wait for each word."""
        coded = self.memory.coded.get(source)
        address, missing = self.ring.place(source, size_bytes, whole=coded is not None)
        if coded is not None:
            assert not streamed
            if missing:
                self.decode(coded, Address(Region.WEIGHT, address))
            return WeightsHere(address, missing)
        row = self.memory.packed_rows.get(source)
        if row is not None:
            if missing:
                self._unpack(*row, address, size_bytes, streamed=streamed)
            return WeightsHere(address, missing)
        assert source.region is not Region.CODED
        piece = piece_bytes or (STREAMED_LOAD_BYTES if streamed else WEIGHT_LOAD_BYTES)
        for start in range(0, size_bytes if missing else 0, piece):
            size = min(piece, size_bytes - start)
            local = (address + start) % self.ring.size_bytes
            go = self.command(
                Opcode.LOAD_GO,
                source + start,
                space=Space.WM,
                local_address=local,
                row_bytes=size,
                rows=1,
                streamed=streamed,
            )
            self.add(
                Work(
                    Unit.LOAD, (go,), reads=[(source + start).span(size)], writes=self.ring.spans(local, size)
                )
            )
        return WeightsHere(address, missing)

    def _unpack(self, row: Address, row_bytes: int, address: int, size_bytes: int, *, streamed: bool) -> None:
        """Loads a packed row that stands for `size_bytes` bytes of weights."""
        go = self.command(
            Opcode.LOAD_GO,
            row,
            space=Space.WM,
            local_address=address,
            row_bytes=row_bytes,
            rows=1,
            streamed=streamed,
            packed=1,
        )
        self.add(
            Work(Unit.LOAD, (go,), reads=[row.span(row_bytes)], writes=self.ring.spans(address, size_bytes))
        )

    def decode(self, coded: PlacedBlock, target: Address) -> None:
        """Decodes a block to weight or activation memory."""
        streams, size = coded.block.lengths, len(coded.block.data)
        tensor = self.command(
            Opcode.LOAD_TENSOR,
            tensor=coded.tensor,
            unary_length=CODED_UNARY_LENGTH,
            header_bins=0,
            dq_coded=1,
            dq=0,
            int4=0,
            log2_streams=len(streams).bit_length() - 1,
        )
        lengths = [*streams, *(0 for _ in range(_STREAMS - len(streams)))]
        commands = [
            self.command(
                Opcode.LOAD_STREAMS, **{f"length_{number}": lengths[number] for number in range(_STREAMS)}
            ),
            self.command(
                Opcode.LOAD_DECODE,
                coded.address,
                space=Space.WM if target.region is Region.WEIGHT else Space.AM,
                local_address=target.offset,
                row_bytes=size,
                weights=coded.block.weights,
            ),
        ]
        self.add(
            Work(
                Unit.LOAD,
                commands,
                configuration=[tensor],
                reads=[coded.address.span(size)],
                writes=[target.span(coded.block.weights)],
            )
        )

    # --- array

    def array(
        self, setup: list[Command], go: Command, am: Span, wm: list[Span], *, streamed: bool = False
    ) -> None:
        """An array GO with the configuration it needs. `streamed`: it waits for each word of its weights."""
        reads, streams = ([am], wm) if streamed else ([am, *wm], [])
        self.add(Work(Unit.ARRAY, (go,), tuple(setup), reads, streams=streams))

    # --- vector

    def vector(self, go: VectorGo) -> None:
        """A VECTOR_GO with the configuration it needs."""
        work = Work(
            Unit.VECTOR,
            tuple(go.commands(self.table)),
            reads=go.all_reads(self.config.columns),
            writes=go.writes,
            array_vectors=go.vectors * go.repeats if go.consumes_array else 0,
        )
        self.add(work, go)

    def _fresh_of(self, go: VectorGo) -> tuple[Command, ...]:
        """The configuration that a VECTOR_GO needs and the unit has not."""
        wanted = go.configuration(self._vector, self.table)
        if go.program is not self._program:
            uops = {(each.opcode, each.index): self.table.of(each) for each in go.program.instructions}
            wanted, self._program = uops | wanted, go.program
        # Equal instructions of the table are the same.
        fresh = [item for key, item in wanted.items() if self._vector.get(key) is not item]
        self._vector.update(wanted)
        return tuple(fresh)

    def mark(self, layer: int) -> None:
        """Tells the host that a layer is complete."""
        if self.first_layer is not None:
            self.add(Work(Unit.VECTOR, [self.command(Opcode.VECTOR_MARK, layer=self.first_layer + layer)]))

    # --- inside

    def _with_pitches(
        self, pitch: Opcode, go: Callable[[Rows], Command], transfers: list[Rows]
    ) -> list[Command]:
        """The GO of each transfer, after its pitches where they are not those of the one before."""
        commands: list[Command] = []
        pitches: Command | None = None
        for rows in transfers:
            wanted = self.command(pitch, memory_pitch=rows.memory_pitch, local_pitch=rows.am_pitch)
            if wanted != pitches:
                commands.append(wanted)
            pitches = wanted
            commands.append(go(rows))
        return commands

    def _load_go(self, rows: Rows) -> Command:
        return self.command(
            Opcode.LOAD_GO,
            rows.memory,
            space=Space.AM,
            local_address=rows.am_address,
            row_bytes=rows.row_bytes,
            rows=rows.count,
        )

    def _store_go(self, rows: Rows) -> Command:
        return self.command(
            Opcode.STORE_GO,
            rows.memory,
            local_address=rows.am_address,
            row_bytes=rows.row_bytes,
            rows=rows.count,
        )
