"""The emulator's vector unit alone: what it keeps from GO to GO, what it loads, and in which order it stores."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest

import tosaic.sim.emulator.vector as unit
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FIELDS, STORE_STREAM, Element, Instruction, Op, Opcode, Source, make
from tosaic.sim.emulator.alu import Value
from tosaic.sim.emulator.external_memory import ExternalMemory
from tosaic.sim.emulator.faults import Diverged, Fault
from tosaic.sim.emulator.hazards import AM
from tosaic.sim.emulator.state import State
from tosaic.sim.emulator.vector import Vector

CONFIG = get_config("small")
LANES = CONFIG.columns
OUT = 4096
"""Where these tests store."""
LOAD = {"a_source": Source.LOAD}
KEPT = {"a_source": Source.REGISTER}


def command(opcode: Opcode, **fields: int) -> Instruction:
    return make(opcode, **{field.name: 0 for field in FIELDS[opcode]} | fields)


class Machine:
    """A vector unit and its activation memory, of one sample as a rule."""

    def __init__(self, samples: int = 1, hazards: object = None, config: Config = CONFIG):
        self.state = State(config, ExternalMemory(np.zeros((samples, 0), np.uint8)), hazards)  # type: ignore[arg-type]
        self.vector = Vector(self.state)

    def put(self, address: int, data: np.ndarray, sample: int | None = None) -> None:
        chosen = slice(None) if sample is None else slice(sample, sample + 1)
        raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        self.state.am._bytes[chosen, address : address + len(raw)] = raw

    def there(self, address: int, count: int, dtype: str = "i1", sample: int = 0) -> list[int]:
        size = count * np.dtype(dtype).itemsize
        return self.state.am.read(address, size)[sample].copy().view(dtype).tolist()

    def take(self, opcode: Opcode, **fields: int) -> None:
        self.vector.configure(command(opcode, **fields))

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
        self.vector.go(command(Opcode.VECTOR_GO, **whole | {"vectors": vectors, "uops": uops} | fields))


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
    assert [machine.there(OUT + LANES * slot, 1)[0] // LANES for slot in range(4)] == [4, 5, 2, 3]


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
        bias, multiplier, shift = lanes - 30000 + block, -(lanes << 20) - block, lanes + 7 * block
        parts += [bias.astype(biases), multiplier.astype("<i4"), (shift + 64).astype(np.uint8)]
        wanted.append((bias.tolist(), multiplier.tolist(), shift.tolist()))
    machine.put(40, np.frombuffer(b"".join(part.tobytes() for part in parts), np.uint8))
    machine.take(Opcode.VECTOR_PARAM, address=40, bias=1, scale=1, narrow=narrow)
    for block in range(2):
        found = machine.vector._parameters
        assert (found.bias.tolist(), found.multiplier.tolist(), found.shift.tolist()) == wanted[block]
        machine.vector._load_next_parameters()


def test_parameters_that_are_not_asked_for_stay() -> None:
    machine = Machine()
    scale = np.concatenate([np.full(LANES, 9, "<i4").view(np.uint8), np.full(LANES, 5, np.uint8)])
    machine.put(0, np.full(LANES, 3, "<i4"))
    machine.put(100, scale)
    machine.take(Opcode.VECTOR_PARAM, address=0, bias=1)
    machine.take(Opcode.VECTOR_PARAM, address=100, scale=1)
    found = machine.vector._parameters
    assert [each.tolist() for each in (found.bias, found.multiplier, found.shift)] == [
        [number] * LANES for number in (3, 9, 5)
    ]
    assert machine.vector._loaded == {"bias", "scale"}


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
    [(2, 4, [1, 1, 2, 2]), (2, 5, [1, 1, 2, 2, 3]), (4, 3, [1, 1, 1]), (3, 3, [1, 1, 1]), (1, 3, [1, 2, 3])],
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
    machine = Machine()
    machine.put(0, np.arange(512, dtype="<i4"))
    machine.take(Opcode.VECTOR_TABLE, address=0, entries=512)
    assert machine.vector._loaded == {"table of 256 entries", "table of 512 entries"}
    machine.take(Opcode.VECTOR_TABLE, address=4, entries=256)
    assert machine.vector._parameters.table.tolist() == [*range(1, 257), *range(256, 512)]
    other = Machine()
    other.take(Opcode.VECTOR_TABLE, address=0, entries=256)
    assert other.vector._loaded == {"table of 256 entries"}


@pytest.mark.parametrize("byte, flag", [(0, False), (1, True), (128, True), (255, True)])
def test_the_flag_is_whether_a_byte_is_not_zero(byte: int, flag: bool) -> None:
    machine = Machine()
    machine.vector.flag = not flag
    machine.put(9, np.array([1 - flag, byte, 1 - flag], np.uint8))
    machine.take(Opcode.VECTOR_TEST, address=10)
    assert machine.vector.flag is flag


def test_samples_that_go_different_ways_are_told_apart() -> None:
    machine = Machine(samples=3)
    machine.put(0, np.array([1], np.uint8), sample=1)
    with pytest.raises(Diverged):
        machine.take(Opcode.VECTOR_TEST, address=0)


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


def test_the_array_is_taken_once_or_twice_per_slot() -> None:
    """Twice: a batch of two slots takes four vectors, two for the first micro-op and then two for the second."""
    for uops, wanted in ((1, [0, 1, 2, 3, 4]), (2, [0 - 2, 1 - 3, 4 - 6, 5 - 7, 8 - 9])):
        machine = Machine()
        block = np.repeat(np.arange(10, dtype=np.int32), LANES).reshape(1, 10, LANES)
        machine.state.accumulator_queue.push(block)
        machine.stream(STORE_STREAM, OUT, [(5, LANES)])
        taken = {"a_source": Source.ARRAY}
        second = taken | {"op": Op.SUB, "b_source": Source.REGISTER, "b_index": 1, "to_memory": 1}
        machine.program(*([taken | {"to_memory": 1}] if uops == 1 else [taken | {"destination": 1}, second]))
        machine.go(5, uops, slots=2)
        signs = [(-1) ** (uops - 1) * number for number in wanted]
        assert machine.there(OUT, 5 * LANES)[::LANES] == signs
        assert machine.state.accumulator_queue.vectors == 10 - 5 * uops


@pytest.mark.parametrize(
    "there, taken", [(4, None), (3, "takes 4 vectors out of the array, which has sent 3")]
)
def test_no_more_is_taken_than_the_array_has_sent(there: int, taken: str | None) -> None:
    machine = Machine()
    machine.state.accumulator_queue.push(np.zeros((1, there, LANES), np.int32))
    machine.program({"a_source": Source.ARRAY})
    if taken is None:
        machine.go(4, 1, slots=4)
        return
    with pytest.raises(Fault, match=taken):
        machine.go(4, 1, slots=4)


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


def test_one_stream_is_indexed_at_most_and_has_an_offset_for_each_turn() -> None:
    machine = Machine()
    machine.take(Opcode.VECTOR_OFFSETS, address=1000, count=3)
    machine.program(LOAD | {"to_memory": 1})
    machine.stream(0, 0, [(1, 0), (3, 0)], indexed=1)
    machine.go(1, 1)
    machine.stream(0, 0, [(1, 0), (4, 0)], indexed=1)
    with pytest.raises(Fault, match="at most as many turns as there are offsets, 3"):
        machine.go(1, 1)
    machine.stream(0, 0, [(1, 0), (3, 0)], indexed=1)
    machine.stream(1, 0, [], indexed=1)
    with pytest.raises(Fault, match="only one stream may be indexed"):
        machine.go(1, 1)


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


@pytest.mark.parametrize(
    "starts, width, apart",
    [
        ([0, 8, 16], 8, True),
        ([0, 7, 16], 8, False),
        ([16, 0, 8], 8, True),
        ([0, 8, 16], 9, False),
        ([64, 8, 16], 8, True),
        ([60, 8, 16], 12, False),
        ([60, 8, 20], 12, True),
        ([61, 8, 20], 12, False),
        ([0, 56], 8, True),
        ([0, 57], 8, False),
        ([0], 64, True),
        ([0], 65, False),
    ],
)
def test_whether_stores_are_apart_in_a_memory_whose_addresses_wrap(starts, width, apart) -> None:
    assert unit._apart(np.array([starts]), width, 64) is apart
    assert unit._apart(np.array([[0, 20, 40][: len(starts)], starts]), width, 64) is (
        apart and (width <= 20 or len(starts) == 1)
    )


def test_lanes_without_a_beat_keep_what_the_register_held() -> None:
    before, after = Value(np.arange(4), 9), Value(np.full((1, 2, 4), 7), 7)
    merged = unit._first_lanes(after, 3, before, (1, 2, 4))
    assert merged.lanes.tolist() == [[[7, 7, 7, 3]] * 2]
    assert merged.bound == 9
    assert unit._first_lanes(before, 1, after, (1, 2, 4)).bound == 9


def test_streams_that_a_micro_op_moves() -> None:
    def moved(**fields: int) -> list[int | str]:
        return unit._streams_used(command(Opcode.VECTOR_UOP, **fields))

    assert moved() == []
    assert moved(a_source=Source.LOAD, a_index=2) == [2]
    assert moved(b_source=Source.LOAD, b_index=1, to_memory=1) == [1, STORE_STREAM]
    assert moved(a_source=Source.ARRAY, b_source=Source.LOAD) == ["array", 0]
    assert moved(a_source=Source.REGISTER, a_index=1, b_source=Source.IMMEDIATE) == []


@pytest.mark.parametrize(
    "samples, carried, next_params, groups",
    [
        (1, False, 0, [(0, 256, 16), (256, 256, 16), (512, 88, 16), (600, 1, 3)]),
        (2, False, 0, [(128 * n, 128, 16) for n in range(4)] + [(512, 88, 16), (600, 1, 3)]),
        (1, True, 0, [(n, 1, 16) for n in range(600)] + [(600, 1, 3)]),
        (1, False, 1, [(n, 1, 16) for n in range(600)] + [(600, 1, 3)]),
    ],
)
def test_batches_that_are_computed_at_once(samples, carried, next_params, groups, monkeypatch) -> None:
    """32768 lanes of all samples, unless a batch goes on with the registers or parameters of the one before."""
    found = []
    monkeypatch.setattr(unit._Run, "_run_batches", lambda _, *batches: found.append(batches))
    machine = Machine(samples)
    machine.program(KEPT | {"a_index": 1} if carried else {"destination": 1})
    machine.go(600 * 16 + 3, 1, slots=16, next_params=next_params)
    assert found == groups


class Told:
    """What the unit says that it reads and writes."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []
        self.known = None

    def taken(self, vectors: int) -> None:
        self.told.append(("taken", [vectors]))

    def read(self, name: str, addresses: np.ndarray) -> None:
        assert name == AM
        self.told.append(("read", sorted(set(np.ravel(addresses).tolist()))))

    def write(self, name: str, addresses: np.ndarray) -> None:
        assert name == AM
        self.told.append(("write", sorted(set(np.ravel(addresses).tolist()))))


def test_bytes_that_a_go_reads_and_writes() -> None:
    """Of vectors of 3 and 2 lanes: those elements only, and element 0 of what goes to all lanes."""
    told = Told()
    machine = Machine(hazards=told)
    machine.stream(0, 100, [(2, 50)], Element.INT16)
    machine.stream(1, 300, [(2, 10)], Element.INT32, splat=1)
    machine.stream(STORE_STREAM, OUT, [(2, 20)], Element.INT16)
    machine.program(
        LOAD | {"destination": 1},
        LOAD | {"a_index": 1, "op": Op.ADD, "b_source": Source.REGISTER, "b_index": 1, "to_memory": 1},
    )
    machine.go(2, 2, slots=2, lanes=3, tail_lanes=2)
    assert told.told == [
        ("taken", [0]),
        ("read", [*range(100, 106), *range(150, 154)]),
        ("read", [*range(300, 304), *range(310, 314)]),
        ("write", [*range(OUT, OUT + 6), *range(OUT + 20, OUT + 24)]),
    ]


def test_bytes_that_configuration_reads() -> None:
    told = Told()
    machine = Machine(hazards=told)
    machine.take(Opcode.VECTOR_TEST, address=77)
    machine.take(Opcode.VECTOR_OFFSETS, address=200, count=3)
    machine.take(Opcode.VECTOR_TABLE, address=1000, entries=256)
    machine.take(Opcode.VECTOR_PARAM, address=3000, bias=1, scale=1, narrow=1)
    biases, scales = 2 * LANES, 5 * LANES
    assert told.told == [
        ("read", [77]),
        ("read", [*range(200, 212)]),
        ("read", [*range(1000, 2024)]),
        ("read", [*range(3000, 3000 + biases)]),
        ("read", [*range(3000 + biases, 3000 + biases + scales)]),
    ]
