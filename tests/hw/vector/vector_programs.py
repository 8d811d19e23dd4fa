"""Commands for tests of the vector unit: short forms and random programs."""

import random

from tosaic.hw.config import Config
from tosaic.hw.isa import OFFSETS_MAX, STORE_STREAM, Element, Instruction, Op, Opcode, Source, make

TINY = Config("tiny", rows=2, columns=4, am_bytes=1 << 13, am_banks=4, wm_bytes=1 << 10, line_pixels=16)


def uop(
    index: int, op: Op = Op.MOV, a: tuple = (Source.NONE, 0), b: tuple = (Source.NONE, 0), **fields
) -> Instruction:
    """VECTOR_UOP with zero for what is not given; `a`, `b` are (source, index)."""
    values = dict.fromkeys(
        [
            "to_memory",
            "destination",
            "bias",
            "per_channel",
            "round",
            "clamp",
            "wrap32",
            "shift",
            "a_zp",
            "out_zp",
            "multiplier",
        ],
        0,
    )
    sources = {"a_source": a[0], "a_index": a[1], "b_source": b[0], "b_index": b[1]}
    return make(Opcode.VECTOR_UOP, index=index, op=op, **{**values, **sources, **fields})


def bounds(index: int, low: int = 0, high: int = 0, immediate: int = 0) -> Instruction:
    return make(Opcode.VECTOR_BOUNDS, index=index, low=low, high=high, immediate=immediate)


def set_up(uops: int) -> list[Instruction]:
    """All that a GO may need beside its micro-ops: bounds for each, parameters, a whole table; from address 0 on."""
    parameters = make(Opcode.VECTOR_PARAM, address=0, bias=1, scale=1)
    return [*map(bounds, range(uops)), parameters, make(Opcode.VECTOR_TABLE, address=0, entries=512)]


def stream(
    number: int, address: int, element: Element = Element.INT8, splat: int = 0, indexed: int = 0
) -> Instruction:
    return make(
        Opcode.VECTOR_STREAM, stream=number, address=address, element=element, splat=splat, indexed=indexed
    )


def offsets(address: int, count: int) -> Instruction:
    return make(Opcode.VECTOR_OFFSETS, address=address, count=count)


def dims(number: int, *turns: tuple[int, int]) -> list[Instruction]:
    """All three VECTOR_DIMS of a stream from (count, stride) per dimension."""
    turns = [*turns, *[(1, 0)] * (6 - len(turns))]
    names = ("count_low", "stride_low", "count_high", "stride_high")
    return [
        make(
            Opcode.VECTOR_DIMS,
            stream=number,
            pair=pair,
            **dict(zip(names, turns[2 * pair] + turns[2 * pair + 1], strict=True)),
        )
        for pair in range(3)
    ]


def go(vectors: int, uops: int = 1, slots: int = 16, **fields) -> Instruction:
    """VECTOR_GO of one body with all micro-ops, all four lanes of TINY, unless told otherwise."""
    values = {"repeats": 1, "body_start": 0, "body_end": uops, "lanes": 4, "tail_lanes": 4, **fields}
    return make(Opcode.VECTOR_GO, vectors=vectors, uops=uops, slots=slots, **values)


def random_value(dice: random.Random, bits: int) -> int:
    """A signed number of up to `bits` bits; extremes are frequent."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return dice.choice([dice.randint(low, high), dice.randint(-200, 200), dice.choice([low, high, 0, 1, -1])])


def random_uop(dice: random.Random, index: int, to_memory: bool, registers: int) -> Instruction:
    """A legal micro-op on the first `registers` registers."""
    sources = [
        Source.REGISTER,
        Source.REGISTER,
        Source.LOAD,
        Source.ARRAY,
        Source.IMMEDIATE,
        Source.ITERATION,
    ]
    a, b = dice.choice(sources), dice.choice([*sources, Source.NONE])
    if b == Source.ARRAY or (a == b == Source.LOAD):
        b = Source.REGISTER
    op = dice.choice([*Op, Op.RESCALE, Op.RESCALE, Op.MUL])
    return uop(
        index,
        op,
        (a, dice.randrange(3 if a == Source.LOAD else registers)),
        (b, dice.randrange(3 if b == Source.LOAD else registers)),
        to_memory=int(to_memory),
        destination=dice.randrange(registers),
        bias=dice.randrange(2),
        per_channel=dice.randrange(2),
        round=dice.randrange(2),
        clamp=dice.randrange(2),
        wrap32=dice.randrange(2),
        shift=dice.choice([0, 1, dice.randrange(64), dice.randrange(2, 48)]),
        a_zp=random_value(dice, dice.choice([8, 18])),
        out_zp=random_value(dice, dice.choice([8, 18])),
        multiplier=random_value(dice, 32),
    )


def random_dims(dice: random.Random, number: int) -> list[Instruction]:
    used = dice.randint(2, 6)
    return dims(number, *[(dice.choice([1, 2, 3, 5, 40]), dice.randint(-40, 40)) for _ in range(used)])


def random_go(
    dice: random.Random, config: Config, indexed: int | None = None
) -> tuple[list[Instruction], int]:
    """Configuration and GO of a random program, and how many vectors of the array it takes. Loads read the lower half
    of the memory, stores write the upper half: within a GO loads must not depend on stores. Stream `indexed` has
    offsets out of the first `OFFSETS_MAX` words."""
    elements = [element for element in Element if element.bytes <= config.columns]
    half, uops = config.am_bytes // 2, dice.randint(1, 5)
    # Few registers make dependences between micro-ops frequent.
    registers = dice.choice([1, 2, 8])
    program = [random_uop(dice, i, i == uops - 1 or dice.random() < 0.2, registers) for i in range(uops)]
    commands = [*program]
    for i in range(uops):
        low = random_value(dice, 32)
        commands.append(bounds(i, low, random_value(dice, 32), random_value(dice, dice.choice([6, 32]))))
    for number in range(STORE_STREAM + 1):
        first = half + half // 2 if number == STORE_STREAM else half // 2
        address = first + dice.randint(-99, 99)
        splat = int(dice.random() < 0.3)
        commands.append(stream(number, address, dice.choice(elements), splat, int(number == indexed)))
        commands += random_dims(dice, number)
    dice.shuffle(commands)
    if indexed is not None:
        count = dice.choice([40, 41, 100])
        commands.append(offsets(4 * dice.randrange(OFFSETS_MAX - count), count))
    if dice.random() < 0.6:
        bias, scale = dice.choice([(1, 0), (0, 1), (1, 1)])
        params = {"bias": bias, "scale": scale, "narrow": dice.randrange(2)}
        commands.append(make(Opcode.VECTOR_PARAM, address=dice.randrange(half // 2), **params))
    if dice.random() < 0.2:
        entries = dice.choice([256, 512])
        commands.append(make(Opcode.VECTOR_TABLE, address=dice.randrange(half // 2), entries=entries))
    body = sorted(dice.randint(0, uops) for _ in range(2))
    lanes = config.columns + 1  # more than there are count as all
    run = go(
        dice.choice([1, dice.randint(1, 20), dice.randint(1, 60)]),
        uops,
        dice.choice([1, dice.randint(2, 10), 16]),
        repeats=dice.randint(1, 4),
        body_start=body[0],
        body_end=body[1],
        lanes=dice.randint(0, lanes),
        tail_lanes=dice.randint(0, lanes),
        next_params=int(dice.random() < 0.4),
    )
    inside = sum(u.a_source == Source.ARRAY for u in program[body[0] : body[1]])
    outside = sum(u.a_source == Source.ARRAY for u in program) - inside
    return [*commands, run], run.vectors * (outside + inside * run.repeats)


__all__ = ["TINY", "bounds", "dims", "go", "offsets", "random_go", "random_value", "set_up", "stream", "uop"]
