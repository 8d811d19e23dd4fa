"""ARRAY by programs of a few commands: windows that lie anywhere over an image, batches, and what it refuses."""

import random

import numpy as np
import pytest
import unit_programs
from unit_programs import UnitProgram, assert_read

from tosaic.errors import DeviceError, UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Instruction, Opcode, Space

NANO = get_config("nano")
WORD, LINE = NANO.columns, 8
OUT = 16384
"""Where these tests store."""
GIVEN: dict[Opcode, dict[str, int]] = {
    Opcode.ARRAY_INPUT: dict(row_bytes=64, height=8),
    Opcode.ARRAY_WINDOW: dict(x_step=WORD, y_step=1, y_step_bytes=2 * WORD, width=8),
    Opcode.ARRAY_KERNEL: dict(ky_count=1, ky_step=1, ky_step_bytes=WORD, run_count=1, run_step=1, chunks=1),
    Opcode.ARRAY_DEPTHWISE: dict(delay=9, line=LINE, out_width=8, out_height=2, x_stride=1, y_stride=1),
    Opcode.ARRAY_GO: dict(pixels=4, drain=1),
    Opcode.ARRAY_DEPTHWISE_GO: dict(advances=20, group_rows=1, drain=1),
}


def command(opcode: Opcode, **fields: int) -> Instruction:
    return unit_programs.command(opcode, **GIVEN[opcode] | fields)


def program_of(config: Config, *settings: Instruction, samples: int = 1) -> UnitProgram:
    program = UnitProgram(config, samples)
    program.commands += settings
    return program


def run(program: UnitProgram, *gos: Instruction, vectors: int = 0) -> None:
    """Runs these GOs, which send that number of vectors."""
    program.commands += gos
    if vectors:
        program.store_sums(OUT, vectors)
    program.executed()


def refused(program: UnitProgram, *gos: Instruction) -> str:
    with pytest.raises((DeviceError, UnsupportedError)) as caught:
        run(program, *gos)
    return str(caught.value)


def assert_as_scalar_loops(program: UnitProgram) -> None:
    """All sums that the program's GOs send, and all samples."""
    vectors = len(program.queued())
    assert vectors
    program.store_sums(OUT, vectors)
    found = program.executed()
    for sample in range(program.samples):
        np.testing.assert_array_equal(found[sample], program.scalar(sample))


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
    program = program_of(NANO, *window(dice))
    program.put(0, np.frombuffer(dice.randbytes(1024), np.uint8))
    program.wm[0, :256] = np.frombuffer(dice.randbytes(256), np.uint8)
    pixels, weights = dice.choice((1, 4, 7, 12)), dice.choice((0, 3))
    program.commands.append(command(Opcode.ARRAY_GO, pixels=pixels, weights=weights))
    assert_as_scalar_loops(program)


@pytest.mark.parametrize("pixels", [1, 2])
@pytest.mark.parametrize("runs", [8, 20])
def test_sums_wrap(runs: int, pixels: int) -> None:
    """They wrap as int32 where a GO passes 2**31, or one that continues the sums of others."""
    config = get_config("nano,weight_banks=1")
    source = command(Opcode.ARRAY_INPUT, row_bytes=4096, height=1, input_zp=-127, weight_zp=128)
    kernel = command(Opcode.ARRAY_KERNEL, run_count=runs, run_step=0, chunks=512)
    program = program_of(config, source, command(Opcode.ARRAY_WINDOW, width=8), kernel)
    program.put(0, np.full(4096, 127, np.int8))
    program.wm[:] = 128
    deep = 254 * -256 * runs * 512 * WORD
    times = 2**31 // -deep + 1
    assert deep * times < -(2**31) <= deep * (times - 1)
    gos = [
        command(Opcode.ARRAY_GO, pixels=pixels, drain=number == times - 1, accumulate=number > 0)
        for number in range(times)
    ]
    program.commands += gos
    program.store_sums(OUT, pixels)
    found = program.executed()[0, OUT:][: 4 * pixels * WORD].view("<i4")
    assert found.tolist() == [deep * times + 2**32] * pixels * WORD


def test_a_go_of_more_weights_than_a_computer_holds() -> None:
    """It is set up all the same: what no job uses costs nothing."""
    largest = {"ky_count": 2**13 - 1, "run_count": 2**13 - 1, "chunks": 2**16 - 1}
    settings = [command(Opcode.ARRAY_INPUT), command(Opcode.ARRAY_WINDOW)]
    kernel = command(Opcode.ARRAY_KERNEL, **largest)
    words = (2**13 - 1) ** 2 * (2**16 - 1) * WORD
    text = refused(program_of(NANO, *settings, kernel), command(Opcode.ARRAY_GO))
    assert text.startswith(
        f"an ARRAY_GO of {words:,} words of weights for an output: the emulator runs up to"
    )
    run(
        program_of(NANO, *settings, kernel, command(Opcode.ARRAY_KERNEL)), command(Opcode.ARRAY_GO), vectors=4
    )


@pytest.mark.parametrize(
    "unsigned, zero_point, operand",
    [(0, 0, -128), (0, 127, -128), (0, -128, 127), (0, 1, -128), (0, -1, -128), (1, 0, 255), (1, 255, 0)],
)
def test_sums_are_exact_around_2_to_the_24(unsigned: int, zero_point: int, operand: int) -> None:
    """They are exact up to where float32 is, and beyond."""
    chunks = 300
    source = dict(row_bytes=chunks * WORD, height=1, unsigned_input=unsigned, input_zp=zero_point)
    operands = np.full(chunks * WORD, operand, np.int64)
    largest = abs(operand - zero_point)
    weights = np.zeros((chunks * WORD, WORD), np.int64)
    whole, rest = divmod((1 << 24) // largest, 127)
    ones = 24
    for lane, more in enumerate((-1, 0, 1, 2)):
        weights[:whole, lane] = 127
        weights[whole, lane] = rest
        weights[-ones:, lane] = 1 if more > 0 else 0
        weights[-1, lane] = more
    operands[-ones:] = zero_point + np.sign(operand - zero_point) * (np.arange(ones) % 3 + 1)
    program = program_of(
        NANO,
        command(Opcode.ARRAY_INPUT, **source),
        command(Opcode.ARRAY_WINDOW, width=1),
        command(Opcode.ARRAY_KERNEL, chunks=chunks),
        command(Opcode.ARRAY_GO, pixels=1),
    )
    assert whole < len(weights) - ones - 1
    program.put(0, operands.astype(np.uint8))
    program.wm[0, : weights.size] = weights.astype(np.int8).view(np.uint8).ravel()
    program.store_sums(OUT, 1)
    found = program.executed()[0, OUT:][: 4 * WORD].view("<i4")
    assert found.tolist() == ((operands - zero_point) @ weights).tolist()


@pytest.mark.parametrize(
    "machine, forgotten",
    [("base,weight_banks=1", False), ("base,weight_banks=2", True), ("base,weight_banks=4", True)],
)
def test_sums_to_go_on_from_are_gone_where_rows_may_be_divided(machine: str, forgotten: bool) -> None:
    """But not those of a GO that did not send them."""
    config = get_config(machine)
    set_up = [command(opcode) for opcode in list(GIVEN)[:3]]
    further, kept = command(Opcode.ARRAY_GO, accumulate=1, drain=0), command(Opcode.ARRAY_GO, drain=0)
    assert "no ARRAY_GO came before it" in refused(program_of(config, *set_up), further)
    run(program_of(config, *set_up), kept, further, command(Opcode.ARRAY_GO), vectors=4)
    program = program_of(config, *set_up, command(Opcode.ARRAY_GO))
    program.store_sums(OUT, 4)
    if forgotten:
        assert "no ARRAY_GO came before it whose sums it could go on from" in refused(program, further)
    else:
        run(program, further)


def test_a_depthwise_go_leaves_no_sums() -> None:
    """Its own take their place in the array."""
    set_up = [command(opcode) for opcode in list(GIVEN)[:4]]
    further, kept = command(Opcode.ARRAY_GO, accumulate=1, drain=0), command(Opcode.ARRAY_GO, drain=0)
    gos = [kept, further, command(Opcode.ARRAY_DEPTHWISE_GO), further]
    text = refused(program_of(get_config("base"), *set_up), *gos)
    assert "no ARRAY_GO came before it whose sums it could go on from" in text


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
    program = program_of(NANO, *(command(opcode, **fields[opcode]) for opcode in settings))
    go = command(Opcode.ARRAY_DEPTHWISE_GO, **fields[Opcode.ARRAY_DEPTHWISE_GO])
    if legal:
        run(program, go, vectors=16)
    else:
        assert "paired rows" in refused(program, go)


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("pixels, width", [(300, 103), (515, 103), (515, 400)])
def test_more_pixels_than_are_multiplied_at_once(samples: int, pixels: int, width: int) -> None:
    """2 ** 19 operands are: the same sums go out, and those of the last tile stay. What is multiplied at once may be
    the end of a long row and the start of the next."""
    dice, depth = random.Random(8), 400
    config = get_config("nano,weight_banks=1")
    program = program_of(
        config,
        command(Opcode.ARRAY_INPUT, row_bytes=2048, height=8),
        command(Opcode.ARRAY_WINDOW, x_step=1, width=width),
        command(Opcode.ARRAY_KERNEL, chunks=depth),
        command(Opcode.ARRAY_GO, pixels=pixels),
        samples=samples,
    )
    for sample in range(samples):
        program.put(0, np.frombuffer(dice.randbytes(4096), np.int8), sample)
    weights = np.frombuffer(dice.randbytes(depth * WORD * WORD), np.int8)
    program.wm[:, : weights.size] = weights.view(np.uint8)
    program.store_sums(OUT, pixels)
    last = (pixels - 1) % config.rows + 1
    program.commands.append(command(Opcode.ARRAY_GO, pixels=last, accumulate=1))
    program.store_sums(OUT + 4 * WORD * pixels, last)
    found = program.executed()
    for sample in range(samples):
        image = program.am[sample].view(np.int8).astype(np.int64)
        columns = np.arange(pixels) % width
        taken = columns[:, None] + np.arange(depth * WORD)
        rows = np.arange(pixels) // width
        operands = image[taken + (2 * WORD * rows)[:, None]] * (taken < 2048) * (rows < 8)[:, None]
        sums = operands @ weights.reshape(-1, WORD).astype(np.int64)
        wanted = np.concatenate([sums, sums[-last:] + sums[:last]])
        stored = found[sample, OUT:][: 4 * wanted.size].view("<i4").reshape(-1, WORD)
        np.testing.assert_array_equal(stored, wanted)


@pytest.mark.parametrize(
    "opcode, fields, said",
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
def test_fields_of_a_depthwise_go(opcode: Opcode, fields: dict[str, int], said: str | None) -> None:
    set_up = (Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW, Opcode.ARRAY_DEPTHWISE)
    program = program_of(NANO, *(command(each, **(fields if each is opcode else {})) for each in set_up))
    go = command(Opcode.ARRAY_DEPTHWISE_GO, **(fields if opcode is Opcode.ARRAY_DEPTHWISE_GO else {}))
    if said is None:
        program.commands.append(go)
        run(program, vectors=len(program.queued()))
    else:
        text = refused(program, go)
        assert text.startswith("ILLEGAL ") and text.endswith(f": {said}")


@pytest.mark.parametrize(
    "machine, fields, said",
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
def test_partial_sums_of_a_depthwise_go(machine: str, fields: dict[str, int], said: str | None) -> None:
    set_up = (Opcode.ARRAY_INPUT, Opcode.ARRAY_WINDOW, Opcode.ARRAY_DEPTHWISE)
    program = program_of(get_config(f"nano,rows=4,{machine}"), *map(command, set_up))
    go = command(Opcode.ARRAY_DEPTHWISE_GO, **fields)
    if said is None:
        run(program, go, vectors=16 if go.drain else 0)
    else:
        assert said in refused(program, go)


@pytest.mark.parametrize("seed", range(24))
def test_bytes_that_a_go_reads(seed: int) -> None:
    """A GO reads only the bytes inside the image, word by word."""
    dice = random.Random(seed)
    source, over, kernel = settings = window(dice)
    program, go = program_of(NANO, *settings), command(Opcode.ARRAY_GO, pixels=dice.choice((1, 4, 7, 12)))
    program.commands.append(go)
    program.store_sums(OUT, go.pixels)
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
    read = [range(place, place + 1) for place in sorted(wanted)]
    for missing in (None, *dice.sample(sorted(wanted), min(2, len(wanted)))):
        assert_read(program, read, missing)


@pytest.mark.parametrize(
    "loaded, said",
    [
        ([(5, 4), (9, 8)], None),
        ([(5, 4), (9, 7)], "reads 12 streamed words of weights; earlier loads bring 11: deadlock"),
        ([(5, 4), (10, 8)], "reads word 9 of the weight memory, when the next streamed one is 10:"),
        ([(40, 12)], "reads word 5 of the weight memory, when the next streamed one is 40:"),
    ],
)
def test_words_that_streamed_gos_of_several_blocks_read(
    loaded: list[tuple[int, int]], said: str | None
) -> None:
    """They read the words that loads bring, each when it is there, and no others. No token orders the two."""
    program = program_of(NANO, *(command(opcode) for opcode in list(GIVEN)[:3]))
    for word, count in loaded:
        where = {"space": Space.WM, "local_address": word * WORD, "row_bytes": count * WORD, "rows": 1}
        program.take(Opcode.LOAD_GO, memory_address=0, streamed=1, **where)
    program.commands.append(command(Opcode.ARRAY_GO, pixels=1, weights=5, more_blocks=2, streamed=1))
    program.store_sums(OUT, 3)
    if said is None:
        program.verified(range(64))
        return
    with pytest.raises(DeviceError, match=said):
        program.executed()


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
    program = program_of(config, *setup, *gos, samples=samples)
    weights = np.frombuffer(dice.randbytes(256), np.uint8)
    for sample in range(samples):
        program.put(0, np.frombuffer(dice.randbytes(1024), np.uint8), sample)
        program.wm[sample, :256] = weights + sample * own_weights
    assert_as_scalar_loops(program)


@pytest.mark.parametrize("own_weights", [False, True])
@pytest.mark.parametrize("samples", [4, 5])
def test_more_samples_of_a_depthwise_go_than_are_computed_together(samples: int, own_weights: bool) -> None:
    """Two of 5000 pixels are. Whether they share the taps or not, the sums are each one's."""
    config, dice = get_config("nano,rows=4"), np.random.default_rng(samples)
    setup = [command(each) for each in list(GIVEN)[:3]]
    setup.append(command(Opcode.ARRAY_DEPTHWISE, line=5000, out_width=90, out_height=1, x_stride=50))
    program = program_of(config, *setup, command(Opcode.ARRAY_DEPTHWISE_GO, advances=5000), samples=samples)
    weights = dice.integers(0, 256, 16 * WORD, np.uint8)
    for sample in range(samples):
        program.put(0, dice.integers(0, 256, 512, np.uint8), sample)
        program.wm[sample, : 16 * WORD] = weights + 31 * sample * own_weights
    assert_as_scalar_loops(program)
