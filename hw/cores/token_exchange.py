"""Brings tokens from core to core."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ..config import Config
from ..one_hot import any_of, only_if
from ..sequencer.semaphores import ForeignTokens, first_of


class TokenExchange(wiring.Component):
    """Combinational. To each core goes what the first of those that send to it sends, while it is not `full`.

    Ports:
        `cores`: each core's semaphores.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__({"cores": In(ForeignTokens(config.core_mask_bits)).array(config.cores)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = self.config.cores
        grants = [Signal(count, name=f"grants{target}") for target in range(count)]
        for target, port in enumerate(self.cores):
            asking = Signal(count, name=f"asking{target}")
            m.d.comb += [
                asking.eq(Cat(source.sends[target] for source in self.cores)),
                grants[target].eq(Cat(bit & ~port.full for bit in first_of(asking))),
                port.comes.eq(grants[target].any()),
                port.coming_semaphore.eq(
                    any_of(
                        only_if(bit, s.semaphore) for bit, s in zip(grants[target], self.cores, strict=True)
                    )
                ),
                port.coming_count.eq(
                    any_of(only_if(bit, s.count) for bit, s in zip(grants[target], self.cores, strict=True))
                ),
            ]
        for source, port in enumerate(self.cores):
            m.d.comb += port.taken.eq(Cat(grants[target][source] for target in range(count)))
        return m
