"""Memories in a form that Verilator compiles and runs fast."""

from typing import Any

from amaranth.hdl import Module, Shape
from amaranth.lib import memory

from .instances import instance, is_plain

MODULE = "tosaic_memory"

VERILOG = f"""\
module {MODULE} #(parameter WIDTH = 8, DEPTH = 2, ADDRESS_BITS = 1, LANES = 1) (
  input clk,
  input read_enable, input [ADDRESS_BITS-1:0] read_address, output [WIDTH-1:0] read_data,
  input [LANES-1:0] write_enable, input [ADDRESS_BITS-1:0] write_address, input [WIDTH-1:0] write_data
);
  reg [WIDTH-1:0] words [0:DEPTH-1];
  reg [WIDTH-1:0] read_register;
  wire [WIDTH-1:0] mask;
  integer i;
  initial for (i = 0; i < DEPTH; i = i + 1) words[i] = {{WIDTH{{1'b0}}}};
  genvar lane;
  generate for (lane = 0; lane < LANES; lane = lane + 1) begin : masks
    assign mask[lane*(WIDTH/LANES) +: WIDTH/LANES] = {{(WIDTH/LANES){{write_enable[lane]}}}};
  end endgenerate
  always @(posedge clk) begin
    if (read_enable) read_register <= words[read_address];
    if (|write_enable) words[write_address] <= (words[write_address] & ~mask) | (write_data & mask);
  end
  assign read_data = read_register;
endmodule
"""
"""The module that the Verilog of a SimulationPlatform needs. Verilator's model of it takes 2/3 of the time of the one
of `lib.memory` with byte-wide enables. It is cleared by a loop; a statement per word would take Verilator's C++
compiler over a minute for `base`."""


class SimulationPlatform:
    """For `amaranth.back.verilog.convert(..., platform=SimulationPlatform())`: zeroed memories with one write
    port and one non-transparent read port of the domain `sync` become instances of MODULE; the others stay as
    they are."""

    def get_memory(self, target: memory.Memory) -> Any:
        if not is_plain(target) or len(target.read_ports) != 1 or target.depth < 2:
            return target.elaborate(None)
        m = Module()
        m.submodules.memory = instance(
            MODULE,
            target,
            p_WIDTH=Shape.cast(target.shape).width,
            p_DEPTH=target.depth,
            p_ADDRESS_BITS=len(target.read_ports[0].addr),
            p_LANES=len(target.write_ports[0].en),
        )
        return m
