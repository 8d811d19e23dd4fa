"""What every executor of programs (emulator, RTL, device) reports about a run."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class RunResult:
    """Measurements of one program run; the tensors are in the memory image that was handed in."""

    cycles: int
    """From start to done: predicted by the emulator, counted by the RTL."""
    dram_read_bytes: int
    """Bytes of all read beats on the memory bus, instruction fetch included."""
    dram_write_bytes: int
    """Bytes of all write beats on the memory bus."""
    marks: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    """(layer, cycle) of every VECTOR_MARK, in order."""
    counters: dict[str, int] = dataclasses.field(default_factory=dict)
    """Cycles per unit, such as ``array_busy``; the names are those of the counters in the register map."""
    macs: int = 0
    """Multiply-accumulates of the array for valid pixels: every column and every byte of a step counts."""
