"""What travels inside the array unit: jobs (a GO and its configuration) and slots (one advance of the array)."""

from amaranth.hdl import Cat, Value, signed
from amaranth.lib import data
from amaranth.utils import bits_for, exact_log2

from ..config import Config
from ..isa import Opcode
from ..layouts import fields, shapes

OPERAND_BITS = 9
"""int8 or uint8 minus its zero point."""
COLUMN_BITS = 26
"""Signed byte position in an image row (xb)."""
LINE_BITS = 18
"""Signed image row (iy)."""


def group_count(config: Config) -> int:
    """Delay groups that a row can belong to; no more than there are rows."""
    return min(config.line_groups, config.rows)


def columns_by_lane(config: Config) -> list[int]:
    """Numbers of columns: at first those whose sums lane 0 of VECTOR takes, then those of lane 1, and so on."""
    return [column for lane in range(config.lanes) for column in range(lane, config.columns, config.lanes)]


def by_lane(config: Config, vector: Value, element_bits: int) -> Value:
    """The elements of a vector, of `element_bits` each, in the order of `columns_by_lane`."""
    return Cat(vector.word_select(column, element_bits) for column in columns_by_lane(config))


def by_column(config: Config, vector: Value, element_bits: int) -> Value:
    """The vector of which `by_lane` made this one."""
    order = columns_by_lane(config)
    return Cat(vector.word_select(order.index(column), element_bits) for column in range(len(order)))


def split_levels(config: Config) -> int:
    """Returns in how many ways the rows can be divided: level 0 into 2 parts, level 1 into 4."""
    return exact_log2(config.most_row_parts)


def place_bits(config: Config) -> int:
    """Returns the bits of a row's number in its part."""
    return bits_for(config.divided_rows // 2 - 1) if split_levels(config) else 0


def possible_groups(config: Config, row: int) -> list[int]:
    """Every delay group that some `group_rows` gives to `row`."""
    return sorted({min(row // size, config.line_groups - 1) for size in range(1, config.rows + 1)})


class ArrayJob(data.StructLayout):
    """A GO of either kind with the configuration it was given under. `count` is `pixels` or `advances`."""

    def __init__(self) -> None:
        super().__init__(
            {
                "input": fields(Opcode.ARRAY_INPUT),
                "window": fields(Opcode.ARRAY_WINDOW),
                "kernel": fields(Opcode.ARRAY_KERNEL),
                "depthwise": fields(Opcode.ARRAY_DEPTHWISE),
                "is_depthwise": 1,
                "count": fields(Opcode.ARRAY_GO)["pixels"].shape,
                **shapes(Opcode.ARRAY_GO, "weights", "accumulate", "drain", "more_blocks", "streamed"),
                **shapes(Opcode.ARRAY_DEPTHWISE_GO, "group_rows", "idle_rows"),
            }
        )


class SlotControl(data.StructLayout):
    """What a slot does in the PE array.

    - `depthwise`: the mode.
    - `mac`: row 0 multiplies this slot's weights (output stationary).
    - `start`: first byte of a word; row i takes its word i slots after row 0.
    - `clear`: first product of a tile.
    - `load`: weights enter the rows (depthwise), and `row` gets delay group `group`.
    - `stream`: a vector enters the delay line at `pointer` (group 1: at `pointer_1`).
    - `paired`: with it comes the vector of the next image row.
    - `filled`: bit 0: group 1 holds a vector of this GO; bit 1: the groups above it do.
    - `deliver`: with this slot row `row` finishes a vector that goes to the vector unit.
    - `gather`: with this slot row `row` finishes a part of a vector, which is kept at `place`.
    - `add`: to what row `row` finishes what is kept at `place` is added.
    - `inject`: a bit per lower part of the rows: its first row takes weights of its own.
    - `keep`: with this slot the last row finishes a partial sum (depthwise).
    - `resume`: with this slot a sum enters row 0 that begins with a partial sum (depthwise).
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "depthwise": 1,
                "mac": 1,
                "start": 1,
                "clear": 1,
                "load": 1,
                "stream": 1,
                "deliver": 1,
                "gather": 1,
                "add": 1,
                "place": place_bits(config),
                "inject": config.most_row_parts - 1,
                "keep": 1,
                "resume": 1,
                "row": bits_for(config.rows - 1),
                "group": bits_for(group_count(config) - 1),
                "paired": 1,
                "pointer_1": bits_for(config.line_pixels - 1),
                "pointer": bits_for(config.line_pixels - 1),
                "filled": 2,
            }
        )


_BYTES = shapes(Opcode.ARRAY_INPUT, "input_zp", "weight_zp", "unsigned_input")


class OperandFormat(data.StructLayout):
    """How a slot's bytes become operands.

    - `low`, `high`: bytes low <= j < high count, the others are zero.
    - `inside`: the word has such bytes; `second_inside`: the pair's second word has.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "inside": 1,
                "second_inside": 1,
                "low": bits_for(config.columns),
                "high": bits_for(config.columns),
                **_BYTES,
            }
        )


class Slot(data.StructLayout):
    """A slot as the address generator emits it.

    - `last`: the last one of its job.
    - `read`: it reads a word of the image.
    - `column`, `line`: the word's place in the image. Its address is `base` + `column`.
    - `pitch`: the pair's second word lies this many bytes further.
    - `row_bytes`, `height`: the image's bounds.
    - `split`: a bit per level: the rows are divided, and the lower parts read words of later steps.
    - `read_weights`: it reads word `weights` of the weight memory, which waits for its load if `streamed`.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "control": SlotControl(config),
                "last": 1,
                "read": 1,
                "column": signed(COLUMN_BITS),
                "line": signed(LINE_BITS),
                "base": bits_for(config.am_bytes - 1),
                "pitch": bits_for(config.am_bytes - 1),
                **shapes(Opcode.ARRAY_INPUT, "row_bytes", "height"),
                **_BYTES,
                "read_weights": 1,
                "weights": bits_for(config.wm_words - 1),
                "streamed": 1,
                "split": split_levels(config),
            }
        )
