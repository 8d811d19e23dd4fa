"""Which mutants of a netlist are said to change nothing in a state that can be reached: none that some input shows."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

from rtl_equivalence import equivalents  # noqa: E402 (the path comes first)
from rtl_netlist import yosys  # noqa: E402 (the path comes first)
from rtl_unread import unread  # noqa: E402 (the path comes first)
from rtl_unseen import unseen  # noqa: E402 (the path comes first)
from small_netlists import Netlist, judged  # noqa: E402 (the path comes first)

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("yosys")]


def test_only_what_nothing_shows_is_no_change(tmp_path: pathlib.Path) -> None:
    """What `second` holds comes from another register as it is. Bits 2 and 3 of `sum` are read by themselves alone, and
    the OR of `both` does not matter."""
    body = r"""
  reg [3:0] first, second, sum;
  wire [3:0] next = sum + d;
  always @(posedge clk) begin
    first <= d;
    second <= first;
    sum <= rst ? 4'd0 : next;
  end
  assign q = second[1:0] ^ sum[1:0];
  assign both = first[0] & (first[0] | first[1]);
"""
    netlist = Netlist(tmp_path, "input [3:0] d, output [1:0] q, output both", body)
    seen = [netlist.register("second", "D"), netlist.register("second", "Q", 1)]
    seen += [netlist.register("first", "Q", 1), netlist.mutant(r"\$add", "", "Y", 1, "inv")]
    seen += [netlist.mutant(r"\$and", "", "Y", 0, "const0")]
    for_itself = netlist.mutant(r"\$add", "", "Y", 3, "inv")
    covered = netlist.mutant(r"\$or", "", "B", 0, "const0")
    mutants = [*seen, for_itself, covered]
    assert unread(mutants, tmp_path) == {for_itself}
    assert equivalents(mutants, tmp_path) == {covered}


def test_what_a_register_hands_on_is_not_a_constant(tmp_path: pathlib.Path) -> None:
    """No mutant is at `first` itself, whose value `second` gets as it is, and which is read here, too. Earlier it was
    taken for 0: its wire was an output, for `second`, and an input, and went away with outputs that do not depend on
    the mutant."""
    body = r"""
  reg first, second;
  always @(posedge clk) begin
    first <= d;
    second <= first;
  end
  assign late = second;
  assign both = first & d;
"""
    netlist = Netlist(tmp_path, "input d, output late, output both", body)
    for port in "ABY":
        mutants = [netlist.mutant(r"\$and", "", port, 0, "const0")]
        assert judged(netlist, equivalents, mutants) == [False]


def test_a_bit_that_is_0_for_ever_can_be_made_1(tmp_path: pathlib.Path) -> None:
    """`never` is 0 as long as it is 0: who reads it may as well read a 0, but a mutant of the register makes it 1."""
    body = r"""
  reg [1:0] state;
  always @(posedge clk) state <= rst ? 2'd0 : {state[1] & d[1], state[0] ^ d[0]};
  assign q = state;
  assign masked = state[1] | d[0];
"""
    netlist = Netlist(tmp_path, "input [1:0] d, output [1:0] q, output masked", body)
    shown = [netlist.register("state", "Q", 1, mode) for mode in ("const1", "inv")]
    shown += [netlist.register("state", "D", 1, "const1"), netlist.register("state", "Q", 0, "const0")]
    shown += [netlist.mutant(r"\$or", "", "A", 0, "const1")]
    nothing = [netlist.register("state", port, 1, "const0") for port in "DQ"]
    nothing += [netlist.mutant(r"\$or", "", "A", 0, "const0")]
    answers = judged(netlist, equivalents, [*shown, *nothing])
    assert answers == [False] * len(shown) + [True] * len(nothing)


QUEUE = r"""
  reg [1:0] \accelerator.fifo.inner_level ;
  reg \accelerator.fifo.ready ;
  wire [2:0] \accelerator.fifo.level = \accelerator.fifo.inner_level + \accelerator.fifo.ready ;
  wire some = \accelerator.fifo.inner_level != 0;
  always @(posedge clk) begin
    \accelerator.fifo.ready <= ~rst & READY;
    \accelerator.fifo.inner_level <= rst ? 2'd0 : some ? 2'd2 : push;
  end
  assign big = \accelerator.fifo.level >= 3'd3;
  wire early = \accelerator.fifo.inner_level [1] & ~\accelerator.fifo.ready ;
  assign odd = early ^ push;
"""


def test_what_is_known_of_a_queue_is_known_without_the_mutant(tmp_path: pathlib.Path) -> None:
    """The queue has two words inside only while one is ready (rtl_reachable.py). With `ready` stuck at 0 it is not so,
    and `big` shows it: the rule must not be applied to what the mutant makes of `ready`."""
    netlist = Netlist(tmp_path, "input push, output big, output odd", QUEUE.replace("READY", "(push | some)"))
    shown = [netlist.register("accelerator.fifo.ready", "Q", 0, "const0")]
    shown += [netlist.mutant(r"\$ge", "", "Y", 0, "const0"), netlist.mutant(r"\$xor", "", "A", 0, "const1")]
    never_early = netlist.mutant(r"\$xor", "", "A", 0, "const0")
    assert judged(netlist, equivalents, [*shown, never_early]) == [False, False, False, True]


def test_a_rule_that_is_not_true_is_not_used(tmp_path: pathlib.Path) -> None:
    netlist = Netlist(tmp_path, "input push, output big, output odd", QUEUE.replace("READY", "push"))
    early = netlist.mutant(r"\$xor", "", "A", 0, "const0")
    assert judged(netlist, equivalents, [early]) == [False]


def test_of_two_choices_at_once_the_first_one_counts(tmp_path: pathlib.Path) -> None:
    """One of the four is always chosen, but a mutant chooses another one, too; the mutants' Verilog, a `casez`, takes
    the first one."""
    body = "always @* case (s) 0: q = 2'd1; 1: q = 2'd2; 2: q = 2'd0; 3: q = d; endcase"
    netlist = Netlist(tmp_path, "input [1:0] s, input [1:0] d, output reg [1:0] q", body)
    mutants = [netlist.mutant(r"\$pmux", "", "S", index, "const1") for index in range(4)]
    assert judged(netlist, equivalents, mutants[:3]) == [False] * 3


MIXED = r"""
  reg [1:0] state, count, word, \accelerator.fifo.inner_level ;
  reg full, never, \accelerator.fifo.ready ;
  reg [1:0] words [0:1];
  wire [2:0] \accelerator.fifo.level = \accelerator.fifo.inner_level + \accelerator.fifo.ready ;
  wire some = \accelerator.fifo.inner_level != 0;
  wire [1:0] kept = go ? d : words[d[0]];
  always @(posedge clk) begin
    case (state) 0: state <= d; 1: state <= 2'd2; 2: state <= {go, 1'b0}; 3: state <= 2'd1; endcase
    if (go) count <= count == 2'd2 ? 2'd0 : count + 2'd1;
    full <= go & d[1];
    word <= go ? d : word;
    never <= never & go;
    if (go | d[1]) words[d[0]] <= kept;
    if (state == 2'd2) words[1] <= word;
    \accelerator.fifo.ready <= go | some;
    \accelerator.fifo.inner_level <= some ? 2'd2 : {1'b0, go};
    if (rst) begin
      state <= 0; count <= 0; full <= 0; never <= 0;
      \accelerator.fifo.ready <= 0; \accelerator.fifo.inner_level <= 0;
    end
  end
  always @* case (state) 0: q = count; 1: q = word; 2: q = words[go]; 3: q = {never, full & word[1]}; endcase
  assign big = (\accelerator.fifo.level >= 3'd3) | count == 2'd3;
"""
COMPARE = """design -reset
read_rtlil netlist.il
copy tosaic gate
{change}
rename tosaic gold
memory -nordff
pmuxtree
dffunmap
opt_clean
miter -equiv -flatten gold gate both
hierarchy -top both
tee -q -o cycles{number}.txt sat -set-init-zero -seq {cycles} -prove-skip 1 -set-at 1 in_rst 1 -prove trigger 0 both
"""
"""From registers and memories that are 0, and a cycle of reset, on: whether outputs ever differ."""


def test_what_is_proved_does_not_show_in_the_first_cycles(tmp_path: pathlib.Path) -> None:
    """Mutants that Yosys draws of a netlist, compared for some cycles in another way: unrolled."""
    netlist = Netlist(tmp_path, "input go, input [1:0] d, output reg [1:0] q, output big", MIXED, "opt -full")
    mutants = netlist.drawn(60)
    reached, any_state = equivalents(mutants, tmp_path), unseen(mutants, (), (), tmp_path)
    proved = [mutant for mutant in mutants if mutant in reached | any_state | unread(mutants, tmp_path)]
    assert reached and any_state and proved != mutants
    asked = [*proved, *(mutant for mutant in mutants if mutant not in proved)][: len(proved) + 10]
    changes = [mutant.change.replace("-module tosaic", "-module gate") for mutant in asked]
    numbers = range(len(asked))
    yosys("".join(COMPARE.format(change=changes[at], number=at, cycles=4) for at in numbers), tmp_path)
    texts = [(tmp_path / f"cycles{number}.txt").read_text() for number in numbers]
    shown = [mutant for mutant, text in zip(asked, texts, strict=True) if "model found: FAIL!" in text]
    assert not set(shown) & set(proved)
    assert len(shown) > 5, "ten that are not proved: most show"
