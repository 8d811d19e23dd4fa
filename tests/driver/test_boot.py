"""The boot part on every way to a machine: it runs once, what it leaves is checked, and damage has a name."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from damaged_streams import damaged_memories
from device_programs import check_run, tiny

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.compiler.program import Program
from tosaic.driver.device import Device
from tosaic.driver.session import Session
from tosaic.driver.targets import TargetOptions, make_runner, naming_weights
from tosaic.driver.transports import RtlTransport
from tosaic.errors import DeviceError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.program import decode_program

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tosa"
TINY = DIGITS.with_name("digits_tiny.tosa")
CONFIG = get_config("base")


def inputs(session, seed=4):
    generator = np.random.default_rng(seed)
    return {arg.name: generator.integers(-128, 128, arg.shape).astype(arg.numpy) for arg in session.inputs}


@pytest.fixture(scope="module")
def program():
    return compile_graph(read_tosa(TINY), CONFIG, compress="nnr")


@pytest.mark.parametrize(
    ("target", "bandwidth"),
    [
        ("emulator", 16),
        ("emulator", 8),
        ("emulator", 4),
        ("emulator", 1),
        *(pytest.param("sim", bandwidth, marks=pytest.mark.xdist_group("base")) for bandwidth in (16, 4)),
    ],
)
def test_runs_take_the_cycles_of_a_program_without_compression(target, bandwidth):
    plain = Session(DIGITS, target, "base", memory_bandwidth=bandwidth)
    session = Session(DIGITS, target, "base", memory_bandwidth=bandwidth, compress="nnr")
    for seed in range(2):
        values = inputs(plain, seed)
        plain.run(values)
        session.run(values, check=True)
        # The program lies elsewhere, and so its bursts end elsewhere.
        assert session.stats["cycles"] <= 1.01 * plain.stats["cycles"]
        assert session.stats["weights"]["load_bytes"] == plain.stats["weights"]["load_bytes"]
    assert session.stats["weights"]["decode_cycles"] == 0 and plain.stats["boot"] is None


@pytest.mark.xdist_group("base")
def test_the_figures_of_the_boot_part():
    found = {}
    for target in ("emulator", "sim"):
        session = Session(DIGITS, target, "base", compress="nnr")
        session.run(inputs(session))
        found[target] = session.stats["boot"]
    assert abs(found["emulator"]["cycles"] - found["sim"]["cycles"]) <= 0.01 * found["sim"]["cycles"]
    figures, weights = found["sim"], [each for each in session.program.weights if each.at_boot]
    assert figures["tensors"] == len(weights) == 3
    assert figures["saved_bytes"] == sum(each.bytes - each.stored_bytes for each in weights) > 0
    assert figures["dram_write_bytes"] == sum(each.bytes for each in weights)
    assert figures["break_even_bytes_per_cycle"] == figures["saved_bytes"] / figures["cycles"]
    assert figures["break_even_runs"] == 2


def test_samples_that_are_computed_together():
    session = Session(DIGITS, "emulator", "base", compress="nnr")
    samples = [inputs(session, seed) for seed in range(3)]
    values = {name: np.stack([each[name] for each in samples]) for name in samples[0]}
    session.run_batch(values, check=True)
    session.run_batch(values, check=True)


def test_from_a_file(tmp_path, program):
    path = tmp_path / "digits.tsc"
    program.save(path)
    session, plain = Session(path, "emulator"), Session(TINY, "emulator", "base")
    values = inputs(plain)
    for name, value in plain.run(values).items():
        np.testing.assert_array_equal(session.run(values)[name], value)


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
def test_a_damaged_stream_names_its_tensor(target, program):
    refused, run = 0, naming_weights(program, make_runner(target, program))
    for memory, name in damaged_memories(program, program.boot.program_address, program.boot.program_bytes):
        with pytest.raises(DeviceError) as caught:
            run(memory)
        refused += 1
        assert str(caught.value).startswith("boot part: DECODE ")
        assert str(caught.value).endswith(f"the compressed weights {name!r} are damaged")
    assert refused


def wrong_check(program: Program) -> Program:
    """The program with the CRC-32 of other weights for its last block."""
    first, last = program.boot.blocks[:-1], program.boot.blocks[-1]
    blocks = (*first, dataclasses.replace(last, crc32=last.crc32 ^ 1))
    return dataclasses.replace(program, boot=dataclasses.replace(program.boot, blocks=blocks))


def test_wrong_weights_are_refused(program):
    wrong, last = wrong_check(program), program.boot.blocks[-1]
    with pytest.raises(
        DeviceError,
        match=rf"^boot part: wrong weights at 0x{last.address:x}: their CRC-32 is 0x{last.crc32:08x}, not "
        rf"0x{last.crc32 ^ 1:08x}; the compressed weights '.*' are damaged$",
    ):
        naming_weights(wrong, make_runner("emulator", wrong))(wrong.memory())


def test_a_limit_for_runs_leaves_the_boot_part_its_time():
    """It takes longer than a run; an endless one ends all the same."""
    program = compile_graph(read_tosa(DIGITS), CONFIG, compress="nnr")
    run = make_runner("emulator", program, TargetOptions(max_cycles=7000))
    found = run(program.memory())
    assert found.cycles < 7000 < found.boot.cycles


# --- devices


class Counting(RtlTransport):
    """Counts what is sent and started."""

    def __init__(self):
        super().__init__(CONFIG, memory_bytes=1 << 20)
        self.memory[:] = np.random.default_rng(7).integers(0, 256, self.memory.size, dtype=np.uint8)
        self.starts: list[int] = []
        self.sent_bytes = 0
        self.read_bytes = 0

    def start(self, memory_bytes, program_address, *more, **others):
        self.starts.append(program_address)
        super().start(memory_bytes, program_address, *more, **others)

    def write_memory(self, address, data):
        self.sent_bytes += len(data)
        super().write_memory(address, data)

    def read_memory(self, address, count):
        self.read_bytes += count
        return super().read_memory(address, count)


@pytest.fixture
def transport():
    made = Counting()
    yield made
    made.close()


@pytest.mark.xdist_group("base")
def test_a_device_boots_once(transport, program):
    device = Device(transport)
    for seed in range(3):
        check_run(device, program, seed)
    boot, run = program.boot.program_address, program.program_address
    assert transport.starts == [boot, run, run, run]
    assert transport.sent_bytes == len(program.image) + 3 * 64
    check_run(device, tiny("base"), 1)
    check_run(device, program, 2)
    assert transport.starts[4:] == [tiny("base").program_address, boot, run]


@pytest.mark.xdist_group("base")
def test_after_an_error_and_after_others_it_boots_again(transport, program):
    device = Device(transport)
    check_run(device, program, 1)
    transport.set_errors(transport.identity.memory_base + program.inputs[0].address, None)
    with pytest.raises(DeviceError, match="^sim://base: BUS_READ in LOAD"):
        check_run(device, program, 2)
    transport.set_errors(None, None)
    check_run(device, program, 3)
    transport.acquire = lambda: False
    check_run(device, program, 4)
    boot, run = program.boot.program_address, program.program_address
    assert transport.starts == [boot, run, run, boot, run, boot, run]


@pytest.mark.xdist_group("base")
def test_what_a_device_decoded_is_looked_at(transport, program):
    """All of it where memory is near, the smallest block over a slow link."""
    sizes = [block.bytes for block in program.boot.blocks]
    output = program.outputs[0].bytes
    for near, size in ((True, sum(sizes)), (False, min(sizes))):
        transport.reads_fast, transport.read_bytes = near, 0
        check_run(Device(transport), program, 1)
        assert transport.read_bytes == size + output
    transport.reads_fast = True
    with pytest.raises(DeviceError, match="^boot part: sim://base: wrong weights at 0x"):
        check_run(Device(transport), wrong_check(program), 1)
    check_run(Device(transport), program, 2)


@pytest.mark.xdist_group("base")
def test_damage_on_a_device_is_named(transport, program):
    image = bytearray(program.image)
    code = decode_program(program.image[program.boot.program_address :][: program.boot.program_bytes])
    place = next(each.memory_address for each in code if each.opcode == Opcode.LOAD_DECODE)
    image[place : place + 2] = b"\xff\xff"
    with pytest.raises(DeviceError, match="^boot part: sim://base: DECODE in LOAD at program counter "):
        check_run(Device(transport), dataclasses.replace(program, image=bytes(image)), 1)
