"""One lane of the vector registers."""

from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..memory.words import NO_COLLISION_LOGIC


def register_address_bits(config: Config) -> int:
    """Bits of an address: the slot below, the register above."""
    return (config.vector_registers * config.vector_slots - 1).bit_length()


class RegisterFile(wiring.Component):
    """`vector_registers` x `vector_slots` values of `vector_bits`.

    - `X_enable` reads `X_address`; `X` (a or b) holds the value in the next cycle and until the next read.
    - `write` stores `value` at `address`; reads in the next cycle or later see it.
    """

    def __init__(self, config: Config):
        self.config = config
        bits = register_address_bits(config)
        super().__init__(
            {
                "a_enable": In(1),
                "a_address": In(bits),
                "a": Out(signed(config.vector_bits)),
                "b_enable": In(1),
                "b_address": In(bits),
                "b": Out(signed(config.vector_bits)),
                "write": In(1),
                "address": In(bits),
                "value": In(signed(config.vector_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.config.vector_registers * self.config.vector_slots
        m.submodules.memory = memory = Memory(
            shape=signed(self.config.vector_bits), depth=depth, init=[], attrs=NO_COLLISION_LOGIC
        )
        port_a, port_b, write = memory.read_port(), memory.read_port(), memory.write_port()
        m.d.comb += [
            port_a.en.eq(self.a_enable),
            port_a.addr.eq(self.a_address),
            self.a.eq(port_a.data),
            port_b.en.eq(self.b_enable),
            port_b.addr.eq(self.b_address),
            self.b.eq(port_b.data),
            write.en.eq(self.write),
            write.addr.eq(self.address),
            write.data.eq(self.value),
        ]
        return m


__all__ = ["RegisterFile", "register_address_bits"]
