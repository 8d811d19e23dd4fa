"""The address generator's slots against a list of what a job does."""

import random

import pytest
from array_programs import SHALLOW, SINGLE, SQUARE, TINY
from component_bench import run, set_fields

from tosaic.hw.array.address_generator import AddressGenerator
from tosaic.hw.config import Config

WINDOW = dict(x_start=-2, x_step=3, y_start=-1, y_step=2, y_step_bytes=24, width=3)
KERNEL = dict(ky_count=2, ky_step=1, ky_step_bytes=12, run_count=1, run_step=4, chunks=2)
IMAGE = dict(address=64, row_bytes=12, height=4, input_zp=-5, weight_zp=3, unsigned_input=0)
NO_PLACE = None


def pixel_place(number: int) -> tuple[int, int, int]:
    """column, line and address of a pixel."""
    row, column = divmod(number, WINDOW["width"])
    xb = WINDOW["x_start"] + column * WINDOW["x_step"]
    address = IMAGE["address"] + column * WINDOW["x_step"] + row * WINDOW["y_step_bytes"]
    return xb, WINDOW["y_start"] + row * WINDOW["y_step"], address


def dense_slots(config: Config, job: dict) -> list[dict]:
    """Blocks of tiles of steps of W slots; row i delivers i slots after the tile's last one."""
    width, rows, slots = config.columns, config.rows, []
    weights, deliveries = job["weights"], {}
    for first in range(0, job["count"], rows):
        tile = min(rows, job["count"] - first)
        weights = job["weights"]
        for _ in range(1 + job["more_blocks"]):
            for step in range(KERNEL["ky_count"] * KERNEL["chunks"]):
                ky, chunk = divmod(step, KERNEL["chunks"])
                for j in range(width):
                    place = NO_PLACE
                    if j < tile:
                        xb, line, address = pixel_place(first + j)
                        offset = chunk * width
                        address += offset + ky * KERNEL["ky_step_bytes"]
                        place = (xb + offset, line + ky * KERNEL["ky_step"], address % config.am_bytes)
                    fresh = job["streamed"] and first == 0
                    slots.append(
                        dict(mac=1, start=j == 0, clear=j == 0 and step == 0, place=place, weights=weights)
                        | dict(streamed=fresh, load=0, stream=0)
                    )
                    weights += 1
            deliveries |= {len(slots) - 1 + row: row for row in range(tile)}
    for number, slot in enumerate(slots):
        slot["deliver"] = deliveries.get(number)
        slot["last"] = number == len(slots) - 1
    return slots


def depthwise_slots(config: Config, job: dict, shape: dict) -> list[dict]:
    """Weights of every row, and vectors as soon as no weight can be late for an output."""
    rows, skip = config.rows, shape["skip"]
    wait = max(rows - skip, 0)
    outputs = {
        skip + rows - 1 + y * shape["y_stride"] * shape["line"] + x * shape["x_stride"]
        for y in range(shape["out_height"])
        for x in range(shape["out_width"])
    }
    slots = []
    for number in range(wait + job["count"]):
        t = number - wait
        xb, line, address = pixel_place(max(t, 0))
        slots.append(
            dict(mac=0, start=0, clear=0, streamed=0, last=t == job["count"] - 1)
            | dict(load=number < rows, weights=job["weights"] + number if number < rows else None)
            | dict(stream=t >= 0, place=(xb, line, address % config.am_bytes) if t >= 0 else NO_PLACE)
            | dict(deliver=min(number, rows - 1) if t in outputs and job["drain"] else None)
            | dict(
                keep=t in outputs and not job["drain"], resume=t + rows - 1 in outputs and job["accumulate"]
            )
        )
        if number < rows:
            slots[-1] |= dict(row=number, group=min(number // job["group_rows"], config.line_groups - 1))
        if t >= 0:
            slots[-1] |= dict(pointer=t % shape["delay"], filled=3 * (t >= shape["delay"]))
    return slots


def check(ctx, slot, expected: dict, number: int) -> None:
    control = slot.control
    for name in ("mac", "start", "clear", "load", "stream"):
        assert ctx.get(control[name]) == expected[name], (name, number)
    assert ctx.get(slot.last) == expected["last"], number
    assert ctx.get(slot.read) == (expected["place"] is not NO_PLACE), number
    if expected["place"] is not NO_PLACE:
        xb, line, address = expected["place"]
        assert (ctx.get(slot.column), ctx.get(slot.line)) == (xb, line), number
        assert (ctx.get(slot.base) + xb) % (1 << len(slot.base)) == address, number
    assert ctx.get(slot.read_weights) == (expected["weights"] is not None), number
    if expected["weights"] is not None:
        assert ctx.get(slot.weights) == expected["weights"], number
        assert ctx.get(slot.streamed) == expected["streamed"], number
    assert ctx.get(control.deliver) == (expected["deliver"] is not None), number
    if expected["deliver"] is not None:
        assert ctx.get(control.row) == expected["deliver"], number
    assert ctx.get(control.keep) == expected.get("keep", 0), number
    assert ctx.get(control.resume) == expected.get("resume", 0), number
    if "row" in expected:
        assert ctx.get(control.row) == expected["row"], number
        assert ctx.get(control.group) == expected["group"], number
    if "pointer" in expected:
        assert ctx.get(control.pointer) == expected["pointer"], number
        assert ctx.get(control.filled) == expected["filled"], number


def slots_of(config: Config, jobs: list[tuple[dict, dict | None]]) -> None:
    """Gives the jobs, takes their slots with pauses, and compares them."""
    dut, dice = AddressGenerator(config), random.Random(config.rows)

    async def process(ctx) -> None:
        for job, shape in jobs:
            slots = dense_slots(config, job) if shape is None else depthwise_slots(config, job, shape)
            payload = dut.jobs.payload
            set_fields(ctx, payload.input, **IMAGE)
            set_fields(ctx, payload.window, **WINDOW)
            set_fields(ctx, payload.kernel, **KERNEL)
            set_fields(ctx, payload, is_depthwise=shape is not None, **job)
            if shape is not None:
                set_fields(ctx, payload.depthwise, **shape)
            ctx.set(dut.slots.ready, 1)
            ctx.set(dut.jobs.valid, 1)
            await ctx.tick().until(dut.jobs.ready)
            ctx.set(dut.jobs.valid, 0)
            number = 0
            while number < len(slots):
                assert ctx.get(dut.slots.valid)
                check(ctx, dut.slots.payload, slots[number], number)
                ready = dice.random() < 0.8
                ctx.set(dut.slots.ready, ready)
                await ctx.tick()
                number += ready

    run(dut, process)


DENSE = dict(accumulate=0, drain=1, more_blocks=0, streamed=0, group_rows=0)
KEPT = DENSE | dict(group_rows=2, drain=0)
DEPTHWISE = dict(line=5, out_width=3, out_height=2, x_stride=1, y_stride=2, paired=0)


@pytest.mark.parametrize("config", [TINY, SQUARE, SINGLE, SHALLOW], ids=lambda config: config.name)
def test_jobs_of_both_modes(config):
    """Tiles that are not full, blocks, streamed weights, depthwise jobs early and late."""
    rows = config.rows
    slots_of(
        config,
        [
            (DENSE | dict(count=2 * rows + 1, weights=10, streamed=1), None),
            (DENSE | dict(count=rows, weights=3, more_blocks=2), None),
            (DENSE | dict(count=9, weights=7, group_rows=1), DEPTHWISE | dict(delay=4, skip=0)),
            (DENSE | dict(count=20, weights=0, group_rows=2), DEPTHWISE | dict(delay=3, skip=2 * rows)),
            (KEPT | dict(count=40, weights=8), DEPTHWISE | dict(delay=3, skip=1)),
            (KEPT | dict(count=40, weights=2, accumulate=1, drain=1), DEPTHWISE | dict(delay=3, skip=4)),
            (DENSE | dict(count=1, weights=5), None),
        ],
    )
