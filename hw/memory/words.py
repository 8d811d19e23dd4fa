"""A memory of words, in block RAMs whose outputs need no multiplexer."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

NO_COLLISION_LOGIC = {"no_rw_check": 1}
"""Attribute of memories in which a read and a write of the same byte in one cycle may return anything. Without it
Yosys adds registers and a bypass to every block RAM (ECP5, W = 8: 3,300 LUTs in the activation memory)."""


def large_memory(platform: object) -> dict[str, object]:
    """Attributes of the activation and the weight memory: UltraScale has blocks for such ones, and leaves its others
    to `placement`."""
    if getattr(platform, "family", None) == "ultrascale":
        return NO_COLLISION_LOGIC | {"ram_style": "ultra"}
    return dict(NO_COLLISION_LOGIC)


_BLOCK_BITS, _BLOCK_ROWS = 16384, (2048, 16384)
"""ECP5's block RAM, and the least and most rows of it that have at most eight bits."""


class WordMemory(wiring.Component):
    """`depth` words of `width` bits; one read and one write per cycle, like the ports of `amaranth.lib.memory`.

    ECP5: each block RAM is as deep as the memory, and therefore narrow: two bits for 8192 words. By itself Yosys uses
    2048 rows of eight bits, and LUTs that choose among them.

    Ports:
        read_enable (1, in): reads the word at `read_address`.
        read_address (bits of `depth` - 1, in): number of the word.
        read_data (`width`, out): the word of the last cycle with `read_enable`. A read that meets a write of the same
            granule returns the old one in simulation, and is undefined in an FPGA.
        write_enable (bit per granule of `granularity` bits, in): writes the granules of the word at `write_address`.
        write_address (bits of `depth` - 1, in): number of the word.
        write_data (`width`, in): what is written.
    """

    def __init__(self, width: int, depth: int, *, granularity: int | None = None):
        self._depth, self._granularity = depth, granularity or width
        super().__init__(
            {
                "read_enable": In(1),
                "read_address": In(bits_for(depth - 1)),
                "read_data": Out(width),
                "write_enable": In(width // self._granularity),
                "write_address": In(bits_for(depth - 1)),
                "write_data": In(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if getattr(platform, "family", None) != "ecp5":
            m.d.comb += self.read_data.eq(
                self._part(m, platform, "words", 0, slice(0, len(self.read_data)), self._depth)
            )
            return m
        data, begin = None, 0
        chosen = Signal.like(self.read_address, reset_less=True)
        with m.If(self.read_enable):
            m.d.sync += chosen.eq(self.read_address)
        while begin < self._depth:
            left = self._depth - begin
            rows, bits = left, self._granularity
            if left >= _BLOCK_ROWS[0]:
                rows = min(1 << (left.bit_length() - 1), _BLOCK_ROWS[1])
                bits = min(_BLOCK_BITS // rows, bits)
            columns = [
                self._part(m, platform, f"words_{begin}_{low}", begin, slice(low, low + bits), rows)
                for low in range(0, len(self.read_data), bits)
            ]
            word = Cat(columns)
            data = word if data is None else Mux(chosen < begin, data, word)
            begin += rows
        m.d.comb += self.read_data.eq(data)
        return m

    def _part(self, m: Module, platform: object, name: str, begin: int, columns: slice, rows: int) -> Signal:
        """Words `begin`..`begin + rows` of some columns, all within a granule or of whole granules."""
        width = columns.stop - columns.start
        granules = slice(columns.start // self._granularity, -(-columns.stop // self._granularity))
        words = memory.Memory(shape=unsigned(width), depth=rows, init=[], attrs=large_memory(platform))
        m.submodules[name] = words
        write = words.write_port(granularity=min(self._granularity, width))
        read = words.read_port()
        enable = self.write_enable[granules]
        if rows != self._depth:
            here = (self.write_address >= begin) & (self.write_address < begin + rows)
            enable = enable & here.replicate(len(enable))
        m.d.comb += [
            write.en.eq(enable),
            write.addr.eq(self.write_address - begin),
            write.data.eq(self.write_data[columns]),
            read.en.eq(self.read_enable),
            read.addr.eq(self.read_address - begin),
        ]
        return read.data
