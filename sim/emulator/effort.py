"""How long the check of a program takes at most: what an instruction costs the emulator, in units of some 10 ns."""

from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, Opcode

from .faults import Fault

INSTRUCTION, PIECE = 1 << 12, 1 << 18
"""Of each instruction and of each piece between branches."""
GO_MOST = 1 << 29
"""Of one instruction: seconds."""
MOST, MOST_FOR_EACH = 1 << 30, 1 << 20
"""Of all paths together: beside a fixed part as much for each instruction that the program has."""
_STEP, _BYTE, _UNPACKED, _DECODED = 1 << 11, 4, 32, 256
"""Of whatever takes a turn of a loop: a row, a burst, a tile, a batch's micro-operation. Of a byte that is moved, one of
packed weights, and a compressed weight."""
_BURST_BYTES = 64


def effort_of(go: Instruction, kernel: Instruction | None, config: Config) -> int:
    """Of one instruction; `kernel` is the last ARRAY_KERNEL."""
    match go.opcode:
        case Opcode.LOAD_GO | Opcode.STORE_GO:
            bursts = go.rows * (2 + go.row_bytes // _BURST_BYTES)
            each = _UNPACKED if go.fields.get("packed") else _BYTE
            return bursts * _STEP + go.rows * go.row_bytes * each
        case Opcode.LOAD_DECODE:
            return go.weights * _DECODED + go.row_bytes * _BYTE
        case Opcode.VECTOR_GO:
            turns = go.uops + max(go.body_end - go.body_start, 0) * max(go.repeats - 1, 0)
            batches = -(-go.vectors // max(go.slots, 1))
            return turns * (batches * _STEP + go.vectors * config.columns * _BYTE)
        case Opcode.ARRAY_GO:
            blocks, tiles = 1 + go.more_blocks, -(-go.pixels // config.rows)
            depth = kernel.ky_count * kernel.run_count * kernel.chunks * config.columns if kernel else 0
            products = go.pixels * depth * blocks * config.columns // 8
            return tiles * blocks * _STEP + go.pixels * depth * 2 * _BYTE + products + depth * blocks * _BYTE
        case Opcode.ARRAY_DEPTHWISE_GO:
            return go.advances * config.columns * (_BYTE + config.rows)
    return 0


def check_effort(go: Instruction, kernel: Instruction | None, config: Config) -> int:
    """The instruction's effort; Fault if it is too much."""
    effort = effort_of(go, kernel, config)
    if effort > GO_MOST:
        counts = (
            "rows",
            "row_bytes",
            "vectors",
            "repeats",
            "uops",
            "pixels",
            "more_blocks",
            "advances",
            "weights",
        )
        told = ", ".join(f"{name} {go.fields[name]:,}" for name in counts if name in go.fields)
        raise Fault(
            None, f"takes about {effort / GO_MOST:,.0f} times as long as one instruction may here ({told})"
        )
    return effort
