"""Which mutants of the RTL's netlist change nothing: Yosys' SAT solver says so."""

import pathlib
import re
from collections.abc import Sequence

from rtl_netlist import Mutant, yosys

SAT_SECONDS = 20
STATE_APART = """read_rtlil netlist.il
dffunmap
rename -enumerate -pattern net% w:*
select -set state t:$mem* t:$dff*
expose @state %ci @state %d i:* %d
delete @state
setundef -undriven -expose
setundef -zero
opt_clean
design -save apart
"""
"""Registers and memories are outputs, what they are to be, and inputs, what they are."""


def equivalents(mutants: Sequence[Mutant], folder: pathlib.Path) -> set[Mutant]:
    """Those that no state, no contents of memories and no input shows. Mutants of registers themselves are not judged,
    nor those for which the solver takes long: they count as faults."""
    script, judged = [STATE_APART], []
    registers = _registers(folder)
    for number, mutant in enumerate(mutants):
        cell = re.search(r"-cell (\S+)", mutant.change)
        if cell is None or cell[1] in registers:
            continue
        judged.append(number)
        change = mutant.change.replace("-module tosaic", "-module gate")
        script.append(f"""design -load apart
select -set cone tosaic/c:{cell[1]} %coe* o:* %i
delete -port tosaic/o:* @cone %d
opt_clean -purge
copy tosaic gate
rename tosaic gold
{change}
miter -equiv -flatten gold gate both
delete gold gate
opt_expr -full both
opt_merge both
opt_clean both
tee -q -o sat{number}.txt sat -timeout {SAT_SECONDS} -prove trigger 0 both
""")
    yosys("\n".join(script), folder)
    proved = "no model found: SUCCESS!"
    return {mutants[n] for n in judged if proved in (folder / f"sat{n}.txt").read_text()}


def _registers(folder: pathlib.Path) -> set[str]:
    """Cells of netlist.il that are registers or parts of memories."""
    found = re.findall(r"^  cell (\S+) (\S+)$", (folder / "netlist.il").read_text(), re.MULTILINE)
    return {name for kind, name in found if re.match(r"\$(s|a|al)?(dff|mem)", kind)}
