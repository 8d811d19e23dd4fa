"""Which mutants of the RTL's netlist change nothing: Yosys' SAT solver says so."""

import pathlib
import re
from collections.abc import Sequence

from rtl_netlist import Mutant, yosys
from rtl_reachable import REACHABLE, edited, write_reachable

SAT_SECONDS = 20
OUTPUTS = ("Q", "DATA")
"""Ports of registers and of what reads a memory that tell what they hold."""
STATE_APART = f"""read_rtlil {REACHABLE}
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
    """Those that no state that can be reached, no contents of memories and no input shows. Mutants of registers are
    judged where they change what is read of them. Those for which the solver takes long count as faults."""
    write_reachable(folder)
    registers = _registers(folder)
    readers = _with_readers(folder, registers)
    script, judged = [STATE_APART], []
    for number, mutant in enumerate(mutants):
        cell, port = (re.search(rf"-{word} (\S+)", mutant.change) for word in ("cell", "port"))
        if cell is None or port is None:
            continue
        name, change = cell[1], mutant.change.replace("-module tosaic", "-module gate")
        if name in registers:
            if name not in readers or port[1] not in OUTPUTS:
                continue
            change = change.replace(f"-cell {name} -port {port[1]}", f"-cell {readers[name]} -port Y")
            name = readers[name]
        judged.append(number)
        script.append(f"""design -load apart
select -set cone tosaic/c:{name} %coe* o:* %i
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
tee -q -o sat{number}.txt sat -set-assumes -timeout {SAT_SECONDS} -prove trigger 0 both
""")
    yosys("\n".join(script), folder)
    proved = "no model found: SUCCESS!"
    return {mutants[n] for n in judged if proved in (folder / f"sat{n}.txt").read_text()}


def _with_readers(folder: pathlib.Path, cells: set[str]) -> dict[str, str]:
    """Adds a cell to each of these registers and memories' ports, through which all else reads it; their names. Without
    it what a register holds, where it goes to another one as it is, would be an output, and no input."""
    readers = dict[str, str]()

    def changed(name: str, body: str, added: list[str]) -> str:
        output = re.search(r"^    connect \\(Q|DATA) (.*)\n", body, re.MULTILINE)
        width = re.search(r"parameter \\WIDTH (\d+)", body)
        if name not in cells or "memwr" in name or not output or not width:
            return body
        number = len(readers)
        readers[name] = f"$reader_{number}"
        sizes = "".join(f"    parameter \\{side}_WIDTH {width[1]}\n" for side in "AY")
        sizes += "    parameter \\A_SIGNED 0\n    parameter \\B_SIGNED 0\n    parameter \\B_WIDTH 1\n"
        ports = f"    connect \\A \\read_{number}\n    connect \\B 1'0\n    connect \\Y {output[2]}\n"
        added += [
            f"  wire width {width[1]} \\read_{number}",
            f"  cell $or {readers[name]}\n{sizes}{ports}  end",
        ]
        return body.replace(output[0], f"    connect \\{output[1]} \\read_{number}\n")

    text = edited(
        (folder / REACHABLE).read_text(), lambda _, name, body, __, added: changed(name, body, added)
    )
    (folder / REACHABLE).write_text(text)
    return readers


def _registers(folder: pathlib.Path) -> set[str]:
    """Cells of netlist.il that are registers or parts of memories."""
    found = re.findall(r"^  cell (\S+) (\S+)$", (folder / "netlist.il").read_text(), re.MULTILINE)
    return {name for kind, name in found if re.match(r"\$(s|a|al)?(dff|mem)", kind)}
