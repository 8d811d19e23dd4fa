"""What VECTOR keeps from GO to GO, what it loads, and in which order it stores: by programs of a few commands."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from unit_programs import UnitProgram, assert_read

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import STORE_STREAM, Condition, Element, Op, Opcode, Source
from tosaic.sim.emulator import Diverged

CONFIG = get_config("small")
LANES = CONFIG.columns
OUT = 4096
"""Where these tests store."""
LOAD = {"a_source": Source.LOAD}
KEPT = {"a_source": Source.REGISTER}


class Machine(UnitProgram):
    """A UnitProgram with the commands of VECTOR, for one sample unless told."""

    def __init__(self, samples: int = 1, config: Config = CONFIG):
        super().__init__(config, samples)

    def there(self, address: int, count: int, dtype: str = "i1", sample: int = 0) -> list[int]:
        """What the program leaves in activation memory."""
        size = count * np.dtype(dtype).itemsize
        return self.executed()[sample, address : address + size].copy().view(dtype).tolist()

    def stream(
        self,
        number: int,
        address: int,
        dims: Sequence[tuple[int, int]],
        element: Element = Element.INT8,
        **fields: int,
    ) -> None:
        self.take(Opcode.VECTOR_STREAM, stream=number, address=address, element=element, **fields)
        dims = [*dims, *[(1, 0)] * (6 - len(dims))]
        for pair in range(3):
            (low, near), (high, far) = dims[2 * pair : 2 * pair + 2]
            strides = {"stride_low": near, "stride_high": far}
            self.take(Opcode.VECTOR_DIMS, stream=number, pair=pair, count_low=low, count_high=high, **strides)

    def program(self, *uops: dict[str, int]) -> None:
        for index, uop in enumerate(uops):
            self.take(Opcode.VECTOR_UOP, index=index, **uop)

    def go(self, vectors: int, uops: int, **fields: int) -> None:
        whole = {"slots": 1, "repeats": 1, "lanes": LANES, "tail_lanes": LANES}
        self.take(Opcode.VECTOR_GO, **whole | {"vectors": vectors, "uops": uops} | fields)


def test_each_slot_keeps_the_register_of_the_last_batch_that_has_it() -> None:
    """Six vectors in batches of four slots: the last batch has two."""
    machine = Machine()
    machine.put(0, np.arange(6 * LANES, dtype=np.int8))
    machine.stream(0, 0, [(6, LANES)])
    machine.program(LOAD | {"destination": 2})
    machine.go(6, 1, slots=4)
    machine.program(KEPT | {"a_index": 2, "to_memory": 1})
    machine.stream(STORE_STREAM, OUT, [(4, LANES)])
    machine.go(4, 1, slots=4)
    assert [first // LANES for first in machine.there(OUT, 4 * LANES)[::LANES]] == [4, 5, 2, 3]


def test_the_body_repeats_in_each_batch_between_what_comes_once() -> None:
    """1 + 10 + 20 + 0 + 1 + 2: an immediate, two loads of three turns each and their numbers, and twice a constant."""
    machine = Machine()
    machine.put(0, np.repeat(np.array([10, 20, 30, 40, 50, 60], np.int8), LANES))
    machine.stream(0, 0, [(6, LANES)])
    machine.stream(STORE_STREAM, OUT, [(2, LANES)])
    machine.program(
        {"a_source": Source.IMMEDIATE, "destination": 1},
        LOAD | {"op": Op.ADD, "b_source": Source.REGISTER, "b_index": 1, "destination": 1},
        KEPT | {"op": Op.ADD, "a_index": 1, "b_source": Source.ITERATION, "destination": 1},
        KEPT | {"a_index": 1, "out_zp": -100, "to_memory": 1},
    )
    machine.take(Opcode.VECTOR_BOUNDS, index=0, immediate=1)
    machine.go(2, 4, body_start=1, body_end=3, repeats=3)
    assert machine.there(OUT, 2 * LANES) == [1 + 60 + 3 - 100] * LANES + [1 + 150 + 3 - 100] * LANES


@pytest.mark.parametrize("narrow, biases", [(0, "<i4"), (1, "<i2")])
def test_parameters_follow_each_other(narrow: int, biases: str) -> None:
    """Biases of the lanes, multipliers, then shifts, of which six bits count; the next set is behind them."""
    machine = Machine()
    lanes, wanted = np.arange(LANES), []
    parts = []
    for block in range(2):
        bias, multiplier, shift = lanes - 30000 + block, -(lanes << 20) - block, lanes + 7 * block + 1
        parts += [bias.astype(biases), multiplier.astype("<i4"), (shift + 64).astype(np.uint8)]
        wanted += bias.tolist()
        wanted += [
            (77 * int(m) + (1 << (int(s) - 1))) >> int(s) for m, s in zip(multiplier, shift, strict=True)
        ]
    machine.put(40, np.frombuffer(b"".join(part.tobytes() for part in parts), np.uint8))
    machine.take(Opcode.VECTOR_PARAM, address=40, bias=1, scale=1, narrow=narrow)
    scaled = {"op": Op.RESCALE, "per_channel": 1, "a_source": Source.IMMEDIATE, "to_memory": 1}
    machine.program({"bias": 1, "to_memory": 1}, scaled)
    machine.take(Opcode.VECTOR_BOUNDS, index=1, immediate=77)
    machine.stream(STORE_STREAM, OUT, [(4, 4 * LANES)], Element.INT32)
    machine.go(2, 2, next_params=1)
    assert machine.there(OUT, 4 * LANES, "<i4") == wanted


def test_parameters_that_are_not_asked_for_stay() -> None:
    machine = Machine()
    scale = np.concatenate([np.full(LANES, 9, "<i4").view(np.uint8), np.full(LANES, 1, np.uint8)])
    machine.put(0, np.full(LANES, 3, "<i4"))
    machine.put(100, scale)
    machine.take(Opcode.VECTOR_PARAM, address=0, bias=1)
    machine.take(Opcode.VECTOR_PARAM, address=100, scale=1)
    machine.program({"bias": 1, "op": Op.RESCALE, "per_channel": 1, "to_memory": 1})
    machine.stream(STORE_STREAM, OUT, [])
    machine.go(1, 1)
    assert machine.there(OUT, LANES) == [(3 * 9 + 1) >> 1] * LANES


def biased(slots: int, vectors: int, next_params: int) -> list[int]:
    """Zeros with biases, each set of which is one more than the one before."""
    machine = Machine()
    machine.put(0, np.repeat(np.arange(1, 6, dtype="<i4"), LANES))
    machine.stream(STORE_STREAM, OUT, [(vectors, LANES)])
    machine.program({"bias": 1, "to_memory": 1})
    machine.take(Opcode.VECTOR_PARAM, address=0, bias=1)
    machine.go(vectors, 1, slots=slots, next_params=next_params)
    return machine.there(OUT, vectors * LANES)[::LANES]


@pytest.mark.parametrize(
    "slots, vectors, sets",
    [
        (2, 3, [1, 1, 2]),
        (2, 4, [1, 1, 2, 2]),
        (2, 5, [1, 1, 2, 2, 3]),
        (4, 3, [1, 1, 1]),
        (3, 3, [1, 1, 1]),
        (1, 3, [1, 2, 3]),
    ],
)
def test_every_batch_but_the_first_loads_the_parameters_that_follow(slots, vectors, sets) -> None:
    assert biased(slots, vectors, 1) == sets
    assert biased(slots, vectors, 0) == [1] * vectors


def test_without_parameters_nothing_is_loaded_for_the_next_batch() -> None:
    machine = Machine()
    machine.stream(STORE_STREAM, OUT, [(4, LANES)])
    machine.program({"to_memory": 1, "out_zp": 7})
    machine.go(4, 1, slots=2, next_params=1)
    assert machine.there(OUT, 4 * LANES) == [7] * 4 * LANES


def test_a_table_of_256_entries_leaves_the_rest_of_a_longer_one() -> None:
    """Entry 1 shows the shorter table, the last entries the longer one."""
    machine = Machine()
    machine.put(0, np.arange(512, dtype="<i4"))
    machine.take(Opcode.VECTOR_TABLE, address=0, entries=512)
    machine.take(Opcode.VECTOR_TABLE, address=4, entries=256)
    indices = [0, 1, 255, 256, 257, 511, 300, 254]
    machine.put(3000, np.array([(each << 7) - 32768 for each in indices], "<i2"))
    machine.stream(0, 3000, [], Element.INT16)
    machine.stream(STORE_STREAM, OUT, [], Element.INT32)
    machine.program(LOAD | {"op": Op.TABLE16, "to_memory": 1})
    machine.go(1, 1)
    values = [each + (each < 256) for each in indices]
    assert machine.there(OUT, LANES, "<i4") == [value << 7 for value in values]


@pytest.mark.parametrize("byte, flag", [(0, False), (1, True), (128, True), (255, True)])
def test_the_flag_is_whether_a_byte_is_not_zero(byte: int, flag: bool) -> None:
    """A GO that stores sevens is behind a branch that is taken where the flag is set."""
    machine = Machine()
    machine.put(9, np.array([1 - flag, byte, 1 - flag], np.uint8))
    machine.stream(STORE_STREAM, OUT, [])
    machine.program({"to_memory": 1, "out_zp": 7})
    machine.take(Opcode.VECTOR_TEST, address=10)
    machine.branch_over_the_next(Condition.IF_SET)
    machine.go(1, 1)
    assert machine.there(OUT, LANES) == [0 if flag else 7] * LANES


def test_samples_that_go_different_ways_are_told_apart() -> None:
    machine = Machine(samples=3)
    machine.put(0, np.array([1], np.uint8), sample=1)
    machine.take(Opcode.VECTOR_TEST, address=0)
    with pytest.raises(Diverged) as caught:
        machine.executed()
    assert caught.value.as_first.tolist() == [True, False, True]


RAW = struct.pack("<q", -2)
ELEMENTS = {
    Element.INT8: -2,
    Element.UINT8: 254,
    Element.INT16: -2,
    Element.UINT16: 65534,
    Element.INT32: -2,
    Element.INT48: -2,
}


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("splat", [0, 1])
def test_elements_are_read_with_their_sign_and_width(element: Element, splat: int) -> None:
    """Element number lane, or number 0 in all lanes, minus twice what bytes of -2 are."""
    machine, size = Machine(), element.bytes
    for lane in range(LANES):
        machine.put(size * lane, np.frombuffer(RAW[:size], np.uint8))
    machine.put(0, np.frombuffer(struct.pack("<q", 5)[:size], np.uint8))
    machine.stream(0, 0, [], element, splat=splat)
    machine.stream(STORE_STREAM, OUT, [], Element.INT32)
    machine.program(LOAD | {"to_memory": 1})
    machine.go(1, 1)
    others = [5] * (LANES - 1) if splat else [ELEMENTS[element]] * (LANES - 1)
    assert machine.there(OUT, LANES, "<i4") == [5, *others]


@pytest.mark.parametrize("uops, wanted", [(1, [0, 1, 2, 3, 4]), (2, [2, 2, 2, 2, 1])])
def test_the_array_is_taken_once_or_twice_per_slot(uops: int, wanted: list[int]) -> None:
    """Twice: a batch of two slots takes four vectors, two for the first micro-op and then two for the second."""
    machine, vectors = Machine(), 5 * uops
    machine.put(1024, np.arange(vectors, dtype=np.int8).repeat(LANES))
    machine.wm[:, :LANES] = 1
    machine.take(Opcode.ARRAY_INPUT, address=1024, row_bytes=vectors * LANES, height=1)
    machine.take(Opcode.ARRAY_WINDOW, x_step=LANES, width=vectors)
    machine.take(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
    machine.take(Opcode.ARRAY_GO, pixels=vectors, drain=1)
    machine.stream(STORE_STREAM, OUT, [(5, LANES)])
    taken = {"a_source": Source.ARRAY}
    second = taken | {"op": Op.SUB, "b_source": Source.REGISTER, "b_index": 1, "to_memory": 1}
    machine.program(*([taken | {"to_memory": 1}] if uops == 1 else [taken | {"destination": 1}, second]))
    machine.go(5, uops, slots=2)
    assert machine.there(OUT, 5 * LANES)[::LANES] == wanted


def test_offsets_are_of_the_turns_of_dimension_1() -> None:
    machine = Machine()
    machine.put(0, np.repeat(np.arange(20, dtype=np.int8), LANES))
    machine.put(1000, np.array([7 * LANES, -LANES, 3 * LANES], "<i4"))
    machine.take(Opcode.VECTOR_OFFSETS, address=1000, count=3)
    machine.stream(0, 5 * LANES, [(2, LANES), (3, 0)], indexed=1)
    machine.stream(STORE_STREAM, OUT, [(6, LANES)])
    machine.program(LOAD | {"to_memory": 1})
    machine.go(6, 1, slots=4)
    assert machine.there(OUT, 6 * LANES)[::LANES] == [12, 13, 4, 5, 8, 9]


@pytest.mark.parametrize(
    "turns, second, refused",
    [
        (3, False, None),
        (4, False, "at most as many turns as there are offsets, 3"),
        (3, True, "only one stream may be indexed"),
    ],
)
def test_one_stream_is_indexed_at_most_and_has_an_offset_for_each_turn(
    turns: int, second: bool, refused: str | None
) -> None:
    machine = Machine()
    machine.take(Opcode.VECTOR_OFFSETS, address=1000, count=3)
    machine.program(LOAD | {"to_memory": 1})
    machine.stream(0, 0, [(1, 0), (turns, 0)], indexed=1)
    if second:
        machine.stream(1, 0, [], indexed=1)
    machine.go(1, 1)
    if refused is None:
        machine.executed()
        return
    with pytest.raises(DeviceError, match=refused):
        machine.executed()


@pytest.mark.parametrize("stores", [1, 2])
@pytest.mark.parametrize("near", [0, 3, 5, -2])
@pytest.mark.parametrize("offsets", [[0, 6, 12], [0, 4, 8], [8, 4, 0], [5, 5, 5], [0, 20, 40]])
@pytest.mark.parametrize("tail", [1, 3, 8])
def test_where_stores_overlap_the_last_one_stays(
    offsets: list[int], near: int, tail: int, stores: int
) -> None:
    """Vectors of 3 lanes and of `tail` lanes in turn; of two stores per slot the second ones of a batch come last."""
    machine = Machine()
    machine.put(0, np.repeat(np.arange(1, 7, dtype=np.int8), LANES))
    machine.put(1000, np.array(offsets, "<i4"))
    machine.take(Opcode.VECTOR_OFFSETS, address=1000, count=3)
    machine.stream(0, 0, [(6, LANES)])
    machine.stream(STORE_STREAM, OUT, [(2, near), (3, 0)], indexed=1)
    machine.program(*[LOAD | {"to_memory": 1}] * stores)
    machine.go(6 // stores, stores, slots=2, lanes=3, tail_lanes=tail)
    wanted = [0] * 96
    for number in range(6):
        start, width = 16 + offsets[number // 2] + number % 2 * near, (3, tail)[number % 2]
        wanted[start : start + width] = [number + 1] * width
    assert machine.there(OUT - 16, 96) == wanted


@pytest.mark.parametrize("tail", [LANES, 5])
@pytest.mark.parametrize("first", [8, 0, -4, -7])
@pytest.mark.parametrize("step", [8, 7, 4, -8, -5])
def test_stores_over_the_end_of_the_memory(first: int, step: int, tail: int) -> None:
    """Twelve of 8 and of `tail` bytes in turn, the last one `step` bytes before `first`: addresses wrap."""
    machine, size, count = Machine(), CONFIG.am_bytes, 12
    machine.put(OUT, np.repeat(np.arange(1, count + 1, dtype=np.int8), LANES))
    machine.stream(0, OUT, [(count, LANES)])
    machine.stream(STORE_STREAM, (first - count * step) % size, [(2, step), (count // 2, 2 * step)])
    machine.program(LOAD | {"to_memory": 1})
    machine.go(count, 1, slots=16, tail_lanes=tail)
    wanted = machine.am[0].copy()
    for number in range(count):
        lanes = np.arange(tail if number % 2 else LANES)
        wanted[(first + (number - count) * step + lanes) % size] = number + 1
    np.testing.assert_array_equal(machine.executed()[0], wanted)


def test_only_stores_over_the_end_of_the_memory_overlap() -> None:
    """A short one that begins at byte 0 comes after a long one that ends there."""
    machine = Machine()
    machine.put(OUT, np.repeat(np.arange(1, 13, dtype=np.int8), LANES))
    machine.put(1000, np.array([-4, -20, 100, 200, 300, 400], "<i4"))
    machine.take(Opcode.VECTOR_OFFSETS, address=1000, count=6)
    machine.stream(0, OUT, [(12, LANES)])
    machine.stream(STORE_STREAM, 0, [(2, 20), (6, 0)], indexed=1)
    machine.program(LOAD | {"to_memory": 1})
    machine.go(12, 1, slots=16, tail_lanes=5)
    found = machine.executed()[0]
    assert found[:5].tolist() == [4] * 5 and found[-4:].tolist() == [1] * 4
    np.testing.assert_array_equal(found, machine.scalar())


def test_lanes_without_a_beat_keep_what_the_register_held() -> None:
    """A beat of int32 has two lanes, so a GO of three lanes has two beats."""
    machine = Machine()
    machine.put(0, np.arange(100, 100 + LANES, dtype="<i4"))
    machine.stream(0, 0, [], Element.INT32)
    machine.program({"out_zp": -9, "destination": 1})
    machine.go(1, 1)
    machine.program(LOAD | {"destination": 1})
    machine.go(1, 1, lanes=3, tail_lanes=3)
    machine.program(KEPT | {"a_index": 1, "to_memory": 1})
    machine.stream(STORE_STREAM, OUT, [], Element.INT32)
    machine.go(1, 1)
    assert machine.there(OUT, LANES, "<i4") == [100, 101, 102, 103] + [-9] * (LANES - 4)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("carried", [False, True])
def test_many_batches_are_as_one_after_the_other(samples: int, carried: bool) -> None:
    """More than are computed at once, with a shorter one behind them; `carried`: each goes on with what the one before
    has left in its slots."""
    machine, vectors = Machine(samples), 600 * 16 + 3
    dice = np.random.default_rng(samples)
    for sample in range(samples):
        machine.put(0, dice.integers(-128, 128, 4 * LANES * 5, np.int8), sample)
    machine.stream(0, 0, [(100, LANES // 2), (vectors // 100 + 1, 1)])
    machine.stream(STORE_STREAM, OUT, [(vectors, LANES)])
    machine.program({"destination": 1})
    machine.go(16, 1, slots=16)
    added = {"op": Op.ADD, "b_source": Source.REGISTER, "b_index": 1}
    machine.program(
        LOAD | (added if carried else {}) | {"destination": 1}, KEPT | {"a_index": 1, "to_memory": 1}
    )
    machine.go(vectors, 2, slots=16)
    found = machine.executed()
    for sample in range(samples):
        np.testing.assert_array_equal(found[sample], machine.scalar(sample))


@pytest.mark.parametrize("missing", [None, 0, 5, 50, 53, 200, 203, 210, 213])
def test_bytes_that_a_go_reads(missing: int | None) -> None:
    """A GO with vectors of 3 and 2 lanes reads only those elements, and element 0 of a vector that goes to all
    lanes."""
    machine = Machine()
    machine.stream(0, 100, [(2, 50)], Element.INT16)
    machine.stream(1, 300, [(2, 10)], Element.INT32, splat=1)
    machine.stream(STORE_STREAM, OUT, [(2, 20)], Element.INT16)
    machine.program(
        LOAD | {"destination": 1},
        LOAD | {"a_index": 1, "op": Op.ADD, "b_source": Source.REGISTER, "b_index": 1, "to_memory": 1},
    )
    machine.go(2, 2, slots=2, lanes=3, tail_lanes=2)
    read = [range(100, 106), range(150, 154), range(300, 304), range(310, 314)]
    assert_read(machine, read, None if missing is None else 100 + missing)


@pytest.mark.parametrize(
    "opcode, fields, size",
    [
        (Opcode.VECTOR_TEST, {}, 1),
        (Opcode.VECTOR_OFFSETS, {"count": 3}, 12),
        (Opcode.VECTOR_TABLE, {"entries": 256}, 1024),
        (Opcode.VECTOR_PARAM, {"bias": 1, "scale": 1, "narrow": 1}, 7 * LANES),
        (Opcode.VECTOR_PARAM, {"bias": 1}, 4 * LANES),
    ],
)
def test_bytes_that_configuration_reads(opcode: Opcode, fields: dict[str, int], size: int) -> None:
    machine = Machine()
    machine.take(opcode, address=200, **fields)
    for missing in (None, 200, 200 + size - 1):
        assert_read(machine, [range(200, 200 + size)], missing)
