"""Which fields of the vector unit's commands are illegal: a rule per command, each of (its fields, configuration)."""

from amaranth.hdl import Cat, Value, ValueCastable

from ..config import Config
from ..isa import OFFSETS_MAX, STORE_STREAM, STREAM_DIMS, Element, Op, Source


def illegal_uop(uop: ValueCastable, config: Config) -> Value:
    """VECTOR_UOP: index, operation, source, stream or register out of range; two loads; B from the array."""
    faults = [uop.index >= config.vector_uops, uop.op > max(Op), uop.b_source == Source.ARRAY.value]
    faults.append((uop.a_source == Source.LOAD.value) & (uop.b_source == Source.LOAD.value))
    faults.append(~uop.to_memory & (uop.destination >= config.vector_registers))
    for source, index in ((uop.a_source, uop.a_index), (uop.b_source, uop.b_index)):
        faults.append(source > max(Source))
        faults.append((source == Source.LOAD.value) & (index >= STORE_STREAM))
        faults.append((source == Source.REGISTER.value) & (index >= config.vector_registers))
    return Cat(faults).any()


def illegal_bounds(bounds: ValueCastable, config: Config) -> Value:
    """VECTOR_BOUNDS: index out of range."""
    return bounds.index >= config.vector_uops


def illegal_stream(stream: ValueCastable, config: Config) -> Value:
    """VECTOR_STREAM: element type out of range, or wider than a word."""
    return stream.element > max(element for element in Element if element.bytes <= config.columns)


def illegal_dims(dims: ValueCastable, config: Config) -> Value:
    """VECTOR_DIMS: pair out of range, no turns."""
    return Cat(dims.pair >= STREAM_DIMS // 2, dims.count_low == 0, dims.count_high == 0).any()


def illegal_table(table: ValueCastable, config: Config) -> Value:
    """VECTOR_TABLE: neither 256 nor 512 entries."""
    return (table.entries != 256) & (table.entries != 512)


def illegal_offsets(offsets: ValueCastable, config: Config) -> Value:
    """VECTOR_OFFSETS: none, or more than there is room for."""
    return (offsets.count == 0) | (offsets.count > OFFSETS_MAX)


def illegal_go(go: ValueCastable, config: Config) -> Value:
    """VECTOR_GO: vectors, slots, micro-ops or repetitions out of range; a body that is not within the program."""
    return Cat(
        go.vectors == 0,
        go.slots == 0,
        go.slots > config.vector_slots,
        go.uops == 0,
        go.uops > config.vector_uops,
        go.repeats == 0,
        go.body_start > go.body_end,
        go.body_end > go.uops,
    ).any()
