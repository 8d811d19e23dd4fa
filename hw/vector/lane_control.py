"""What the pipeline tells every lane."""

from amaranth.hdl import signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..config import Config
from .registers import register_address_bits


class LaneControl(wiring.Signature):
    """Driven by the pipeline, the same for every lane. A name begins with the stage (cycles after the issue) in which
    it holds. Nothing waits: lanes compute in every cycle, and what was not issued is not written. Operations come
    decoded, a flag for each thing that a stage does or does not do: with all of a stage's flags low, nothing is added.
    """

    def __init__(self, config: Config):
        address = register_address_bits(config)
        super().__init__(
            {
                # Register file; the bias.
                "s1_a_enable": Out(1),
                "s1_b_enable": Out(1),
                "s1_a_address": Out(address),
                "s1_b_address": Out(address),
                "s1_bias": Out(1),
                # Operands: the sum of what is chosen. Elements of 2 bytes and more, of 4 and more, of 8.
                "s2_a_register": Out(1),
                "s2_a_load": Out(1),
                "s2_a_array": Out(1),
                "s2_a_scalar": Out(signed(32)),
                "s2_b_register": Out(1),
                "s2_b_load": Out(1),
                "s2_b_scalar": Out(signed(32)),
                "s2_wide2": Out(1),
                "s2_wide4": Out(1),
                "s2_wide8": Out(1),
                "s2_signed": Out(1),
                "s2_splat": Out(1),
                # Zero point, multiplier and shift.
                "s2_a_zp": Out(signed(18)),
                "s2_rescale": Out(1),
                "s2_per_channel": Out(1),
                "s2_multiplier": Out(signed(32)),
                "s2_shift": Out(6),
                # x, and the factor that it is multiplied with: none is 0.
                "s3_factor_one": Out(1),
                "s3_factor_b": Out(1),
                "s3_factor_power": Out(1),
                "s3_shift_b": Out(1),
                "s3_unsigned32": Out(1),
                "s3_b_ones": Out(1),
                # Product; addend: ((x & both) ^ own) & b ^ (x & x), or a number of a few bits; table.
                "s4_x": Out(1),
                "s4_own": Out(1),
                "s4_both": Out(1),
                "s4_abs": Out(1),
                "s4_choose": Out(1),
                "s4_choose_less": Out(1),
                "s4_few": Out(1),
                "s4_zeros": Out(1),
                "s4_equal": Out(1),
                "s4_greater": Out(1),
                "s4_table": Out(1),
                "s4_table8": Out(1),
                # Sum of the products, or the table's entry.
                "s5_invert": Out(1),
                "s5_table8": Out(1),
                "s5_table16": Out(1),
                # Shift; addend and zero point; what is carried into the sum.
                "s6_out_zp": Out(signed(18)),
                "s6_round": Out(1),
                "s6_double_round": Out(1),
                "s6_one": Out(1),
                "s6_abs": Out(1),
                # Limits.
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
