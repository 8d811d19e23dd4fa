"""Proofs that a mutant is never seen: adversarial netlists, and what is said of them that is not so."""

import functools
import pathlib
import sys
from collections.abc import Sequence

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

from rtl_netlist import Mutant  # noqa: E402 (the path comes first)
from rtl_unseen import Bit, Fact, Loose, Renamed, State, unseen  # noqa: E402 (the path comes first)
from small_netlists import Netlist, judged  # noqa: E402 (the path comes first)

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("yosys")]


def answers(
    netlist: Netlist, mutants: Sequence[Mutant], loose: Sequence[Loose] = (), facts: Sequence[Fact] = ()
) -> list[bool]:
    proof = functools.partial(_unseen, loose=loose, facts=facts)
    return judged(netlist, proof, mutants)


def _unseen(
    mutants: list[Mutant], folder: pathlib.Path, loose: Sequence[Loose], facts: Sequence[Fact]
) -> set[Mutant]:
    return unseen(mutants, loose, facts, folder)


VALID_WORD = r"""
  reg [1:0] \accelerator.word ;
  reg \accelerator.full ;
  wire [1:0] taken = valid ? d : 2'd0;
  always @(posedge clk) begin
    \accelerator.full <= ~rst & valid;
    \accelerator.word <= taken;
  end
  assign q = \accelerator.full ? \accelerator.word : 2'd0;
"""


def test_a_word_that_is_not_valid_may_be_another_one(tmp_path: pathlib.Path) -> None:
    netlist = Netlist(tmp_path, "input valid, input [1:0] d, output [1:0] q", VALID_WORD)
    idle = netlist.mutant(r"\$mux", r"\Y \taken", "A", 0, "const1")
    shown = [netlist.mutant(r"\$mux", r"\Y \taken", "B", 0, "const1"), netlist.register("accelerator.word")]
    shown += [netlist.register("accelerator.full", port, 0, "const1") for port in "DQ"]
    read_while_full = Loose("word", (0,), lambda s: s.bit("full"))
    assert answers(netlist, [idle, *shown]) == [False] * 5
    assert answers(netlist, [idle, *shown], [read_while_full]) == [True] + [False] * 4
    for said in (Loose("word", (0,)), Loose("word", (0,), lambda s: s.no(s.bit("full")))):
        assert answers(netlist, [idle, *shown], [said]) == [False] * 5
    other_bit = Loose("word", (1,), lambda s: s.bit("full"))
    assert answers(netlist, [idle], [other_bit]) == [False]


def test_what_is_shown_cycles_later_is_seen(tmp_path: pathlib.Path) -> None:
    """Each register goes straight into the next one; the last one is shown."""
    body = r"""
  reg \accelerator.a , \accelerator.b , \accelerator.c , \accelerator.ignored ;
  always @(posedge clk) begin
    \accelerator.a <= d;
    \accelerator.b <= \accelerator.a ;
    \accelerator.c <= \accelerator.b ;
    \accelerator.ignored <= \accelerator.b ;
  end
  assign q = \accelerator.c ;
  assign masked = \accelerator.ignored & d & ~d;
"""
    netlist = Netlist(tmp_path, "input d, output q, output masked", body)
    mutants = [netlist.register(f"accelerator.{name}", port) for name in "abc" for port in "DQ"]
    assert answers(netlist, mutants) == [False] * 6
    for unread in ("a", "ab"):
        assert answers(netlist, mutants, [Loose(name, (0,)) for name in unread]) == [False] * 6
    ignored = [netlist.register("accelerator.ignored", port) for port in "DQ"]
    assert answers(netlist, ignored) == [False, True]
    assert answers(netlist, ignored, [Loose("ignored", (0,))]) == [True] * 2


COUNTER = r"""
  reg [7:0] \accelerator.count ;
  reg \accelerator.flag , \accelerator.lock ;
  wire rare = \accelerator.count == 8'd200;
  always @(posedge clk) begin
    \accelerator.count <= rst ? 8'd0 : \accelerator.count == 8'd250 ? 8'd0 : \accelerator.count + 8'd1;
    \accelerator.flag <= d;
    \accelerator.lock <= ~rst & (\accelerator.lock | rare);
  end
  assign q = rare & \accelerator.flag ;
  assign far = (\accelerator.count == 8'd251) & d;
  assign locked = \accelerator.lock | d;
"""


def count_is(value: int, no: bool = False) -> Fact:
    def fact(state: State) -> Bit:
        is_it = state.equals(state.bits("count"), value)
        return state.no(is_it) if no else is_it

    return fact


def test_a_rare_state_is_a_state(tmp_path: pathlib.Path) -> None:
    """The count reaches 200, and no number beyond 250. Facts count only if they hold behind the reset, and if each
    cycle keeps them."""
    netlist = Netlist(tmp_path, "input d, output q, output far, output locked", COUNTER)
    flag = [netlist.register("accelerator.flag", port, 0, "const0") for port in "DQ"]
    never = netlist.mutant(r"\$and", r"\Y \far", "Y", 0, "const0")
    lock = netlist.mutant(r"\$or", r"\Y \locked", "A", 0, "const1")
    mutants = [*flag, never, lock]
    assert answers(netlist, mutants) == [False] * 4

    def within(state: State) -> Bit:
        return state.at_most(state.bits("count"), [*"01011111"])

    assert answers(netlist, mutants, facts=[within]) == [False, False, True, False]
    # Kept for 199 cycles; kept for ever, but not so at first; both.
    for facts in ([count_is(200, no=True)], [lambda s: s.bit("lock")], [lambda _: "0"]):
        assert answers(netlist, mutants, facts=facts) == [False] * 4
    loose = [Loose("flag", (0,), count_is(200))]
    assert answers(netlist, flag, loose, [within]) == [False] * 2
    loose = [Loose("flag", (0,), lambda s: s.either((count_is(200)(s), count_is(199)(s))))]
    assert answers(netlist, flag, loose, [within]) == [False] * 2


def test_a_value_that_a_register_gets_at_times_is_not_its_first_one(tmp_path: pathlib.Path) -> None:
    """Yosys makes `set` a synchronous reset of `lock`, to 1; the RTL's reset does nothing to it."""
    body = r"""
  reg [1:0] \accelerator.lock ;
  always @(posedge clk) \accelerator.lock <= set ? 2'd2 : { \accelerator.lock [1] | more, d};
  assign q = \accelerator.lock [1] ^ \accelerator.lock [0];
"""
    netlist = Netlist(tmp_path, "input set, input d, input more, output q", body, "opt -full")
    mutants = [netlist.mutant(r"\$xor", "", "A", 0, "const1")]
    assert netlist.mutant(r"\$sdff", "", "SRST", 0, "inv") not in mutants
    assert answers(netlist, mutants, facts=[lambda s: s.bit("lock", 1)]) == [False]


def test_what_only_the_reset_shows_is_seen(tmp_path: pathlib.Path) -> None:
    """`start` is 1 behind each reset, and never again."""
    body = r"""
  reg \accelerator.start ;
  always @(posedge clk) \accelerator.start <= rst ? 1'b1 : 1'b0;
  assign q = \accelerator.start & d;
"""
    for more in ("", "opt -full"):
        netlist = Netlist(tmp_path, "input d, output q", body, more)
        mutants = [netlist.register("accelerator.start", port, 0, "const0") for port in "DQ"]
        assert answers(netlist, mutants) == [False] * 2
        assert answers(netlist, mutants, facts=[lambda s: s.no(s.bit("start"))]) == [False] * 2


def test_a_reset_that_is_gone_is_seen(tmp_path: pathlib.Path) -> None:
    body = r"""
  reg [1:0] \accelerator.state ;
  always @(posedge clk) if (rst) \accelerator.state <= 2'd2; else if (go) \accelerator.state <= d;
  assign q = \accelerator.state ;
"""
    netlist = Netlist(tmp_path, "input go, input [1:0] d, output [1:0] q", body, "opt -full")
    mutants = [netlist.register("accelerator.state", port, 0, "const0") for port in ("SRST", "EN")]
    mutants += [netlist.register("accelerator.state", port, 0, "const1") for port in ("SRST", "EN")]
    assert answers(netlist, mutants) == [False] * 4


def test_a_register_that_is_read_only_while_it_is_written_is_read(tmp_path: pathlib.Path) -> None:
    """What it held is shown in the very cycle that gives it something else."""
    body = r"""
  reg \accelerator.held , \accelerator.wrote ;
  wire next = go ? d : \accelerator.held ;
  always @(posedge clk) begin
    \accelerator.held <= next;
    \accelerator.wrote <= go;
  end
  assign q = go & \accelerator.held ;
  assign busy = \accelerator.wrote ;
"""
    netlist = Netlist(tmp_path, "input go, input d, output q, output busy", body)
    mutants = [netlist.register("accelerator.held", port) for port in "DQ"]
    mutants += [netlist.mutant(r"\$mux", r"\Y \next", port, 0, "inv") for port in "ABS"]
    for loose in ((), (Loose("held", (0,)),), (Loose("held", (0,), lambda s: s.bit("wrote")),)):
        assert answers(netlist, mutants, loose) == [False] * 5


def test_a_bit_that_always_differs(tmp_path: pathlib.Path) -> None:
    """The high bit counts only while the low one is 0: it may be mixed with the low one, from the reset on."""
    body = r"""
  reg [1:0] \accelerator.pair ;
  always @(posedge clk) \accelerator.pair <= rst ? START : d;
  assign q = \accelerator.pair [1] & ~\accelerator.pair [0];
  assign low = \accelerator.pair [0];
"""
    loose = [Loose("pair", (1,), other=lambda s: s.bit("pair"))]
    shown = "assign high = \\accelerator.pair [1];"
    for start, more, right in (("2'd0", "", True), ("2'd1", "", False), ("2'd0", shown, False)):
        netlist = Netlist(
            tmp_path, "input [1:0] d, output q, output low, output high", body.replace("START", start) + more
        )
        mutants = [netlist.mutant(r"\$mux", "", port, 1, "cnot1", 0) for port in "AY"]
        assert answers(netlist, mutants) == [False] * 2
        assert answers(netlist, mutants, loose) == [right] * 2


MEMORY = r"""
  reg [1:0] words [0:3];
  reg [1:0] \accelerator.read ;
  wire [1:0] old = words[at];
  wire [1:0] kept = go ? d : old;
  always @(posedge clk) begin
    if (WRITES) words[at] <= kept;
    SECOND
    \accelerator.read <= words[from];
  end
  assign q = \accelerator.read ;
"""
WANTED = r"reg \accelerator.wanted ;"
MEMORY_PORTS = "input go, input more, input [1:0] d, input [1:0] at, input [1:0] from, output [1:0] q"


RENAMED = r"""
  reg [1:0] \accelerator.lines.words [0:3];
  reg [1:0] \accelerator.place , \accelerator.later , read;
  reg \accelerator.there , \accelerator.still ;
  always @(posedge clk) begin
    \accelerator.there <= go & ~rst;
    \accelerator.still <= \accelerator.there & ~rst;
    \accelerator.place <= at;
    \accelerator.later <= \accelerator.place ;
    read <= \accelerator.there ? \accelerator.lines.words [\accelerator.place ] : 2'd0;
    if (\accelerator.still ) \accelerator.lines.words [\accelerator.later ] <= d;
  end
  assign q = read ^ MORE;
"""


@pytest.mark.parametrize(("more", "right"), [("2'd0", True), (r"\accelerator.lines.words [at]", False)])
def test_words_under_other_names_are_the_same(tmp_path: pathlib.Path, more: str, right: bool) -> None:
    """Each place is inverted for reads and writes, if there is one: nothing else may read or write there."""
    ports = "input go, input [1:0] d, input [1:0] at, output [1:0] q"
    netlist = Netlist(tmp_path, ports, RENAMED.replace("MORE", more), "opt -full")
    whole = netlist.register("accelerator.place")
    others = [
        netlist.register("accelerator.place", mode="const0"),
        netlist.register("accelerator.place", "Q", 1),
    ]
    others += [netlist.register("accelerator.later", port) for port in "QD"]
    mutants = [whole, *others]
    loose = [Loose("later", (0,), lambda state: state.bit("still"), lambda _: "1")]
    for renamed in ([], [Renamed("lines", (1,))], [Renamed("line", (0,))]):
        assert not unseen(mutants, loose, (), tmp_path, renamed)
    assert not unseen(mutants, (), (), tmp_path, [Renamed("lines", (0,))])
    found = unseen(mutants, loose, (), tmp_path, [Renamed("lines", (0,))])
    assert found == ({whole} if right else set())


def test_what_a_memory_keeps_is_seen(tmp_path: pathlib.Path) -> None:
    """To write what is there is nothing; all else that is written, or where, is read some time."""
    body = MEMORY.replace("WRITES", "go | more").replace("SECOND", "")
    netlist = Netlist(tmp_path, MEMORY_PORTS, body, "opt -full")
    again = [netlist.mutant(r"\$or", "", "B", 0, mode) for mode in ("const0", "const1", "inv")]
    shown = [netlist.mutant(r"\$memwr\S*", "", port, 1, "inv") for port in ("ADDR", "DATA", "EN")]
    shown += [netlist.mutant(r"\$mux", r"\Y \kept", port, 0, "const1") for port in "AB"]
    shown += [netlist.mutant(r"\$memrd\S*", r"\ADDR \from", port, 0, "inv") for port in ("ADDR", "DATA")]
    shown += [netlist.mutant(r"\$or", "", "A", 0, "const0")]
    assert answers(netlist, [*again, *shown]) == [True] * 3 + [False] * 8
    assert answers(netlist, shown, [Loose("read", (0, 1))]) == [False] * 8


def test_what_is_read_elsewhere_shows_where_it_is_taken(tmp_path: pathlib.Path) -> None:
    """`wanted` is there a cycle after its place; without it any place may be read."""
    body = WANTED + MEMORY.replace("WRITES", "go").replace("from]", "more ? from : at]")
    body = body.replace("SECOND", r"\accelerator.wanted <= more;")
    body = body.replace(r"q = \accelerator.read", r"q = \accelerator.wanted ? \accelerator.read : 2'd0")
    netlist = Netlist(tmp_path, MEMORY_PORTS, body, "opt -full")
    loose = [Loose("read", (0, 1), lambda state: state.bit("wanted"))]
    place = r"\S \more"
    mutants = [netlist.mutant(r"\$mux", place, port, bit, "inv") for port in "AB" for bit in (0, 1)]
    mutants += [netlist.mutant(r"\$mux", place, "S", 0, mode) for mode in ("const0", "const1")]
    assert answers(netlist, mutants) == [False] * 6
    assert answers(netlist, mutants, loose) == [True, True, False, False, False, True]


@pytest.mark.parametrize(("enable", "right"), [("(go | clear) | more", True), ("go | more", False)])
def test_what_is_there_may_be_written_again_where_it_is_read(
    tmp_path: pathlib.Path, enable: str, right: bool
) -> None:
    """What is read at `at` may be written there, and nowhere else: with `clear` it is written at `from`."""
    place = "  wire [1:0] place = clear ? from : at;\n"
    body = place + MEMORY.replace("WRITES) words[at]", f"{enable}) words[place]").replace("SECOND", "")
    netlist = Netlist(tmp_path, MEMORY_PORTS + ", input clear", body, "opt -full")
    mutants = [netlist.mutant(r"\$or", r"\B \more", "B", 0, mode) for mode in ("const0", "const1", "inv")]
    assert answers(netlist, mutants) == [right] * 3


@pytest.mark.parametrize("second", ["if (more) words[at] <= ~d;", "if (more) words[from] <= ~d;"])
def test_a_second_port_writes_where_the_first_one_writes_what_is_there(
    tmp_path: pathlib.Path, second: str
) -> None:
    """The port that counts, if both write, keeps what is there: without it the other one's word is written."""
    ordered = MEMORY.replace("if (WRITES) words[at] <= kept;", second)
    body = ordered.replace("SECOND", "if (go | more) words[at] <= kept;")
    netlist = Netlist(tmp_path, MEMORY_PORTS, body, "opt -full")
    mutants = [netlist.mutant(r"\$or", "", "B", 0, mode) for mode in ("const0", "inv")]
    assert answers(netlist, mutants) == [False] * 2


def test_ports_that_write_different_columns_do_not_meet(tmp_path: pathlib.Path) -> None:
    body = MEMORY.replace("if (WRITES) words[at] <= kept;", "if (go | more) words[at][0] <= kept[0];")
    body = body.replace("SECOND", "if (more) words[from][1] <= ~d[1];")
    netlist = Netlist(tmp_path, MEMORY_PORTS, body, "opt -full")
    mutants = [netlist.mutant(r"\$or", "", "B", 0, mode) for mode in ("const0", "inv")]
    assert answers(netlist, mutants) == [True] * 2


def test_a_mutant_of_a_clock_is_not_judged(tmp_path: pathlib.Path) -> None:
    netlist = Netlist(tmp_path, MEMORY_PORTS, MEMORY.replace("WRITES", "go").replace("SECOND", ""))
    mutants = [netlist.register("accelerator.read", "CLK")]
    mutants += [netlist.mutant(r"\$memwr\S*", "", "CLK", 0, "inv")]
    mutants += [netlist.mutant(r"\$memrd\S*", r"\ADDR \from", "EN", 0, "const0")]
    assert answers(netlist, mutants) == [False] * 3
