"""One lane of the vector registers."""

from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..memory.blocks import placement


def register_address_bits(config: Config) -> int:
    """Bits of an address: the slot below, the register above, the lane's column on top."""
    return (config.vector_registers * config.vector_slots * config.lane_columns - 1).bit_length()


class RegisterFile(wiring.Component):
    """`vector_registers` x `vector_slots` values of `vector_bits`, for each column of the lane.

    Ports:
        a_enable (1, in), a_address (register address, in): read a value.
        a (signed vector_bits, out): the value read, from the next cycle on until the next read.
        b_enable (1, in), b_address (register address, in), b (signed vector_bits, out): the same once more.
        write (1, in): store `value` at `address`; reads in the next cycle or later see it.
        address (register address, in), value (signed vector_bits, in): what to store where.
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
        depth = self.config.vector_registers * self.config.vector_slots * self.config.lane_columns
        m.submodules.memory = memory = Memory(
            shape=signed(self.config.vector_bits), depth=depth, init=[], attrs=placement(platform)
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
