"""Lab 1: a processing element by hand. Fill in `elaborate`; `python -m pytest examples/course -k lab1` grades it."""

from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class ProcessingElement(wiring.Component):
    """Multiplies and accumulates.

    In each cycle with `enable`, `x * weight` is added to `total`; with `first` as well it replaces what was there.
    `x` and `weight` go on to the neighbours a cycle later, as `x_out` and `weight_out`. Nothing of a product is lost:
    `total` holds the sum of 65,536 products of int8.
    """

    def __init__(self):
        super().__init__(
            {
                "enable": In(1),
                "first": In(1),
                "x": In(signed(8)),
                "weight": In(signed(8)),
                "x_out": Out(signed(8)),
                "weight_out": Out(signed(8)),
                "total": Out(signed(32)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Yours: a few statements in `m.d.sync`.
        return m
