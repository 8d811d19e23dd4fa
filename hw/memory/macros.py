"""Memories as macros for a chip: a wrapper module for each shape, whose body is replaced by a memory of the process."""

import dataclasses
from typing import Any

from amaranth.hdl import Module, Shape
from amaranth.lib import memory

from .instances import instance, is_plain

LEAST_BITS = 2048
"""Memories of fewer bits are flip-flops: a macro's periphery would be larger than they are."""

_WRAPPER = """\
// {words} words of {bits} bits, written in {lanes} part(s) of {granule} bits. Replace the body by your process' memory.
// Contract:
//   - One read and one write at each rising edge of clk: a two-port memory (1R1W).
//   - With read_enable, read_data is the word at read_address from the next edge on; without it, read_data stays.
//   - Bit i of write_enable writes bits i * {granule} and up of the word at write_address; the others stay.
//   - A read that meets a write of the same part in one cycle may return X; parts that are not written must be right.
//   - No reset and no initial value. Addresses from {words} on do not occur.
module {name} (
  input clk,
  input read_enable, input [{address_msb}:0] read_address, output reg [{msb}:0] read_data,
  input [{lane_msb}:0] write_enable, input [{address_msb}:0] write_address, input [{msb}:0] write_data
);
  reg [{msb}:0] words [0:{last}];
  integer i;
  always @(posedge clk) begin
    if (read_enable) read_data <= words[read_address];
    for (i = 0; i < {lanes}; i = i + 1)
      if (write_enable[i]) words[write_address][i * {granule} +: {granule}] <= write_data[i * {granule} +: {granule}];
  end
endmodule
"""


@dataclasses.dataclass(frozen=True, order=True)
class MemoryShape:
    """What tells one wrapper from another."""

    words: int
    bits: int
    """Width of a word."""
    lanes: int
    """Parts of a word with a write enable each."""

    @property
    def name(self) -> str:
        """The wrapper's module."""
        return f"tosaic_memory_{self.words}x{self.bits}" + (f"_{self.lanes}" if self.lanes > 1 else "")

    @property
    def total_bits(self) -> int:
        """Bits of all words."""
        return self.words * self.bits

    def verilog(self) -> str:
        """The wrapper, with its contract and a body for simulation."""
        return _WRAPPER.format(
            name=self.name,
            words=self.words,
            bits=self.bits,
            lanes=self.lanes,
            granule=self.bits // self.lanes,
            msb=self.bits - 1,
            lane_msb=self.lanes - 1,
            address_msb=max((self.words - 1).bit_length() - 1, 0),
            last=self.words - 1,
        )


class MacroPlatform:
    """A chip, for `rtlil.convert(..., platform=MacroPlatform())`: memories of LEAST_BITS and more with registered reads
    become instances of wrappers, a wrapper for each read port; `shapes` are those that came up."""

    has_multipliers = has_small_memories = False
    """Products are made of gates (`booth`), small memories of flip-flops."""

    def __init__(self) -> None:
        self.shapes: set[MemoryShape] = set()

    def get_memory(self, target: memory.Memory) -> Any:
        bits = Shape.cast(target.shape).width
        if not is_plain(target) or bits * target.depth < LEAST_BITS:
            return target.elaborate(None)
        shape = MemoryShape(target.depth, bits, len(target.write_ports[0].en))
        self.shapes.add(shape)
        m = Module()
        for number in range(len(target.read_ports)):
            m.submodules[f"memory{number}"] = instance(shape.name, target, number)
        return m
