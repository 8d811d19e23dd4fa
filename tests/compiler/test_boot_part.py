"""Weights that are decoded once: what the boot part is, where it leaves weights, and when runs decode instead."""

import dataclasses
import json
import warnings
import zlib

import numpy as np
import pytest
from compressed_graphs import SparseLayers, sparse_network
from emulation import assert_equal_to_golden

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.compiler.machine_numbers import BOOT_BLOCK_BYTES
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.compression import Method, WeightCoder
from tosaic.compiler.program import MAGIC, Program
from tosaic.errors import ModelError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.emulator import Emulator
from tosaic.sim.program import decode_program


def instructions(program: Program, start: int, size: int):
    return decode_program(program.image[start:][:size])


def boot_instructions(program: Program):
    return instructions(program, program.boot.program_address, program.boot.program_bytes)


def run_instructions(program: Program):
    return instructions(program, program.program_address, program.program_bytes)


@pytest.mark.parametrize("size", ["small", "base", "base,cabac_engines=4", "base,am_bytes=16K", "large"])
def test_the_same_numbers_as_golden(size):
    graph = sparse_network()
    program = compile_graph(graph, get_config(size), compress="nnr")
    assert program.boot is not None and all(each.at_boot for each in program.weights if each.coded)
    assert_equal_to_golden(graph, size, check_hazards=True, compress="nnr")


def test_runs_are_those_of_a_program_without_compression():
    """The same instructions but for where weights and tensors lie, and the same cycles."""
    graph, config = sparse_network(channels=64), get_config("base")
    plain, program = compile_graph(graph, config), compile_graph(graph, config, compress="nnr")
    before, after = run_instructions(plain), run_instructions(program)
    assert [each.opcode for each in before] == [each.opcode for each in after]
    for one, other in zip(before, after, strict=True):
        assert {**one.fields, "memory_address": 0} == {**other.fields, "memory_address": 0}
    assert len(program.image) < len(plain.image)
    memory, cycles = program.memory(), []
    Emulator(config).run(memory, program.boot.program_address, program.boot.program_bytes)
    for each, window in ((plain, plain.memory()), (program, memory)):
        for bandwidth in (16, 4, 1):
            done = Emulator(config).run(
                window, each.program_address, each.program_bytes, bandwidth_bytes=bandwidth
            )
            cycles.append(done.cycles)
    assert cycles[:3] == cycles[3:]


def test_the_boot_part_leaves_the_packed_weights():
    """Byte by byte those that the program without compression loads, with the CRC-32 that the file tells."""
    graph, config = sparse_network(), get_config("base")
    plain, program = compile_graph(graph, config), compile_graph(graph, config, compress="nnr")
    memory = program.memory()
    Emulator(config, check_hazards=True).run(memory, program.boot.program_address, program.boot.program_bytes)
    loads = [
        [each for each in run_instructions(one) if each.opcode == Opcode.LOAD_GO and each.space == 1]
        for one in (plain, program)
    ]
    for one, other in zip(*loads, strict=True):
        wanted = plain.image[one.memory_address :][: one.row_bytes]
        assert memory[other.memory_address :][: other.row_bytes].tobytes() == wanted
    for block in program.boot.blocks:
        assert zlib.crc32(memory[block.slice].tobytes()) == block.crc32
        assert len(program.image) <= block.address < block.slice.stop <= program.memory_bytes


def test_the_boot_part_only_loads_decodes_and_stores():
    program = compile_graph(sparse_network(), get_config("base"), compress="nnr")
    units = {each.opcode.unit.name for each in boot_instructions(program)}
    assert units == {"SEQUENCER", "LOAD", "STORE"}
    assert not any(each.opcode == Opcode.LOAD_DECODE for each in run_instructions(program))
    assert sum(each.opcode == Opcode.LOAD_DECODE for each in boot_instructions(program)) == len(
        program.boot.blocks
    )


def test_without_compression_there_is_no_boot_part():
    assert compile_graph(sparse_network(), get_config("base")).boot is None


def sparse_weights(count: int, zeros: float) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.where(rng.random(count) < zeros, 0, rng.integers(-9, 10, count)).astype(np.int8)


@pytest.mark.parametrize(
    ("engines", "bandwidth", "zeros", "at_boot"),
    [(4, None, 0.97, True), (4, 4, 0.97, True), (4, 1, 0.97, False), (4, 1, 0.2, True), (1, 1, 0.97, True)],
)
def test_runs_decode_where_that_is_faster_than_to_load(engines, bandwidth, zeros, at_boot):
    config = dataclasses.replace(get_config("base"), cabac_engines=engines)
    coded = WeightCoder(config, Method.NNR, bandwidth).code(sparse_weights(1 << 14, zeros), 1024)
    assert coded.at_boot == at_boot
    loading = (1 << 14) // (bandwidth or 16)
    assert at_boot == (coded.cycles > 0.9 * loading)


def test_a_program_may_have_both():
    """Sparse weights are decoded in every run, where memory is slow, and dense ones at boot."""
    build = SparseLayers(5)
    x = build.input("x", (1, 4, 4, 32), DType.INT8)
    y = build.rescale(build.conv(x, 64, (3, 3)), DType.INT8)
    build.zeros = 0.99
    build.output(build.rescale(build.conv(y, 64, (1, 1)), DType.INT8))
    size = "base,cabac_engines=2"
    program = compile_graph(build.graph, get_config(size), compress="nnr", speed=MemorySpeed(1))
    assert [(each.coded, each.at_boot) for each in program.weights] == [(True, True), (True, False)]
    assert_equal_to_golden(build.graph, size, compress="nnr", speed=MemorySpeed(1), check_hazards=True)


def test_decoding_in_every_run_says_that_it_is_slower():
    with pytest.warns(UserWarning) as told:
        program = compile_graph(sparse_network(), get_config("base"), compress="nnr-stream")
    found = [each for each in told if each.category is UserWarning]
    coded = [weights for weights in program.weights if weights.coded]
    decoding, loading = sum(each.decode_cycles for each in coded), sum(each.bytes for each in coded) // 16
    begin = f"each run decodes weights for about {decoding:,} cycles, and would load them in {loading:,}; without "
    assert len(found) == 1 and found[0].filename == __file__
    assert str(found[0].message).startswith(f"{begin}compression it is predicted to take ")
    assert str(found[0].message).endswith(": compress by 'nnr' to decode once")


@pytest.mark.parametrize(
    "method, speed", [("nnr", MemorySpeed()), (None, MemorySpeed()), ("nnr-stream", MemorySpeed(0.1))]
)
def test_decoding_that_takes_no_longer_than_loading_says_nothing(method, speed):
    """Once at boot, none at all, or beside a slow memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_graph(sparse_network(), get_config("base"), compress=method, speed=speed)


def test_blocks_fit_the_activation_memory():
    for size, limit in (("base", BOOT_BLOCK_BYTES), ("base,am_bytes=16K", 4 << 10)):
        coded = WeightCoder(get_config(size)).code(sparse_weights(200_000, 0.8), 1024)
        assert max(block.weights for block in coded.blocks) == limit
        assert sum(block.weights for block in coded.blocks) == 200_000


# --- in the program file


def changed(raw: bytes, change) -> bytes:
    """The file with its header changed by `change(header)`."""
    start = len(MAGIC) + 4
    length = int.from_bytes(raw[len(MAGIC) : start], "little")
    header = json.loads(raw[start : start + length])
    change(header)
    text = json.dumps(header).encode()
    body = MAGIC + len(text).to_bytes(4, "little") + text + raw[start + length : -4]
    return body + zlib.crc32(body).to_bytes(4, "little")


def test_the_program_file_keeps_it():
    program = compile_graph(sparse_network(), get_config("small"), compress="nnr")
    assert Program.load(program.to_bytes()).boot == program.boot


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda boot: boot.pop("blocks"), "boot.blocks is missing"),
        (lambda boot: boot.update(blocks=[]), "boot.blocks must not be empty"),
        (
            lambda boot: boot.update(program_bytes=1 << 20),
            "boot.program_address and program_bytes reach beyond",
        ),
        (lambda boot: boot["blocks"][0].update(tensor=99), "boot.blocks[0].tensor must be one of 3 weights"),
        (
            lambda boot: boot["blocks"][0].update(address=0),
            "boot.blocks[0].address and bytes must lie between",
        ),
        (
            lambda boot: boot["blocks"][0].update(bytes=1 << 31),
            "boot.blocks[0].address and bytes must lie be",
        ),
        (lambda boot: boot["blocks"][0].update(crc32=-1), "boot.blocks[0].crc32 must be an integer in 0.."),
    ],
)
def test_a_wrong_header_is_named(change, reason):
    raw = compile_graph(sparse_network(), get_config("small"), compress="nnr").to_bytes()
    with pytest.raises(ModelError) as caught:
        Program.load(changed(raw, lambda header: change(header["boot"])))
    assert str(caught.value).startswith(f"the program file's header is wrong: {reason}")
