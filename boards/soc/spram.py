"""iCE40 UltraPlus' single-port RAM: 16,384 words of 16 bits a block. It cannot be initialised, so that Yosys does not
infer it from a memory of Amaranth's, which always is."""

from amaranth.hdl import Array, Cat, ClockSignal, Const, Instance, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from .ram_ports import ram_ports

BLOCK_WORDS = 16384
BLOCK_BYTES = 2


def has_spram(platform: object) -> bool:
    """Whether a platform's FPGA has this RAM."""
    return getattr(platform, "device", "").startswith("iCE40UP")


class SpramBlock(wiring.Component):
    """One block. `data` is the word of a read in the cycle before, undefined after a write; in simulation a model."""

    enable: In(1)
    write: In(1)
    address: In(14)
    write_data: In(16)
    mask: In(BLOCK_BYTES)
    data: Out(16)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if has_spram(platform):
            m.submodules.block = Instance(
                "SB_SPRAM256KA",
                i_CLOCK=ClockSignal(),
                i_CHIPSELECT=self.enable,
                i_WREN=self.write,
                i_ADDRESS=self.address,
                i_DATAIN=self.write_data,
                # A bit enables four.
                i_MASKWREN=Cat(bit.replicate(2) for bit in self.mask),
                i_STANDBY=Const(0),
                i_SLEEP=Const(0),
                i_POWEROFF=Const(1),
                o_DATAOUT=self.data,
            )
            return m
        m.submodules.words = words = memory.Memory(shape=unsigned(16), depth=BLOCK_WORDS, init=[])
        reader, writer = words.read_port(), words.write_port(granularity=8)
        wrote = Signal()
        m.d.sync += wrote.eq(self.enable & self.write)
        m.d.comb += [
            reader.addr.eq(self.address),
            reader.en.eq(self.enable & ~self.write),
            writer.addr.eq(self.address),
            writer.data.eq(self.write_data),
            writer.en.eq(Mux(self.enable & self.write, self.mask, 0)),
            self.data.eq(Mux(wrote, 0x5555, reader.data)),
        ]
        return m


class SinglePortRam(wiring.Component):
    """`depth` words of `width` bytes, made of blocks, with the ports of ram_ports.py."""

    def __init__(self, width: int, depth: int):
        if width < BLOCK_BYTES or width % BLOCK_BYTES:
            raise ValueError(f"width must be a multiple of {BLOCK_BYTES} bytes, not {width}")
        self.width, self.depth = width, depth
        super().__init__(ram_ports(width, depth))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        banks = -(-self.depth // BLOCK_WORDS)
        bank, read_bank = Signal(range(max(banks, 2))), Signal(range(max(banks, 2)))
        found, held = Signal(8 * self.width), Signal(8 * self.width)
        read_before = Signal()
        m.d.comb += bank.eq(self.address[14:])
        m.d.sync += read_before.eq(self.enable & ~self.write)
        with m.If(self.enable & ~self.write):
            m.d.sync += read_bank.eq(bank)
        outputs = []
        for number in range(banks):
            words = []
            for part in range(self.width // BLOCK_BYTES):
                m.submodules[f"block_{number}_{part}"] = block = SpramBlock()
                m.d.comb += [
                    block.enable.eq(self.enable & (bank == number)),
                    block.write.eq(self.write),
                    block.address.eq(self.address),
                    block.write_data.eq(self.write_data.word_select(part, 16)),
                    block.mask.eq(self.mask.word_select(part, BLOCK_BYTES)),
                ]
                words.append(block.data)
            outputs.append(Cat(words))
        m.d.comb += [
            found.eq(Array(outputs)[read_bank]),
            self.data.eq(Mux(read_before, found, held)),
        ]
        # A write would spoil what a block shows.
        with m.If(read_before):
            m.d.sync += held.eq(found)
        return m
