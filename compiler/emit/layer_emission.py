"""One layer while it is emitted: brings pieces of its tensors in and sends finished ones out."""

import dataclasses
import itertools

import numpy as np

from tosaic.compiler.emit.emitter import MAX_ROWS, Emitter, RowCopies, Rows
from tosaic.compiler.emit.vector_go import Entries, ParamUse
from tosaic.compiler.place.address import Address, activation_span
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Copy, Placement, Role, RowsApart, Sent
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.tile.work import LayerWork


@dataclasses.dataclass(frozen=True)
class ImageColumns:
    """The columns of an image under the kernel at one output column."""

    start: int
    """Byte of the tensor where they begin."""
    skipped_bytes: int
    """Bytes of each row that lie left of the image."""
    bytes: int
    """Bytes of each row inside the image."""


@dataclasses.dataclass(frozen=True)
class ImageStrips:
    """A strip for each output column: the bytes under the kernel's columns, one image row after the other."""

    columns: list[ImageColumns]
    rows: int
    pitch: int
    """Bytes from row to row of the image."""
    row_bytes: int
    """Bytes of a row of a strip."""
    zero_point: int
    """What is outside the image."""


class LayerEmission:
    """The tensors of one layer by storage name. Rows are counted in bytes of the dense tensor."""

    def __init__(self, emitter: Emitter, work: LayerWork):
        self.emitter, self.work = emitter, work
        self.layer, self.tensors, self.config = work.layer, work.tensors, emitter.config
        self._turns: dict[BufferKey, int] = {}
        self._loaded_rows = dict.fromkeys(work.arrivals, 0)
        """Rows of arriving tensors that are there, or on their way."""
        self._table = work.table
        self._fillings: dict[int, Address] = {}
        """Addresses of constants that fill what is outside the image, by their bytes."""
        self._sent_bytes = work.result.first_byte if work.result is not None else 0
        """Bytes of a resident result, wanted outside, that are on their way there."""
        self._params_here: tuple[int, int] | None = None
        self._params_address = work.params.address

    def placement(self, name: str) -> Placement:
        return self.work.placements[name]

    def resident(self, name: str) -> bool:
        return self.work.placements[name].resident

    # --- parameters and table

    def bring_params(self, first: int, tiles: int) -> None:
        """Makes sure that the parameters of tiles [first, first + tiles) are there."""
        params = self.work.params
        if params.source is None or not params.tile_bytes or self._params_here == (first, tiles):
            return
        start, size = first * params.tile_bytes, tiles * params.tile_bytes
        address = self._next(PARAMETERS, size)
        self.emitter.load(params.source + start, address, size)
        self._params_address, self._params_here = address - start, (first, tiles)

    def params_of(self, tile: int, blocks: int = 1) -> ParamUse | None:
        """The parameters of `blocks` tiles from `tile` on; None where the layer has none."""
        params = self.work.params
        if not params.tile_bytes:
            return None
        address = self._params_address + tile * params.tile_bytes
        return ParamUse(address, params.bias_bytes, params.scale, blocks)

    def take_table(self) -> Entries | None:
        """The layer's table, for its first VECTOR_GO; None for the others: it stays in the unit."""
        table, self._table = self._table, None
        return Entries(table.address, table.entries) if table is not None else None

    # --- inputs

    def fetch(self, key: BufferKey, start: int, stop: int) -> int:
        """AM address of bytes [start, stop) of an input tensor."""
        placement = self.placement(key.tensor)
        if key.tensor in self.work.arrivals:
            self._arrive(key.tensor, stop)
        if placement.resident:
            return placement.address.offset + start
        address = self._next(key, stop - start)
        self.emitter.load(placement.address + start, address, stop - start)
        return address

    def fetch_rows(
        self, key: BufferKey, start: int, rows: int, row_bytes: int, memory_pitch: int, pitch: int
    ) -> int:
        """AM address of image rows of a tensor that is not resident, `memory_pitch` bytes apart; `pitch` in AM."""
        base, address = self.placement(key.tensor).address + start, self._next(key, rows * pitch)
        self.emitter.gather(
            RowCopies(
                [Rows(base, memory_pitch, address, pitch, row_bytes, rows)],
                base.span((rows - 1) * memory_pitch + row_bytes),
                activation_span(address, address + rows * pitch),
            )
        )
        return address

    def fetch_strips(self, key: BufferKey, strips: ImageStrips) -> int:
        """AM address of strips of an image that is not resident, one behind the other."""
        size, run = strips.rows * strips.row_bytes, strips.row_bytes
        base, address = self.placement(key.tensor).address, self._next(key, size * len(strips.columns))
        whole, copies = [], []
        for number, columns in enumerate(strips.columns):
            place = address + number * size
            if columns.bytes == run:
                whole.append((columns.start, place))
                continue
            copies.append(Rows(self._filling(strips.zero_point, size), 0, place, 0, size, 1))
            if columns.bytes:
                copies.append(
                    Rows(
                        base + columns.start,
                        strips.pitch,
                        place + columns.skipped_bytes,
                        run,
                        columns.bytes,
                        strips.rows,
                    )
                )
        if len(whole) <= strips.rows:
            copies += [
                Rows(base + start, strips.pitch, place, run, run, strips.rows) for start, place in whole
            ]
        else:
            # Fewer commands: one for each image row. Strips whose columns are inside follow each other.
            start, place = whole[0]
            step = whole[1][0] - start
            copies += [
                Rows(base + start + row * strips.pitch, step, place + row * run, size, run, len(whole))
                for row in range(strips.rows)
            ]
        first = min(columns.start for columns in strips.columns)
        last = max(columns.start + columns.bytes for columns in strips.columns)
        memory = (base + first).span(last - first + (strips.rows - 1) * strips.pitch)
        self.emitter.gather(
            RowCopies(copies, memory, activation_span(address, address + size * len(strips.columns)))
        )
        return address

    def _filling(self, value: int, size_bytes: int) -> Address:
        """A constant of equal bytes."""
        if size_bytes not in self._fillings:
            data = np.full(size_bytes, value, np.int8)
            self._fillings[size_bytes] = self.emitter.memory.add_constant(data)
        return self._fillings[size_bytes]

    def fetch_box(self, key: BufferKey, box: StoredBox) -> int:
        """AM address of a box of a tensor that is not resident, densely."""
        address = self._next(key, box.bytes)
        if box.bytes:
            self.emitter.gather(_box_copies(self.placement(key.tensor).address, box, address))
        return address

    def _arrive(self, name: str, stop: int) -> None:
        """Loads the rows of an arriving tensor up to byte `stop` of its place in activation memory."""
        arrival, place = self.work.arrivals[name], self.placement(name)
        pitch, row_bytes = place.pitch or arrival.row_bytes, arrival.row_bytes
        first, last = self._loaded_rows[name], min(-(-stop // pitch), arrival.rows)
        if last <= first:
            return
        memory, address = arrival.source.address + first * row_bytes, place.address.offset + first * pitch
        count, self._loaded_rows[name] = last - first, last
        if pitch == row_bytes:
            self.emitter.load(memory, address, count * row_bytes)
            return
        self.emitter.gather(
            RowCopies(
                [Rows(memory, row_bytes, address, pitch, row_bytes, count)],
                memory.span(count * row_bytes),
                activation_span(address, address + count * pitch),
            )
        )

    def arrive_fully(self) -> None:
        """Loads what no box needed."""
        for name, arrival in self.work.arrivals.items():
            self._arrive(name, arrival.rows * (self.placement(name).pitch or arrival.row_bytes))

    def scratch(self, key: BufferKey) -> int:
        """AM address of a buffer that only VECTOR uses, where nothing needs to take turns."""
        return self.work.buffers[key].addresses[0]

    # --- the result

    def target(self, start: int, stop: int) -> int:
        """AM address where bytes [start, stop) of the result are to be written."""
        output = self.work.output
        placement = self.placement(output)
        if placement.resident:
            return placement.address.offset + start
        return self._next(BufferKey(Role.RESULT, output), stop - start)

    def finish(self, address: int, start: int, stop: int) -> None:
        """Sends a finished stripe of the result to external memory, if it lives there or is wanted there, too."""
        placement, wanted = self.placement(self.work.output), self.work.result
        if not placement.resident:
            self.emitter.store(address, placement.address + start, stop - start)
        elif wanted is not None and start <= self._sent_bytes and not placement.pitch:
            self._send(min(stop, wanted.size_bytes))

    def finish_fully(self) -> None:
        """Sends what is left of a result that is wanted outside."""
        if self.work.result is not None:
            self._send(self.work.result.size_bytes)

    def _send(self, stop: int) -> None:
        """Sends bytes up to `stop` of a resident result that is wanted outside."""
        wanted, sent = self.work.result, self._sent_bytes
        assert wanted is not None
        if wanted.rows is not None:
            stop -= stop % wanted.rows.row_bytes
        if stop <= sent:
            return
        if wanted.rows is None:
            self.emitter.copy(Copy(wanted.source + sent, wanted.target + sent, stop - sent))
        else:
            self.emitter.scatter(_apart(wanted, wanted.rows, sent, stop))
        self._sent_bytes = stop

    def finish_box(self, address: int, box: StoredBox) -> None:
        """Sends a finished box of the result, dense at `address`, to external memory."""
        self.emitter.scatter(_box_copies(self.placement(self.work.output).address, box, address))

    def _next(self, key: BufferKey, size_bytes: int) -> int:
        buffer = self.work.buffers[key]
        assert size_bytes <= buffer.size_bytes
        turn = (self._turns.get(key, 0) + 1) % len(buffer.addresses)
        self._turns[key] = turn
        return buffer.addresses[turn]


def _apart(wanted: Sent, outside: RowsApart, first: int, last: int) -> RowCopies:
    """Bytes [first, last) of a result on their way to rows that do not follow each other."""
    run, pitch = outside.row_bytes, outside.pitch
    rows = [
        Rows(wanted.target + row * pitch, pitch, wanted.source.offset + row * run, run, run, count)
        for row in range(first // run, last // run, MAX_ROWS)
        for count in [min(MAX_ROWS, last // run - row)]
    ]
    memory = rows[0].memory.span(outside.span_bytes(last - first))
    return RowCopies(rows, memory, (wanted.source + first).span(last - first))


def _box_copies(base: Address, box: StoredBox, address: int) -> RowCopies:
    memory = (base + box.start).span(box.end - box.start)
    return RowCopies(_rows(base, box, address), memory, activation_span(address, address + box.bytes))


def _rows(base: Address, stored: StoredBox, am_address: int) -> list[Rows]:
    """The copies between a tensor at `base` and a dense buffer."""
    box = stored.merged()
    *outer, (rows, pitch) = box.dims or ((1, 0),)
    found, place = [], am_address
    for turn in itertools.product(*(range(count) for count, _ in outer)):
        skipped = sum(i * stride for i, (_, stride) in zip(turn, outer, strict=True))
        memory = base + box.start + skipped
        for row in range(0, rows, MAX_ROWS):
            count = min(MAX_ROWS, rows - row)
            found.append(Rows(memory + row * pitch, pitch, place, box.run, box.run, count))
            place += count * box.run
    return found
