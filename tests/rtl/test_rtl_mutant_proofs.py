"""Which mutants of a netlist are said to change nothing: none that some input shows."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

from rtl_equivalence import equivalents  # noqa: E402 (the path comes first)
from rtl_netlist import Mutant, yosys  # noqa: E402 (the path comes first)
from rtl_unread import unread  # noqa: E402 (the path comes first)

DESIGN = """\
module tosaic (input clk, input rst, input [3:0] d, output [1:0] q, output both);
  reg [3:0] first, second, sum;
  wire [3:0] next = sum + d;
  always @(posedge clk) begin
    first <= d;
    second <= first;
    sum <= rst ? 4'd0 : next;
  end
  assign q = second[1:0] ^ sum[1:0];
  assign both = first[0] & (first[0] | first[1]);
endmodule
"""
"""What `second` holds comes from another register as it is. Bits 2 and 3 of `sum` are read by themselves alone, and the
OR of `both` does not matter."""
NETLIST = "read_verilog plain.v\nhierarchy -top tosaic\nproc\nopt_clean\nwrite_rtlil netlist.il\n"


def mutant(text: str, kind: str, near: str, mode: str, port: str) -> Mutant:
    """Of the cell of a kind in whose connections `near` stands; `port` is its port, and which bit."""
    cells = re.findall(r"^  cell (\S+) (\S+)\n(.*?)^  end\n", text, re.MULTILINE | re.DOTALL)
    (name,) = (name for found, name, body in cells if found == kind and near in body)
    return Mutant("array", "", f"mutate -mode {mode} -module tosaic -cell {name} -port {port}")


@pytest.mark.nightly
@pytest.mark.xdist_group("yosys")
def test_only_what_nothing_shows_is_no_change(tmp_path: pathlib.Path) -> None:
    (tmp_path / "plain.v").write_text(DESIGN)
    yosys(NETLIST, tmp_path)
    text = (tmp_path / "netlist.il").read_text()
    ports = (r"\D -portbit 0", r"\Q -portbit 1")
    seen = [mutant(text, "$dff", r"\Q \second", "inv", port) for port in ports]
    seen += [mutant(text, "$dff", r"\Q \first", "inv", r"\Q -portbit 1")]
    seen += [mutant(text, "$add", r"\next", "inv", r"\Y -portbit 1")]
    # `first` goes into `second` as it is, and is read here, too.
    seen += [mutant(text, "$and", "", "const0", r"\Y -portbit 0")]
    for_itself = mutant(text, "$add", r"\next", "inv", r"\Y -portbit 3")
    covered = mutant(text, "$or", "", "const0", r"\B -portbit 0")
    mutants = [*seen, for_itself, covered]
    assert unread(mutants, tmp_path) == {for_itself}
    assert equivalents(mutants, tmp_path) == {covered}
