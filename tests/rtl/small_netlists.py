"""Netlists of a few lines of Verilog, and mutants of theirs, for tests of what is said of mutants (bench/rtl_*.py)."""

import pathlib
import re
import sys
from collections.abc import Callable, Iterable

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

from rtl_netlist import Mutant, yosys  # noqa: E402 (the path comes first)

SCRIPT = """read_verilog plain.v
hierarchy -top tosaic
proc
delete t:$meminit* t:$scopeinfo
setattr -unset init w:*
{more}
opt_clean
write_rtlil netlist.il
"""


NO_FAULT = re.compile(r"-port CLK |memrd\S* -port EN ")
SOURCE = re.compile(r" -src \S+")


class Netlist:
    """The netlist of a module's body, left in `folder`. Its inputs are clk, rst and what `ports` has. `more`: what else
    Yosys does; nothing is optimized, so that each operator is a cell."""

    def __init__(self, folder: pathlib.Path, ports: str, body: str, more: str = ""):
        self.folder = folder
        text = "`default_nettype none\n"
        text += f"module tosaic (input clk, input rst, {ports});\n{body}\nendmodule\n"
        (folder / "plain.v").write_text(text)
        yosys(SCRIPT.format(more=more), folder)
        self._text = (folder / "netlist.il").read_text()

    def mutant(self, kind: str, near: str, port: str, index: int, mode: str, mixed: int = 0) -> Mutant:
        """At a bit of a port of the one cell of a kind (a pattern) that has `near` in its connections. `mixed`: the
        port's bit with which `cnot0` and `cnot1` mix it."""
        cells = re.findall(r"^  cell (\S+) (\S+)\n(.*?)^  end\n", self._text, re.MULTILINE | re.DOTALL)
        found = [name for each, name, body in cells if re.fullmatch(kind, each) and near in body]
        assert len(found) == 1, f"{len(found)} cells of the kind {kind} with {near} in\n{self._text}"
        words = f"-cell {found[0]} -port {port} -portbit {index}"
        words += f" -ctrlbit {mixed}" * mode.startswith("cnot")
        return Mutant("array", "", f"mutate -mode {mode} -module tosaic {words}")

    def drawn(self, count: int) -> list[Mutant]:
        """Mutants that Yosys draws, but for those of clocks."""
        yosys(f"read_rtlil netlist.il\nmutate -list {count} -seed 1 -o drawn.txt\n", self.folder)
        lines = (self.folder / "drawn.txt").read_text().splitlines()
        found = [line for line in lines if "-cell" in line and not NO_FAULT.search(line)]
        return [Mutant("array", "", SOURCE.sub("", line)) for line in dict.fromkeys(found)]

    def register(self, name: str, port: str = "Q", index: int = 0, mode: str = "inv") -> Mutant:
        """Of the register that is the wire `name`."""
        return self.mutant(r"\$s?dff(e|ce)?", rf"\Q \{name}" + "\n", port, index, mode)


Proof = Callable[[list[Mutant], pathlib.Path], set[Mutant]]


def judged(netlist: Netlist, proof: Proof, mutants: Iterable[Mutant]) -> list[bool]:
    """Which of the mutants are proved to change nothing."""
    mutants = list(mutants)
    found = proof(mutants, netlist.folder)
    return [mutant in found for mutant in mutants]
