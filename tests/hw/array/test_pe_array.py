"""The PE array's parts against sums in Python: processing element, row, operand selection, delay line, drain."""

import random

import pytest
from array_programs import SHALLOW, SQUARE, TINY
from component_bench import run, set_fields

from tosaic.hw.array.delay_line import DelayLine
from tosaic.hw.array.drain import Drain
from tosaic.hw.array.layouts import OPERAND_BITS, group_count
from tosaic.hw.array.operand_fetch import LATENCY, OperandFetch
from tosaic.hw.array.operand_select import OperandSelect
from tosaic.hw.array.pe_array import LATENCY as DELIVERY_LATENCY
from tosaic.hw.array.pe_array import PeArray
from tosaic.hw.array.pe_row import PeRow
from tosaic.hw.array.processing_element import HidingElement, ProcessingElement
from tosaic.hw.config_text import get_config


def wrap(value: int) -> int:
    return value % (1 << 32)


def pack(values: list[int], bits: int) -> int:
    return sum((value % (1 << bits)) << bits * i for i, value in enumerate(values))


def unpack(word: int, bits: int, count: int, signed: bool = True) -> list[int]:
    values = [word >> bits * i & (1 << bits) - 1 for i in range(count)]
    return [value - (1 << bits) if signed and value >> bits - 1 else value for value in values]


@pytest.mark.parametrize("hides", [False, True])
def test_processing_element(hides):
    """The product in one cycle, the sum in the next; `hide` wins over the sum."""
    dut, dice = HidingElement() if hides else ProcessingElement(), random.Random(1)

    async def process(ctx):
        product, own, passed, summed = 0, 0, 0, False
        for _ in range(300):
            values = dict(
                operand=dice.choice([-256, 255, dice.randint(-256, 255)]),
                weight=dice.choice([-256, 255, dice.randint(-256, 255)]),
                add=summed and dice.random() < 0.7,
                keep=dice.random() < 0.5,
                above=dice.randrange(1 << 32),
                hide=hides and dice.random() < 0.3,
            )
            chain = hides or dice.random() < 0.5
            for port, value in (
                (dut.operand, values["operand"]),
                (dut.weight, values["weight"]),
                (dut.add, values["add"]),
                (dut.keep, values["keep"]),
                (dut.above, values["above"]),
                (dut.hide, values["hide"]) if hides else (dut.chain, chain and not values["keep"]),
            ):
                ctx.set(port, value)
            await ctx.tick()
            if values["add"]:
                own = passed = wrap((own if values["keep"] else values["above"] if chain else 0) + product)
            passed = 0 if values["hide"] else passed
            product = values["operand"] * values["weight"]
            # Sums begin with one that does not keep: the element's registers have no reset.
            summed = True
            if not values["add"] and own == 0:
                continue
            assert ctx.get(dut.passed if hides else dut.sum) == passed

    run(dut, process)


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("depthwise", [False, True])
def test_row(depthwise, hides):
    """Three cycles from a slot to its sums; a row that hides them shows them, output stationary, only where they are
    delivered."""
    dut, dice, width = PeRow(SQUARE, hides=hides), random.Random(2), SQUARE.columns
    weights = [dice.randint(-255, 255) for _ in range(width)]
    slots = [[dice.randint(-255, 255) for _ in range(width)] for _ in range(12)]
    # Output stationary, the row above shows zero while this one adds up, if it hides its sums.
    above = [
        [dice.randrange(1 << 32) if depthwise or not hides else 0 for _ in range(width)] for _ in range(12)
    ]

    async def process(ctx):
        ctx.set(dut.weights, pack(weights, OPERAND_BITS))
        ctx.set(dut.mac, 1)
        ctx.set(dut.clear, 1)
        ctx.set(dut.depthwise, depthwise)
        sums = [0] * width
        for cycle in range(len(slots) + 3):
            ctx.set(dut.valid, cycle < len(slots))
            ctx.set(dut.shift, cycle <= 1)
            if cycle == 1:
                assert unpack(ctx.get(dut.out_weights), OPERAND_BITS, width) == weights
                assert ctx.get(dut.out_mac) and ctx.get(dut.out_clear)
                ctx.set(dut.clear, 0)
            if 1 <= cycle <= len(slots):
                ctx.set(dut.operands, pack(slots[cycle - 1], OPERAND_BITS))
            if 2 <= cycle < len(slots) + 2:
                ctx.set(dut.above, pack(above[cycle - 2], 32))
            if hides:
                ctx.set(dut.deliver, cycle == len(slots))
            if cycle >= 3:
                number = cycle - 3
                start = above[number] if depthwise else sums
                products = (a * b for a, b in zip(slots[number], weights, strict=True))
                sums = [wrap(own + product) for own, product in zip(start, products, strict=True)]
                shown = depthwise or not hides or number == len(slots) - 1
                assert unpack(ctx.get(dut.passed), 32, width, False) == (sums if shown else [0] * width), (
                    cycle
                )
            await ctx.tick()

    run(dut, process)


def test_rows_without_a_tap_have_zeros():
    """For every number of taps and of rows for a group, also where a row beside shares what it chooses among."""
    config = get_config("base")
    dut, rows, groups = OperandSelect(config), config.rows, group_count(config)
    vector_bits = OPERAND_BITS * config.columns

    async def process(ctx):
        ctx.set(dut.valid, 1)
        ctx.set(dut.depthwise, 1)
        ctx.set(dut.vectors, pack([group + 1 for group in range(groups)], vector_bits))
        for taps in range(1, rows + 1):
            for group_rows in range(1, taps + 1):
                chosen = [min(row // group_rows, groups - 1) for row in range(taps)]
                for row, group in enumerate(chosen):
                    ctx.set(dut.set_group, 1 << row)
                    ctx.set(dut.group, group)
                    await ctx.tick()
                ctx.set(dut.set_group, 0)
                await ctx.tick()
                got = unpack(ctx.get(dut.operands), vector_bits, rows, False)
                wanted = [group + 1 for group in chosen] + [0] * (rows - taps)
                assert got == wanted, (taps, group_rows)

    run(dut, process)


@pytest.mark.parametrize("config", [TINY, SHALLOW], ids=lambda config: config.name)
def test_operand_select(config):
    """Row i has element j of a word i + j + 1 cycles after its start, and depthwise the vector of its group."""
    dut, dice = OperandSelect(config), random.Random(4)
    rows, width, groups = config.rows, config.columns, group_count(config)
    vector_bits = OPERAND_BITS * width
    words = [[dice.randint(-256, 255) for _ in range(width)] for _ in range(5)]

    async def process(ctx):
        ctx.set(dut.valid, 1)
        ctx.set(dut.shift, 1)
        for slot in range(5 * width + rows):
            step, j = divmod(slot, width)
            ctx.set(dut.start, j == 0 and step < 5)
            ctx.set(dut.vectors, pack(words[step], OPERAND_BITS) if step < 5 else 0)
            await ctx.tick()
            got = unpack(ctx.get(dut.operands), vector_bits, rows, False)
            for row in range(rows):
                step, element = divmod(slot - row, width)
                if 0 <= step < 5:
                    # Row i takes the word that is there i slots after the step's first one.
                    taken = (
                        words[(step * width + row) // width]
                        if step * width + row < 5 * width
                        else [0] * width
                    )
                    assert unpack(got[row], OPERAND_BITS, width) == [taken[element]] * width, (slot, row)
        ctx.set(dut.shift, 0)
        ctx.set(dut.start, 0)
        for group_rows in range(1, rows + 1):
            chosen = [min(row // group_rows, groups - 1) for row in range(rows)]
            for row in range(rows):
                ctx.set(dut.set_group, 1 << row)
                ctx.set(dut.group, chosen[row])
                await ctx.tick()
            ctx.set(dut.set_group, 0)
            vectors = [[dice.randint(-256, 255) for _ in range(width)] for _ in range(groups)]
            ctx.set(dut.depthwise, 1)
            ctx.set(dut.vectors, pack([pack(vector, OPERAND_BITS) for vector in vectors], vector_bits))
            await ctx.tick()
            got = unpack(ctx.get(dut.operands), vector_bits, rows, False)
            assert [unpack(word, OPERAND_BITS, width) for word in got] == [vectors[group] for group in chosen]
            # With row 0 the rows begin anew: those that are not set have zeros.
            ctx.set(dut.set_group, 1)
            ctx.set(dut.group, 0)
            await ctx.tick()
            ctx.set(dut.set_group, 0)
            await ctx.tick()
            got = unpack(ctx.get(dut.operands), vector_bits, rows, False)
            assert [unpack(word, OPERAND_BITS, width) for word in got] == [
                vectors[0],
                *([0] * width for _ in range(rows - 1)),
            ]
            ctx.set(dut.depthwise, 0)

    run(dut, process)


@pytest.mark.parametrize("paired", [False, True])
def test_delay_line(paired):
    """Group g is the vector of g turns ago; paired, groups are the rows of the pairs before. Not filled: zero."""
    dut, dice = DelayLine(SQUARE), random.Random(5)
    groups, delay, bits = group_count(SQUARE), 6, OPERAND_BITS * SQUARE.columns
    history: list[tuple[int, int]] = []

    async def process(ctx):
        ctx.set(dut.paired, paired)
        for t in range(5 * delay):
            ctx.set(dut.write, 0)
            ctx.set(dut.read, 1)
            ctx.set(dut.read_pointer_1, t % delay)
            ctx.set(dut.read_pointer, t % delay)
            await ctx.tick()
            ctx.set(dut.read, 0)
            pair = dice.randrange(1 << bits), dice.randrange(1 << bits)
            history.append(pair)
            ctx.set(dut.vector, pair[0])
            ctx.set(dut.second, pair[1])
            ctx.set(dut.filled, 3 * (t >= delay))
            ctx.set(dut.write, 1)
            ctx.set(dut.write_pointer_1, t % delay)
            ctx.set(dut.write_pointer, t % delay)
            for group in range(1, groups):
                turns, second = ((group + 1) // 2, group % 2) if paired else (group, 0)
                expected = history[t - turns * delay][second] if t >= turns * delay else 0
                assert unpack(ctx.get(dut.delayed), bits, groups - 1, False)[group - 1] == expected, (
                    t,
                    group,
                )
            await ctx.tick()

    run(dut, process)


def test_drain():
    """In order; `room` while places are left; a reserved place is freed when its vector leaves."""
    dut, dice = Drain(SQUARE), random.Random(6)
    depth = 16  # more than rows

    async def process(ctx):
        reserved, sent, number, got = 0, [], 0, []
        for cycle in range(600):
            assert ctx.get(dut.empty) == (reserved == 0)
            assert ctx.get(dut.room) == (reserved < depth)
            reserve = reserved < depth and dice.random() < 0.6
            write = len(sent) < number and dice.random() < 0.7
            ready = dice.random() < (0.1 if cycle % 200 < 100 else 0.9)
            ctx.set(dut.reserve, reserve)
            ctx.set(dut.write, write)
            ctx.set(dut.vector, pack([len(sent) + 7] * SQUARE.columns, 32))
            ctx.set(dut.accumulators.ready, ready)
            taken = ready and ctx.get(dut.accumulators.valid)
            if taken:
                got.append(ctx.get(dut.accumulators.payload[0]))
            await ctx.tick()
            number += reserve
            reserved += reserve - bool(taken)
            if write:
                sent.append(len(sent) + 7)
        assert got == sent[: len(got)] and len(got) > 100

    run(dut, process)


def test_operand_fetch():
    """Bytes become operands LATENCY cycles after the issue: zero points, signs, the mask; weights."""
    dut, dice, width = OperandFetch(TINY), random.Random(7), TINY.columns
    slots = []
    for _ in range(40):
        low, high = sorted((dice.randint(0, width), dice.randint(0, width)))
        slots.append(
            dict(inside=dice.random() < 0.8, low=low, high=high, unsigned_input=dice.randint(0, 1))
            | dict(input_zp=dice.randint(-128, 127), weight_zp=dice.randint(-128, 127))
        )
    words = [dice.randbytes(width) for _ in slots]
    weights = [dice.randbytes(width) for _ in slots]

    def byte(value: int, unsigned: bool) -> int:
        return value if unsigned or value < 128 else value - 256

    async def process(ctx):
        for cycle in range(len(slots) + LATENCY):
            ctx.set(dut.issued, cycle < len(slots))
            if cycle < len(slots):
                set_fields(ctx, dut.format, **slots[cycle])
                ctx.set(dut.control.row, cycle % TINY.rows)
            if 0 <= cycle - 2 < len(slots):
                ctx.set(dut.am_data, int.from_bytes(words[cycle - 2], "little"))
            if 0 <= cycle - 3 < len(slots):
                ctx.set(dut.wm_data, int.from_bytes(weights[cycle - 3], "little"))
            number = cycle - LATENCY
            assert ctx.get(dut.valid) == (number >= 0)
            assert ctx.get(dut.waiting) == (cycle > 0)
            if number >= 0:
                slot = slots[number]
                operands = [
                    byte(value, slot["unsigned_input"]) - slot["input_zp"]
                    if slot["inside"] and slot["low"] <= j < slot["high"]
                    else 0
                    for j, value in enumerate(words[number])
                ]
                vector = ctx.get(dut.vectors) % (1 << OPERAND_BITS * width)
                assert unpack(vector, OPERAND_BITS, width) == [wrapped(value) for value in operands]
                assert ctx.get(dut.out_control.row) == number % TINY.rows
                expected = [wrapped(byte(value, False) - slot["weight_zp"]) for value in weights[number]]
                assert unpack(ctx.get(dut.weights), OPERAND_BITS, width) == expected
            await ctx.tick()

    run(dut, process)


def wrapped(value: int) -> int:
    """Returns the value as an operand: modulo 2**OPERAND_BITS, signed."""
    return (value + (1 << OPERAND_BITS - 1)) % (1 << OPERAND_BITS) - (1 << OPERAND_BITS - 1)


def test_pe_array_delivers_a_tile():
    """Weights pass from row to row, and row i delivers i slots after row 0, DELIVERY_LATENCY cycles after its slot."""
    dut, dice = PeArray(SQUARE), random.Random(8)
    rows, width = SQUARE.rows, SQUARE.columns
    words = [[dice.randint(-255, 255) for _ in range(width)] for _ in range(rows)]
    weights = [[dice.randint(-255, 255) for _ in range(width)] for _ in range(width)]

    async def process(ctx):
        got = []
        for slot in range(width + rows + DELIVERY_LATENCY):
            ctx.set(dut.valid, slot < width + rows)
            row = slot - (width - 1)
            set_fields(ctx, dut.control, mac=slot < width, start=slot == 0, clear=slot == 0)
            set_fields(ctx, dut.control, deliver=0 <= row < rows, row=max(0, min(row, rows - 1)))
            ctx.set(dut.vectors, pack(words[slot], OPERAND_BITS) if slot < rows else 0)
            ctx.set(dut.weights, pack(weights[slot], OPERAND_BITS) if slot < width else 0)
            if ctx.get(dut.delivered):
                got.append((slot, unpack(ctx.get(dut.accumulators), 32, width)))
            await ctx.tick()
        assert not ctx.get(dut.waiting) or len(got) == rows
        assert got == [
            (
                width - 1 + row + DELIVERY_LATENCY,
                [sum(words[row][j] * weights[j][c] for j in range(width)) for c in range(width)],
            )
            for row in range(rows)
        ]

    run(dut, process)
