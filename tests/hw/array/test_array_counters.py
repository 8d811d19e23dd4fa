"""The array's loop counters against nested loops."""

import random

import pytest
from array_programs import SINGLE, SQUARE, TINY
from component_bench import run, set_fields

from tosaic.hw.array.delivery_counter import DeliveryCounter
from tosaic.hw.array.kernel_counter import KernelCounter
from tosaic.hw.array.output_counter import OutputCounter
from tosaic.hw.array.pixel_counter import PixelCounter

KERNELS = [
    dict(ky_count=1, ky_step=3, ky_step_bytes=70, run_count=1, run_step=-9, chunks=1),
    dict(ky_count=3, ky_step=2, ky_step_bytes=-5, run_count=2, run_step=6, chunks=3),
    dict(ky_count=2, ky_step=8191, ky_step_bytes=33, run_count=3, run_step=-(1 << 23), chunks=1),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_steps_of_a_kernel(kernel):
    """Rows, runs, chunks; after the last step, step 0; a load begins again."""
    counter = KernelCounter(SQUARE)
    width = SQUARE.word_bytes
    steps = [
        (run_ * kernel["run_step"] + chunk * width, ky * kernel["ky_step"], ky * kernel["ky_step_bytes"])
        for ky in range(kernel["ky_count"])
        for run_ in range(kernel["run_count"])
        for chunk in range(kernel["chunks"])
    ]

    async def process(ctx):
        set_fields(ctx, counter.kernel, **kernel)
        for rounds in (1, 2):
            ctx.set(counter.load, 1)
            await ctx.tick()
            ctx.set(counter.load, 0)
            await ctx.tick().repeat(2)
            for number, (column, line, base) in enumerate(steps * rounds):
                assert ctx.get(counter.column) == column
                assert ctx.get(counter.line) == line
                assert ctx.get(counter.base) == base % SQUARE.am_bytes
                assert ctx.get(counter.last) == (number % len(steps) == len(steps) - 1)
                ctx.set(counter.advance, 1)
                await ctx.tick()
                ctx.set(counter.advance, 0)
                await ctx.tick().repeat(2)

    run(counter, process)


WINDOWS = [
    dict(x_start=-3, x_step=5, y_start=-1, y_step=2, y_step_bytes=40, width=4),
    dict(x_start=0, x_step=-2, y_start=7, y_step=0, y_step_bytes=-3, width=1),
    dict(x_start=9, x_step=0, y_start=-32768, y_step=4095, y_step_bytes=1, width=2),
]


@pytest.mark.parametrize("window", WINDOWS)
def test_pixels_and_the_mark(window):
    """Raster order; going back leads to the pixel marked last; nothing moves without `advance`."""
    counter, dice = PixelCounter(SQUARE), random.Random(window["width"])
    address = -77

    def expected(number: int) -> tuple[int, int, int]:
        row, column = divmod(number, window["width"])
        xb = window["x_start"] + column * window["x_step"]
        base = address - window["x_start"] + row * window["y_step_bytes"]
        return xb, window["y_start"] + row * window["y_step"], base % SQUARE.am_bytes

    async def process(ctx):
        set_fields(ctx, counter.first_window, **window)
        set_fields(ctx, counter.window, **window)
        ctx.set(counter.first_input.address, address)
        ctx.set(counter.load, 1)
        await ctx.tick()
        ctx.set(counter.load, 0)
        number = mark = 0
        ctx.set(counter.set_mark, 1)
        await ctx.tick()
        for _ in range(80):
            pixel = counter.pixel
            assert tuple(ctx.get(pixel[name]) for name in ("column", "line", "base")) == expected(number)
            assert ctx.get(pixel.left) == window["width"] - number % window["width"]
            assert ctx.get(pixel.wrap) == (ctx.get(pixel.left) == 1)
            advance, move, go_back, set_mark = (dice.random() < share for share in (0.8, 0.9, 0.1, 0.2))
            for port, value in (
                (counter.advance, advance),
                (counter.move, move),
                (counter.go_back, go_back),
                (counter.set_mark, set_mark),
            ):
                ctx.set(port, value)
            await ctx.tick()
            before = number
            if advance:
                number = mark if go_back else number + move
            mark = before if set_mark else mark

    run(counter, process)


OUTPUTS = [
    dict(skip=0, line=1, out_width=1, out_height=3, x_stride=1, y_stride=1),
    dict(skip=5, line=7, out_width=3, out_height=2, x_stride=2, y_stride=2),
    dict(skip=2, line=4, out_width=0, out_height=5, x_stride=1, y_stride=1),
    dict(skip=1, line=3, out_width=3, out_height=0, x_stride=1, y_stride=3),
    dict(skip=9, line=5, out_width=2, out_height=4, x_stride=3, y_stride=1),
]


@pytest.mark.parametrize("shape", OUTPUTS)
def test_outputs_of_a_depthwise_job(shape):
    counter, dice = OutputCounter(), random.Random(shape["skip"])
    outputs = {
        shape["skip"] + y * shape["y_stride"] * shape["line"] + x * shape["x_stride"]
        for y in range(shape["out_height"])
        for x in range(shape["out_width"])
    }

    async def process(ctx):
        set_fields(ctx, counter.first, **shape)
        set_fields(ctx, counter.running, **shape)
        ctx.set(counter.load, 1)
        await ctx.tick()
        ctx.set(counter.load, 0)
        t = 0
        while t < 60:
            assert ctx.get(counter.output) == (t in outputs), t
            advance = dice.random() < 0.8
            ctx.set(counter.advance, advance)
            await ctx.tick()
            t += advance

    run(counter, process)


@pytest.mark.parametrize("config", [SINGLE, TINY, SQUARE], ids=lambda config: config.name)
def test_deliveries(config):
    """Row i delivers i slots after its tile's last slot; empty slots are asked for until the last row is through."""
    counter, dice, rows = DeliveryCounter(config), random.Random(3), config.rows

    async def process(ctx):
        due: dict[int, int] = {}
        slot, last_mac = 0, -rows
        for _ in range(300):
            flushing = slot - last_mac < rows
            assert ctx.get(counter.flushing) == flushing
            assert ctx.get(counter.flushed) == (slot - last_mac >= rows - 1)
            mac = dice.random() < 0.7
            drain = mac and dice.random() < 0.3 and not any(slot + i in due for i in range(rows))
            tile_rows = dice.randint(1, rows)
            if drain:
                due |= {slot + i: i for i in range(tile_rows)}
            ctx.set(counter.mac, mac)
            ctx.set(counter.drain, drain)
            ctx.set(counter.tile_rows, tile_rows)
            assert ctx.get(counter.deliver) == (slot in due)
            if slot in due:
                assert ctx.get(counter.row) == due[slot]
            advance = (mac or flushing) and dice.random() < 0.8
            ctx.set(counter.advance, advance)
            await ctx.tick()
            if advance:
                last_mac = slot if mac else last_mac
                slot += 1
            elif drain:
                due = {number: row for number, row in due.items() if number < slot}

    run(counter, process)
