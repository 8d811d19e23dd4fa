"""Names of what Python does not name, and what Amaranth writes bit by bit: exact texts of small modules, and that they
compute what Amaranth's own text computes."""

import re

import pytest
from amaranth.back import verilog
from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.boards.tools import run_tool
from tosaic.hw.verilog import convert
from tosaic.hw.verilog.writer import broken


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
  wire [7:0] word_down_by_choose_times_8;
  wire [8:0] word_7_0_plus_last;
  wire word_15_8_is_not_last;
  wire [8:0] count_plus_1;
  wire [5:0] choose_times_8;

  initial begin
    count = 8'h00;
  end

  assign choose_times_8 = choose * 4'h8;
  assign word_down_by_choose_times_8 = word >> choose_times_8;
  assign masked = word_down_by_choose_times_8 & {8{step}};
  assign word_7_0_plus_last = word[7:0] + last;
  assign moved = step ? word_7_0_plus_last : 9'h000;
  assign word_15_8_is_not_last = word[15:8] != last;
  assign differs = word_15_8_is_not_last | word_15_8_is_not_last;
  assign count_plus_1 = count + 8'h01;
"""
"""Declarations, the start and assignments; ports and the register are as without names."""


def test_signals_are_named_after_what_they_are_made_of():
    text = convert(Counted(), "counted")["counted"]
    assert COUNTED in text
    assert "count <= count_plus_1[7:0];" in text


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
        "total_term_3",
    ]


def test_long_lines_are_broken_at_spaces():
    long = "  assign total = " + " + ".join(f"operand_{number:02}" for number in range(12)) + ";"
    assert broken(f"{long}\n// {long}\n") == (
        "  assign total = operand_00 + operand_01 + operand_02 + operand_03 + operand_04 + operand_05 + operand_06 +\n"
        "        operand_07 + operand_08 + operand_09 + operand_10 + operand_11;\n"
        f"// {long}\n"
    )


@pytest.mark.xdist_group("yosys")
@pytest.mark.parametrize("component", [Counted, Staged])
def test_readable_text_computes_the_same_for_all_inputs(component, tmp_path):
    """Yosys proves outputs and next states equal to those of what Amaranth writes."""
    plain = verilog.convert(component(), name="plain", emit_src=False, strip_internal_attrs=True)
    (tmp_path / "plain.v").write_text(plain)
    (tmp_path / "readable.v").write_text(convert(component(), "readable")["readable"])
    script = (
        "read_verilog plain.v readable.v; proc; miter -equiv -make_assert -flatten plain readable miter; "
        "flatten miter; opt miter; sat -verify -prove-asserts -tempinduct -maxsteps 4 miter"
    )
    run_tool("yosys", ("-p", script), tmp_path, tmp_path / "log", lambda detail: None)
    assert "Induction step proven: SUCCESS!" in (tmp_path / "log").read_text()
