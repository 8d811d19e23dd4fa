"""`verify`: every path of a program is checked, and a program with any token or set-up taken out is refused."""

import itertools

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.ir.building import GraphBuilder
from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import INSTRUCTION_BYTES, STORE_STREAM, Condition, Op, Opcode, Source, decode, encode, make
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator.verify import Verified, verify

CONFIG = CONFIGS["nano"]
MEMORY_BYTES = 8192


def check(*instructions: tuple[Opcode, dict[str, int]]) -> Verified:
    assembler = Assembler(CONFIG)
    for opcode, fields in instructions:
        assembler.emit(opcode, **fields)
    memory = np.zeros(MEMORY_BYTES, np.uint8)
    return verify(CONFIG, memory, 0, assembler.place(memory, 0))


def load(memory: int, local: int) -> tuple[Opcode, dict[str, int]]:
    fields = {"memory_address": memory, "space": 0, "local_address": local, "row_bytes": 16, "rows": 1}
    return Opcode.LOAD_GO, fields


def store(memory: int, local: int) -> tuple[Opcode, dict[str, int]]:
    return Opcode.STORE_GO, {"memory_address": memory, "local_address": local, "row_bytes": 16, "rows": 1}


def branch(number: int, condition: Condition) -> tuple[Opcode, dict[str, int]]:
    """To instruction `number`, counted from BEGIN."""
    return Opcode.BRANCH, {"target": INSTRUCTION_BYTES * number, "condition": condition}


def ready(*units: str) -> list[tuple[Opcode, dict[str, int]]]:
    """All of the memories is written before these units begin: 2 instructions, and 2 for each unit."""
    fields = {"memory_address": 4096, "local_address": 0, "rows": 1, "row_bytes": 1024}
    loads = [(Opcode.LOAD_GO, {**fields, "space": space}) for space in (0, 1)]
    tokens = [
        [
            (Opcode.LOAD_SIGNAL, {"semaphore": n, "count": 1}),
            (Opcode[f"{unit}_WAIT"], {"semaphore": n, "count": 1}),
        ]
        for n, unit in enumerate(units, 10)
    ]
    return [*loads, *itertools.chain(*tokens)]


SIGNAL = (Opcode.LOAD_SIGNAL, {"semaphore": 2, "count": 1})
WAIT = (Opcode.STORE_WAIT, {"semaphore": 2, "count": 1})
OUTSIDE = load(MEMORY_BYTES, 0)


def small_network() -> Graph:
    build = GraphBuilder()
    x = build.input("x", (1, 6, 6, 4), DType.INT8)
    pooled = build.add(
        "MAX_POOL2D", [x], kernel=[2, 2], stride=[2, 2], pad=[0, 0, 0, 0], nan_mode="PROPAGATE"
    )
    build.output(build.add("CLAMP", [pooled], min_val=-5, max_val=9, nan_mode="PROPAGATE"))
    return build.finish()


def test_a_program_without_branches_is_one_piece() -> None:
    assert check(load(64, 0), SIGNAL, WAIT, store(128, 0)) == Verified(6, 1, ())


def test_two_units_that_wait_for_one_semaphore() -> None:
    """In program order both find their tokens; STORE may be first and wait for a third, which VECTOR took."""
    taken = (Opcode.VECTOR_WAIT, {"semaphore": 2, "count": 1})
    with pytest.raises(DeviceError, match="at program counter 64 .*STORE waits for semaphore 2, too"):
        check(SIGNAL, SIGNAL, WAIT, taken)
    assert check(SIGNAL, SIGNAL, WAIT, WAIT).pieces == 1


def test_accesses_without_a_token_between_them() -> None:
    with pytest.raises(
        DeviceError, match=r"STORE_GO .* reads byte 0 of the activation memory.* no token orders"
    ):
        check(load(64, 0), store(128, 0))


def tokens(signals: int, waits: int, after: int = 0) -> list[tuple[Opcode, dict[str, int]]]:
    """16 SIGNALs, and a WAIT that takes `waits` of their tokens before `signals` more come; `after`: commands of the
    unit that waits, in between."""
    many = [(Opcode.LOAD_SIGNAL, {"semaphore": 2, "count": 255})] * 16
    idle = [(Opcode.STORE_PITCH, {"memory_pitch": 0, "local_pitch": 0})] * after
    taken = [(Opcode.STORE_WAIT, {"semaphore": 2, "count": waits})]
    more = [(Opcode.LOAD_SIGNAL, {"semaphore": 2, "count": signals})]
    rest = [(Opcode.STORE_WAIT, {"semaphore": 2, "count": 240})] * ((16 * 255 + signals - waits) // 240)
    last = [(Opcode.STORE_WAIT, {"semaphore": 2, "count": (16 * 255 + signals - waits) % 240})]
    return many + taken + idle + more + rest + last


def test_a_counter_that_may_wrap_when_a_unit_runs_ahead() -> None:
    """4080 tokens, 255 taken, 100 more: 3925 in program order. But LOAD signals again before STORE takes any."""
    with pytest.raises(
        DeviceError,
        match=r"LOAD_SIGNAL .*semaphore 2 may pass 4095: it is 3925 here, and 255 tokens more while the last WAITs are "
        "still in the queue of STORE",
    ):
        check(*tokens(signals=100, waits=255))
    assert check(*tokens(signals=15, waits=255)).pieces == 1
    # A queue that holds other commands by now has let the WAIT go.
    depth = CONFIG.queue_commands
    assert check(*tokens(signals=100, waits=255, after=depth + 2)).pieces == 1
    with pytest.raises(DeviceError, match="may pass 4095"):
        check(*tokens(signals=100, waits=255, after=depth + 1))


def test_tokens_left_over() -> None:
    with pytest.raises(
        DeviceError, match=r"END\): semaphore 2 is 1 here, and must be 0: tokens are left over"
    ):
        check(load(64, 0), SIGNAL)


@pytest.mark.parametrize("condition", [Condition.IF_CLEAR, Condition.IF_SET])
def test_both_ways_of_a_branch_are_followed(condition: Condition) -> None:
    """The emulator takes one of them only: the flag is 0."""
    with pytest.raises(DeviceError, match=r"^MEMORY_RANGE at program counter 32 "):
        check(branch(3, condition), OUTSIDE)
    assert check(branch(3, condition), load(64, 0)) == Verified(5, 3, ())


def test_what_no_path_reaches_is_not_checked() -> None:
    assert check(branch(3, Condition.ALWAYS), OUTSIDE).pieces == 2
    with pytest.raises(DeviceError, match="MEMORY_RANGE"):
        check(branch(3, Condition.NEVER), OUTSIDE)


TURN = (Opcode.VECTOR_GO, {"vectors": 1, "slots": 1, "repeats": 1, "uops": 1, "lanes": 4, "tail_lanes": 4})
COUNT_DOWN = [
    (
        Opcode.VECTOR_UOP,
        {"index": 0, "op": Op.SUB, "a_source": Source.LOAD, "b_source": Source.IMMEDIATE, "to_memory": 1},
    ),
    (Opcode.VECTOR_BOUNDS, {"index": 0, "immediate": 1}),
]
"""The four bytes from 0 on are one less behind each TURN."""
TEST = (Opcode.VECTOR_TEST, {"address": 0})


def test_a_loop_is_left_when_it_brings_nothing_new() -> None:
    done = check(*ready("VECTOR"), *COUNT_DOWN, TURN, TEST, branch(7, Condition.IF_SET))
    assert (done.pieces, done.data_loops) == (3, (112,))


def test_a_loop_is_followed_with_the_set_up_that_it_leaves() -> None:
    """The first turn copies rows without a pitch between them; the second has one that leaves the memory."""
    pitch = (Opcode.LOAD_PITCH, {"memory_pitch": MEMORY_BYTES, "local_pitch": 16})
    opcode, fields = load(64, 0)
    harmless = (Opcode.LOAD_PITCH, {"memory_pitch": 16, "local_pitch": 16})
    with pytest.raises(DeviceError, match=r"^MEMORY_RANGE at program counter 32 "):
        check(harmless, (opcode, {**fields, "rows": 2}), pitch, branch(2, Condition.IF_SET))


def test_tokens_must_not_pass_a_branch() -> None:
    with pytest.raises(DeviceError, match="BRANCH .*semaphore 2 is 1 here"):
        check(load(64, 0), SIGNAL, branch(4, Condition.NEVER), WAIT, store(128, 0))


def test_units_that_wait_for_each_other() -> None:
    """In order the vectors are there; side by side the array fills their queue and never gets to its SIGNAL."""
    go = {"vectors": 100, "slots": 8, "repeats": 1, "uops": 1, "lanes": 4, "tail_lanes": 4}
    array = [
        (Opcode.ARRAY_INPUT, {"row_bytes": 8, "height": 1}),
        (Opcode.ARRAY_WINDOW, {"width": 1}),
        (Opcode.ARRAY_KERNEL, {"ky_count": 1, "run_count": 1, "chunks": 1}),
        (Opcode.ARRAY_GO, {"pixels": 100, "drain": 1}),
        (Opcode.ARRAY_SIGNAL, {"semaphore": 0, "count": 1}),
    ]
    take = [(Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.ARRAY}), (Opcode.VECTOR_GO, go)]
    wait = (Opcode.VECTOR_WAIT, {"semaphore": 0, "count": 1})
    with pytest.raises(
        DeviceError, match=r"^WATCHDOG before program counter \d+: the units wait for each other: "
    ):
        check(*ready("ARRAY"), *array, wait, *take)
    assert check(*ready("ARRAY"), *array, *take, wait).pieces == 1


@pytest.mark.parametrize("place", range(9))
def test_a_branch_anywhere_behind_some_set_up(place: int) -> None:
    """What is set up before it holds for the GOs behind it, where the units may wait for each other."""
    go = {"vectors": 100, "slots": 8, "repeats": 1, "uops": 1, "lanes": 4, "tail_lanes": 4}
    setup = [
        (Opcode.ARRAY_INPUT, {"row_bytes": 8, "height": 1}),
        (Opcode.ARRAY_WINDOW, {"width": 1}),
        (Opcode.ARRAY_KERNEL, {"ky_count": 1, "run_count": 1, "chunks": 1}),
        stream(0, 0),
        (Opcode.VECTOR_DIMS, {"stream": 0, "pair": 0, "count_low": 1, "count_high": 1}),
        (Opcode.VECTOR_PARAM, {"address": 0, "bias": 1}),
        (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.ARRAY}),
        (Opcode.VECTOR_BOUNDS, {"index": 0}),
    ]
    before = ready("ARRAY", "VECTOR")
    setup.insert(place, branch(2 + place + len(before), Condition.NEVER))
    array = [
        (Opcode.ARRAY_GO, {"pixels": 100, "drain": 1}),
        (Opcode.ARRAY_SIGNAL, {"semaphore": 0, "count": 1}),
    ]
    take, wait = (Opcode.VECTOR_GO, go), (Opcode.VECTOR_WAIT, {"semaphore": 0, "count": 1})
    assert check(*before, *setup, *array, take, wait).pieces == 2
    with pytest.raises(
        DeviceError, match="^WATCHDOG before program counter 336: the units wait for each other: "
    ):
        check(*before, *setup, *array, wait, take)


STREAMED = (
    Opcode.LOAD_GO,
    {"memory_address": 0, "space": 1, "local_address": 0, "row_bytes": 16, "rows": 1, "streamed": 1},
)
MULTIPLY = [
    (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1, "streamed": 1}),
    TURN,
    (Opcode.VECTOR_TEST, {"address": 512}),
]
MATRIX = [
    *ready("ARRAY", "VECTOR"),
    (Opcode.ARRAY_INPUT, {"row_bytes": 8, "height": 1}),
    (Opcode.ARRAY_WINDOW, {"width": 1}),
    (Opcode.ARRAY_KERNEL, {"ky_count": 1, "run_count": 1, "chunks": 1}),
    (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.ARRAY, "to_memory": 1}),
    (Opcode.VECTOR_STREAM, {"stream": STORE_STREAM, "address": 512}),
]
BEHIND = 1 + len(MATRIX)
"""The number of the instruction behind them."""


@pytest.mark.parametrize(
    "program",
    [
        [STREAMED, branch(BEHIND + 2, Condition.NEVER), *MULTIPLY],
        [STREAMED, STREAMED, *MULTIPLY, branch(BEHIND + 6, Condition.NEVER), *MULTIPLY],
        [STREAMED, STREAMED, branch(BEHIND + 3, Condition.NEVER), *MULTIPLY, *MULTIPLY],
        # Each of two ways reads the words.
        [
            STREAMED,
            branch(BEHIND + 6, Condition.IF_SET),
            *MULTIPLY,
            branch(BEHIND + 9, Condition.ALWAYS),
            *MULTIPLY,
        ],
        # A loop that reads what it brings, and the next turn's words.
        [STREAMED, STREAMED, *MULTIPLY, branch(BEHIND + 1, Condition.IF_SET), *MULTIPLY],
    ],
)
def test_streamed_weights_are_there_behind_a_branch(program: list[tuple[Opcode, dict[str, int]]]) -> None:
    assert check(*MATRIX, *program).data_dependent == ()
    for missing in (STREAMED, *MULTIPLY[:1]):
        fewer = list(program)
        fewer[program.index(missing)] = (Opcode.NOP, {})
        with pytest.raises(
            DeviceError, match="streamed words of weights; earlier loads bring|takes 1 vectors"
        ):
            check(*MATRIX, *fewer)


@pytest.mark.parametrize("places", [(0, 0), (0, 16), (16, 0), (16, 16)])
def test_two_ways_that_stream_as_many_words(places: tuple[int, int]) -> None:
    """To the first places of the weight memory, which are read behind both, or to others."""
    one, other = ((STREAMED[0], {**STREAMED[1], "local_address": place}) for place in places)
    join = branch(BEHIND + 5, Condition.ALWAYS)
    program = [branch(BEHIND + 3, Condition.IF_SET), one, join, other, join, *MULTIPLY]
    if places == (0, 0):
        assert check(*MATRIX, *program).pieces == 4
    else:
        with pytest.raises(
            DeviceError, match="reads word 0 of the weight memory, when the next streamed one is 4"
        ):
            check(*MATRIX, *program)


def test_compiled_programs_are_in_order() -> None:
    program = compile_graph(small_network(), CONFIG)
    done = verify(CONFIG, program.memory(), program.program_address, program.program_bytes)
    assert (done.pieces, done.data_dependent) == (1, ())


def test_every_token_and_every_set_up_counts() -> None:
    """With any WAIT or SIGNAL taken out, the program is refused; the set-up of a micro-operation likewise."""
    program = compile_graph(small_network(), CONFIG)
    needed = {"WAIT", "SIGNAL", "UOP"}
    taken_out = 0
    for offset in range(0, program.program_bytes, INSTRUCTION_BYTES):
        memory = program.memory()
        place = slice(program.program_address + offset, program.program_address + offset + INSTRUCTION_BYTES)
        if decode(memory[place].tobytes()).opcode.name.rpartition("_")[2] in needed:
            memory[place] = np.frombuffer(encode(make(Opcode.NOP)), np.uint8)
            taken_out += 1
            with pytest.raises(DeviceError):
                verify(CONFIG, memory, program.program_address, program.program_bytes)
    assert taken_out >= 7


def test_addresses_of_a_network_do_not_depend_on_data() -> None:
    program = compile_graph(small_network(), CONFIG)
    found = verify(CONFIG, program.memory(), program.program_address, program.program_bytes)
    assert found.data_dependent == ()


def stream(number: int, indexed: int) -> tuple[Opcode, dict[str, int]]:
    return Opcode.VECTOR_STREAM, {"stream": number, "address": 512, "indexed": indexed}


def copies(*between: tuple[Opcode, dict[str, int]]) -> list[tuple[Opcode, dict[str, int]]]:
    """Sets up a copy of a vector, in nine instructions with BEGIN, and makes it before and after what is `between`."""
    whole = {"vectors": 1, "slots": 1, "repeats": 1, "uops": 1, "lanes": 4, "tail_lanes": 4}
    go = (Opcode.VECTOR_GO, whole)
    setup = [
        (Opcode.VECTOR_OFFSETS, {"address": 0, "count": 1}),
        (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.LOAD, "to_memory": 1}),
        stream(0, 0),
        stream(STORE_STREAM, 0),
    ]
    return [*ready("VECTOR"), *setup, go, (Opcode.VECTOR_TEST, {"address": 512}), *between, go]


def skip(number: int) -> tuple[Opcode, dict[str, int]]:
    return branch(number, Condition.IF_SET)


@pytest.mark.parametrize(
    "between, dependent",
    [
        ([], ()),
        ([stream(0, 1)], (12,)),
        ([stream(STORE_STREAM, 1)], (12,)),
        ([stream(0, 1), stream(0, 0)], ()),
        ([stream(0, 1), copies()[-1], stream(0, 0)], (12,)),
        ([stream(0, 1), copies()[-1]], (12, 13)),
        # One way around what makes the addresses depend on data, or around that and the copy.
        ([skip(13), stream(0, 1)], (13,)),
        ([stream(0, 1), skip(14), copies()[-1]], (13, 14)),
        ([skip(15), stream(0, 1), copies()[-1], stream(0, 0)], (13,)),
        # The copy before is made once more, with what the loop has set up.
        ([stream(0, 1), skip(9)], (9, 13)),
        ([stream(0, 1), skip(1)], (13,)),
        ([skip(9), stream(0, 1)], (13,)),
    ],
)
def test_gos_whose_addresses_come_from_memory(
    between: list[tuple[Opcode, dict[str, int]]], dependent: tuple[int, ...]
) -> None:
    """On any path, each once and in the program's order."""
    offsets = tuple(INSTRUCTION_BYTES * number for number in dependent)
    assert check(*copies(*between)).data_dependent == offsets
