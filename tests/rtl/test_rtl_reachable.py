"""What is said to hold in every state that can be reached: bits that are 0 for ever, and rules that are proved."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

from rtl_logic import Fact  # noqa: E402 (the path comes first)
from rtl_machine import Machine, flat_module, invariant  # noqa: E402 (the path comes first)
from rtl_reachable import reachable, rules  # noqa: E402 (the path comes first)
from rtl_zeros import Zeros  # noqa: E402 (the path comes first)
from small_netlists import Netlist  # noqa: E402 (the path comes first)

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("yosys")]


def zeros(netlist: Netlist) -> set[str]:
    """Bits of wires that are 0 for ever, as name and place."""
    module = flat_module(netlist.folder)
    found = Zeros(module["cells"]).bits
    return {
        f"{name.removeprefix('accelerator.')} {place}"
        for name, wire in module["netnames"].items()
        for place, bit in enumerate(wire["bits"])
        if bit in found
    }


@pytest.mark.parametrize("more", ["opt_expr -mux_undef", "opt -full"])
def test_bits_that_stay_0(tmp_path: pathlib.Path, more: str) -> None:
    """`alone` keeps its 0, and `after` gets it, through a memory as well; the others are 1 some time: by the reset, by
    an input, by one another, by a second port of the memory, or because nothing is ever written there."""
    body = r"""
  reg \accelerator.alone , \accelerator.after , \accelerator.set , \accelerator.one , \accelerator.two ;
  reg \accelerator.stored , \accelerator.shared , \accelerator.unwritten , \accelerator.inverted ;
  reg zeros [0:3];
  reg mixed [0:3];
  reg never [0:3];
  always @(posedge clk) begin
    \accelerator.alone <= rst ? 1'b0 : \accelerator.alone & d;
    \accelerator.after <= \accelerator.alone & a[0];
    \accelerator.set <= rst ? 1'b1 : \accelerator.set & d;
    \accelerator.one <= ~rst & \accelerator.two ;
    \accelerator.two <= ~rst & (\accelerator.one | d);
    \accelerator.inverted <= ~\accelerator.alone ;
    if (d) zeros[a] <= \accelerator.after ;
    if (d) mixed[a] <= \accelerator.after ;
    if (a[0]) mixed[b] <= d;
    \accelerator.stored <= zeros[b];
    \accelerator.shared <= mixed[a];
    \accelerator.unwritten <= never[a];
  end
  assign q = {\accelerator.alone , \accelerator.after , \accelerator.set , \accelerator.one , \accelerator.two ,
    \accelerator.stored , \accelerator.shared , \accelerator.unwritten , \accelerator.inverted };
"""
    netlist = Netlist(tmp_path, "input d, input [1:0] a, input [1:0] b, output [8:0] q", body, more)
    found = {each for each in zeros(netlist) if "$" not in each and not each.startswith("q ")}
    assert found == {"alone 0", "after 0", "stored 0"}


QUEUE = r"""
  reg [1:0] \accelerator.fifo.inner_level ;
  reg \accelerator.fifo.ready ;
  wire [2:0] \accelerator.fifo.level = \accelerator.fifo.inner_level + \accelerator.fifo.ready ;
  wire some = \accelerator.fifo.inner_level != 0;
  always @(posedge clk) begin
    \accelerator.fifo.ready <= READY;
    \accelerator.fifo.inner_level <= LEVEL;
  end
  assign big = \accelerator.fifo.level >= 3'd3;
"""


@pytest.mark.parametrize(
    ("ready", "level", "holds"),
    [
        ("~rst & (push | some)", "rst ? 2'd0 : some ? 2'd2 : push", True),
        # A word becomes two while none gets ready; the reset leaves two; it is so only a cycle after the reset.
        ("~rst & push", "rst ? 2'd0 : some ? 2'd2 : push", False),
        ("~rst & (push | some)", "rst ? 2'd2 : some ? 2'd2 : push", False),
        ("push | some", "some ? 2'd2 : push", True),
        ("~rst", "rst ? 2'd0 : {push, push}", True),
        ("~rst & ~push", "rst ? 2'd0 : {push, push}", False),
    ],
)
def test_a_queue_keeps_its_rule_or_not(tmp_path: pathlib.Path, ready: str, level: str, holds: bool) -> None:
    body = QUEUE.replace("READY", ready).replace("LEVEL", level)
    netlist = Netlist(tmp_path, "input push, output big", body)
    module = flat_module(netlist.folder)
    assert len(rules(Machine(module))) == 1
    assert len(reachable(module, netlist.folder)) == 1 + holds


STATES = r"""
  reg [1:0] \accelerator.state ;
  reg \accelerator.late , \accelerator.free , \accelerator.old ;
  wire \accelerator.both = \accelerator.late & \accelerator.state [1];
  reg \accelerator.memory [0:1];
  reg \accelerator.read ;
  always @(posedge clk) begin
    \accelerator.state <= rst ? 2'd0 : \accelerator.state == 2'd2 ? 2'd0 : \accelerator.state + d;
    \accelerator.late <= rst | \accelerator.late & ~\accelerator.state [1];
    \accelerator.free <= d;
    \accelerator.old <= \accelerator.old ;
    if (d) \accelerator.memory [0] <= 1'b0;
    \accelerator.read <= \accelerator.memory [d];
  end
  assign q = {\accelerator.both , \accelerator.late , \accelerator.free , \accelerator.old , \accelerator.read };
"""


@pytest.mark.parametrize(
    ("fact", "holds"),
    [
        (lambda s: s.no(s.all(s.bits("state"))), True),
        (lambda s: s.no(s.bit("state", 1)), False),
        (lambda s: s.equals(s.bits("state"), 0), False),
        # Logic of registers, and what is so only while the machine is not being reset.
        (lambda s: s.implies(s.bit("both"), s.bit("state", 1)), True),
        (lambda s: s.no(s.bit("both")), False),
        (lambda s: s.bit("late"), False),
        # A register without a reset begins with 0 and gets what it is given; a memory may have anything.
        (lambda s: s.no(s.bit("old")), True),
        (lambda s: s.bit("old"), False),
        (lambda s: s.no(s.bit("free")), False),
        (lambda s: s.no(s.bit("read")), False),
        (lambda _: "1", True),
        (lambda _: "0", False),
    ],
)
def test_a_fact_holds_behind_the_reset_and_is_kept(tmp_path: pathlib.Path, fact: Fact, holds: bool) -> None:
    netlist = Netlist(tmp_path, "input d, output [4:0] q", STATES)
    assert invariant(Machine(flat_module(tmp_path)), [fact], netlist.folder) == holds


def test_two_facts_that_need_each_other(tmp_path: pathlib.Path) -> None:
    """Each is kept because the other one holds."""
    body = r"""
  reg \accelerator.a , \accelerator.b ;
  always @(posedge clk) begin
    \accelerator.a <= ~rst & (\accelerator.b & d);
    \accelerator.b <= ~rst & (\accelerator.a & d);
  end
  assign q = \accelerator.a ^ \accelerator.b ;
"""
    netlist = Netlist(tmp_path, "input d, output q", body)
    machine = Machine(flat_module(netlist.folder))
    facts: list[Fact] = [lambda s: s.no(s.bit("a")), lambda s: s.no(s.bit("b"))]
    assert invariant(machine, facts, tmp_path)
    assert not invariant(machine, facts[:1], tmp_path)
