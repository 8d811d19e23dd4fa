"""How long the check of a program takes at most: what an instruction costs the emulator, in units of some 10 ns."""

from tosaic.hw.config import Config
from tosaic.hw.isa import Instruction, Opcode

from .faults import Fault
from .vector import GROUP_LANES

INSTRUCTION, PIECE = 1 << 12, 1 << 20
"""Cost of each instruction, and of each piece between branches."""
GO_MOST = 1 << 29
"""Largest cost of one instruction: some seconds."""
MOST, MOST_FOR_EACH = 1 << 30, 1 << 20
"""Largest cost of all paths together: a fixed part, and a part for each instruction of the program."""
_STEP = 1 << 11
"""Cost of a row, a burst, a tile, a block of weights, and a micro-operation of a batch."""
_TURN = 1 << 14
"""Cost of a micro-operation for all batches that are computed at once."""
_BYTE, _WORD, _UNPACKED, _DECODED = 4, 8, 32, 256
"""Costs of a byte that is moved, a word of weights, a byte of packed weights, and a compressed weight."""
_BURST_BYTES = 64
_COUNTS = ("rows", "row_bytes", "vectors", "repeats", "uops", "pixels", "more_blocks", "advances", "weights")


def check_effort(go: Instruction, kernel: Instruction | None, carried: bool, config: Config) -> int:
    """Returns the cost of an instruction; Fault if it is too much. `kernel`: the last ARRAY_KERNEL; `carried`: the
    batches of a VECTOR_GO are computed one after the other."""
    effort = INSTRUCTION + _effort(go, kernel, carried, config)
    if effort > GO_MOST:
        told = ", ".join(f"{name} {go.fields[name]:,}" for name in _COUNTS if name in go.fields)
        raise Fault(
            None, f"takes {effort / GO_MOST:,.1f} times as long as one instruction may in this check ({told})"
        )
    return effort


def _effort(go: Instruction, kernel: Instruction | None, carried: bool, config: Config) -> int:
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
            lanes = go.vectors * config.columns
            groups = batches if carried or go.next_params else 1 + lanes // GROUP_LANES
            return turns * (groups * _TURN + batches * _STEP + lanes * _BYTE)
        case Opcode.ARRAY_GO:
            blocks, tiles = 1 + go.more_blocks, -(-go.pixels // config.rows)
            depth = kernel.ky_count * kernel.run_count * kernel.chunks * config.columns if kernel else 0
            products = go.pixels * depth * blocks * config.columns // 8
            return (
                blocks * (tiles * _STEP + depth * _WORD + 2 * _STEP)
                + go.pixels * depth * 2 * _BYTE
                + products
            )
        case Opcode.ARRAY_DEPTHWISE_GO:
            return go.advances * config.columns * (_BYTE + config.rows)
    return 0
