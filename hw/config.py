"""The machine's configuration: the one place that sizes hardware, compiler, emulator and docs."""

import dataclasses
import hashlib
import json
import re

from .constants import ARRAY_FIFO_VECTORS, VECTOR_LATENCY_CYCLES
from .legal import faults

ADDED_SIZES = {
    "event_counters": 1,
    "fetch_instructions": 32,
    "load_crc": 0,
    "memory_parity": 0,
    "address_bits": 32,
    "axi_cache": 0,
    "axi_prot": 0,
}
"""Sizes that came after programs had been given away, and what every machine was before: they are left out of the hash
of such a machine, so that these programs still run on it."""
LEAST_ROWS_OF_A_PART = 4
"""A step of a part of the rows has as many slots, and the loop counters of the kernel need four."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of one accelerator. ValueError with every reason why there is no such machine (legal.py).

    It is one core, or several equal ones on one memory port; all sizes but `bus_words` are those of a core.

    ``columns`` (W) is at once the number of array columns, of elements of a vector, and of bytes in a memory word and
    in a bus beat: one word read feeds a row for W cycles, one word of weights feeds W columns for one cycle.
    """

    name: str
    rows: int
    """Array rows: output pixels computed together, and taps of the depthwise mode. At most ``columns``."""
    columns: int
    """Array columns = elements of a vector = word and bus bytes (W). A power of two, at least 4."""
    am_bytes: int
    """Activation memory, byte addressed, unaligned W-byte reads and writes. A power of two."""
    am_banks: int
    """Equal contiguous banks of the activation memory; reads of different banks do not conflict."""
    wm_bytes: int
    """Weight memory, in words of W bytes. A power of two."""
    line_pixels: int
    """Longest delay line of the depthwise mode, in W-byte vectors."""
    line_groups: int = 5
    """Image rows the depthwise mode holds: the tallest part of a depthwise kernel that one GO works on."""
    partial_sums: int = 0
    """Vectors of sums that depthwise GOs hand on to the next GO, for kernels of more taps than rows. A power of two;
    0: none, and no GO may do so."""
    weight_banks: int = 1
    """Largest number of words of weights that the array reads per cycle: 1, 2 or 4. With several, a tile of few pixels
    divides the rows into parts, each of which works on other steps of the sums; `most_row_parts` is their number."""
    drain_vectors: int = ARRAY_FIFO_VECTORS
    """Vectors of sums that wait between array and vector unit, and at least one per row. With more, the array runs
    ahead of lanes that are slower than it is for a while."""
    lane_columns: int = 1
    """Columns that a lane of the vector unit serves, 1, 2 or 4. With 2 there are half as many lanes, and a vector takes
    two cycles, as one of two-byte elements does anyway; with 4 four, as one of four-byte elements."""
    vector_slots: int = 16
    """Vectors per batch of the vector unit."""
    vector_registers: int = 8
    vector_bits: int = 48
    """Bits of a lane: 48 for int16 convolutions and what else has int48 tensors, 34 for all other networks."""
    vector_uops: int = 16
    """Micro-operations the vector unit's program memory holds."""
    vector_latency_cycles: int = VECTOR_LATENCY_CYCLES
    """Cycles between the starts of two dependent micro-operations; the vector unit needs 10."""
    queue_commands: int = 32
    """Depth of each unit's command queue."""
    semaphores: int = 16
    cabac_engines: int = 1
    """Weight decoders side by side: 1, 2 or 4; 0: programs with compressed weights do not run."""
    unpackers: int = 1
    """1: LOAD unpacks packed weights, a word per cycle; 0: programs with packed weights do not run."""
    fetch_instructions: int = 32
    """Largest number of instructions that are requested or received and not yet dispatched: 16 or 32."""
    event_counters: int = 1
    """1: the control port counts what the units do; 0: these registers read 0, and reports have cycles, layers and
    errors, but not what each unit did."""
    memory_parity: int = 0
    """1: activation and weight memory keep parity bits, and a read of a wrong one ends the run in DATA; 0: none."""
    load_crc: int = 0
    """1: LOAD keeps a CRC of the constants that it brings, and a wrong one ends the run in DATA; 0: none."""
    address_bits: int = 32
    """Bits of an address on the memory port, 32 to 64. With more than 32 the window lies between two multiples of
    4 GiB, of which MEM_BASE_HIGH tells the lower one."""
    axi_cache: int = 0
    """ARCACHE and AWCACHE of every burst; a port that is coherent with a processor's caches needs 15."""
    axi_prot: int = 0
    """ARPROT and AWPROT of every burst; 2 is non-secure, as Linux is. With `axi_cache` and `axi_prot` 0 the memory port
    has neither signal, which AXI takes as 0."""
    cores: int = 1
    """Machines side by side, 1, 2 or 4, each with memories and a program of its own, on one memory port."""
    bus_words: int = 1
    """Words of W bytes in a beat of that port, 1, 2 or 4, at most a word for each core."""

    def __post_init__(self) -> None:
        problems = faults(self.sizes)
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def sizes(self) -> dict[str, int]:
        """Every field but the name."""
        return {field: value for field, value in dataclasses.asdict(self).items() if field != "name"}

    @property
    def identifier(self) -> str:
        """The name where only letters, digits and underscores may stand: base,rows=8 is base_rows_8."""
        return re.sub(r"\W", "_", self.name)

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of all cores in one cycle."""
        return self.rows * self.columns * self.cores

    @property
    def word_bytes(self) -> int:
        """W: bytes of a memory word, and of a beat of a core's DMA units."""
        return self.columns

    @property
    def bus_bytes(self) -> int:
        """Bytes of a beat on the memory port, which the cores share."""
        return self.columns * self.bus_words

    @property
    def core_mask_bits(self) -> int:
        """Bits of a SIGNAL's `cores` that mean something: one per core, none in a machine of one."""
        return self.cores if self.cores > 1 else 0

    @property
    def lanes(self) -> int:
        """Lanes of the vector unit."""
        return self.columns // self.lane_columns

    @property
    def wm_words(self) -> int:
        return self.wm_bytes // self.columns

    @property
    def divided_rows(self) -> int:
        """The first rows that a tile of few pixels divides: as many as there are, but a power of two."""
        return 1 << (self.rows.bit_length() - 1)

    @property
    def most_row_parts(self) -> int:
        """Parts that the rows can be divided into, each with a bank of the weight memory: `weight_banks`, or fewer
        where these would have too few rows. 1: rows are never divided."""
        return max(1, min(self.weight_banks, self.divided_rows // LEAST_ROWS_OF_A_PART))

    def row_parts(self, pixels: int) -> int:
        """Returns the number of parts into which the rows are divided for a tile of `pixels` pixels: as many as have
        a row for each."""
        parts = 1
        while 2 * parts <= self.most_row_parts and 2 * parts * pixels <= self.divided_rows:
            parts *= 2
        return parts

    @property
    def am_bank_bytes(self) -> int:
        return self.am_bytes // self.am_banks

    @property
    def hash(self) -> int:
        """32 bits that differ between configurations; in a CSR and in every program."""
        sizes = self.sizes.items() - ADDED_SIZES.items()
        text = json.dumps(dict(sizes), sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


CONFIGS: dict[str, Config] = {
    config.name: config
    for config in (
        Config(
            "nano",
            rows=2,
            columns=4,
            am_bytes=32 << 10,
            am_banks=4,
            wm_bytes=16 << 10,
            line_pixels=128,
            cabac_engines=0,
            unpackers=0,
        ),
        Config(
            "small",
            rows=8,
            columns=8,
            am_bytes=128 << 10,
            am_banks=4,
            wm_bytes=64 << 10,
            line_pixels=128,
            partial_sums=512,
        ),
        Config(
            "base",
            rows=16,
            columns=16,
            am_bytes=256 << 10,
            am_banks=4,
            wm_bytes=128 << 10,
            line_pixels=256,
            partial_sums=512,
            weight_banks=4,
        ),
        Config(
            "large",
            rows=32,
            columns=32,
            am_bytes=512 << 10,
            am_banks=4,
            wm_bytes=256 << 10,
            line_pixels=256,
            partial_sums=512,
        ),
    )
}
