"""The machine's configuration: the one place that sizes hardware, compiler, emulator and docs."""

import dataclasses
import hashlib
import json


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of one accelerator.

    ``columns`` (W) is at once the number of array columns, of vector lanes, and of bytes in a memory word and in
    a bus beat: one word read feeds a row for W cycles, one word of weights feeds W columns for one cycle.
    """

    name: str
    rows: int
    """Array rows: output pixels computed together, and taps of the depthwise mode. At most ``columns``."""
    columns: int
    """Array columns = vector lanes = word and bus bytes (W). A power of two, at least 4."""
    am_bytes: int
    """Activation memory, byte addressed, unaligned W-byte reads and writes. A power of two."""
    am_banks: int
    """Equal contiguous banks of the activation memory; reads of different banks do not conflict."""
    wm_bytes: int
    """Weight memory, in words of W bytes. A power of two."""
    line_pixels: int
    """Longest delay line of the depthwise mode, in W-byte vectors."""
    line_groups: int = 5
    """Image rows the depthwise mode holds: the tallest depthwise kernel."""
    vector_slots: int = 16
    """Vectors per batch of the vector unit."""
    vector_registers: int = 8
    vector_bits: int = 48
    vector_uops: int = 16
    """Micro-operations the vector unit's program memory holds."""
    vector_latency_cycles: int = 10
    """Cycles between the starts of two dependent micro-operations; the vector unit needs 10."""
    queue_commands: int = 32
    """Depth of each unit's command queue."""
    semaphores: int = 16
    cabac_engines: int = 1
    """Weight decoders side by side: 1, 2 or 4; 0: programs with compressed weights do not run."""

    def __post_init__(self) -> None:
        for field, value in dataclasses.asdict(self).items():
            least = 0 if field == "cabac_engines" else 1
            if field != "name" and (not isinstance(value, int) or value < least):
                raise ValueError(f"{field} must be a positive integer, not {value!r}")
        for field in ("columns", "am_bytes", "am_banks", "wm_bytes", "vector_slots", "vector_registers"):
            value = getattr(self, field)
            if value & (value - 1):
                raise ValueError(f"{field} must be a power of two, not {value}")
        if self.columns < 4:
            raise ValueError(f"columns must be at least 4, not {self.columns}")
        if self.rows > self.columns:
            raise ValueError(f"rows must be at most columns ({self.columns}), not {self.rows}")
        if self.cabac_engines not in (0, 1, 2, 4):
            raise ValueError(f"cabac_engines must be 0, 1, 2 or 4, not {self.cabac_engines}")
        if self.vector_slots < self.vector_latency_cycles:
            raise ValueError(
                f"vector_slots must be at least vector_latency_cycles ({self.vector_latency_cycles}), "
                f"not {self.vector_slots}"
            )

    @property
    def macs_per_cycle(self) -> int:
        return self.rows * self.columns

    @property
    def word_bytes(self) -> int:
        """W: bytes of a memory word and of a bus beat."""
        return self.columns

    @property
    def wm_words(self) -> int:
        return self.wm_bytes // self.columns

    @property
    def am_bank_bytes(self) -> int:
        return self.am_bytes // self.am_banks

    @property
    def hash(self) -> int:
        """32 bits that differ between configurations; in a CSR and in every program."""
        sizes = {k: v for k, v in dataclasses.asdict(self).items() if k != "name"}
        return int.from_bytes(
            hashlib.sha256(json.dumps(sizes, sort_keys=True).encode()).digest()[:4], "little"
        )


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
        ),
        Config(
            "small", rows=8, columns=8, am_bytes=128 << 10, am_banks=4, wm_bytes=64 << 10, line_pixels=128
        ),
        Config(
            "base", rows=16, columns=16, am_bytes=256 << 10, am_banks=4, wm_bytes=128 << 10, line_pixels=256
        ),
        Config(
            "large", rows=32, columns=32, am_bytes=512 << 10, am_banks=4, wm_bytes=256 << 10, line_pixels=256
        ),
    )
}


def get_config(name: str) -> Config:
    """The configuration called ``name``; ValueError lists the names there are."""
    try:
        return CONFIGS[name]
    except KeyError:
        raise ValueError(f"no configuration is called {name!r}; there are {', '.join(CONFIGS)}") from None
