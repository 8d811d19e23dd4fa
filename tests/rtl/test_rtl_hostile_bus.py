"""A memory that does all that AXI4 allows: no rule is broken, results are exact, and each error and reset is survived.

All channels stall at random, read data of both IDs are mixed, answers are late, and data of writes are taken before
their address; the window lies anywhere, also at the end of the address space, above 4 GiB where the machine has such
addresses. AxCACHE and AxPROT are looked at in every burst. Machines that protect their data, and several cores, are
no exception.
"""

import dataclasses

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, GraphBuilder
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate
from tosaic.sim.registers import Registers
from tosaic.sim.rtl.build import PLAIN, simulator_library
from tosaic.sim.rtl.choice import machine_library
from tosaic.sim.rtl.library import INTERRUPT, PROTOCOL, Harness
from tosaic.sim.rtl.verilog import probed_verilog

pytestmark = pytest.mark.xdist_group("nano")
PROTECTED = "nano,address_bits=40,axi_cache=15,axi_prot=2,load_crc=1,memory_parity=1"
CORES = "nano,cores=2,semaphores=14,address_bits=64,axi_cache=2"
FULL_RATE = 1000
"""Thousandths of the bus."""
MOST_CYCLES = 3_000_000
TO_THE_END = None
BASES = {"odd": 0x1234_5020, "page": 0x1000_0FE0, "half": 0x7FFF_FFE0, "end": TO_THE_END}
"""Where the window begins, in the 4 GiB in which it lies, or that it ends where they do."""
PLACES = [
    *(("nano", 0, base) for base in BASES),
    *((PROTECTED, high, base) for high, base in ((1, "odd"), (0x5A, "half"), (0xFF, "end"), (0, "end"))),
    *((CORES, high, base) for high, base in ((0xFFFF_FFFF, "end"), (0x8000_0000, "page"))),
]
"""Machine, number of the 4 GiB, and place there."""
HABITS = [(1, 0), (1, 50), (1, 90), (50, 30), (300, 60)]
"""Latency in cycles, and share of cycles in percent in which a channel stalls."""


def turned_and_added():
    """Rows of odd lengths are loaded, added, turned and stored: many short bursts both ways, and some of constants."""
    build = GraphBuilder("turned")
    x, y = (build.input(name, (13, 19, 7), DType.INT32) for name in ("x", "y"))
    z = build.constant(np.random.default_rng(4).integers(-99, 99, (13, 19, 7), dtype=np.int32), DType.INT32)
    added = build.add("ADD", [build.add("ADD", [x, y]), z])
    turned = build.add("TRANSPOSE", [added], perms=[1, 2, 0], output="turned")
    build.output(turned)
    return build.finish()


class Bus:
    """A machine, its memory with a program in it, and what the program must leave."""

    def __init__(self, name, high, place, library=None):
        config, graph = get_config(name), turned_and_added()
        self.beat_bytes = config.bus_bytes
        self.program = compile_graph(graph, config)
        random = np.random.default_rng(5)
        given = {
            p.name: random.integers(-(2**31), 2**31, p.shape, dtype=np.int32) for p in self.program.inputs
        }
        self.fresh = self.program.memory()
        for port in self.program.inputs:
            port.write(self.fresh, given[port.name])
        self.wanted = evaluate(graph, given)["turned"]
        size = -(-self.program.memory_bytes // 32) * 32
        self.memory = np.zeros(size, np.uint8)
        base = (1 << 32) - size if BASES[place] is TO_THE_END else BASES[place]
        self.base = (high << 32) + base
        self.harness = Harness(library or machine_library(config))
        self.registers = Registers(self.harness, config.cores)
        self.harness.set_memory(self.memory, self.base)
        self.habit(1, 0, 0)

    def habit(self, latency, stall, seed):
        self.harness.set_timing(latency, FULL_RATE, stall, seed)
        self.harness.set_interleaving(True)

    def start(self):
        self.memory[: len(self.fresh)] = self.fresh
        self.registers.start(self.base, len(self.memory), self.program.streams)

    def clock(self, cycles):
        outcome = self.harness.run(cycles)
        assert outcome != PROTOCOL, self.harness.violation
        return outcome

    def failure(self):
        """The error that the run ended with; None for a run that was exact."""
        assert self.clock(MOST_CYCLES) == INTERRUPT
        error = self.registers.failure(
            [self.program.image[part.address :][: part.bytes] for part in self.program.streams]
        )
        if error is None:
            np.testing.assert_array_equal(self.program.outputs[0].read(self.memory), self.wanted)
        self.registers.acknowledge()
        return error

    def soft_reset(self):
        self.registers.control("soft_reset")
        for _ in range(1000):
            if self.registers.field("STATUS", "idle"):
                return
            self.clock(100)
        raise AssertionError("the soft reset does not end")

    def runs_well(self):
        self.start()
        assert self.failure() is None


@pytest.fixture(
    params=[
        pytest.param(
            place,
            id="-".join(map(str, place)),
            marks=() if place == ("nano", 0, "end") else pytest.mark.nightly,
        )
        for place in PLACES
    ],
    scope="module",
)
def bus(request):
    made = Bus(*request.param)
    yield made
    made.harness.close()


def test_stalls_late_and_mixed_answers(bus):
    for seed, (latency, stall) in enumerate(HABITS, 1):
        bus.habit(latency, stall, seed)
        bus.runs_well()


def beats_of(bus, ports):
    """Bus addresses of some beats of these tensors: the first, the last, and others."""
    size = bus.beat_bytes
    for port in ports:
        first, last = port.address // size, (port.address + port.bytes - 1) // size
        yield from (
            bus.base + size * int(each) for each in {first, last, *np.linspace(first, last, 9, dtype=int)}
        )


def beats_of_code(bus):
    for part in bus.program.streams:
        beats = np.arange(part.address, part.address + part.bytes, bus.beat_bytes)
        yield from (bus.base + int(beats[place]) for place in (0, 1, 5, -1))


def test_an_error_at_any_beat(bus):
    """It ends the run, is named, and after a soft reset the next run is exact."""
    bus.habit(20, 40, 7)
    wrong = [
        ("BUS_READ", (address, None)) for address in (*beats_of(bus, bus.program.inputs), *beats_of_code(bus))
    ]
    wrong += [("BUS_WRITE", (None, address)) for address in beats_of(bus, bus.program.outputs)]
    for name, places in wrong:
        bus.harness.set_errors(*places)
        bus.start()
        assert name in str(bus.failure())
        bus.harness.set_errors(None, None)
        bus.soft_reset()
    bus.runs_well()


def test_a_reset_in_a_burst(bus):
    """By the register and by the wire, wherever the run is."""
    bus.habit(30, 50, 9)
    for number, cycles in enumerate(np.random.default_rng(2).integers(5, 4000, 24)):
        bus.start()
        bus.clock(int(cycles))
        if number % 3 == 2:
            bus.harness.reset()
        else:
            bus.soft_reset()
        bus.registers.acknowledge()
    bus.runs_well()


@pytest.mark.nightly
@pytest.mark.parametrize("port", ["m_axi_arcache", "m_axi_awcache"])
def test_another_attribute_is_a_violation(port, tmp_path):
    """Planted in the Verilog: a bit of AxCACHE."""
    config = get_config(PROTECTED)
    right, wrong = (f"assign {port} = 4'h{digit};" for digit in "f7")
    text = probed_verilog(config).read_text()
    assert text.count(right) == 1
    changed = tmp_path / "changed.v"
    changed.write_text(text.replace(right, wrong))
    library = simulator_library(config, dataclasses.replace(PLAIN, name=port, verilog=lambda config: changed))
    bus = Bus(PROTECTED, 1, "odd", library)
    bus.start()
    assert bus.harness.run(MOST_CYCLES) == PROTOCOL
    assert bus.harness.violation == "AxCACHE or AxPROT is not the configuration's"
    bus.harness.close()
