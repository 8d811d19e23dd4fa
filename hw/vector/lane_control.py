"""The control signals all lanes share, by pipeline stage."""

from amaranth.hdl import signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..config import Config
from ..isa import Element, Op
from .program import Select
from .registers import register_address_bits


class LaneControl(wiring.Signature):
    """Driven by the pipeline, the same for every lane. A name begins with the stage (cycles after the issue) in which
    it holds; registers behind a stage load only under that stage's enables.
    """

    def __init__(self, config: Config):
        address = register_address_bits(config)
        super().__init__(
            {
                # Register file.
                "s1_a_enable": Out(1),
                "s1_b_enable": Out(1),
                "s1_a_address": Out(address),
                "s1_b_address": Out(address),
                # Operand selection.
                "s2_enable": Out(1),
                "s2_a_select": Out(Select),
                "s2_b_select": Out(Select),
                "s2_element": Out(Element),
                "s2_splat": Out(1),
                "s2_a_scalar": Out(signed(32)),
                "s2_b_scalar": Out(signed(32)),
                # Zero point and bias, multiplier and shift.
                "s3_enable": Out(1),
                "s3_op": Out(Op),
                "s3_a_zp": Out(signed(18)),
                "s3_bias": Out(1),
                "s3_per_channel": Out(1),
                "s3_multiplier": Out(signed(32)),
                "s3_shift": Out(6),
                # Products, table, and all other operations.
                "s4_product": Out(1),
                "s4_table": Out(1),
                "s4_simple": Out(1),
                "s4_rescale": Out(1),
                "s4_double_round": Out(1),
                "s4_op": Out(Op),
                # Sum of the products, or the table's entry.
                "s5_enable": Out(1),
                "s5_product": Out(1),
                "s5_rescale": Out(1),
                "s5_table8": Out(1),
                "s5_table16": Out(1),
                # Shift, addend.
                "s6_enable": Out(1),
                "s6_rescale": Out(1),
                "s6_table16": Out(1),
                # Sum.
                "s7_enable": Out(1),
                "s7_out_zp": Out(signed(18)),
                "s7_round": Out(1),
                # Limits.
                "s8_enable": Out(1),
                "s8_clamp": Out(1),
                "s8_wrap32": Out(1),
                "s8_low": Out(signed(32)),
                "s8_high": Out(signed(32)),
                # Destination.
                "s9_write": Out(1),
                "s9_address": Out(address),
            }
        )


__all__ = ["LaneControl"]
