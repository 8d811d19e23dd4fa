"""Packs the lanes' results into bytes and writes them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import AmWrite
from ..isa import Element, Opcode, layout
from ..layouts import shapes
from .extend import sign_extend

SIZES = {size: [element.value for element in Element if element.bytes == size] for size in (1, 2, 4, 8)}
"""Element types by their bytes."""


class Store(wiring.Component):
    """Lanes' results in the store stream's element type, W bytes at a time.

    Ports:
        configure (1, in), go (VECTOR_GO, in): a GO begins; at least two cycles before a `pack`.
        pack (1, in): `results` are to be stored. The write is prepared in the next cycle.
        results (W vector_bits, in): the lanes'.
        element (Element, in), address (VECTOR_STREAM.address, in): the store stream's.
        last (1, in): its dimension 0 is at its last turn.
        step (1, out): the store stream steps.
        write (AmWrite, out): the activation memory's write port.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "configure": In(1),
                "go": In(layout(Opcode.VECTOR_GO)),
                "pack": In(1),
                "results": In(config.vector_bits * config.columns),
                "element": In(Element),
                **{name: In(shape) for name, shape in shapes(Opcode.VECTOR_STREAM, "address").items()},
                "last": In(1),
                "step": Out(1),
                "write": Out(AmWrite(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, bits = self.config.columns, self.config.vector_bits
        configured = Signal()
        lanes, tail_lanes = Signal.like(self.go.lanes), Signal.like(self.go.tail_lanes)
        mask, tail_mask = Signal(width), Signal(width)
        m.d.sync += configured.eq(self.configure)
        with m.If(self.configure):
            m.d.sync += [lanes.eq(self.go.lanes), tail_lanes.eq(self.go.tail_lanes)]
        with m.If(configured), m.Switch(self.element):
            for size, elements in SIZES.items():
                with m.Case(*elements):
                    m.d.sync += [
                        mask.eq(Cat(byte // size < lanes for byte in range(width))),
                        tail_mask.eq(Cat(byte // size < tail_lanes for byte in range(width))),
                    ]

        packed = Signal(8 * width, reset_less=True)
        requested = Signal()
        m.d.sync += requested.eq(self.pack)
        with m.If(self.pack), m.Switch(self.element):
            for size, elements in SIZES.items():
                with m.Case(*elements):
                    results = (self.results[bits * i :][:bits] for i in range(width // size))
                    stored = (
                        result[: 8 * size] if 8 * size <= bits else sign_extend(result, 8 * size)
                        for result in results
                    )
                    m.d.sync += packed.eq(Cat(stored))
        m.d.sync += self.write.request.eq(requested)
        m.d.comb += [
            self.step.eq(requested),
            self.write.prepare.eq(1),
            self.write.address.eq(self.address),
            self.write.data.eq(packed),
            self.write.mask.eq(Mux(self.last, tail_mask, mask)),
        ]
        return m
