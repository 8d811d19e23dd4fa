"""Which sizes make a machine: one predicate, whose reasons name the size and what bounds it.

RTL, compiler, emulator, boards and tests work for every configuration without a fault here; none of them checks sizes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .constants import ARRAY_FIFO_VECTORS, BURST_BEATS, FETCH_BURST_BYTES, VECTOR_LATENCY_CYCLES
from .isa import Opcode, largest

POWERS_OF_TWO = (
    "columns",
    "am_bytes",
    "am_banks",
    "wm_bytes",
    "vector_slots",
    "vector_registers",
    "partial_sums",
)
LEAST_COLUMNS = 4
LEAST_BANK_WORDS = 4
"""Words of a bank of the activation memory. A port's W bytes touch two of them."""
FETCH_BEATS = 4
"""Beats of a burst that fetches the program."""
PAGE_BYTES = 4096
"""AXI: no burst crosses a multiple of this."""
OPTIONAL = (
    "axi_cache",
    "axi_prot",
    "cabac_engines",
    "event_counters",
    "load_crc",
    "memory_parity",
    "partial_sums",
    "unpackers",
)
"""Sizes of parts that a machine may be without: 0."""
LEAST_ROWS_OF_PARTIAL_SUMS = 4
"""While the weights of the next GO enter the rows, the last partial sum is written."""
ENGINES = (0, 1, 2, 4)
LANE_COLUMNS = (1, 2, 4)
"""Numbers of columns that a lane may serve. With more, it would have to choose among elements of two bytes, too."""
WEIGHT_BANKS = (1, 2, 4)
ADDRESS_BITS = range(32, 65)
AXI_CACHE = (0, 1, 2, 3, 6, 7, 10, 11, 14, 15)
"""AXI4: the bits that ask for a place in a cache are 0 where the transaction may not be modified."""
CORES = (1, 2, 4)
MOST_BUS_BYTES = 64
"""Largest number of bytes in a beat of the shared port: memory controllers take no more."""
LEAST_SEMAPHORES = 12
"""One for each ordered pair of the four units; several cores have one more each, of what that core has made."""
LEAST_UOPS = 8
LEAST_REGISTERS = 4
"""With fewer micro-operations or registers some operators of TOSA do not fit one micro-program."""
LEAST_QUEUE_COMMANDS = 4
FETCH_INSTRUCTIONS = (16, 32)
"""Two bursts of the program or four: with fewer the machine waits for each."""
VECTOR_BITS = range(34, 52)
"""Bits of a vector lane: below, an accumulator and its bias overflow; above, the multiplier has no partial product."""


def faults(sizes: Mapping[str, Any]) -> list[str]:
    """Returns why a machine of these sizes (the fields of `Config` without its name) cannot be; empty when it can."""
    found = list(_numbers(sizes))
    # Bounds on sizes that are no numbers say nothing.
    return found or [
        *_powers(sizes),
        *_array(sizes),
        *_memories(sizes),
        *_vector(sizes),
        *_control(sizes),
        *_cores(sizes),
        *_port(sizes),
    ]


def _numbers(sizes: Mapping[str, Any]) -> Iterator[str]:
    for field, value in sizes.items():
        least, also = (0, " or 0") if field in OPTIONAL else (1, "")
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            yield f"{field} must be a positive integer{also}, not {value!r}"


def _powers(sizes: Mapping[str, int]) -> Iterator[str]:
    for field in POWERS_OF_TWO:
        if sizes[field] & (sizes[field] - 1):
            yield f"{field} must be a power of two, not {sizes[field]}"


def _array(sizes: Mapping[str, int]) -> Iterator[str]:
    most_columns = min(FETCH_BURST_BYTES // FETCH_BEATS, PAGE_BYTES // BURST_BEATS)
    yield from _within(sizes, "columns", LEAST_COLUMNS, most_columns, "a beat of the bus")
    if sizes["rows"] > sizes["columns"]:
        yield f"rows must be at most columns ({sizes['columns']}), not {sizes['rows']}"
    if sizes["partial_sums"] and sizes["rows"] < LEAST_ROWS_OF_PARTIAL_SUMS:
        yield f"partial_sums must be 0 with fewer than {LEAST_ROWS_OF_PARTIAL_SUMS} rows, not {sizes['partial_sums']}"
    if sizes["weight_banks"] not in WEIGHT_BANKS:
        yield f"weight_banks must be 1, 2 or 4, not {sizes['weight_banks']}"
    delay = largest(Opcode.ARRAY_DEPTHWISE, "delay")
    yield from _within(sizes, "line_pixels", 2, delay, "ARRAY_DEPTHWISE.delay")
    if sizes["drain_vectors"] < ARRAY_FIFO_VECTORS:
        yield f"drain_vectors must be at least {ARRAY_FIFO_VECTORS}, not {sizes['drain_vectors']}"


def _memories(sizes: Mapping[str, int]) -> Iterator[str]:
    addressed = largest(Opcode.LOAD_GO, "local_address") + 1
    least_bank = LEAST_BANK_WORDS * sizes["columns"]
    if sizes["am_bytes"] // sizes["am_banks"] < least_bank:
        yield (
            f"am_bytes / am_banks must be at least {LEAST_BANK_WORDS} words of {sizes['columns']} bytes, "
            f"not {sizes['am_bytes'] // sizes['am_banks']}"
        )
    yield from _within(sizes, "am_bytes", least_bank, addressed, "LOAD_GO.local_address")
    words = largest(Opcode.ARRAY_GO, "weights") + 1
    most_weights = min(addressed, words * sizes["columns"])
    yield from _within(sizes, "wm_bytes", 2 * sizes["columns"] ** 2, most_weights, "ARRAY_GO.weights")
    yield from _within(sizes, "memory_parity", 0, 1, "a parity bit per byte")


def _vector(sizes: Mapping[str, int]) -> Iterator[str]:
    registers = largest(Opcode.VECTOR_UOP, "destination") + 1
    yield from _within(sizes, "vector_registers", LEAST_REGISTERS, registers, "VECTOR_UOP.destination")
    slots = 1 << (largest(Opcode.VECTOR_GO, "slots").bit_length() - 1)
    yield from _within(sizes, "vector_slots", 1, slots, "VECTOR_GO.slots")
    yield from _within(
        sizes, "vector_uops", LEAST_UOPS, largest(Opcode.VECTOR_UOP, "index") + 1, "VECTOR_UOP.index"
    )
    yield from _within(sizes, "vector_bits", VECTOR_BITS.start, VECTOR_BITS.stop - 1, "the lanes' multiplier")
    if sizes["lane_columns"] not in LANE_COLUMNS:
        yield f"lane_columns must be 1, 2 or 4, not {sizes['lane_columns']}"
    latency = sizes["vector_latency_cycles"]
    if latency < VECTOR_LATENCY_CYCLES:
        yield f"vector_latency_cycles must be at least {VECTOR_LATENCY_CYCLES}, not {latency}"
    if sizes["vector_slots"] < latency:
        yield f"vector_slots must be at least vector_latency_cycles ({latency}), not {sizes['vector_slots']}"


def _control(sizes: Mapping[str, int]) -> Iterator[str]:
    counters = largest(Opcode.LOAD_WAIT, "semaphore") + 1
    makers = sizes["cores"] if sizes["cores"] > 1 else 0
    yield from _within(sizes, "semaphores", LEAST_SEMAPHORES + makers, counters, "LOAD_WAIT.semaphore")
    if sizes["queue_commands"] < LEAST_QUEUE_COMMANDS:
        yield f"queue_commands must be at least {LEAST_QUEUE_COMMANDS}, not {sizes['queue_commands']}"
    if sizes["fetch_instructions"] not in FETCH_INSTRUCTIONS:
        yield f"fetch_instructions must be 16 or 32, not {sizes['fetch_instructions']}"
    if sizes["cabac_engines"] not in ENGINES:
        yield f"cabac_engines must be 0, 1, 2 or 4, not {sizes['cabac_engines']}"
    yield from _within(sizes, "unpackers", 0, 1, "words of the weight memory written in a cycle")
    yield from _within(sizes, "event_counters", 0, 1, "the register map")
    yield from _within(sizes, "load_crc", 0, 1, "a CRC of a core")


def _cores(sizes: Mapping[str, int]) -> Iterator[str]:
    cores, words = sizes["cores"], sizes["bus_words"]
    if cores not in CORES:
        yield f"cores must be 1, 2 or 4, not {cores}"
    if words not in CORES or words > cores:
        yield f"bus_words must be 1, 2 or 4, at most a word for each of {cores} cores, not {words}"
    elif words > 1 and sizes["columns"] * words > MOST_BUS_BYTES:
        most = MOST_BUS_BYTES // sizes["columns"]
        yield f"bus_words must be at most {most} (a beat of {MOST_BUS_BYTES} bytes), not {words}"


def _port(sizes: Mapping[str, int]) -> Iterator[str]:
    yield from _within(sizes, "address_bits", ADDRESS_BITS.start, ADDRESS_BITS.stop - 1, "AXI's addresses")
    yield from _within(sizes, "axi_prot", 0, 7, "AXI's bits")
    if sizes["axi_cache"] not in AXI_CACHE:
        yield f"axi_cache must be one of {', '.join(map(str, AXI_CACHE))}, not {sizes['axi_cache']}"


def _within(sizes: Mapping[str, int], field: str, least: int, most: int, bound: str) -> Iterator[str]:
    if sizes[field] < least:
        yield f"{field} must be at least {least}, not {sizes[field]}"
    if sizes[field] > most:
        yield f"{field} must be at most {most} ({bound}), not {sizes[field]}"
