"""A multiplier and its accumulator in one DSP48 of Xilinx' seven series and UltraScale."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .accumulate import ACCUMULATOR_BITS
from .layouts import OPERAND_BITS

_A_BITS, _B_BITS, _SUM_BITS = 30, 18, 48
_PRODUCT = 0b0101
"""Bits of OPMODE: X and Y give the product."""
REGISTERS = {
    **dict.fromkeys(("MREG", "PREG"), 1),
    **dict.fromkeys(
        ("ACASCREG", "ADREG", "ALUMODEREG", "AREG", "BCASCREG", "BREG", "CARRYINREG", "CARRYINSELREG"), 0
    ),
    **dict.fromkeys(("CREG", "DREG", "INMODEREG", "OPMODEREG"), 0),
}
LOW = {
    **dict.fromkeys(
        ("CEA1", "CEA2", "CEAD", "CEALUMODE", "CEB1", "CEB2", "CEC", "CECARRYIN", "CECTRL", "CED"), 1
    ),
    **dict.fromkeys(
        ("CEINMODE", "RSTA", "RSTALLCARRYIN", "RSTALUMODE", "RSTB", "RSTC", "RSTCTRL", "RSTD"), 1
    ),
    **dict.fromkeys(("RSTINMODE", "RSTM", "RSTP", "CARRYIN", "CARRYCASCIN", "MULTSIGNIN"), 1),
    **{"ACIN": 30, "BCIN": 18, "PCIN": 48, "ALUMODE": 4, "CARRYINSEL": 3, "INMODE": 5},
}
"""Inputs that are 0, with their bits: of registers that are not there, and of what is not used."""
_ADDER_INPUT = {"DSP48E1": 25, "DSP48E2": 27}
"""Bits of D, of the adder in front of the multiplier, which is not used."""
_BLOCKS = {"series7": "DSP48E1", "ultrascale": "DSP48E2"}


def sum_block(platform: object) -> str | None:
    """The multiplier block that has registers for the array's sums, if the family has one. Its sums are not hidden:
    rows always pass them on."""
    return _BLOCKS.get(getattr(platform, "family", ""))


class Dsp48Element(wiring.Component):
    """A product in one cycle, the sum in the next, as of a ProcessingElement. The block's own registers hold both, and
    its own multiplexer chooses what the product is added to: a sum takes no LUT.

    Ports:
        multiply (1, in): the product of `operand` and `weight` is registered.
        operand, weight (signed 9, in): the factors.
        add (1, in): a cycle after `multiply`: the product is added.
        keep, chain (1, in): with `add`: to the own sum, to `above`, or with neither to 0. Not both.
        above (32, in): sum of the element above.
        sum (32, out): the new sum, from the cycle after `add` on.
    """

    multiply: In(1)
    operand: In(signed(OPERAND_BITS))
    weight: In(signed(OPERAND_BITS))
    add: In(1)
    keep: In(1)
    chain: In(1)
    above: In(ACCUMULATOR_BITS)
    sum: Out(ACCUMULATOR_BITS)

    def __init__(self, block: str):
        self._block = block
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = Signal(signed(_A_BITS)), Signal(signed(_B_BITS))
        total = Signal(_SUM_BITS)
        m.d.comb += [a.eq(self.operand), b.eq(self.weight), self.sum.eq(total)]
        seven = self._block == "DSP48E1"
        m.submodules.block = Instance(
            self._block,
            **{f"p_{name}": count for name, count in REGISTERS.items()},
            **({"p_USE_DPORT": "FALSE"} if seven else {}),
            p_USE_MULT="MULTIPLY",
            p_USE_SIMD="ONE48",
            **{f"i_{name}": Const(0, bits) for name, bits in LOW.items()},
            i_D=Const(0, _ADDER_INPUT[self._block]),
            i_CLK=ClockSignal(),
            i_CEM=self.multiply,
            i_CEP=self.add,
            i_A=a,
            i_B=b,
            i_C=Cat(self.above, Const(0, _SUM_BITS - ACCUMULATOR_BITS)),
            # Z is C (011), the own sum (010) or 0; W, which only UltraScale has, is 0.
            i_OPMODE=Cat(Const(_PRODUCT, 4), self.chain, self.keep | self.chain, Const(0, 1 if seven else 3)),
            o_P=total,
        )
        return m
