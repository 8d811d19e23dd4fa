"""What is written computes what Amaranth's RTLIL does: Yosys proves it for all inputs and states, module by module."""

import dataclasses

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from module_equivalence import prove

from tosaic.boards.tools import ToolError, run_tool
from tosaic.hw.config import CONFIGS
from tosaic.hw.top import VerilogTop
from tosaic.hw.verilog.convert import convert_rtlil

pytestmark = pytest.mark.xdist_group("yosys")


class Word(data.Struct):
    low: 8
    high: 8


class Machine(wiring.Component):
    """Every kind of statement: choices, cases, sums of unequal and signed operands, shifts, memories, two parts."""

    word: In(Word)
    choose: In(3)
    near: In(8)
    write: In(2)
    masked: Out(9)
    moved: Out(16)
    sum: Out(12)
    less: Out(1)
    kept: Out(16)
    seen: Out(16)
    state: Out(4)
    count: Out(5)

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Memory(shape=16, depth=8, init=[3, 1, 4])
        write, read = table.write_port(granularity=8), table.read_port(domain="comb")
        synchronous = table.read_port()
        m.d.comb += [
            write.addr.eq(self.choose),
            write.data.eq(self.word.as_value()),
            write.en.eq(self.write),
            read.addr.eq(self.near),
            synchronous.addr.eq(self.word.low),
            synchronous.en.eq(self.write[0] ^ self.near[7]),
            self.kept.eq(read.data),
            self.seen.eq(synchronous.data),
            self.masked.eq(Mux(self.choose[0], self.word.low + self.word.high, 0)),
            self.moved.eq(
                self.word.as_value() >> self.choose | self.word.as_value().word_select(self.choose[1:], 4)
            ),
            self.sum.eq(self.near.as_signed() - self.word.low.as_signed() + self.state * 4),
            self.less.eq((self.near.as_signed() < self.word.high.as_signed()) & ~(self.choose == 5)),
        ]
        with m.Switch(self.choose):
            with m.Case(0, 3):
                m.d.sync += self.state[:2].eq(self.near)
            with m.Case("1--"):
                with m.If(self.less):
                    m.d.sync += self.state.eq(self.state + 1)
                with m.Elif(self.write.any()):
                    m.d.sync += self.state.eq(~self.near)
            with m.Default():
                m.d.sync += self.state.eq(self.word.low[2:6])
        m.domains += (late := ClockDomain("late", local=True))
        m.d.comb += [late.clk.eq(ClockSignal()), late.rst.eq(self.write.all())]
        m.submodules.first = DomainRenamer("late")(first := Counter(9))
        m.submodules.second = second = Counter(12)
        m.d.comb += [first.step.eq(self.less), second.step.eq(first.count == 3)]
        m.d.comb += self.count.eq(first.count + second.count)
        return m


class Counter(wiring.Component):
    """Counts steps up to a limit."""

    def __init__(self, last):
        self.last = last
        super().__init__({"step": In(1), "count": Out(4)})

    def elaborate(self, platform):
        m = Module()
        value = Signal(4, init=1)
        m.d.comb += self.count.eq(value)
        with m.If(self.step):
            m.d.sync += value.eq(Mux(value == self.last, 1, value + 1))
        return m


@pytest.fixture(scope="module")
def machine():
    text = rtlil.convert(Machine(), name="machine")
    return text, convert_rtlil(text, "machine")


def test_a_machine_with_every_kind_of_statement_is_equal(machine, tmp_path):
    assert prove(*machine, tmp_path) == 3


class Transparent(wiring.Component):
    """A memory whose read port sees what is written at the same edge."""

    address: In(2)
    other: In(2)
    data: In(4)
    write: In(2)
    read: In(1)
    seen: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = Memory(shape=4, depth=4, init=[1, 2, 3, 4])
        write = words.write_port(granularity=2)
        read = words.read_port(transparent_for=[write])
        m.d.comb += [write.addr.eq(self.address), write.data.eq(self.data), write.en.eq(self.write)]
        m.d.comb += [read.addr.eq(self.other), read.en.eq(self.read), self.seen.eq(read.data)]
        return m


def test_a_transparent_port_reads_the_same_from_the_start_on(tmp_path):
    """In all runs of six cycles that begin with a read: registers of the two sides are not the same ones."""
    text = rtlil.convert(Transparent(), name="transparent")
    (tmp_path / "gold.il").write_text(text)
    (module,) = convert_rtlil(text, "transparent")
    (tmp_path / "gate.v").write_text(module.text.replace("module transparent", "module gate"))
    script = (
        "read_rtlil gold.il; read_verilog gate.v; proc; memory -nomap; memory_map; opt_clean; "
        "miter -equiv -make_assert -flatten transparent gate miter; flatten miter; opt_clean; "
        "sat -verify -prove-asserts -set-at 1 in_read 1 -set-init-zero -prove-skip 1 -seq 6 miter"
    )
    run_tool("yosys", ("-p", script), tmp_path, tmp_path / "log", lambda detail: None)


def _text(modules, name):
    return next(each.text for each in modules if each.name == name)


FAULTS = [
    ("machine_first", "4'h9", "4'h8"),
    ("machine_first", "count = 4'h1;", "count = 4'h2;"),
    ("machine", "$signed(near) <", "near <"),
    ("machine", "if (write[1]) begin", "if (write[0]) begin"),
    ("machine", "table_[1] = 16'h0001;", "table_[1] = 16'h0002;"),
    ("machine", ".step(less)", ".step(word[0])"),
]


@pytest.mark.parametrize(
    ("module", "right", "wrong"),
    [FAULTS[0], *(pytest.param(*fault, marks=pytest.mark.nightly) for fault in FAULTS[1:])],
)
def test_a_planted_fault_is_found(machine, module, right, wrong, tmp_path):
    text, modules = machine
    faults = {each.name: each.text for each in modules} | {
        module: _text(modules, module).replace(right, wrong, 1)
    }
    planted = [dataclasses.replace(each, text=faults[each.name]) for each in modules]
    assert planted != modules
    with pytest.raises((ToolError, AssertionError)):
        prove(text, planted, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["nano", "small"])
def test_a_configuration_is_equal(name, tmp_path):
    text = rtlil.convert(VerilogTop(CONFIGS[name]), name="tosaic")
    modules = convert_rtlil(text, "tosaic")
    assert prove(text, modules, tmp_path) >= len(modules)
