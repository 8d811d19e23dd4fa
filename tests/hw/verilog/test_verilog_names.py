"""Names of what Python does not name, and comments: exact texts of small modules."""

import re

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tosaic.hw.verilog import convert


class Counted(wiring.Component):
    """Counts bytes of a word; most of what it computes has no name."""

    word: In(32)
    choose: In(2)
    step: In(1)
    last: In(8)
    masked: Out(8)
    moved: Out(9)
    differs: Out(1)
    count: Out(8)

    def elaborate(self, platform):
        m = Module()
        byte = self.word.word_select(self.choose, 8)
        m.d.comb += [
            self.masked.eq(byte & Cat(self.step for _ in range(8))),
            self.moved.eq(Mux(self.step, self.word[:8] + self.last, 0)),
            self.differs.eq((self.word[8:16] != self.last) | (self.word[8:16] != self.last)),
        ]
        with m.If(self.step & (self.count == self.last)):
            m.d.sync += self.count.eq(self.count + 1)
        return m


COUNTED = """\
  wire [7:0] word_down_by_choose;
  wire [8:0] word_7_0_plus_last;
  wire word_15_8_is_not_last;

  initial begin
    count = 8'h00;
  end

  assign word_down_by_choose = word >> { 1'h0, choose, 3'h0 };
  assign masked = word_down_by_choose & {8{step}};
  assign word_7_0_plus_last = word[7:0] + last;
  assign moved = step ? word_7_0_plus_last : 9'h000;
  assign word_15_8_is_not_last = word[15:8] != last;
  assign differs = word_15_8_is_not_last | word_15_8_is_not_last;
"""
"""Declarations, the start and assignments; ports and the register are as without names."""


def test_signals_are_named_after_what_they_are_made_of():
    text = convert(Counted(), "counted")["counted"]
    assert COUNTED in text
    assert "count <= count + 8'h01;" in text


class Staged(wiring.Component):
    """Names that are too long for an expression: after what is made of it, numbered."""

    first_operand_of_three: In(8)
    second_operand_of_three: In(8)
    third_operand_of_three: In(8)
    total: Out(8)

    def elaborate(self, platform):
        m = Module()
        a, b, c = self.first_operand_of_three, self.second_operand_of_three, self.third_operand_of_three
        m.d.comb += self.total.eq((a ^ (b + 1)) + (c ^ (b - 1)))
        return m


def test_what_has_a_long_expression_is_a_term_of_what_it_is_used_for():
    text = convert(Staged(), "staged")["staged"]
    assert re.findall(r"^  wire (?:\[\d+:0\] )?(\w+);", text, re.MULTILINE) == [
        "second_operand_of_three_plus_1",
        "total_term",
        "second_operand_of_three_minus_1",
        "total_term_2",
    ]


class Packet(data.Struct):
    length: 4
    kind: 2
    data: 8


class Router(wiring.Component):
    """Takes packets apart."""

    packet: In(Packet)
    long: Out(1)
    kept: Out(8)
    header: Out(6)

    def elaborate(self, platform):
        m = Module()
        m.submodules.filter = filter_ = Filter()
        m.d.comb += [filter_.packet.eq(self.packet), self.kept.eq(filter_.kept)]
        m.d.comb += self.long.eq(self.packet.length > 9)
        m.d.comb += self.header.eq(Cat(self.packet.length, self.packet.kind))
        return m


class Filter(wiring.Component):
    """Keeps data of one kind."""

    packet: In(Packet)
    kept: Out(8)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.packet.kind == 2):
            m.d.sync += self.kept.eq(self.packet.data + 1)
        return m


def test_parts_of_records_have_their_names():
    """In expressions and where they are all that a module sees of a record."""
    router, inner = convert(Router(), "router").values()
    assert "  assign packet_length = packet[3:0];\n" in router
    assert "  assign long = packet_length > 4'h9;\n" in router
    assert "  assign header = { packet_kind, packet_length };\n" in router
    assert "  assign packet_kind = packet[5:4];\n" in inner
    assert "    if (packet_kind == 2'h2) begin\n      kept <= packet_data + 8'h01;\n" in inner


def test_a_docstring_stands_above_its_module():
    router, inner = convert(Router(), "router").values()
    assert router.startswith("// Takes packets apart.\nmodule router (\n")
    assert inner.startswith("// Keeps data of one kind.\nmodule router_filter (\n")


class Many(wiring.Component):
    """One sum of twelve."""

    first: In(12)
    any_of_them: Out(1)

    def elaborate(self, platform):
        m = Module()
        operands = [Signal(name=f"operand_{number:02}") for number in range(12)]
        m.d.sync += [operand.eq(bit) for operand, bit in zip(operands, self.first, strict=True)]
        m.d.comb += self.any_of_them.eq(Cat(*operands).any())
        return m


def test_long_lines_are_broken_at_spaces():
    text = convert(Many(), "many")["many"]
    assert (
        "  assign any_of_them = | { operand_11, operand_10, operand_09, operand_08, operand_07, operand_06, "
        "operand_05,\n        operand_04, operand_03, operand_02, operand_01, operand_00 };\n"
    ) in text
