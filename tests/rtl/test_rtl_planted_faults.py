"""Programs see faults: each of these one-line changes of the RTL, where no proof looks, changes what a host sees.

All are in one machine, in which a bit for each chooses it.
"""

import functools
import hashlib
import inspect
import pathlib
import textwrap

import pytest
from amaranth.back import verilog
from amaranth.hdl import Module, Mux, Signal
from one_machine import Conditions, assembled, random_programs, run_on, tokens_one_by_one

from tosaic.hw.array.drain import Drain
from tosaic.hw.array.kernel_counter import KernelCounter
from tosaic.hw.array.output_counter import OutputCounter
from tosaic.hw.array.pe_array import PeArray
from tosaic.hw.array.processing_element import ProcessingElement
from tosaic.hw.config import CONFIGS
from tosaic.hw.dma.completion import Completion
from tosaic.hw.dma.store import StoreUnit
from tosaic.hw.isa import Opcode
from tosaic.hw.memory.simulation import VERILOG as MEMORY_VERILOG
from tosaic.hw.memory.simulation import SimulationPlatform
from tosaic.hw.sequencer.semaphores import Semaphores
from tosaic.hw.top import VERILOG_NAME, VerilogTop
from tosaic.hw.vector.loop_counter import LoopCounter
from tosaic.hw.vector.store import Store
from tosaic.sim.cache import cached
from tosaic.sim.rtl.build import PLAIN, Variant, simulator_library
from tosaic.sim.rtl.library import Harness
from tosaic.sim.rtl.verilog import cached_verilog

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("planted")]
CONFIG = CONFIGS["nano"]
BITS = 32
PLANTED = Signal(BITS, name="chosen_mutants")
"""Which faults the machine has; an input of the whole machine."""
FAULTS = {
    "the array sends a vector for which there is no room": (
        *(Drain, "elaborate", "reserved == self._depth - 1", "reserved == self._depth"),
    ),
    "STORE reads the first word of a row again and again": (
        *(StoreUnit, "_read", "am.address + self.config.word_bytes", "am.address"),
    ),
    "a write that fails is taken for one that does not": (
        *(StoreUnit, "_report", "(write.bresp != 0)", "0"),
    ),
    "a SIGNAL does not wait for the bursts before it": (
        *(Completion, "elaborate", "~burst_distance[-1]", "1"),
    ),
    "a SIGNAL has a token too many": (
        *(Semaphores, "elaborate", "port.signal_count)", "port.signal_count + 1)"),
    ),
    "all rows of a kernel see one line": (*(KernelCounter, "elaborate", "line + kernel.ky_step", "line"),),
    "the strides of depthwise outputs are mixed up": (
        *(OutputCounter, "elaborate", "running.x_stride", "running.y_stride"),
    ),
    "sums are caught a cycle early": (
        *(PeArray, "elaborate", "deliver[-1] | gather", "deliver[-2] | gather"),
    ),
    "weights are odd": (
        *(ProcessingElement, "elaborate", "self.operand, self.weight,", "self.operand, self.weight | 1,"),
    ),
    "the last vector of a row is stored whole": (
        *(Store, "elaborate", "Mux(self.last, below_tail, below)", "below"),
    ),
    "repetitions are not counted": (*(LoopCounter, "elaborate", "place.iteration + 1", "place.iteration"),),
}


def plant(patch, owner, name, line, fault, number):
    """Lets the machine have the fault when bit `number` is chosen: a piece of the text of a method is replaced."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function)) if not hasattr(function, "text") else function.text
    assert source.count(line) == 1
    # What the piece begins or ends with besides the expression stays outside of the choice.
    tail = ")" if line.count(")") > line.count("(") else ""
    rest = line.partition(" | gather")[1]
    good, bad = (text.removesuffix(rest).removesuffix(tail) for text in (line, fault))
    changed = source.replace(line, f"Mux(PLANTED[{number}], {bad}, {good}){rest}{tail}")
    made = {}
    names = {**function.__globals__, "PLANTED": PLANTED, "Mux": Mux}
    exec(compile(changed, f"{name} with a fault", "exec"), names, made)
    made[name].text = changed
    patch.setattr(owner, name, made[name])


@functools.cache
def library():
    """The simulator of the machine with all faults."""
    sources = pathlib.Path(__file__).read_text() + cached_verilog(CONFIG).read_text()

    def elaborate(path):
        with pytest.MonkeyPatch.context() as patch:
            for number, fault in enumerate(FAULTS.values()):
                plant(patch, *fault, number)
            top, machine = VerilogTop(CONFIG), Module()
            machine.submodules.tosaic = top
            # The bench's other ports for mutants: nobody looks at which of them change a bit.
            watched, active = Signal(16, name="watch_mutants"), Signal(BITS, name="active_mutants")
            machine.d.comb += active.eq(0)
            ports = [getattr(top, name) for name in top.signature.members]
            text = verilog.convert(
                machine,
                name=VERILOG_NAME,
                emit_src=False,
                platform=SimulationPlatform(),
                ports=[*ports, PLANTED, watched, active],
            )
            path.write_text(text + MEMORY_VERILOG)

    key = hashlib.sha256(sources.encode()).hexdigest()[:20]
    path = cached("verilog", f"{CONFIG.name}-planted", key, ".v", elaborate)
    options = (*PLAIN.options, f"+define+MUTANTS={BITS}")
    return simulator_library(CONFIG, Variant("planted", options, ("-DMUTANTS",), verilog=lambda _: path))


def programs():
    """Random ones of every kind, on a quiet bus and on one that hesitates; a write that fails; tokens one by one."""
    copy = [
        (Opcode.LOAD_GO, {"row_bytes": 1024, "rows": 1}),
        (Opcode.LOAD_SIGNAL, {"count": 1}),
        (Opcode.STORE_WAIT, {"count": 1}),
        (Opcode.STORE_GO, {"row_bytes": 1024, "rows": 1}),
    ]
    yield assembled(CONFIG, *copy), Conditions(write_error_at=512)
    yield tokens_one_by_one(CONFIG), Conditions()
    for seed in range(900, 914):
        for program in random_programs(CONFIG, [seed]):
            busy = Conditions(stall_percent=50, seed=seed, latency_cycles=90)
            yield program, busy if seed % 2 else Conditions()


def seen_of(harness, program, conditions):
    """How it ended, the memory behind it, and status and errors: not how long it took."""
    seen = run_on(harness, CONFIG, program, conditions)
    registers = dict(seen.registers)
    return seen.end, seen.memory, registers.get("STATUS"), registers.get("ERROR")


@functools.cache
def right():
    """The same of the machine without a fault."""
    harness = Harness(library())
    try:
        return [seen_of(harness, *case) for case in programs()]
    finally:
        harness.close()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_seen(name):
    wanted, harness = right(), Harness(library())
    harness.choose_mutants([1 + list(FAULTS).index(name)], BITS)
    try:
        differs = (seen_of(harness, *case) != each for case, each in zip(programs(), wanted, strict=True))
        assert any(differs)
    finally:
        harness.close()
