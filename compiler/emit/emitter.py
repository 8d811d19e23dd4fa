"""Emits work for the units, leaving out configuration that is already in place."""

import dataclasses

import numpy as np

from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.place.compression import UNARY_LENGTH, CodedBlock
from tosaic.compiler.place.memory import Image, WeightRing
from tosaic.compiler.program import StoredWeights
from tosaic.compiler.schedule.blocks import Blocks, Label
from tosaic.compiler.schedule.tracker import Space, Span, Tracker
from tosaic.hw.config import Config
from tosaic.hw.isa import Condition, Element, Instruction, Opcode, Unit, make

DATA_REGION = 1 << 28
"""Tag of addresses in the data region (inputs, outputs, spilled tensors) until the image is laid out; addresses
without it are in the constants."""

CODED_REGION = 1 << 40
"""Tag of addresses of weights that lie in external memory only as coded blocks; no instruction has them."""


@dataclasses.dataclass(frozen=True)
class _Coded:
    """A coded block of a weight tensor in the constants."""

    tensor: int
    address: int
    block: CodedBlock


_WEIGHT_LOAD_BYTES = 16384
"""Most bytes of weights per load: a load waits until the array has read all that it overwrites."""


@dataclasses.dataclass(frozen=True)
class Dim:
    count: int
    stride: int


@dataclasses.dataclass(frozen=True)
class Access:
    """What one stream of a vector program walks over. `dims` fastest first."""

    address: int
    element: Element
    dims: tuple[Dim, ...]
    splat: bool = False
    indexed: bool = False
    """Offsets add to the address, one per turn of the second of `dims`."""

    def moved(self, bytes_: int) -> "Access":
        return dataclasses.replace(self, address=self.address + bytes_)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of bytes to copy; pitches are bytes from row to row."""

    memory_address: int
    memory_pitch: int
    am_address: int
    am_pitch: int
    row_bytes: int
    count: int


class Emitter:
    """The program under construction."""

    def __init__(self, config: Config):
        self.config = config
        self.blocks = Blocks()
        self.constants = Image(64)
        self.ring = WeightRing(config.wm_bytes)
        self.stored_weights: list[StoredWeights] = []
        self._coded: dict[int, _Coded] = {}
        self._coded_bytes = 0
        self._coding: Instruction | None = None
        self._array: dict[Opcode, Instruction] = {}
        self._vector: dict[tuple, Instruction] = {}

    @property
    def tracker(self) -> Tracker:
        """Of the block under construction."""
        return self.blocks.current.tracker

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
        read = Span(Space.AM, am_address, am_address + 1)
        self.tracker.add(Unit.VECTOR, [make(Opcode.VECTOR_TEST, address=am_address)], reads=[read])

    def _forget(self) -> None:
        """What the units hold depends on the way that led here."""
        self._array.clear()
        self._vector.clear()
        self._coding = None
        self.ring.forget()

    # --- transfers

    def load(self, memory_address: int, am_address: int, size_bytes: int) -> None:
        """Copies external memory to activation memory."""
        go = make(
            Opcode.LOAD_GO,
            memory_address=memory_address,
            space=0,
            local_address=am_address,
            row_bytes=size_bytes,
            rows=1,
        )
        self.tracker.add(
            Unit.LOAD,
            [go],
            reads=[Span(Space.DRAM, memory_address, memory_address + size_bytes)],
            writes=[Span(Space.AM, am_address, am_address + size_bytes)],
        )

    def gather(self, transfers: list[Rows], memory: Span, am: Span) -> None:
        """Copies rows of external memory to activation memory, as one piece of work within the two spans."""
        work = []
        for rows in transfers:
            work += [
                make(Opcode.LOAD_PITCH, memory_pitch=rows.memory_pitch, local_pitch=rows.am_pitch),
                make(
                    Opcode.LOAD_GO,
                    memory_address=rows.memory_address,
                    space=0,
                    local_address=rows.am_address,
                    row_bytes=rows.row_bytes,
                    rows=rows.count,
                ),
            ]
        self.tracker.add(Unit.LOAD, work, reads=[memory], writes=[am])

    def store(self, am_address: int, memory_address: int, size_bytes: int) -> None:
        """Copies activation memory to external memory."""
        go = make(
            Opcode.STORE_GO,
            memory_address=memory_address,
            local_address=am_address,
            row_bytes=size_bytes,
            rows=1,
        )
        self.tracker.add(
            Unit.STORE,
            [go],
            reads=[Span(Space.AM, am_address, am_address + size_bytes)],
            writes=[Span(Space.DRAM, memory_address, memory_address + size_bytes)],
        )

    def scatter(self, transfers: list[Rows], memory: Span, am: Span) -> None:
        """Copies rows of activation memory to external memory, as one piece of work within the two spans."""
        work = []
        for rows in transfers:
            work += [
                make(Opcode.STORE_PITCH, memory_pitch=rows.memory_pitch, local_pitch=rows.am_pitch),
                make(
                    Opcode.STORE_GO,
                    memory_address=rows.memory_address,
                    local_address=rows.am_address,
                    row_bytes=rows.row_bytes,
                    rows=rows.count,
                ),
            ]
        self.tracker.add(Unit.STORE, work, reads=[am], writes=[memory])

    def add_constant(self, data: np.ndarray | bytes) -> int:
        return self.constants.add(data)

    def add_weights(self, name: str, data: np.ndarray) -> int:
        """Packed weights as they are."""
        self.stored_weights.append(StoredWeights(name, data.size, data.size, False))
        return self.add_constant(data)

    def add_coded_weights(self, name: str, blocks: list[CodedBlock]) -> int:
        """Packed weights as coded blocks; the address, in the coded region, that they would have decoded."""
        first, stored = CODED_REGION + self._coded_bytes, 0
        number = len(self.stored_weights)
        for block in blocks:
            place = CODED_REGION + self._coded_bytes
            self._coded[place] = _Coded(number, self.add_constant(block.data), block)
            self._coded_bytes += block.weights
            stored += len(block.data)
        size = CODED_REGION + self._coded_bytes - first
        self.stored_weights.append(StoredWeights(name, size, stored, True))
        return first

    def weights(self, memory_address: int, size_bytes: int, *, streamed: bool = False) -> tuple[int, bool]:
        """Brings a blob of weights into the ring unless it is there. Its WM byte address, and whether it comes now.
        `streamed`: what comes is for array GOs that wait for each word."""
        coded = self._coded.get(memory_address)
        address, missing = self.ring.place(memory_address, size_bytes, whole=coded is not None)
        if coded is not None:
            assert not streamed
            if missing:
                self._decode(coded, address)
            return address, missing
        for start in range(0, size_bytes if missing else 0, _WEIGHT_LOAD_BYTES):
            size = min(_WEIGHT_LOAD_BYTES, size_bytes - start)
            local = (address + start) % self.ring.size_bytes
            go = make(
                Opcode.LOAD_GO,
                memory_address=memory_address + start,
                space=1,
                local_address=local,
                row_bytes=size,
                rows=1,
                streamed=streamed,
            )
            memory = Span(Space.DRAM, memory_address + start, memory_address + start + size)
            self.tracker.add(Unit.LOAD, [go], reads=[memory], writes=self.weight_spans(local, size))
        return address, missing

    def weight_spans(self, address: int, size_bytes: int) -> list[Span]:
        """What lies from a WM byte address on."""
        return [Span(Space.WM, *ends) for ends in self.ring.ranges(address, size_bytes)]

    def _decode(self, coded: _Coded, address: int) -> None:
        """Decodes a block to weight memory."""
        streams, size = coded.block.lengths, len(coded.block.data)
        tensor = make(
            Opcode.LOAD_TENSOR,
            tensor=coded.tensor,
            unary_length=UNARY_LENGTH,
            header_bins=0,
            dq_coded=1,
            dq=0,
            int4=0,
            log2_streams=len(streams).bit_length() - 1,
        )
        lengths = [*streams, 0, 0, 0]
        work = [
            make(Opcode.LOAD_STREAMS, **{f"length_{number}": lengths[number] for number in range(4)}),
            make(
                Opcode.LOAD_DECODE,
                memory_address=coded.address,
                space=1,
                local_address=address,
                row_bytes=size,
                weights=coded.block.weights,
            ),
        ]
        self.tracker.add(
            Unit.LOAD,
            work,
            configuration=[] if tensor == self._coding else [tensor],
            reads=[Span(Space.DRAM, coded.address, coded.address + size)],
            writes=[Span(Space.WM, address, address + coded.block.weights)],
        )
        self._coding = tensor

    # --- array

    def array(
        self, setup: list[Instruction], go: Instruction, am: Span, wm: list[Span], *, streamed: bool = False
    ) -> None:
        """An array GO with the configuration it needs. `streamed`: it waits for each word of its weights."""
        fresh = [instruction for instruction in setup if self._array.get(instruction.opcode) != instruction]
        self._array.update({instruction.opcode: instruction for instruction in fresh})
        if streamed:
            self.tracker.add(Unit.ARRAY, [go], configuration=fresh, reads=[am], streams=wm)
        else:
            self.tracker.add(Unit.ARRAY, [go], configuration=fresh, reads=[am, *wm])

    # --- vector

    def vector(
        self,
        program: MicroProgram,
        streams: dict[int, Access],
        *,
        vectors: int,
        slots: int,
        lanes: int,
        tail_lanes: int,
        repeats: int = 1,
        reads: list[Span],
        writes: list[Span],
        consumes_array: bool = False,
        params: tuple[int, bool, bool] | None = None,
        param_blocks: int = 1,
        table: tuple[int, int] | None = None,
        offsets: tuple[int, int] | None = None,
    ) -> None:
        """A VECTOR_GO. `params` is (AM address, bias, scale) of the first of `param_blocks` batches, the others'
        follow; `table` (AM address, entries), `offsets` (AM address, count)."""
        wanted: dict[tuple, Instruction] = {}
        for instruction in program.instructions:
            wanted[instruction.opcode, instruction.index] = instruction
        for number, access in streams.items():
            wanted[Opcode.VECTOR_STREAM, number] = make(
                Opcode.VECTOR_STREAM,
                stream=number,
                address=access.address % (1 << 24),
                element=access.element,
                splat=access.splat,
                indexed=access.indexed,
            )
            dims = [*access.dims, *(Dim(1, 0) for _ in range(6 - len(access.dims)))]
            for pair in range(3):
                low, high = dims[2 * pair : 2 * pair + 2]
                wanted[Opcode.VECTOR_DIMS, number, pair] = make(
                    Opcode.VECTOR_DIMS,
                    stream=number,
                    pair=pair,
                    count_low=low.count,
                    stride_low=low.stride,
                    count_high=high.count,
                    stride_high=high.stride,
                )
        fresh = [instruction for key, instruction in wanted.items() if self._vector.get(key) != instruction]
        self._vector.update(wanted)
        work = []
        if params is not None:
            address, bias, scale = params
            work.append(make(Opcode.VECTOR_PARAM, address=address, bias=bias, scale=scale))
            size = self.config.columns * (4 * bias + 5 * scale) * param_blocks
            reads = [*reads, Span(Space.AM, address, address + size)]
        if table is not None:
            address, entries = table
            work.append(make(Opcode.VECTOR_TABLE, address=address, entries=entries))
            reads = [*reads, Span(Space.AM, address, address + 4 * entries)]
        if offsets is not None:
            address, count = offsets
            work.append(make(Opcode.VECTOR_OFFSETS, address=address, count=count))
            reads = [*reads, Span(Space.AM, address, address + 4 * count)]
        work.append(
            make(
                Opcode.VECTOR_GO,
                vectors=vectors,
                slots=slots,
                repeats=repeats,
                body_start=program.body_start,
                body_end=program.body_end,
                uops=program.uops,
                lanes=lanes,
                tail_lanes=tail_lanes,
                next_params=params is not None and param_blocks > 1,
            )
        )
        self.tracker.add(
            Unit.VECTOR, work, configuration=fresh, reads=reads, writes=writes, consumes_array=consumes_array
        )

    def mark(self, layer: int) -> None:
        self.tracker.add(Unit.VECTOR, [make(Opcode.VECTOR_MARK, layer=layer)])
