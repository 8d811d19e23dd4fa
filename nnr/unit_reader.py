"""Units out of bytes: sizes, headers, parts of one unit put together, aggregates (7.3.2 to 7.3.4)."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from tosaic.nnr.bits import BitReader
from tosaic.nnr.errors import NnrError, NnrWarning
from tosaic.nnr.memory import default_limit_bytes
from tosaic.nnr.published_reader import PUBLISHED_START, published_units
from tosaic.nnr.unit_syntax import (
    MAX_TOTAL_MAP_ENTRIES,
    read_data_unit_header,
    read_layer_parameter_set,
    read_model_parameter_set,
    read_stored_header,
    read_stored_payload,
)
from tosaic.nnr.units import (
    AggregateType,
    AggregateUnit,
    DataUnit,
    Placed,
    QuantizationUnit,
    SkippedUnit,
    StartUnit,
    StorageFormat,
    TopologyUnit,
    Unit,
    UnitType,
)

# Aggregates inside aggregates (E-39).
MAX_DEPTH = 4


@dataclass
class _Frame:
    """One nnr_unit(): its common header read, `reader` at what follows."""

    type: int
    counter: int
    not_independent: bool
    start: int
    end: int
    reader: BitReader
    origin: str


@dataclass
class _Parts:
    """Parts that arrived while partial_data_counter counts down (E-27)."""

    first: _Frame
    header: bytes
    expected: int
    payloads: list[bytes] = field(default_factory=list)


def read_units(
    data: bytes, *, start_required: bool = True, limit_bytes: int | None = None
) -> Iterator[Placed]:
    """Read a bitstream unit by unit; an aggregate comes before the units in it. It tells the edition by itself.

    limit_bytes: of memory; None allows 64 MiB and 8 times the input. A quarter of it is for what is inflated.

    start_required: the first unit must be NNR_STR, which is so for a bitstream and not for one unit in an ONNX
    tensor (B.4). Warns (NnrWarning) about reserved units, which are skipped. Raises NnrError on damage.
    """
    if bytes(data[: len(PUBLISHED_START)]) == PUBLISHED_START:
        return published_units(bytes(data))
    allowed_bytes = default_limit_bytes(len(data)) if limit_bytes is None else limit_bytes
    return _UnitReader(bytes(data), allowed_bytes // 4).sequence(start_required)


def unit_bytes(data: bytes, offset: int) -> int:
    """nnr_unit_size of the unit at `data[offset:]`, as it says; 0 without one."""
    word = int.from_bytes(data[offset : offset + 4].ljust(4, b"\0"), "big")
    return word & 0x7FFFFFFF if word >> 31 else word >> 16


def _describe(unit_type: int, start: int) -> str:
    name = f"NNR_{UnitType(unit_type).name}" if unit_type <= UnitType.AGG else f"type {unit_type}"
    return f"NNR unit at byte {start} ({name})"


class _UnitReader:
    def __init__(self, data: bytes, inflated_limit_bytes: int) -> None:
        self._data = data
        self._inflated_limit_bytes = inflated_limit_bytes
        # An aggregate header's meaning hangs on the last model parameter set (E-40).
        self._ctu_partition_flag = False
        self._map_entries = 0

    def sequence(self, start_required: bool) -> Iterator[Placed]:
        if not self._data:
            raise NnrError("NNR bitstream of 0 bytes has no unit")
        if start_required and self._frame(0, len(self._data)).type != UnitType.STR:
            raise NnrError("NNR bitstream does not start with an NNR_STR unit (7.3.1)")
        for placed, _ in self._units(0, len(self._data), 0, None):
            yield placed

    def _frame(self, start: int, end: int) -> _Frame:
        """Reads nnr_unit_size() and the common part of nnr_unit_header()."""
        reader = BitReader(self._data, start, end, f"NNR unit at byte {start}")
        long_form = reader.flag("nnr_unit_size_flag")
        size = reader.u(31 if long_form else 15, "nnr_unit_size")
        if size < (7 if long_form else 5):
            raise NnrError(f"NNR unit at byte {start} has nnr_unit_size {size}, smaller than its header")
        if start + size > end:
            raise NnrError(
                f"NNR unit at byte {start} has nnr_unit_size {size}, but only {end - start} bytes follow"
            )
        unit_type = reader.u(8, "nnr_unit_type")
        counter = reader.u(8, "partial_data_counter")
        not_independent = reader.flag("independently_decodable_flag")
        reader.u(7, "reserved")
        origin = _describe(unit_type, start)
        inside = BitReader(self._data, reader.position, start + size, origin)
        return _Frame(unit_type, counter, not_independent, start, start + size, inside, origin)

    def _units(
        self, start: int, end: int, depth: int, aggregate: AggregateType | None
    ) -> Iterator[tuple[Placed, bool]]:
        """Placed units of `data[start:end]`; the flag says whether one is directly in this sequence."""
        parts: _Parts | None = None
        while start < end:
            frame = self._frame(start, end)
            start = frame.end
            if parts and frame.type == UnitType.STR:
                warnings.warn(f"{frame.origin} drops a unit that is incomplete", NnrWarning, stacklevel=4)
                parts = None
            known = frame.type <= UnitType.AGG
            if parts and known and (frame.type != parts.first.type or frame.counter != parts.expected):
                raise NnrError(
                    f"{frame.origin} has partial_data_counter {frame.counter}, but part {parts.expected} of the "
                    f"{_describe(parts.first.type, parts.first.start)} is due"
                )
            if not known:
                # Also between parts, which do not know of it (E-26).
                warnings.warn(f"{frame.origin} is reserved or unspecified; skipped", NnrWarning, stacklevel=4)
                skipped = SkippedUnit(frame.type, frame.reader.rest())
                yield self._placed(skipped, frame, frame, depth, 1, aggregate), True
                continue
            if frame.type == UnitType.AGG:
                yield from self._aggregate(frame, depth, aggregate)
                continue
            parts = self._collect(frame, parts)
            if frame.counter:
                continue
            unit, first, count = self._unit(parts), parts.first, len(parts.payloads)
            parts = None
            yield self._placed(unit, first, frame, depth, count, aggregate), True
        if parts:
            raise NnrError(f"{parts.first.origin}: the data ends before partial_data_counter 0")

    @staticmethod
    def _placed(
        unit: Unit, first: _Frame, last: _Frame, depth: int, parts: int, aggregate: AggregateType | None
    ) -> Placed:
        size_bytes = last.end - first.start
        return Placed(unit, first.start, size_bytes, depth, parts, last.not_independent, aggregate)

    def _collect(self, frame: _Frame, parts: _Parts | None) -> _Parts:
        """Take in one part (a complete unit is the only part of itself)."""
        begin = frame.reader.position
        self._header(frame.type, frame.reader)
        header = self._data[begin : frame.reader.position]
        if parts is None:
            parts = _Parts(frame, header, frame.counter)
        elif parts.header != header:
            raise NnrError(f"{frame.origin} does not repeat the header (ref_id) of its first part")
        parts.payloads.append(frame.reader.rest())
        parts.expected = frame.counter - 1
        return parts

    @staticmethod
    def _header(unit_type: int, reader: BitReader) -> object:
        """The type-specific header; STR, MPS and LPS have none."""
        if unit_type in (UnitType.TPL, UnitType.QNT):
            return read_stored_header(reader)
        return read_data_unit_header(reader) if unit_type == UnitType.NDU else None

    def _unit(self, parts: _Parts) -> Unit:
        origin, unit_type = parts.first.origin, parts.first.type
        header = BitReader(parts.header, 0, len(parts.header), origin)
        payload = b"".join(parts.payloads)
        reader = BitReader(payload, 0, len(payload), f"{origin}, payload")
        unit: Unit
        if unit_type == UnitType.NDU:
            return DataUnit(payload=payload, **read_data_unit_header(header))
        if unit_type in (UnitType.TPL, UnitType.QNT):
            storage_format, compression = read_stored_header(header)
            if storage_format not in list(StorageFormat):
                warnings.warn(
                    f"{origin} has the reserved storage format {storage_format}; skipped",
                    NnrWarning,
                    stacklevel=5,
                )
                return SkippedUnit(unit_type, parts.header + payload)
            stored = StorageFormat(storage_format)
            text = read_stored_payload(stored, compression, payload, origin, self._inflated_limit_bytes)
            kind = TopologyUnit if unit_type == UnitType.TPL else QuantizationUnit
            return kind(stored, text, compression)
        if unit_type == UnitType.MPS:
            unit = read_model_parameter_set(reader)
            self._ctu_partition_flag = unit.ctu_partition_flag
        elif unit_type == UnitType.LPS:
            unit = read_layer_parameter_set(reader)
            self._map_entries += len(unit.quantization_map.entries) if unit.quantization_map else 0
            if self._map_entries > MAX_TOTAL_MAP_ENTRIES:
                raise NnrError(
                    f"{origin}: the bitstream's quantization maps have more than {MAX_TOTAL_MAP_ENTRIES} entries"
                )
        else:
            unit = StartUnit()
            self._ctu_partition_flag = False
        if reader.position != len(payload):
            raise NnrError(f"{origin} has {len(payload) - reader.position} bytes after its payload")
        return unit

    def _aggregate(
        self, frame: _Frame, depth: int, outer: AggregateType | None
    ) -> Iterator[tuple[Placed, bool]]:
        """nnr_aggregate_unit_header() and payload (7.3.4.7): the aggregate, then its units."""
        if depth == MAX_DEPTH:
            raise NnrError(f"{frame.origin} is nested deeper than {MAX_DEPTH} aggregates")
        if frame.counter:
            raise NnrError(
                f"{frame.origin} is one part of an aggregate; parts of aggregates are not supported"
            )
        reader = frame.reader
        kind = reader.u(8, "nnr_aggregate_unit_type")
        if kind > AggregateType.XYZ_2:
            warnings.warn(f"{frame.origin} has the reserved type {kind}; skipped", NnrWarning, stacklevel=5)
            skipped = SkippedUnit(UnitType.AGG, bytes([kind]) + reader.rest())
            yield self._placed(skipped, frame, frame, depth, 1, outer), True
            return
        entry_points_present = reader.flag("entry_points_present_flag")
        reader.u(7, "nnr_reserved_zero_7bits")
        count = reader.u(16, "num_of_nnr_units_minus2") + 2
        # 5 bytes are the shortest unit: a bound on the lists below that trusts no count.
        if 5 * count > frame.end - reader.position:
            raise reader.error(f"{count} units do not fit {frame.end - reader.position} bytes")
        entries = []
        if entry_points_present:
            for _ in range(count):
                entries.append((reader.u(8, "nnr_unit_type"), reader.u(16, "nnr_unit_entry_point")))
        depths, orders = [], []
        if kind != AggregateType.GEN:
            for _ in range(count):
                depths.append(reader.u(5, "quant_bitdepth"))
                last = reader.u(3, "ctu_scan_order")
                orders.append(last >> 2 if self._ctu_partition_flag else 0)
        # What is in a placeholder stays in it, whatever is around it there (E-40).
        placeholder = outer if outer not in (None, AggregateType.GEN) else AggregateType(kind)
        inside = list(self._units(reader.position, frame.end, depth + 1, placeholder))
        members = [placed for placed, direct in inside if direct]
        parts = sum(placed.parts for placed in members)
        if parts != count:
            raise NnrError(f"{frame.origin} holds {parts} units, but its header says {count}")
        if entries:
            self._check_entries(frame, reader.position, entries)
        unit = AggregateUnit(
            tuple(placed.unit for placed in members),
            AggregateType(kind),
            entry_points_present,
            tuple(depths),
            tuple(orders),
        )
        yield self._placed(unit, frame, frame, depth, 1, outer), True
        for placed, _ in inside:
            yield placed, False

    def _check_entries(self, frame: _Frame, start: int, entries: list[tuple[int, int]]) -> None:
        """Entry points are hints; they must agree with the sizes (E-39)."""
        for number, (unit_type, offset) in enumerate(entries):
            found = self._frame(start, frame.end)
            if (unit_type, offset) != (found.type, start - frame.start):
                raise NnrError(
                    f"{frame.origin}, entry point {number} says type {unit_type} at offset {offset}, "
                    f"but type {found.type} is at {start - frame.start}"
                )
            start = found.end
