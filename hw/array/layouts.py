"""What travels inside the array unit: jobs (a GO and its configuration), slots (one advance of the array)."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from amaranth.utils import bits_for

from ..config import Config
from ..isa import FIELDS, Opcode

OPERAND_BITS = 9
"""int8 or uint8 minus its zero point."""
COLUMN_BITS = 26
"""Signed byte position in an image row (xb)."""
LINE_BITS = 18
"""Signed image row (iy)."""


def fields(opcode: Opcode) -> data.StructLayout:
    """The operands of `opcode` alone."""
    return data.StructLayout(
        {f.name: signed(f.bits) if f.signed else unsigned(f.bits) for f in FIELDS[opcode]}
    )


def group_count(config: Config) -> int:
    """Delay groups that a row can belong to; no more than there are rows."""
    return min(config.line_groups, config.rows)


def possible_groups(config: Config, row: int) -> list[int]:
    """Every delay group that some `group_rows` gives to `row`."""
    return sorted({min(row // size, config.line_groups - 1) for size in range(1, config.rows + 1)})


class Job(data.StructLayout):
    """A GO of either kind with the configuration it was given under. `count` is `pixels` or `advances`."""

    def __init__(self) -> None:
        super().__init__(
            {
                "input": fields(Opcode.ARRAY_INPUT),
                "window": fields(Opcode.ARRAY_WINDOW),
                "kernel": fields(Opcode.ARRAY_KERNEL),
                "depthwise": fields(Opcode.ARRAY_DEPTHWISE),
                "is_depthwise": 1,
                "weights": 20,
                "count": 24,
                "accumulate": 1,
                "drain": 1,
                "group_rows": 6,
                "more_blocks": 16,
                "streamed": 1,
            }
        )


class Control(data.StructLayout):
    """What a slot does in the grid.

    `depthwise`: the mode. `mac`: row 0 multiplies this slot's weights (output stationary). `start`: first
    byte of a word: row i takes its word i slots after row 0. `clear`: first product of a tile. `load`:
    weights enter the rows (depthwise), and `row` gets delay group `group`. `stream`: a vector enters the
    delay line at `pointer` (group 1: `pointer_1`), `paired` with that of the next image row; `filled` bits say that
    group 1, and those behind it, hold a vector of this GO. `deliver`: with this slot row `row` finishes a vector.
    """

    def __init__(self, config: Config):
        groups = group_count(config)
        super().__init__(
            {
                "depthwise": 1,
                "mac": 1,
                "start": 1,
                "clear": 1,
                "load": 1,
                "stream": 1,
                "deliver": 1,
                "row": bits_for(config.rows - 1),
                "group": bits_for(groups - 1),
                "paired": 1,
                "pointer_1": bits_for(config.line_pixels - 1),
                "pointer": bits_for(config.line_pixels - 1),
                "filled": 2,
            }
        )


class Operands(data.StructLayout):
    """How a slot's bytes become operands: bytes low <= j < high count, when `inside` (of the pair's second word: when
    `second_inside`)."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "inside": 1,
                "second_inside": 1,
                "low": bits_for(config.columns),
                "high": bits_for(config.columns),
                "input_zp": signed(9),
                "weight_zp": signed(9),
                "unsigned_input": 1,
            }
        )


class Slot(data.StructLayout):
    """A slot as the walker emits it: place in the image, address as `base` + `column`
    (the pair's second word: + `pitch`), the image's bounds."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "control": Control(config),
                "last": 1,
                "read": 1,
                "column": signed(COLUMN_BITS),
                "line": signed(LINE_BITS),
                "base": bits_for(config.am_bytes - 1),
                "pitch": bits_for(config.am_bytes - 1),
                "row_bytes": 24,
                "height": 16,
                "input_zp": signed(9),
                "weight_zp": signed(9),
                "unsigned_input": 1,
                "read_weights": 1,
                "weights": bits_for(config.wm_words - 1),
                "streamed": 1,
            }
        )
