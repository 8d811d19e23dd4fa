"""What the pipeline tells every lane."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from ..config import Config
from ..isa import Opcode
from ..layouts import shapes
from .element import ElementFormat
from .registers import register_address_bits


def _flags(*names: str) -> dict[str, int]:
    return dict.fromkeys(names, 1)


SelectFlags = data.StructLayout(
    _flags("a_register", "a_load", "a_array", "b_register", "b_load", "splat") | {"element": ElementFormat}
)
"""Stage 2: which sources the operands come from; with no flag from the scalar. `splat`: loads take element 0."""
FactorFlags = data.StructLayout(_flags("one", "b", "power", "shift_b", "unsigned32", "b_ones"))
"""Stage 3: the factor of x is 1, b or 2**b; `shift_b`: the shift is b; `unsigned32`: x is cut to 32 bits; `b_ones`: b
counts as -1."""
AddendFlags = data.StructLayout(
    _flags("x", "own", "both", "abs", "choose", "choose_less", "few", "zeros", "equal", "greater", "table8")
)
"""Stage 4: what is added to the product, see `addend`; `table8`: the table's index has 8 bits."""
TableFlags = data.StructLayout(_flags("invert", "table8", "table16"))
"""Stage 6: the addend is inverted; an entry of the table is added, of one kind or the other."""
RoundFlags = data.StructLayout(_flags("round", "double_round", "one", "abs"))
"""Stage 7: the carry into the sum: a rounding; 1; 1 if x is negative."""


def lane_column_shape(config: Config) -> range:
    """Numbers of a lane's columns; of a lane with one column, too, a number has a bit."""
    return range(max(config.lane_columns, 2))


class LaneControl(wiring.Signature):
    """Driven by the pipeline, the same for every lane. A name begins with the stage (cycles after the issue) in which
    it holds. Nothing waits: lanes compute in every cycle, and what was not issued is not written. Operations come
    decoded, a flag for each thing that a stage does or does not do: with all of a stage's flags low, nothing is added.

    Ports:
        s1_a_enable, s1_b_enable (1, out): the register file's port a or b reads.
        s1_a_address, s1_b_address (register address, out): the register it reads.
        s1_bias (1, out): the lane's bias is added to a.
        s1_column, s2_column (0..lane_columns-1, out): which of its columns the lane works for.
        s2 (SelectFlags, out): where the operands come from.
        s2_a_scalar, s2_b_scalar (VECTOR_BOUNDS.immediate, out): operands that are the same in all lanes, or 0.
        s2_a_zp (VECTOR_UOP.a_zp, out): subtracted from a.
        s2_rescale (1, out): x is multiplied with a multiplier.
        s2_per_channel (1, out): multiplier and shift are the lane's own; else `s2_multiplier` and `s2_shift`.
        s2_multiplier (VECTOR_UOP.multiplier, out): multiplier of all lanes.
        s2_shift (VECTOR_UOP.shift, out): shift of all lanes.
        s3 (FactorFlags, out): what x is multiplied with and shifted by.
        s4 (AddendFlags, out): what is added.
        s5_table (1, out): the table is read.
        s6 (TableFlags, out): whether an entry of the table is added.
        s7 (RoundFlags, out): the carry into the sum.
        s7_out_zp (VECTOR_UOP.out_zp, out): added to the result.
        s9_clamp (1, out): the result is clamped to `s9_low`..`s9_high`.
        s9_wrap32 (1, out): the result is sign-extended from 32 bits.
        s9_low (VECTOR_BOUNDS.low, out), s9_high (VECTOR_BOUNDS.high, out): the limits.
        s10_write (1, out), s10_address (register address, out): the result goes to this register.
    """

    def __init__(self, config: Config):
        address, column = register_address_bits(config), lane_column_shape(config)
        uop = shapes(Opcode.VECTOR_UOP, "a_zp", "out_zp", "multiplier", "shift")
        bounds = shapes(Opcode.VECTOR_BOUNDS, "low", "high", "immediate")
        super().__init__(
            {
                "s1_a_enable": Out(1),
                "s1_b_enable": Out(1),
                "s1_a_address": Out(address),
                "s1_b_address": Out(address),
                "s1_bias": Out(1),
                "s1_column": Out(column),
                "s2_column": Out(column),
                "s2": Out(SelectFlags),
                "s2_a_scalar": Out(bounds["immediate"]),
                "s2_b_scalar": Out(bounds["immediate"]),
                "s2_a_zp": Out(uop["a_zp"]),
                "s2_rescale": Out(1),
                "s2_per_channel": Out(1),
                "s2_multiplier": Out(uop["multiplier"]),
                "s2_shift": Out(uop["shift"]),
                "s3": Out(FactorFlags),
                "s4": Out(AddendFlags),
                "s5_table": Out(1),
                "s6": Out(TableFlags),
                "s7": Out(RoundFlags),
                "s7_out_zp": Out(uop["out_zp"]),
                "s9_clamp": Out(1),
                "s9_wrap32": Out(1),
                "s9_low": Out(bounds["low"]),
                "s9_high": Out(bounds["high"]),
                "s10_write": Out(1),
                "s10_address": Out(address),
            }
        )
