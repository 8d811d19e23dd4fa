"""The simulator in WebAssembly: the same outputs, cycles and counters as the one of this processor's own code, and what
is said where neither can be had."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir.tosa_file import read_tosa
from tosaic.errors import InputError, UnsupportedError
from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import EVENT_COUNTERS, REGISTER, RESP_OKAY, RESP_SLVERR
from tosaic.hw.isa import INSTRUCTION_BYTES, CoreProgram
from tosaic.install import install_command
from tosaic.sim.registers import Registers
from tosaic.sim.rtl import RtlSimulator
from tosaic.sim.rtl.choice import machine_library
from tosaic.sim.rtl.library import INTERRUPT, ControlWrite, Harness
from tosaic.sim.rtl.wasm_build import wasm_library

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.xdist_group("nano")


def runs(model, samples):
    """Outputs, cycles and all statistics of each of the samples, in one session."""
    with tosaic.Session(model, "sim", "nano") as session:
        return [(session.run(sample), session.stats) for sample in samples]


def both(monkeypatch, act):
    """What `act` returns on the native simulator and in WebAssembly."""
    found = []
    for kind in ("native", "wasm"):
        monkeypatch.setenv("TOSAIC_SIMULATOR", kind)
        found.append(act())
    return found


@pytest.mark.parametrize("name, count", [("digits/digits.tosa", 2), ("chat/chat.tosa", 3)])
def test_outputs_cycles_and_counters_are_the_same(monkeypatch, name, count):
    """They are, run after run, of a network without and of one with state."""
    random = np.random.default_rng(7)
    inputs = tosaic.Session(EXAMPLES / name, "golden").inputs
    samples = [
        {port.name: random.integers(0, 64, port.shape).astype(port.numpy) for port in inputs}
        for _ in range(count)
    ]
    native, wasm = both(monkeypatch, lambda: runs(EXAMPLES / name, samples))
    assert len(native) == count
    for (wanted, statistics), (found, counted) in zip(native, wasm, strict=True):
        assert {key: value.tolist() for key, value in found.items()} == {
            key: value.tolist() for key, value in wanted.items()
        }
        assert counted["cycles"] == statistics["cycles"]
        assert [counted["counters"][each] for each in EVENT_COUNTERS] == [
            statistics["counters"][each] for each in EVENT_COUNTERS
        ]


def test_a_device_that_lives_from_run_to_run(monkeypatch):
    """Its memory is changed between the runs from outside."""
    monkeypatch.setenv("TOSAIC_SIMULATOR", "wasm")
    model = EXAMPLES / "digits/digits.tosa"
    images = np.load(EXAMPLES / "digits/images.npz")["inputs"][:3]
    with tosaic.Session(model, "sim://nano") as device, tosaic.Session(model, "golden") as golden:
        for image in images:
            value = {device.inputs[0].name: image.reshape(device.inputs[0].shape)}
            (found,), (wanted,) = (session.run(value).values() for session in (device, golden))
            assert found.tolist() == wanted.tolist()


def test_accesses_that_overlap(monkeypatch):
    place = REGISTER["WATCHDOG"].offset

    def act():
        machine = Harness(machine_library(CONFIGS["nano"]))
        answers = machine.control_accesses(
            [place, 0x3C], [ControlWrite(place, 0xFFFF_FFF0), ControlWrite(place, 0x11, 0b0001)]
        )
        later = machine.control_read(place)
        machine.close()
        return [answer.response for answer in answers[0]], answers[1], later

    native, wasm = both(monkeypatch, act)
    assert native == wasm == ([RESP_OKAY, RESP_SLVERR], [RESP_OKAY, RESP_OKAY], 0xFFFF_FF11)


def test_more_memory_than_it_can_hold(monkeypatch):
    monkeypatch.setenv("TOSAIC_SIMULATOR", "wasm")
    memory = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (5 << 30,), (0,))
    machine = Harness(machine_library(CONFIGS["nano"]))
    with pytest.raises(
        tosaic.Error, match="has no room for 5368709120 bytes of memory: set TOSAIC_SIMULATOR=nat"
    ):
        machine.set_memory(memory, 0)
    machine.close()


def test_another_kind_is_refused(monkeypatch):
    monkeypatch.setenv("TOSAIC_SIMULATOR", "fast")
    with pytest.raises(InputError, match="TOSAIC_SIMULATOR=fast: it is native or wasm, or not set"):
        RtlSimulator(CONFIGS["nano"])


def test_where_there_is_no_compiler(monkeypatch):
    """The package ziglang builds one; without it the way out is named."""
    monkeypatch.delenv("TOSAIC_SIMULATOR", raising=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert machine_library(CONFIGS["nano"]).name.endswith((".wasm", ".wasm.xz"))
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "ziglang" else find(name))
    config = get_config("nano,line_pixels=64")
    with pytest.raises(UnsupportedError) as caught:
        RtlSimulator(config)
    assert str(caught.value) == (
        "simulating the RTL of nano,line_pixels=64 needs a C++ compiler, and there is no no-such-compiler: install "
        f"one, or set CXX, or {install_command('zig')}; the target emulator needs nothing"
    )


def test_what_is_recorded_adds_up_to_the_counters(monkeypatch):
    """In both kinds, which record the same."""
    program = compile_graph(read_tosa(EXAMPLES / "digits/digits.tosa"), CONFIGS["nano"])

    def act():
        memory = program.memory()
        harness = Harness(machine_library(CONFIGS["nano"]))
        harness.set_memory(memory, 0)
        harness.set_timing(50, 4000)
        registers = Registers(harness, 1)
        harness.begin_record()
        registers.start(0, len(memory), [CoreProgram(program.program_address, program.program_bytes)])
        assert harness.run(1_000_000) == INTERRUPT
        result, found = registers.result(CONFIGS["nano"], [], registers.marks()), harness.recorded()
        harness.close()
        return result, found

    (counted, recorded), (_, again) = both(monkeypatch, act)
    assert len(recorded.events) == counted.cycles
    sums = [int((recorded.events >> bit & 1).sum()) for bit in range(len(EVENT_COUNTERS))]
    assert sums == [counted.counters[name] for name in EVENT_COUNTERS]
    assert recorded.events.tolist() == again.events.tolist()
    assert recorded.steps.tolist() == again.steps.tolist()
    places = recorded.steps[:, 2].reshape(-1)
    assert set(recorded.steps[:, 1].tolist()) == {0, 1, 2, 3}
    assert (places % INSTRUCTION_BYTES == 0).all() and places.max() < program.program_bytes


@pytest.mark.nightly
def test_another_checkout_finds_the_simulator_that_one_has_built(tmp_path):
    """The same sources in another folder, and another Python, ask for the same file of the cache."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs ziglang")
    shutil.copytree(EXAMPLES.parent / "tosaic", tmp_path / "tosaic")
    script = "from tosaic.hw.config import CONFIGS; from tosaic.sim.rtl.wasm_build import wasm_library; "
    script += "import tosaic.sim; print(tosaic.sim.__path__[0]); print(wasm_library(CONFIGS['nano']))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    place, library = done.stdout.split()
    assert place.startswith(str(tmp_path))
    assert library == str(wasm_library(CONFIGS["nano"]))
