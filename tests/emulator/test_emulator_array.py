"""The emulator's array alone: windows that lie anywhere over an image, and what it refuses."""

import random
from typing import Any

import numpy as np
import pytest
from scalar_machine import ScalarMachine

import tosaic.sim.emulator.array as array_module
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FIELDS, Instruction, Opcode, make
from tosaic.sim.emulator.array import Array
from tosaic.sim.emulator.domain import BYTES
from tosaic.sim.emulator.external_memory import ExternalMemory
from tosaic.sim.emulator.faults import Fault
from tosaic.sim.emulator.hazards import AM, WM
from tosaic.sim.emulator.state import State

NANO = get_config("nano")
WORD, LINE = NANO.columns, 8
GIVEN: dict[Opcode, dict[str, int]] = {
    Opcode.ARRAY_INPUT: dict(row_bytes=64, height=8),
    Opcode.ARRAY_WINDOW: dict(x_step=WORD, y_step=1, y_step_bytes=2 * WORD, width=8),
    Opcode.ARRAY_KERNEL: dict(ky_count=1, ky_step=1, ky_step_bytes=WORD, run_count=1, run_step=1, chunks=1),
    Opcode.ARRAY_DEPTHWISE: dict(delay=9, line=LINE, out_width=8, out_height=2, x_stride=1, y_stride=1),
    Opcode.ARRAY_GO: dict(pixels=4, drain=1),
    Opcode.ARRAY_DEPTHWISE_GO: dict(advances=20, group_rows=1, drain=1),
}


def command(opcode: Opcode, **fields: int) -> Instruction:
    return make(opcode, **{field.name: 0 for field in FIELDS[opcode]} | GIVEN[opcode] | fields)


def array_of(config: Config, *settings: Instruction) -> Array:
    array = Array(State(config, memory_of(1)))
    for instruction in settings:
        array.configure(instruction)
    return array


def memory_of(samples: int) -> ExternalMemory:
    """Of no bytes."""
    return ExternalMemory(np.zeros((samples, 0), np.uint8))


def window(dice: random.Random) -> list[Instruction]:
    """It begins before the image, in it or behind it, and goes in steps of any size; so do the kernel's rows."""

    def sizes(**choices: tuple[int, ...]) -> dict[str, int]:
        return {name: dice.choice(values) for name, values in choices.items()}

    image = sizes(row_bytes=(4, 9, 16), height=(1, 4, 6), input_zp=(0, 3), weight_zp=(0, -2))
    steps = sizes(x_step=(1, 4), width=(1, 2, 3, 5), y_step=(0, 1, 1, 2), y_step_bytes=(16, 24, -16))
    starts = sizes(x_start=(-5, -1, 0, 0, 2, 8), y_start=(-3, -1, 0, 0, 1, 3))
    kernel = sizes(
        ky_count=(1, 2, 3), ky_step=(1, 2), ky_step_bytes=(16, 12), run_count=(1, 2), chunks=(1, 2)
    )
    kernel |= sizes(run_step=(5, -3))
    return [
        command(Opcode.ARRAY_INPUT, address=300, **image),
        command(Opcode.ARRAY_WINDOW, **starts, **steps),
        command(Opcode.ARRAY_KERNEL, **kernel),
    ]


@pytest.mark.parametrize("seed", range(24))
def test_a_window_anywhere_over_the_image(seed: int) -> None:
    """What is outside counts as zero."""
    dice = random.Random(seed)
    settings = window(dice)
    scalar, array = ScalarMachine(NANO, bytearray()), array_of(NANO, *settings)
    scalar.am[:1024], scalar.wm[:256] = dice.randbytes(1024), dice.randbytes(256)
    state = array._state
    state.am.write_rows(np.array([0]), np.frombuffer(scalar.am, np.uint8)[None, None])
    words = np.frombuffer(scalar.wm, np.int8).reshape(1, -1, WORD)
    state.wm.write(np.arange(words.shape[1]), words)
    go = command(Opcode.ARRAY_GO, pixels=dice.choice((1, 4, 7, 12)), weights=dice.choice((0, 3)))
    for instruction in settings:
        scalar.other(instruction)
    scalar.array_go(go)
    array.go(go)
    assert state.accumulator_queue.pop(go.pixels)[0].tolist() == scalar.queue


def test_whether_pixels_see_padding() -> None:
    """Those in one row of the result; of those in several rows, all in these rows count."""
    dice, answers = random.Random(4), set()
    for _ in range(600):
        source, over, kernel = settings = window(dice)
        array, first, count = array_of(NANO, *settings), dice.randrange(6), dice.randrange(1, 7)
        rows = range(first // over.width, (first + count - 1) // over.width + 1)
        columns = (
            range(over.width) if len(rows) > 1 else range(first % over.width, first % over.width + count)
        )
        steps = array._kernel_steps()
        y = over.y_start + over.y_step * np.array(rows)[:, None] + steps.rows
        x = over.x_start + over.x_step * np.array(columns)[:, None] + steps.row_bytes
        inside = y.min() >= 0 and y.max() < source.height and x.min() >= 0
        inside = bool(inside and x.max() + WORD <= source.row_bytes)
        assert array._all_inside(first, count, steps) == inside
        answers.add((inside, len(rows) > 1))
    assert len(answers) == 4


@pytest.mark.parametrize("held", [np.float32, np.float64])
@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("own", [False, True])
def test_each_sample_is_multiplied_by_its_weights(own: bool, samples: int, held: type) -> None:
    """Its own ones, or those that all have."""
    dice = np.random.default_rng(samples)
    operands = dice.integers(-99, 99, (samples, 5, 3))
    weights = dice.integers(-99, 99, (samples if own else 1, 3, WORD))
    wanted = np.stack([operands[i] @ weights[i if own else 0] for i in range(samples)])
    found = BYTES.products(operands.astype(held), weights.astype(held), np.dtype(held))
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted)


def test_sums_wrap() -> None:
    sums = np.array([2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**40 + 7], np.float64)
    assert BYTES.integers(sums).tolist() == [2**31 - 1, -(2**31), -(2**31), 2**31 - 1, 7]


def test_a_go_of_more_weights_than_a_computer_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is set up all the same: what no job uses costs nothing."""
    largest = {"ky_count": 2**13 - 1, "run_count": 2**13 - 1, "chunks": 2**16 - 1}
    array = array_of(
        NANO,
        command(Opcode.ARRAY_INPUT),
        command(Opcode.ARRAY_WINDOW),
        command(Opcode.ARRAY_KERNEL, **largest),
    )
    words = (2**13 - 1) ** 2 * (2**16 - 1) * WORD
    with pytest.raises(UnsupportedError, match=f"an ARRAY_GO of {words:,} words of weights"):
        array.go(command(Opcode.ARRAY_GO))
    monkeypatch.setattr(array_module, "MOST_WORDS", 3 * WORD)
    array.configure(command(Opcode.ARRAY_KERNEL, chunks=3))
    array.go(command(Opcode.ARRAY_GO, pixels=NANO.rows, more_blocks=1))
    array.configure(command(Opcode.ARRAY_KERNEL, chunks=4))
    with pytest.raises(UnsupportedError, match=f"the emulator runs up to {3 * WORD};"):
        array.go(command(Opcode.ARRAY_GO))


@pytest.mark.parametrize(
    "unsigned, zero_point, largest",
    [
        (0, 0, 128),
        (0, 127, 255),
        (0, -128, 255),
        (0, 1, 129),
        (0, -1, 128),
        (1, 0, 255),
        (1, 255, 255),
        (1, 100, 155),
    ],
)
def test_sums_are_exact_in_float32_up_to_2_to_the_24(unsigned: int, zero_point: int, largest: int) -> None:
    """`largest` is that of an operand minus its zero point; of the columns of weights the one with most counts."""
    source = command(Opcode.ARRAY_INPUT, unsigned_input=unsigned, input_zp=zero_point)
    array, total = array_of(NANO, source), (1 << 24) // largest
    for more, dtype in ((0, np.float32), (1, np.float64)):
        weights = np.zeros((1, 600, 4), np.int16)
        weights[0, :500, 2] = -(total // 500)
        weights[0, 500, 2] = total % 500 + more
        assert array._exact_type(weights) == dtype


@pytest.mark.parametrize(
    "machine, forgotten",
    [("base,weight_banks=1", False), ("base,weight_banks=2", True), ("base,weight_banks=4", True)],
)
def test_sums_to_go_on_from_are_gone_where_rows_may_be_divided(machine: str, forgotten: bool) -> None:
    """But not those of a GO that did not send them."""
    config = get_config(machine)
    array = array_of(config, *(command(opcode) for opcode in list(GIVEN)[:3]))
    further = command(Opcode.ARRAY_GO, accumulate=1, drain=0)
    with pytest.raises(Fault, match="no ARRAY_GO came before it"):
        array.go(further)
    array.go(command(Opcode.ARRAY_GO, drain=0))
    array.go(further)
    array.go(command(Opcode.ARRAY_GO))
    if forgotten:
        with pytest.raises(Fault, match="no ARRAY_GO came before it whose sums it could go on from"):
            array.go(further)
    else:
        array.go(further)


def test_a_depthwise_go_leaves_no_sums() -> None:
    """Its own take their place in the array."""
    array = array_of(get_config("base"), *(command(opcode) for opcode in list(GIVEN)[:4]))
    further = command(Opcode.ARRAY_GO, accumulate=1, drain=0)
    array.go(command(Opcode.ARRAY_GO, drain=0))
    array.go(further)
    array.depthwise_go(command(Opcode.ARRAY_DEPTHWISE_GO))
    with pytest.raises(Fault, match="no ARRAY_GO came before it whose sums it could go on from"):
        array.go(further)


PAIRED = {Opcode.ARRAY_DEPTHWISE: dict(paired=1, delay=3), Opcode.ARRAY_DEPTHWISE_GO: dict(group_rows=1)}


@pytest.mark.parametrize(
    "changed, field, value, legal",
    [
        (Opcode.ARRAY_DEPTHWISE, "delay", 3, True),
        (Opcode.ARRAY_DEPTHWISE, "delay", 2, False),
        (Opcode.ARRAY_DEPTHWISE_GO, "group_rows", 2, False),
        (Opcode.ARRAY_INPUT, "address", 2 * WORD, True),
        (Opcode.ARRAY_INPUT, "address", 1, False),
        (Opcode.ARRAY_WINDOW, "x_step", WORD + 1, False),
        (Opcode.ARRAY_WINDOW, "y_step_bytes", 6 * WORD, True),
        (Opcode.ARRAY_WINDOW, "y_step_bytes", 4 * WORD, False),
        (Opcode.ARRAY_WINDOW, "y_step_bytes", 2 * WORD + 1, False),
    ],
)
def test_paired_rows(changed: Opcode, field: str, value: int, legal: bool) -> None:
    fields = {opcode: dict(PAIRED.get(opcode, {})) for opcode in GIVEN}
    fields[changed][field] = value
    settings = [Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW, Opcode.ARRAY_DEPTHWISE]
    array = array_of(NANO, *(command(opcode, **fields[opcode]) for opcode in settings))
    go = command(Opcode.ARRAY_DEPTHWISE_GO, **fields[Opcode.ARRAY_DEPTHWISE_GO])
    if legal:
        array.depthwise_go(go)
        assert array._state.accumulator_queue.vectors == 16
    else:
        with pytest.raises(Fault, match="paired rows"):
            array.depthwise_go(go)


def test_pixels_are_multiplied_in_blocks_of_whole_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many fit a block: the same sums go out, and those of the last tile stay."""
    dice = random.Random(8)
    settings = [
        command(Opcode.ARRAY_INPUT, row_bytes=64, height=8),
        command(Opcode.ARRAY_WINDOW, width=8),
        command(Opcode.ARRAY_KERNEL, run_count=2),
    ]
    image, weights = (np.frombuffer(dice.randbytes(512), dtype) for dtype in (np.uint8, np.int8))
    found = []
    for elements in (1, 2 * WORD * 5, 2 * WORD * 9, 1 << 20):
        monkeypatch.setattr(array_module, "BLOCK_ELEMENTS", elements)
        array = array_of(get_config("nano,weight_banks=1"), *settings)
        array._state.am.write_rows(np.array([0]), image[None, None])
        array._state.wm.write(np.arange(512 // WORD), weights.reshape(1, -1, WORD))
        array.go(command(Opcode.ARRAY_GO, pixels=28))
        assert array._accumulators is not None
        found.append((array._state.accumulator_queue.pop(28).tolist(), array._accumulators.tolist()))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    "elements, pixels, blocks",
    [
        (1, 9, [4, 4, 1]),
        (64, 9, [4, 4, 1]),
        (127, 9, [4, 4, 1]),
        (128, 9, [8, 1]),
        (191, 9, [8, 1]),
        (192, 9, [9]),
        (192, 12, [12]),
        (192, 13, [12, 1]),
        (192, 1, [1]),
    ],
)
@pytest.mark.parametrize("samples, runs", [(1, 4), (2, 2), (4, 1)])
def test_a_block_holds_as_many_whole_tiles_as_there_is_room_for(
    samples: int, runs: int, elements: int, pixels: int, blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But one at least. Tiles are of four pixels, each of four words in all samples together, or 64 operands."""
    monkeypatch.setattr(array_module, "BLOCK_ELEMENTS", elements)
    state = State(get_config("nano,rows=4"), memory_of(samples))
    array, gathered = Array(state), list[int]()
    gather = array._gather

    def gather_and_tell(first: int, count: int, *rest: Any) -> np.ndarray:
        gathered.append(count)
        return gather(first, count, *rest)

    monkeypatch.setattr(array, "_gather", gather_and_tell)
    for instruction in (
        command(Opcode.ARRAY_INPUT),
        command(Opcode.ARRAY_WINDOW),
        command(Opcode.ARRAY_KERNEL, run_count=runs),
    ):
        array.configure(instruction)
    array.go(command(Opcode.ARRAY_GO, pixels=pixels))
    assert gathered == blocks
    assert state.accumulator_queue.vectors == pixels


@pytest.mark.parametrize(
    "opcode, fields, refused",
    [
        (Opcode.ARRAY_WINDOW, dict(width=0), "ARRAY_WINDOW.width must be at least 1"),
        (Opcode.ARRAY_WINDOW, dict(width=1), None),
        *(
            (Opcode.ARRAY_DEPTHWISE, {name: 0}, "line, x_stride and y_stride must be at least 1")
            for name in ("line", "x_stride", "y_stride")
        ),
        (Opcode.ARRAY_DEPTHWISE, dict(line=1, x_stride=1, y_stride=1), None),
        (Opcode.ARRAY_DEPTHWISE, dict(delay=1), f"delay 1 must be in 2..{NANO.line_pixels}"),
        (Opcode.ARRAY_DEPTHWISE, dict(delay=2), None),
        (Opcode.ARRAY_DEPTHWISE, dict(delay=NANO.line_pixels), None),
        (
            Opcode.ARRAY_DEPTHWISE,
            dict(delay=NANO.line_pixels + 1),
            f"delay {NANO.line_pixels + 1} must be in 2..{NANO.line_pixels}",
        ),
        *(
            (Opcode.ARRAY_DEPTHWISE_GO, {name: 0}, "group_rows and advances must be at least 1")
            for name in ("group_rows", "advances")
        ),
        (Opcode.ARRAY_DEPTHWISE_GO, dict(group_rows=1, advances=1), None),
        (Opcode.ARRAY_DEPTHWISE_GO, dict(idle_rows=NANO.rows - 1), None),
        (
            Opcode.ARRAY_DEPTHWISE_GO,
            dict(idle_rows=NANO.rows),
            f"idle_rows {NANO.rows} must be less than {NANO.rows}",
        ),
        (Opcode.ARRAY_INPUT, dict(input_zp=128, weight_zp=128), None),
        (Opcode.ARRAY_INPUT, dict(input_zp=-128, weight_zp=-128), None),
        (
            Opcode.ARRAY_INPUT,
            dict(input_zp=129),
            "input_zp 129 must be in -128..128 for operands of 9 bits",
        ),
        (Opcode.ARRAY_INPUT, dict(unsigned_input=1, input_zp=255), None),
        (Opcode.ARRAY_INPUT, dict(unsigned_input=1, input_zp=0), None),
        (
            Opcode.ARRAY_INPUT,
            dict(weight_zp=-129),
            "weight_zp -129 must be in -128..128 for operands of 9 bits",
        ),
    ],
)
def test_fields_of_a_depthwise_go(opcode: Opcode, fields: dict[str, int], refused: str | None) -> None:
    set_up = (Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW, Opcode.ARRAY_DEPTHWISE)
    array = array_of(NANO, *(command(each, **(fields if each is opcode else {})) for each in set_up))
    go = command(Opcode.ARRAY_DEPTHWISE_GO, **(fields if opcode is Opcode.ARRAY_DEPTHWISE_GO else {}))
    if refused is None:
        array.depthwise_go(go)
    else:
        with pytest.raises(Fault) as caught:
            array.depthwise_go(go)
        assert str(caught.value) == refused


@pytest.mark.parametrize(
    "machine, fields, refused",
    [
        ("partial_sums=16", dict(drain=0), None),
        ("partial_sums=16", dict(accumulate=1), None),
        ("partial_sums=16", dict(drain=0, idle_rows=1), "idle_rows must be 0 with partial sums to"),
        ("partial_sums=16", dict(accumulate=1, idle_rows=1), "idle_rows must be 0 with partial sums to"),
        ("partial_sums=0", dict(drain=0), "has no partial sums to accumulate or to keep"),
        ("partial_sums=0", dict(accumulate=1), "has no partial sums to accumulate or to keep"),
        ("partial_sums=0", dict(idle_rows=1), None),
    ],
)
def test_partial_sums_of_a_depthwise_go(machine: str, fields: dict[str, int], refused: str | None) -> None:
    set_up = (Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW, Opcode.ARRAY_DEPTHWISE)
    array = array_of(get_config(f"nano,rows=4,{machine}"), *map(command, set_up))
    go = command(Opcode.ARRAY_DEPTHWISE_GO, **fields)
    if refused is None:
        array.depthwise_go(go)
        assert array._state.accumulator_queue.vectors == (16 if go.drain else 0)
    else:
        with pytest.raises(Fault, match=refused):
            array.depthwise_go(go)


class Told:
    """In place of the search for races: what a GO reads, and how many vectors it sends."""

    def __init__(self) -> None:
        self.reads: dict[tuple[str, bool], list[int]] = {}
        self.vectors = 0
        self.known = None

    def read(self, name: str, addresses: np.ndarray, *, ordered: bool = False, used: bool = True) -> None:
        self.reads.setdefault((name, ordered), []).extend(np.ravel(addresses).tolist())

    def sent(self, vectors: int) -> None:
        self.vectors += vectors


@pytest.mark.parametrize("seed", range(24))
def test_bytes_that_a_go_reads(seed: int) -> None:
    """Of the image those inside alone, word by word; and all words of its weights."""
    dice, told = random.Random(seed), Told()
    source, over, kernel = settings = window(dice)
    array = Array(State(NANO, memory_of(1), told))
    for instruction in settings:
        array.configure(instruction)
    go = command(Opcode.ARRAY_GO, pixels=dice.choice((1, 4, 7, 12)), weights=dice.choice((0, 3)))
    array.go(go)
    wanted = set()
    for pixel in range(go.pixels):
        py, px = divmod(pixel, over.width)
        for ky in range(kernel.ky_count):
            y = over.y_start + py * over.y_step + ky * kernel.ky_step
            for run in range(kernel.run_count):
                for byte in range(kernel.chunks * WORD):
                    x = over.x_start + px * over.x_step + run * kernel.run_step + byte
                    place = source.address + py * over.y_step_bytes + px * over.x_step
                    place += ky * kernel.ky_step_bytes + run * kernel.run_step + byte
                    if 0 <= y < source.height and 0 <= x < source.row_bytes:
                        wanted.add(place)
    depth = kernel.ky_count * kernel.run_count * kernel.chunks * WORD
    assert set(told.reads.get((AM, False), ())) == wanted
    assert told.reads[WM, False] == list(range(go.weights * WORD, (go.weights + depth) * WORD))
    assert told.vectors == go.pixels


@pytest.mark.parametrize("streamed", [0, 1])
def test_words_that_a_go_of_several_blocks_reads(streamed: int) -> None:
    """Streamed ones are those that loads bring, each when it is there, and no others; the next GO goes on."""
    told = Told()
    array = Array(State(NANO, memory_of(1), told))
    for opcode in list(GIVEN)[:3]:
        array.configure(command(opcode))
    go = command(Opcode.ARRAY_GO, pixels=1, weights=5, more_blocks=2, streamed=streamed)
    if streamed:
        array._state.streamed_words.extend([np.arange(5, 9), np.arange(9, 20)])
    array.go(go)
    assert told.reads[WM, bool(streamed)] == list(range(5 * WORD, (5 + 3 * WORD) * WORD))
    if streamed:
        assert np.concatenate(array._state.streamed_words).tolist() == [17, 18, 19]
        with pytest.raises(
            Fault, match="reads 12 streamed words of weights; earlier loads bring 3: deadlock"
        ):
            array.go(go)
        array._state.streamed_words.append(np.arange(40, 49))
        with pytest.raises(
            Fault, match="reads word 5 of the weight memory, when the next streamed one is 17:"
        ):
            array.go(go)


@pytest.mark.parametrize("own_weights", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_samples_of_a_batch_are_computed_as_each_alone(seed: int, own_weights: bool) -> None:
    """Convolutions that go on from sums, and GOs of the depthwise mode, with partial sums and without."""
    config, samples = get_config("nano,weight_banks=1,partial_sums=16,rows=4"), 3
    dice = random.Random(seed)
    setup = window(dice)
    line, width = dice.randint(2, 8), dice.randint(1, 9)
    setup.append(
        command(
            Opcode.ARRAY_DEPTHWISE,
            delay=dice.randint(2, 9),
            line=line,
            skip=dice.choice((0, 3)),
            out_width=width,
            out_height=dice.randint(1, 3),
            x_stride=dice.randint(1, 2),
            y_stride=dice.randint(1, 2),
        )
    )
    fields = dict(advances=dice.randint(8, 40), group_rows=dice.randint(1, 3))
    gos = [
        command(Opcode.ARRAY_GO, pixels=4, drain=0),
        command(Opcode.ARRAY_GO, pixels=4, accumulate=1, drain=1),
        command(Opcode.ARRAY_GO, pixels=dice.choice((3, 9)), drain=1),
        command(Opcode.ARRAY_DEPTHWISE_GO, idle_rows=dice.choice((0, 1)), **fields),
        command(Opcode.ARRAY_DEPTHWISE_GO, drain=0, **fields),
        command(Opcode.ARRAY_DEPTHWISE_GO, accumulate=1, **fields),
    ]
    images = np.frombuffer(dice.randbytes(samples * 1024), np.uint8).reshape(samples, 1, 1024)
    words = np.frombuffer(dice.randbytes(samples * 256), np.int8).reshape(samples, -1, WORD)

    def sent(chosen: list[int]) -> list:
        state = State(config, memory_of(len(chosen)))
        array = Array(state)
        state.am.write_rows(np.array([0]), images[chosen])
        state.wm.write(np.arange(words.shape[1]), words[chosen] if own_weights else words[:1])
        for instruction in setup:
            array.configure(instruction)
        for go in gos:
            (array.go if go.opcode is Opcode.ARRAY_GO else array.depthwise_go)(go)
        return state.accumulator_queue.pop(state.accumulator_queue.vectors).tolist()

    assert sent(list(range(samples))) == [sent([sample])[0] for sample in range(samples)]


@pytest.mark.parametrize("own_weights", [False, True])
@pytest.mark.parametrize("together", [0, 1, 2, 3, 4, 5])
def test_samples_of_a_depthwise_go_that_are_computed_together(
    together: int, own_weights: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there is room for, but one at least. Whether they share the taps or not, the sums are each one's."""
    config, samples, dice = get_config("nano,rows=4"), 4, random.Random(together)
    setup = [command(each) for each in list(GIVEN)[:4]]
    go = command(Opcode.ARRAY_DEPTHWISE_GO, advances=24)
    monkeypatch.setattr(array_module, "DEPTHWISE_ELEMENTS", together * go.advances * WORD)
    images, words = (dice.randbytes(samples * size) for size in (512, 16 * WORD))
    state = State(config, memory_of(samples))
    array, wanted = Array(state), []
    state.am.write_rows(np.array([0]), np.frombuffer(images, np.uint8).reshape(samples, 1, -1))
    weights = np.frombuffer(words, np.int8).reshape(samples, -1, WORD)
    state.wm.write(np.arange(16), weights if own_weights else weights[:1])
    for instruction in setup:
        array.configure(instruction)
    array.depthwise_go(go)
    for sample in range(samples):
        scalar = ScalarMachine(config, bytearray())
        scalar.am[:512] = images[512 * sample :][:512]
        scalar.wm[: 16 * WORD] = weights[sample if own_weights else 0].tobytes()
        for instruction in setup:
            scalar.other(instruction)
        scalar.array_depthwise_go(go)
        wanted.append(scalar.queue)
    assert state.accumulator_queue.pop(state.accumulator_queue.vectors).tolist() == wanted
