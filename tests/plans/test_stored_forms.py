"""How parameters, tables and packed weights lie in memory, and what of a table of rows is there at a time."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.indexed import plan_indexed
from tosaic.compiler.fuse.translate import PerChannel
from tosaic.compiler.ir import DType
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.compression import CodedBlock, CodedWeights
from tosaic.compiler.place.external import ALIGNMENT_BYTES, BootBlock, ExternalMemory
from tosaic.compiler.place.packed_rows import PackedRows, RowPacker
from tosaic.compiler.place.params import ScalePlace, pack_line, pack_params, pack_table, scale_places
from tosaic.compiler.place.placement import Placement, resident
from tosaic.compiler.place.placer import Memories, Placer
from tosaic.compiler.place.residents import Residents
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.program import ProgramWeights
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan, GatherScatterPlanner, TableTile
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import OFFSETS_MAX, Element

SMALL = get_config("small")

# --- parameters


def unpacked(data: bytes, columns: int, bias_bytes: int, scale: bool) -> list[tuple[list[int], ...]]:
    """Biases, multipliers and shifts of each tile."""
    found, size = [], columns * (bias_bytes + 5 * scale)
    for start in range(0, len(data), size):
        tile, parts = data[start : start + size], []
        if bias_bytes:
            parts.append(np.frombuffer(tile[: columns * bias_bytes], f"<i{bias_bytes}").tolist())
        if scale:
            rest = tile[columns * bias_bytes :]
            parts.append(np.frombuffer(rest[: 4 * columns], "<i4").tolist())
            parts.append(list(rest[4 * columns :]))
        found.append(tuple(parts))
    return found


SCALES = PerChannel(np.arange(1, 7) << 24, np.arange(31, 37))


@pytest.mark.parametrize(
    "tile, tiles", [(4, [(0, 4), (4, 6)]), (3, [(0, 3), (3, 6)]), (2, [(0, 2), (2, 4), (4, 6)])]
)
@pytest.mark.parametrize("with_bias, with_scale", [(True, True), (True, False), (False, True)])
def test_parameters_of_tiles(tile: int, tiles: list, with_bias: bool, with_scale: bool) -> None:
    """Those of as many channels as a tile has, and zeros for the other lanes."""
    bias = np.arange(6) - 40000 if with_bias else None
    found = pack_params(6, tile, 4, bias, SCALES if with_scale else None)
    bias_bytes = 4 if with_bias else 0
    assert (found.bias_bytes, found.scale) == (bias_bytes, with_scale)
    assert found.tile_bytes == 4 * (bias_bytes + 5 * with_scale)
    lines = ([bias] if bias is not None else []) + ([SCALES.multipliers, SCALES.shifts] if with_scale else [])
    wanted = [
        tuple([*line[first:last].tolist(), *[0] * (4 - last + first)] for line in lines)
        for first, last in tiles
    ]
    assert unpacked(found.data, 4, bias_bytes, with_scale) == wanted


def test_one_parameter_is_that_of_all_channels() -> None:
    scales = PerChannel(np.array([5]), np.array([9]))
    found = pack_params(6, 4, 4, np.array([7]), scales)
    assert unpacked(found.data, 4, 2, True) == [
        ([7] * 4, [5] * 4, [9] * 4),
        ([7, 7, 0, 0], [5, 5, 0, 0], [9, 9, 0, 0]),
    ]


@pytest.mark.parametrize("bias_bytes", [0, 2, 4])
@pytest.mark.parametrize(
    "lanes, tile, channels", [(12, 4, 12), (12, 4, 6), (12, 4, 3), (10, 3, 5), (7, 4, 7), (8, 4, 1)]
)
def test_places_of_scales_are_where_parameters_have_them(
    lanes: int, tile: int, channels: int, bias_bytes: int
) -> None:
    """Channels come again and again; each place is as long as channels and tile go on."""
    columns, scales = 4, PerChannel(np.arange(lanes) % channels + 100, np.arange(lanes) % channels + 1)
    bias = {0: None, 2: np.zeros(lanes), 4: np.full(lanes, 1 << 20)}[bias_bytes]
    block = pack_params(lanes, tile, columns, bias, scales)
    assert block.bias_bytes == bias_bytes
    data, covered = block.data, 0
    places = list(scale_places(lanes, tile, columns, channels, bias_bytes=bias_bytes))
    for place in places:
        multipliers = np.frombuffer(data[place.multipliers :][: 4 * place.count], "<i4")
        assert multipliers.tolist() == list(range(100 + place.first, 100 + place.first + place.count))
        assert list(data[place.shifts :][: place.count]) == list(
            range(1 + place.first, 1 + place.first + place.count)
        )
        covered += place.count
    assert covered == lanes
    starts = {*range(0, lanes, tile), *range(0, lanes, channels)}
    assert len(places) == len(starts)


def test_a_place_of_scales() -> None:
    assert list(scale_places(4, 3, 4, 4, bias_bytes=2)) == [
        ScalePlace(0, 3, 8, 24),
        ScalePlace(3, 1, 36, 52),
    ]


def test_tables() -> None:
    """A word for each entry: its value, and the one behind it where VECTOR interpolates."""
    bytes_, count = pack_table(np.arange(-128, 128))
    assert count == 256
    assert np.frombuffer(bytes_, "<u4").tolist() == [value & 0xFFFF for value in range(-128, 128)]
    values = np.arange(513) * 100 - 20000
    bytes_, count = pack_table(values)
    entries = np.frombuffer(bytes_, "<u4").astype(np.int64)
    assert count == len(entries) == 512
    assert (entries & 0xFFFF).astype(np.int16).tolist() == values[:-1].tolist()
    assert (entries >> 16).astype(np.int16).tolist() == values[1:].tolist()


@pytest.mark.parametrize("element, size", [(Element.INT8, 1), (Element.INT16, 2), (Element.INT32, 4)])
def test_a_line(element: Element, size: int) -> None:
    assert np.frombuffer(pack_line(np.array([1, -2]), element), f"<i{size}").tolist() == [1, -2]


# --- external memory


def test_constants_lie_apart_and_once() -> None:
    memory = ExternalMemory()
    first, again, other = (memory.add_constant(data) for data in (b"abc", b"abc", b"x" * 65))
    assert (first, again, other.offset) == (first, first, ALIGNMENT_BYTES)
    assert memory.constants_bytes == 3 * ALIGNMENT_BYTES == len(memory.constants())
    assert memory.constants()[:4] == b"abc\0" and memory.constants()[64:130] == b"x" * 65 + b"\0"
    assert memory.add_constant(np.array([1, 2], "<i2")).offset == 3 * ALIGNMENT_BYTES
    assert [memory.reserve(size).offset for size in (1, 64, 65, 1)] == [0, 64, 128, 256]


def test_a_copy_of_a_memory_is_another_one() -> None:
    memory = ExternalMemory()
    memory.add_constant(b"abc")
    other = memory.copy()
    other.add_weights("w", 64, lambda: b"w" * 64)
    other.add_constant(b"xyz")
    assert (memory.constants_bytes, other.constants_bytes) == (64, 192)
    assert memory.stored_weights == []
    assert memory.constants() == b"abc" + bytes(61)


def block(data: bytes, weights: int) -> Any:
    return CodedBlock(data=data, weights=weights, lengths=(len(data),), cycles=4, crc32=0)


@pytest.mark.parametrize("at_boot", [False, True])
def test_coded_weights(at_boot: bool) -> None:
    """They are decoded once, to memory of their own, or where they are needed."""
    memory = ExternalMemory()
    region = Region.UNPACKED if at_boot else Region.CODED
    blocks = (block(b"ab", 100), block(b"cde", 60))
    found = [memory.add_coded_weights(name, CodedWeights(blocks, at_boot=at_boot)) for name in ("v", "w")]
    # Decoded memory is aligned; what has no address of its own is counted on.
    second = 192 if at_boot else 160
    assert found == [Address(region, 0), Address(region, second)]
    assert memory.stored_weights == [ProgramWeights(name, 160, 5, True, at_boot, 8) for name in ("v", "w")]
    assert memory.unpacked_bytes == (2 * 192 if at_boot else 0)
    places = [0, 100, second, second + 100]
    if at_boot:
        assert [each.target for each in memory.boot] == [Address(region, place) for place in places]
        assert all(isinstance(each, BootBlock) for each in memory.boot) and memory.coded == {}
        placed = [each.placed for each in memory.boot]
    else:
        assert list(memory.coded) == [Address(region, place) for place in places]
        assert memory.boot == []
        placed = list(memory.coded.values())
    assert [each.tensor for each in placed] == [0, 0, 1, 1]
    assert [each.address.offset for each in placed] == [0, 64, 0, 64]


def test_packed_rows_of_weights() -> None:
    memory = ExternalMemory()
    rows = PackedRows((b"abc", b"de"), 64, 100)
    assert [memory.add_packed_rows(name, rows).offset for name in ("v", "w")] == [0, 100]
    assert memory.packed_rows == {
        Address(Region.CODED, place): (Address(Region.CONSTANTS, where), size)
        for place, where, size in ((0, 0, 3), (64, 64, 2), (100, 0, 3), (164, 64, 2))
    }
    assert memory.stored_weights == [ProgramWeights(name, 100, 5, True, False, 0) for name in ("v", "w")]


# --- packed weights


def test_blobs_of_a_row() -> None:
    """As many as are fetched together, and fill no more than a quarter of the weight memory; one at least."""
    for wm_bytes, blob, group in (
        ("8K", 512, 2048),
        ("8K", 600, 1800),
        ("8K", 4096, 4096),
        ("64K", 512, 16384),
    ):
        packer = RowPacker(get_config(f"base,unpackers=1,wm_bytes={wm_bytes}"))
        assert packer.group_bytes(blob) == group


@pytest.mark.parametrize(
    "bandwidth, zeros, values, packed",
    [
        # 64 words. From 16 bytes per cycle few values pay, from one byte per cycle zeros, too.
        (None, 0, 4, False),
        (1, 0, 4, True),
        (1, 0, 16, True),
        (1, 0, 17, False),
        (1, 1024, 100, True),
        (1, 512, 100, True),
        (1, 128, 100, False),
    ],
)
def test_weights_that_are_packed(bandwidth: float | None, zeros: int, values: int, packed: bool) -> None:
    weights = np.arange(1024) % values + 1
    weights[:zeros] = 0
    packer = RowPacker(get_config("base,unpackers=1"), bandwidth)
    assert (packer.code(weights, 1024) is not None) == packed


# --- tensors in activation memory


def test_banks_of_tensors() -> None:
    """As counted byte by byte, whatever comes and goes."""
    dice, there = random.Random(3), dict[str, Placement]()
    residents = Residents(100)
    for _ in range(300):
        name = dice.choice("abcdef")
        if dice.random() < 0.6:
            start = dice.choice((0, 50, 100, 101, 199, 300))
            there[name] = resident(start, dice.choice((1, 50, 99, 100, 101, 250)))
            residents.put(name, there[name])
        else:
            there.pop(name, None)
            residents.drop(name)

        def banks(placement: Placement) -> set[int]:
            start = placement.address.offset
            return {byte // 100 for byte in range(start, start + placement.bytes)}

        counted = [bank for placement in there.values() for bank in banks(placement)]
        assert residents.banks == {bank: counted.count(bank) for bank in set(counted)}
        assert set(residents) == set(there) and all(each in residents for each in there)
        two = [dice.choice("abcdef") for _ in range(2)]
        assert residents.banks_of(two) == {
            bank for each in two if each in there for bank in banks(there[each])
        }


def test_the_tensor_that_came_last_to_a_place() -> None:
    residents = Residents(64)
    for name, start in (("a", 0), ("b", 0), ("c", 64)):
        residents.put(name, resident(start, 8))
    assert [residents.name(start) for start in (0, 64, 8)] == ["b", "c", None]
    residents.put("a", resident(0, 8))
    assert residents.name(0) == "a"
    residents.drop("a")
    assert (residents.name(0), residents.touched) == ("b", {0, 64})
    residents.put("b", resident(64, 8))
    assert [residents.name(start) for start in (0, 64)] == [None, "b"]


# --- tables of rows


class Rows:
    """A GATHER of `count` rows of 40 bytes out of tables of `rows`. Beside two buffers of constant offsets there are
    `room` bytes of memory."""

    def __init__(
        self,
        room: int,
        *,
        batches: int = 1,
        rows: int = 100,
        count: int = 30,
        bytes_: int = 40,
        config: Config = SMALL,
        inside: Sequence[str] = (),
        computed: bool = False,
    ):
        build = LayerBuilder(1)
        values = build.input("values", (batches, rows, bytes_), DType.INT8)
        places = np.zeros((batches, count), np.int32)
        indices = (
            build.input("indices", places.shape, DType.INT32)
            if computed
            else build.constant(places, DType.INT32)
        )
        output = build.add("GATHER", [values, indices])
        self.arena = Arena(config.am_bytes, 1)
        placer = Placer(Tensors(build.graph, config), Memories(self.arena, config.am_bytes))
        for name in (values, indices, output):
            placer.external(name)
        for name in inside:
            placer.placements[{"output": output}.get(name, name)] = resident(0, 1)
        self.offsets_bytes = 8 * min(OFFSETS_MAX, config.am_bytes // 128, batches * count)
        kept = config.am_bytes - room - self.offsets_bytes
        if kept > 0:
            self.arena.allocate(kept)
        self.planner = GatherScatterPlanner(
            placer, plan_indexed(build.graph, build.graph.operators[0]), output
        )

    def plan(self) -> GatherScatterPlan:
        return self.planner.plan()


@pytest.mark.parametrize(
    "batches, rows, bytes_, tile",
    [
        # Fewer batches, fewer words of each row, then fewer rows with one before and one behind.
        *((5, 100, 40, TableTile(batches, 100, 40)) for batches in (5, 3, 2)),
        *((5, 100, 40, TableTile(1, 100, size)) for size in (40, 24, 16, 8)),
        *((5, 100, 40, TableTile(1, rows, 8, spare=True)) for rows in (50, 25, 13)),
        (1, 16, 5, TableTile(1, 16, 5)),
        (1, 17, 5, TableTile(1, 9, 5, spare=True)),
    ],
)
def test_parts_of_a_table(batches: int, rows: int, bytes_: int, tile: TableTile) -> None:
    """Each is taken where there is no room for a larger one; the list is there."""
    sizes = dict(batches=batches, rows=rows, bytes_=bytes_, count=1, inside=["output"])
    plan = Rows(tile.bytes + 8, **sizes).plan()  # type: ignore[arg-type]
    assert (plan.tile, plan.blocks) == (tile, None)
    smallest = tile.spare and -(-tile.rows // 2) < 9
    if smallest or (rows, bytes_) == (16, 5):
        with pytest.raises(OutOfMemory):
            Rows(tile.bytes + 7, **sizes).plan()  # type: ignore[arg-type]
    else:
        assert Rows(tile.bytes + 7, **sizes).plan().tile.bytes < tile.bytes  # type: ignore[arg-type]


def test_bytes_of_parts_of_a_table() -> None:
    assert [TableTile(n, 100, 40).bytes for n in (5, 3, 2, 1)] == [20000, 12000, 8000, 4000]
    assert [TableTile(1, rows, 8, spare=True).bytes for rows in (50, 25, 13)] == [416, 216, 120]


@pytest.mark.parametrize(
    "room, tile, rows, copies",
    [
        # The table of 4000 bytes and a word, and all 30 rows once, or half of them twice.
        (4008 + 1208, TableTile(1, 100, 40), 30, 1),
        (4008 + 2 * 648, TableTile(1, 100, 40), 30, 1),
        (4008 + 1207, TableTile(1, 100, 24), 30, 1),
        (800 + 8 + 30 * 8 + 8, TableTile(1, 100, 8), 30, 1),
        (120 + 8 + 30 * 8 + 8, TableTile(1, 13, 8, spare=True), 30, 1),
    ],
)
def test_the_largest_part_that_fits(room: int, tile: TableTile, rows: int, copies: int) -> None:
    made = Rows(room)
    found = made.plan()
    assert (found.tile, found.block_rows) == (tile, rows)
    assert found.tile_address == SMALL.am_bytes - made.offsets_bytes - tile.bytes - 8
    assert found.blocks is not None
    assert (len(found.blocks.addresses), found.blocks.size_bytes) == (copies, rows * tile.row_bytes + 8)


@pytest.mark.parametrize(
    "room, rows, copies", [(4008, 25, 2), (4007, 25, 2), (2016, 25, 2), (2015, 50, 1), (1296, 16, 2)]
)
def test_rows_of_a_list_at_a_time(room: int, rows: int, copies: int) -> None:
    """Half as many again and again, twice or once, beside a table that is there; no fewer than 16."""
    found = Rows(room, count=100, inside=["values"]).plan()
    assert (found.tile, found.tile_address, found.block_rows) == (TableTile(1, 100, 40), None, rows)
    assert found.blocks is not None and len(found.blocks.addresses) == copies


def test_a_table_without_room() -> None:
    said = "^GATHER_0: 16 rows of one bus word of its table and its list do not fit"
    with pytest.raises(OutOfMemory, match=said):
        Rows(16 * 40 + 7, count=100, inside=["values"]).plan()
    with pytest.raises(OutOfMemory, match=said):
        Rows(120 + 8 + 16 * 8 + 8 - 1, count=16).plan()


@pytest.mark.parametrize(
    "batches, count, inside, chunk, index, batch_bytes",
    [
        (1, 30, None, 120, False, 0),
        (4, 30, None, 480, False, 0),
        (1, 5000, None, 4 * OFFSETS_MAX, False, 0),
        (1, 30, True, 120, False, 4),
        (4, 30, True, 480, False, 16),
        (4, 30, False, 480, True, 16),
        (4, OFFSETS_MAX // 2, False, 4 * OFFSETS_MAX, True, 8),
        (4, OFFSETS_MAX // 2 + 1, False, 4 * OFFSETS_MAX, True, 4),
        (4, OFFSETS_MAX + 1, False, 4 * OFFSETS_MAX, True, 4),
    ],
)
def test_buffers_of_offsets(
    batches: int, count: int, inside: bool | None, chunk: int, index: bool, batch_bytes: int
) -> None:
    """The offsets are constant, or computed, or made of indices that are outside."""
    there = ["values", "output", *(["indices"] if inside else [])]
    made = Rows(SMALL.am_bytes, batches=batches, count=count, inside=there, computed=inside is not None)
    plan = made.plan()
    assert (plan.chunk_rows, plan.offsets.size_bytes, len(plan.offsets.addresses)) == (OFFSETS_MAX, chunk, 2)
    assert (plan.index_buffer is not None) == index
    taken = sum(end - start for start, end in made.arena.used())
    assert taken == 2 * chunk * (1 + index) + batch_bytes
    assert len(plan.addresses()) == 2 + 2 * index + (batch_bytes > 0)


def test_offsets_take_an_eighth_of_a_small_memory() -> None:
    config = get_config("small,am_bytes=16K")
    plan = Rows(1 << 14, config=config, count=5000, inside=["values", "output"]).plan()
    assert (plan.chunk_rows, plan.offsets.size_bytes) == (128, 512)


def test_offsets_without_room() -> None:
    made = Rows(-40, inside=["values", "output"])
    with pytest.raises(
        OutOfMemory, match="^GATHER_0: 120 bytes of offsets do not fit the activation memory$"
    ):
        made.plan()
    assert made.arena.largest_gap_bytes() == 200
