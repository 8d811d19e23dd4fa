"""The steps that make Verilog readable: each on a few lines, and that what they write means the same."""

import re

import pytest
from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tosaic.hw.verilog import convert


class Inner(wiring.Component):
    """Adds `wait`, a reserved word, to a byte of a word; counts the sums that are 0."""

    byte: In(8)
    wait: In(1)
    output: Out(9)
    zeros: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.output.eq(self.byte + self.wait)
        with m.If(self.output == 0):
            m.d.sync += self.zeros.eq(self.zeros + 1)
        return m


class Outer(wiring.Component):
    word: In(16)
    busy: In(1)
    stop: In(1)
    address: In(3)
    result: Out(9)
    kept: Out(8)
    count: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Inner()
        m.submodules.table = table = Memory(shape=8, depth=8, init=[])
        read, write = table.read_port(), table.write_port()
        m.d.comb += [
            inner.byte.eq(self.word[8:]),
            inner.wait.eq(~self.busy & (self.stop | (self.word[:8] == 3))),
            read.addr.eq(self.address),
            read.en.eq(1),
            write.addr.eq(self.word[:3]),
            write.data.eq(self.word[8:]),
            write.en.eq(~self.stop),
            self.result.eq(Mux(self.busy, inner.output, inner.byte)),
            self.kept.eq(read.data),
            self.count.eq(inner.zeros),
        ]
        return m


@pytest.fixture(scope="module")
def modules():
    return convert(Outer(), "outer")


def test_modules_follow_the_hierarchy(modules):
    assert list(modules) == ["outer", "outer_inner"] or list(modules) == [
        "outer",
        "outer_inner",
        "outer_table",
    ]


def test_no_marks_are_left(modules):
    for text in modules.values():
        assert re.sub(r"\$signed|\$unsigned", "", text).count("$") == 0
        assert "\\" not in text
        assert "src =" not in text


def test_ports_are_named_after_the_signals_they_are(modules):
    header = modules["outer_inner"][: modules["outer_inner"].index(");")]
    names = re.findall(r"(\w+)(?: = [^,]*)?,?$", header, re.MULTILINE)
    assert {"clk", "rst", "byte_", "wait_", "output_", "zeros"} == set(names) - {"outer_inner"}


def test_a_register_is_one_clocked_block(modules):
    assert "  always @(posedge clk) begin\n    if (" in modules["outer_inner"]
    assert "always @*" not in modules["outer_inner"]
    assert "zeros <= " in modules["outer_inner"]


def test_logic_of_single_bits_is_written_where_it_is_used(modules):
    assert ".wait_((!busy) & (stop | (word[7:0] == 8'h03)))" in modules["outer"] or (
        "(!busy) & (stop | (word[7:0] == 8'h03))" in modules["outer"]
    )


def test_a_memory_is_cleared_by_a_loop(modules):
    text = "".join(modules.values())
    assert text.count("word_index = word_index + 1") == 1
    assert "[3] = 8'h00" not in text


class Large(wiring.Component):
    """A memory that asks for the device's largest RAM."""

    address: In(4)
    data: Out(8)
    write: In(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=8, depth=16, init=[], attrs={"ram_style": "huge"})
        read, write = words.read_port(), words.write_port()
        m.d.comb += [
            read.addr.eq(self.address),
            read.en.eq(1),
            self.data.eq(read.data),
            write.addr.eq(self.address),
            write.en.eq(self.write),
        ]
        return m


def test_the_largest_rams_are_not_filled():
    text = "".join(convert(Large(), "large").values())
    assert '(* ram_style = "huge" *)' in text
    assert "initial" not in text


def test_assignments_are_spaced(modules):
    for text in modules.values():
        assert not re.search(r"\S<=|<=\S", text)


class Keyword(wiring.Component):
    """A register with the name of a reserved word, of which one half is written alone."""

    set: In(1)
    half: In(4)
    context: Out(8)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.set):
            m.d.sync += self.context[4:].eq(self.half)
        return m


def test_registers_named_like_reserved_words():
    text = convert(Keyword(), "keyword")["keyword"]
    assert "  output reg [7:0] context_" in text
    assert "  initial begin\n    context_ = 8'h00;\n  end\n" in text
    assert "    if (set) begin\n      context_[7:4] <= half;\n    end\n" in text
    assert "\\" not in text


class Widths(wiring.Component):
    """Operands of unequal widths, signed and unsigned; a case that leaves some values out."""

    byte: In(8)
    word: In(16)
    near: In(signed(4))
    far: In(signed(9))
    less: Out(1)
    total: Out(signed(10))
    chosen: Out(2)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.less.eq(self.byte < self.word), self.total.eq(self.near + self.far)]
        with m.Switch(self.byte[:2]):
            with m.Case(1):
                m.d.comb += self.chosen.eq(2)
        return m


def test_operands_have_equal_widths_and_cases_a_default():
    text = convert(Widths(), "widths")["widths"]
    assert "assign less = { 8'h00, byte_ } < word;" in text
    assert "assign total = $signed({ {5{near[3]}}, near }) + $signed(far);" in text
    assert "      default: begin end\n    endcase\n" in text


class Later(wiring.Component):
    """A counter that is reset a cycle later than the rest."""

    count: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.domains += (late := ClockDomain("late", local=True))
        reset = Signal(init=1)
        m.d.sync += reset.eq(self.count == 9)
        m.d.comb += [late.clk.eq(ClockSignal()), late.rst.eq(reset)]
        m.submodules.counter = DomainRenamer("late")(counter := Counter())
        m.d.comb += self.count.eq(counter.count)
        return m


class Counter(wiring.Component):
    count: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + 1)
        return m


def test_a_domain_with_the_machine_s_clock_has_its_name():
    modules = convert(Later(), "late")
    top, inner = modules.values()
    assert ".clk(clk)" in top
    assert ".rst(reset)" in top
    assert "late_clk" not in top
    assert set(re.findall(r"input wire (\w+)", inner)) == {"clk", "rst"}
    assert "posedge clk" in inner
