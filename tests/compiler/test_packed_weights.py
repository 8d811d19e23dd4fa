"""Programs whose weights LOAD unpacks: what is packed how, and the same numbers as without."""

import numpy as np
import pytest
from compressed_graphs import SparseLayers, sparse_network
from emulation import assert_equal_to_golden

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.compiler.machine_numbers import CODED_GROUP_BYTES
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.packed_rows import RowPacker
from tosaic.compiler.program import Program
from tosaic.errors import DeviceError, UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.hw.packed_weights import PackedError, WeightCoding, pack, unpack
from tosaic.sim.emulator import Emulator
from tosaic.sim.program import decode_program


def packed_loads(program: Program):
    code = program.image[program.program_address :][: program.program_bytes]
    return [each for each in decode_program(code) if each.opcode == Opcode.LOAD_GO and each.packed]


@pytest.mark.parametrize("size", ["small", "base", "large"])
def test_the_same_numbers_as_golden(size):
    graph = sparse_network(channels=64)
    program = compile_graph(graph, get_config(size), compress="fast", speed=MemorySpeed(1))
    assert packed_loads(program) and any(each.coded for each in program.weights)
    assert_equal_to_golden(graph, size, check_hazards=True, compress="fast", speed=MemorySpeed(1))


def one_pixel(zeros: float, seed: int = 3):
    """A layer that the array works on in blocks, following its weights word by word."""
    build = SparseLayers(seed)
    build.zeros = zeros
    x = build.input("x", (1, 1, 1, 512), DType.INT8)
    y = build.rescale(build.conv(x, 256, (1, 1)), DType.INT8)
    build.output(build.rescale(build.conv(y, 64, (1, 1)), DType.INT8))
    return build.graph


def test_streamed_weights_are_unpacked_word_by_word():
    graph = one_pixel(0.85)
    program = compile_graph(graph, get_config("base"), compress="fast", speed=MemorySpeed(4))
    assert all(each.streamed for each in packed_loads(program)) and packed_loads(program)
    assert_equal_to_golden(graph, "base", check_hazards=True, compress="fast", speed=MemorySpeed(4))


@pytest.mark.parametrize(("zeros", "share"), [(0.8, 0.5), (0.95, 0.4)])
def test_slow_memory_brings_them_sooner(zeros, share):
    graph, config, cycles = one_pixel(zeros), get_config("base"), []
    for compress in (None, "fast"):
        program = compile_graph(graph, config, compress=compress, speed=MemorySpeed(4))
        done = Emulator(config).run(
            program.memory(), program.program_address, program.program_bytes, bandwidth_bytes=4
        )
        cycles.append(done.cycles)
    assert cycles[1] < share * cycles[0]


def weights(kind: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    if kind == "dense":
        return rng.integers(-128, 128, 1 << 14).astype(np.int8)
    if kind == "int4":
        return rng.integers(-8, 8, 1 << 14).astype(np.int8)
    if kind == "ternary":
        return rng.choice([-37, 0, 37], 1 << 14).astype(np.int8)
    zeros = {"dense but for a seventh": 1 / 7, "dense but for a fifth": 0.2, "sparse": 0.8}[kind]
    return np.where(rng.random(1 << 14) < zeros, 0, rng.integers(-128, 128, 1 << 14)).astype(np.int8)


@pytest.mark.parametrize(
    ("kind", "bandwidth", "mode"),
    [
        ("dense", 1, None),
        ("sparse", None, None),
        ("sparse", 12.5, None),
        ("sparse", 12.4, WeightCoding.MASK),
        ("sparse", 4, WeightCoding.MASK),
        ("dense but for a seventh", 2, None),
        ("dense but for a fifth", 8.4, None),
        ("dense but for a fifth", 8.3, WeightCoding.MASK),
        ("int4", 8, WeightCoding.PALETTE_16),
        ("int4", 14.8, WeightCoding.PALETTE_16),
        ("int4", 14.9, None),
        ("int4", 16, None),
        ("ternary", 4, WeightCoding.PALETTE_4),
        ("ternary", 15, WeightCoding.PALETTE_4),
        ("ternary", 15.1, None),
    ],
)
def test_what_loads_faster_is_chosen(kind, bandwidth, mode):
    found = RowPacker(get_config("base"), bandwidth).code(weights(kind), 2048)
    if mode is None:
        assert found is None
        return
    assert {int.from_bytes(row[:4], "little") >> 16 for row in found.rows} == {mode}
    back = np.concatenate([unpack(row, 16)[0] for row in found.rows])
    np.testing.assert_array_equal(back, weights(kind))


def test_sizes_of_the_modes():
    """A mask takes a bit per weight, and what is not zero a byte and some more; palettes take 2 and 4 bits."""
    sizes = {kind: weights(kind).size for kind in ("sparse", "ternary", "int4")}
    taken = {
        "sparse": len(pack(weights("sparse"), WeightCoding.MASK, 16)),
        "ternary": len(pack(weights("ternary"), WeightCoding.PALETTE_4, 16)),
        "int4": len(pack(weights("int4"), WeightCoding.PALETTE_16, 16)),
    }
    assert taken["ternary"] == sizes["ternary"] // 4 + 16 + 64
    assert taken["int4"] == sizes["int4"] // 2 + 16 + 256
    kept = np.count_nonzero(weights("sparse"))
    assert sizes["sparse"] / 8 + kept < taken["sparse"] < sizes["sparse"] / 8 + 1.2 * kept


def test_a_palette_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="^16 different weights are no palette of 4$"):
        pack(weights("int4"), WeightCoding.PALETTE_4, 16)
    with pytest.raises(ValueError, match="^a row holds 1 to 65535 words of weights, not 0$"):
        pack(np.zeros(0, np.int8), WeightCoding.MASK, 16)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda row: row[:-16], "it ends before its last word of weights"),
        (lambda row: row + bytes(16), "words are left over behind its 1024 words of weights"),
        (lambda row: bytes(16) + row[16:], "its header 0x0 has no words or an unknown mode"),
    ],
)
def test_a_wrong_row_is_named(change, reason):
    with pytest.raises(PackedError, match=f"^{reason}$"):
        unpack(change(pack(weights("sparse"), WeightCoding.MASK, 16)), 16)


def test_a_damaged_row_ends_the_run():
    config = get_config("base")
    program = compile_graph(one_pixel(0.9), config, compress="fast", speed=MemorySpeed(4))
    memory = program.memory()
    memory[packed_loads(program)[0].memory_address] ^= 1
    with pytest.raises(
        DeviceError, match=r"^ILLEGAL at program counter \d+ \(LOAD_GO .*the packed row at \d+ is"
    ):
        Emulator(config).run(memory, program.program_address, program.program_bytes)


def test_a_configuration_without_an_unpacker_is_refused():
    with pytest.raises(UnsupportedError, match="^configuration 'nano' has no unpacker for packed weights"):
        compile_graph(sparse_network(), get_config("nano"), compress="fast", speed=MemorySpeed(1))


@pytest.mark.parametrize(
    ("machine", "blob_bytes", "group"),
    [
        ("base", 1, CODED_GROUP_BYTES),
        ("base", CODED_GROUP_BYTES, CODED_GROUP_BYTES),
        ("base", CODED_GROUP_BYTES + 1, CODED_GROUP_BYTES + 1),
        ("base", CODED_GROUP_BYTES // 2, CODED_GROUP_BYTES),
        ("base", CODED_GROUP_BYTES // 2 + 1, CODED_GROUP_BYTES // 2 + 1),
        ("base,wm_bytes=8K", 512, 2048),
    ],
)
def test_whole_blobs_are_a_row(machine: str, blob_bytes: int, group: int) -> None:
    assert RowPacker(get_config(machine)).group_bytes(blob_bytes) == group
