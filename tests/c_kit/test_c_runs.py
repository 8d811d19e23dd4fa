"""Compiled models driven from C, on the accelerator's RTL."""

import numpy as np
import pytest
from c_programs import POINTER, Host, build_host
from device_programs import GRAPH, endless, loading, stuck, tiny

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, GraphBuilder, State
from tosaic.driver.transports import RtlTransport
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import COUNTERS, HIGH_BASE, MEM_BASE_HIGH, REGISTER, VERSION_PATCH_BITS, VERSION_VALUE
from tosaic.hw.isa import Error, Unit
from tosaic.hw.nnr_streams import DecodeError
from tosaic.sim.golden import evaluate

pytestmark = pytest.mark.xdist_group("nano")
CONFIG = get_config("nano")
WINDOW_BYTES = 64 << 10
DIGITS, COUNTER, ENDLESS, STUCK, FAR, FOREIGN, PLANES = range(7)


def running_sum():
    """Adds up its inputs; two sums are remembered, one of which begins as zeros. It gives the sums before the input."""
    build = GraphBuilder("sums")
    x = build.input("x", (3,), DType.INT32)
    for name, first in (("total", 0), ("other", 7)):
        total = build.input(name, (3,), DType.INT32)
        following = build.add("ADD", [total, x])
        build.output(build.add("SUB", [following, x]))
        build.graph.outputs.append(following)
        build.graph.states[name] = State(following, np.full(3, first, np.int32))
    return build.finish()


def planes():
    """The largest neighbours in images of int16 planes, as planes; memory has them pixel by pixel."""
    build = GraphBuilder("planes")
    x = build.input("x", (2, 3, 11, 13), DType.INT16)
    y = build.add("TRANSPOSE", [x], perms=[0, 2, 3, 1])
    y = build.add("MAX_POOL2D", [y], kernel=[2, 2], stride=[1, 1], pad=[0] * 4, nan_mode="PROPAGATE")
    build.output(build.add("TRANSPOSE", [y], perms=[0, 3, 1, 2]))
    return build.finish()


@pytest.fixture(scope="module")
def programs():
    """Returns the programs by name, in the order of the numbers above."""
    return {
        "digits": tiny("nano"),
        "sums": compile_graph(running_sum(), CONFIG),
        "endless": endless("nano"),
        "stuck": stuck("nano"),
        "far": loading("nano", 1 << 20),
        "foreign": tiny("small"),
        "planes": compile_graph(planes(), CONFIG),
    }


@pytest.fixture(scope="module")
def library(tmp_path_factory, programs):
    return build_host(tmp_path_factory.mktemp("c_kit"), programs)


@pytest.fixture(scope="module")
def transport():
    """Memory full of garbage: a program may not depend on what it does not write."""
    made = RtlTransport(CONFIG, memory_bytes=WINDOW_BYTES)
    made.memory[:] = np.random.default_rng(7).integers(0, 256, made.memory.size, dtype=np.uint8)
    yield made
    made.close()


@pytest.fixture
def host(library, transport):
    made = Host(library, transport)
    assert made.call("open") == "OK"
    return made


def check_digits(host, seed):
    """Runs digits, which is loaded; fails unless the scores are golden's."""
    image = np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
    assert host.write(DIGITS, 0, image) == "OK"
    assert host.call("run", 0) == "OK"
    wanted = evaluate(GRAPH, {"image": image})["scores"]
    np.testing.assert_array_equal(host.read(DIGITS, 0, wanted), wanted)


def recover(host, seed):
    """Checks that after a failure the program has to be loaded again, and runs."""
    assert host.call("run", 0) == "NOT_LOADED"
    assert host.call("load", DIGITS) == "OK"
    check_digits(host, seed)


def test_runs_are_exact(host, programs):
    assert host.call("load", DIGITS) == "OK"
    for seed in range(3):
        check_digits(host, seed)
    assert host.waits > 0
    read = host.transport.read_registers
    assert host.library.host_cycles() == read(REGISTER["CYCLES"].offset, 1)[0] > 0
    for name, _ in COUNTERS:
        assert host.library.host_counter(REGISTER[name].offset) == read(REGISTER[name].offset, 1)[0]
    assert host.library.host_mark_count() == len(programs["digits"].layers) == 3
    marks = np.zeros((3, 2), np.uint32)
    for index, (layer, cycle) in enumerate(marks[:, :, None]):
        host.library.host_mark(index, layer.ctypes.data_as(POINTER), cycle.ctypes.data_as(POINTER))
    assert [tuple(map(int, mark)) for mark in marks] == host.transport.finish()
    assert read(REGISTER["IRQ"].offset, 1) == [0]


def test_what_lies_in_another_order_is_turned(host, programs):
    """More bytes than are turned at a time."""
    x = np.random.default_rng(3).integers(-(1 << 15), 1 << 15, (2, 3, 11, 13), dtype=np.int16)
    assert host.call("load", PLANES) == "OK"
    assert [port.order for port in (*programs["planes"].inputs, *programs["planes"].outputs)] == [
        (0, 2, 3, 1)
    ] * 2
    assert host.write(PLANES, 0, x) == "OK"
    assert host.call("run", 0) == "OK"
    (wanted,) = evaluate(planes(), {"x": x}).values()
    np.testing.assert_array_equal(host.read(PLANES, 0, wanted), wanted)


def test_polls_without_a_wait(library, transport):
    host = Host(library, transport, wait=False)
    assert (host.call("open"), host.call("load", DIGITS)) == ("OK", "OK")
    check_digits(host, 5)
    assert host.waits == 0


def test_start_and_poll(host):
    assert host.call("load", DIGITS) == "OK"
    image = np.full((1, 8, 8, 1), 3, np.int8)
    host.write(DIGITS, 0, image)
    assert (host.call("start"), host.call("poll", 0)) == ("OK", "BUSY")
    host.transport.wait(0)
    assert host.call("poll", 0) == "OK"
    wanted = evaluate(GRAPH, {"image": image})["scores"]
    np.testing.assert_array_equal(host.read(DIGITS, 0, wanted), wanted)


def test_an_interrupt_handler_lowers_the_line(host):
    """And the run's end is seen all the same."""
    irq = REGISTER["IRQ"]

    def handle():
        (pending,) = host.transport.read_registers(irq.offset, 1)
        if pending:
            host.library.host_acknowledge()
        handled.append(pending)
        return host.transport.read_registers(irq.offset, 1)[0]

    handled = []
    host.after_wait = handle
    assert host.call("load", DIGITS) == "OK"
    check_digits(host, 9)
    assert handled == [irq.field("done").mask]
    assert (host.call("load", STUCK), host.call("run", 0)) == ("OK", "MACHINE_FAULT")
    assert handled[-1] == irq.field("error").mask
    assert host.fault() == ("WATCHDOG", "STORE", 16)


def test_states_stay_and_are_reset(host):
    x = np.array([1, 2, -3], np.int32)
    assert host.call("load", COUNTER) == "OK"
    assert host.write(COUNTER, 0, x) == "OK"
    for times in (0, 1):
        assert host.call("run", 0) == "OK"
        assert host.read(COUNTER, 0, x).tolist() == (times * x).tolist()
        assert host.read(COUNTER, 1, x).tolist() == (times * x + 7).tolist()
    assert host.read(COUNTER, 1, x, "read_state").tolist() == [9, 11, 1]
    assert host.call("reset_states") == "OK"
    assert host.read(COUNTER, 0, x, "read_state").tolist() == [0, 0, 0]
    assert host.read(COUNTER, 1, x, "read_state").tolist() == [7, 7, 7]


def test_a_fault_is_named(host):
    assert host.call("load", FAR) == "OK"
    assert host.call("run", 0) == "MACHINE_FAULT"
    assert host.fault() == ("MEMORY_RANGE", "LOAD", 16)
    recover(host, 1)
    assert host.fault() == ("NONE", "SEQUENCER", 0)


def test_the_watchdog_is_named(host):
    assert host.call("load", STUCK) == "OK"
    assert host.call("run", 0) == "MACHINE_FAULT"
    assert host.fault() == ("WATCHDOG", "STORE", 16)
    assert host.library.host_fault()[3] == 0x080800  # UNITS: STORE waits, and has commands
    recover(host, 2)


def test_a_program_without_end(host):
    assert host.call("load", ENDLESS) == "OK"
    assert host.call("run", 100_000) == "TIMEOUT"
    assert host.fault() == ("NONE", "SEQUENCER", 16)
    recover(host, 3)


def test_the_wait_gives_up(host):
    host.give_up_after = 2
    assert host.call("load", ENDLESS) == "OK"
    assert host.call("run", 0) == "TIMEOUT"
    assert host.waits == 2
    host.give_up_after = None
    recover(host, 4)


def test_a_reset_while_it_runs(host):
    assert host.call("load", ENDLESS) == "OK"
    assert host.call("start") == "OK"
    host.transport.make_idle()
    assert host.call("poll", 0) == "WAS_RESET"
    recover(host, 5)
    assert host.call("load", ENDLESS) == "OK"
    assert (host.call("start"), host.call("reset")) == ("OK", "OK")
    recover(host, 6)


def test_what_is_left_running_is_ended(host):
    assert (host.call("load", ENDLESS), host.call("start")) == ("OK", "OK")
    assert host.call("open") == "OK"
    recover(host, 7)


def test_identity(host):
    assert host.call("load", FOREIGN) == "WRONG_CONFIGURATION"
    host.registers = {REGISTER["ISA_HASH"].offset: 1}
    assert host.call("load", DIGITS) == "WRONG_INSTRUCTION_SET"
    host.registers = {REGISTER["ID"].offset: 0}
    assert host.call("open") == "NO_MACHINE"
    host.registers = {REGISTER["VERSION"].offset: VERSION_VALUE + (1 << VERSION_PATCH_BITS)}
    assert host.call("open") == "WRONG_VERSION"
    host.registers = {REGISTER["VERSION"].offset: VERSION_VALUE ^ 1}
    assert host.call("open") == "OK"


def test_the_window(library, transport, programs):
    needed = programs["digits"].memory_bytes

    def loaded(**window):
        host = Host(library, transport, **window)
        return host.call("open"), host.call("load", DIGITS)

    base = transport.identity.memory_base
    assert loaded(memory_bytes=needed - 1) == ("OK", "MEMORY_TOO_SMALL")
    assert loaded(memory_bytes=needed) == ("OK", "OK")
    assert loaded(base=base + 16) == ("OK", "BAD_WINDOW")
    assert loaded(base=(1 << 32) - WINDOW_BYTES + 32) == ("OK", "BAD_WINDOW")


class HighMemory:
    """A machine whose memory lies above 4 GiB: another one, with the two registers that tell and set it."""

    STATUS = REGISTER["STATUS"].offset

    def __init__(self, transport):
        self._transport, self.high = transport, 0
        self.identity = transport.identity

    def __getattr__(self, name):
        return getattr(self._transport, name)

    def read_registers(self, offset, count):
        if offset == MEM_BASE_HIGH.offset:
            return [self.high & 0xFF]
        (value,) = self._transport.read_registers(offset, count)
        return [value | HIGH_BASE.mask if offset == self.STATUS else value]

    def write_register(self, offset, value):
        if offset == MEM_BASE_HIGH.offset:
            self.high = value
        else:
            self._transport.write_register(offset, value)


def test_a_window_above_4_gib(library, transport):
    """The machine is told all bits of the address; one that has fewer, or 32, is not used."""
    base, far = transport.identity.memory_base, HighMemory(transport)
    host = Host(library, far, base=base + (0x93 << 32))
    assert (host.call("open"), host.call("load", DIGITS)) == ("OK", "OK")
    check_digits(host, 8)
    assert far.high == 0x93
    host = Host(library, far)
    assert (host.call("open"), host.call("load", DIGITS), far.high) == ("OK", "OK", 0)
    for machine, high, told in ((far, 0x193, "WINDOW_LOCKED"), (transport, 1, "BAD_WINDOW")):
        host = Host(library, machine, base=base + (high << 32))
        assert (host.call("open"), host.call("load", DIGITS)) == ("OK", told)
    host = Host(library, far, base=(0x94 << 32) - WINDOW_BYTES + 32)
    assert (host.call("open"), host.call("load", DIGITS)) == ("OK", "BAD_WINDOW")


def test_a_locked_window(library, programs):
    """Only a reset by hardware unlocks it, so the test has a machine of its own."""
    transport = RtlTransport(CONFIG, memory_bytes=WINDOW_BYTES)
    base, needed = transport.identity.memory_base, programs["digits"].memory_bytes
    for name, value in (("MEM_BASE", base), ("MEM_SIZE", needed), ("LOCK", 1)):
        transport.write_register(REGISTER[name].offset, value)
    host = Host(library, transport)
    assert (host.call("open"), host.call("load", DIGITS)) == ("OK", "OK")
    check_digits(host, 8)
    larger = Host(library, transport, base=base + 32, memory_bytes=needed)
    assert (larger.call("open"), larger.call("load", DIGITS)) == ("OK", "WINDOW_LOCKED")
    transport.close()


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("tosaic_fault_name", Error),
        ("tosaic_unit_name", Unit),
        ("tosaic_decode_fault_name", DecodeError),
    ],
)
def test_names_are_those_of_the_hardware(library, function, kind):
    named = getattr(library, function)
    assert [named(int(member)).decode() for member in kind] == [member.name for member in kind]
    assert named(len(kind)) == b"unknown"


def test_the_result_of_a_program_that_is_too_large(library):
    too_small = 8
    assert library.tosaic_result_name(too_small) == b"MEMORY_TOO_SMALL"
    assert library.tosaic_result_text(too_small) == b"the program needs more memory than the window has"
    assert library.tosaic_result_text(1000) == b"unknown"


def test_a_larger_program_does_not_fit_a_locked_window(library, programs):
    transport = RtlTransport(CONFIG, memory_bytes=WINDOW_BYTES)
    for name, value in (("MEM_BASE", transport.identity.memory_base), ("MEM_SIZE", 4096), ("LOCK", 1)):
        transport.write_register(REGISTER[name].offset, value)
    assert programs["digits"].memory_bytes > 4096
    host = Host(library, transport)
    assert (host.call("open"), host.call("load", DIGITS)) == ("OK", "WINDOW_LOCKED")
    transport.close()
