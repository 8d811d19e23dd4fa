"""`verify`: every path of a program is checked, and a program with any token or set-up taken out is refused."""

import itertools
from typing import Any

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.ir.building import GraphBuilder
from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import INSTRUCTION_BYTES, STORE_STREAM, Condition, Op, Opcode, Source, decode, encode, make
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator
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
    """Returns a branch to instruction `number`, counted from BEGIN."""
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
    """In program order the vectors are there; side by side the array fills their queue and never gets to its
    SIGNAL."""
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
    """The words go to the first places of the weight memory, which both ways read later, or to others."""
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
    """The program is refused with any WAIT or SIGNAL taken out, or the set-up of a micro-operation."""
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
    """They are listed on any path, each once and in the program's order."""
    offsets = tuple(INSTRUCTION_BYTES * number for number in dependent)
    assert check(*copies(*between)).data_dependent == offsets


def stored(count: int) -> list[tuple[Opcode, dict[str, int]]]:
    """Bytes from 4096 on, in 6 instructions: with BEGIN and END the program has 128 bytes."""
    go = {"memory_address": 4096, "local_address": 0, "row_bytes": count, "rows": 1}
    return [*ready("STORE"), (Opcode.STORE_GO, go), (Opcode.NOP, {})]


def at(address: int, program: list[tuple[Opcode, dict[str, int]]], **options: Any) -> Verified:
    """Check a program that lies at `address`."""
    assembler = Assembler(CONFIG)
    for opcode, fields in program:
        assembler.emit(opcode, **fields)
    memory = np.zeros(MEMORY_BYTES, np.uint8)
    return verify(CONFIG, memory, address, assembler.place(memory, address), **options)


@pytest.mark.parametrize(
    ("address", "count", "reached"),
    [(3968, 16, False), (4000, 16, True), (4096, 16, True), (4128, 32, False), (4128, 33, True)],
)
def test_a_store_must_not_reach_the_program(address: int, count: int, reached: bool) -> None:
    """Its first and its last byte count."""
    if not reached:
        assert at(address, stored(count)).instructions == 8
        return
    bytes_ = rf"bytes 4096\.\.{4095 + count} reach the program in bytes {address}\.\.{address + 127}"
    with pytest.raises(DeviceError, match=f"STORE_GO .*: {bytes_}, which may not change while it runs$"):
        at(address, stored(count))


def test_a_store_must_not_reach_a_program_beside_it() -> None:
    assert at(5120, stored(16), beside=[range(4112, 4113)]).pieces == 1
    with pytest.raises(DeviceError, match=r"reach the program in bytes 4111\.\.4111"):
        at(5120, stored(16), beside=[range(4111, 4112)])


def test_the_emulator_stops_where_a_program_changes_itself() -> None:
    assembler = Assembler(CONFIG)
    for opcode, fields in stored(16):
        assembler.emit(opcode, **fields)
    memory = np.zeros(MEMORY_BYTES, np.uint8)
    size = assembler.place(memory, 4096)
    with pytest.raises(DeviceError, match=r"bytes 4096\.\.4111 reach the program in bytes 4096\.\.4223"):
        Emulator(CONFIG).run(memory, 4096, size)
    assert memory[4096:4112].any()


UNWRITTEN = "which nothing has written: an earlier program left it$"
MOVE = (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.LOAD, "to_memory": 1})


@pytest.mark.parametrize(
    ("program", "reads"),
    [
        ([store(4096, 0)], "STORE_GO .*: reads byte 0 of the activation memory"),
        ([MOVE, stream(0, 0), TURN], "VECTOR_GO .*: reads byte 512 of the activation memory"),
        (
            [(Opcode.VECTOR_PARAM, {"address": 32, "bias": 1})],
            "VECTOR_PARAM .*: reads byte 32 of the activation",
        ),
        (
            [(Opcode.VECTOR_TABLE, {"address": 64, "entries": 256})],
            "VECTOR_TABLE .*: reads byte 64 of the act",
        ),
        ([(Opcode.VECTOR_OFFSETS, {"address": 8, "count": 1})], "VECTOR_OFFSETS .*: reads byte 8 of the act"),
        ([TEST], "VECTOR_TEST .*: reads byte 0 of the activation memory"),
        (
            [*MATRIX[6:], (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1})],
            "ARRAY_GO .*: reads byte 0 of the activation memory",
        ),
    ],
)
def test_reads_of_what_nobody_wrote(program: list[tuple[Opcode, dict[str, int]]], reads: str) -> None:
    with pytest.raises(DeviceError, match=f"{reads}.*{UNWRITTEN}"):
        check(*program)


def test_registers_and_sums_that_nobody_made() -> None:
    move = (Opcode.VECTOR_UOP, {"index": 0, "a_source": Source.REGISTER, "a_index": 5, "to_memory": 1})
    with pytest.raises(
        DeviceError, match="VECTOR_GO .*: reads register 5 of slot 0, which no micro-op has written$"
    ):
        check(move, TURN)
    more = (Opcode.ARRAY_GO, {"pixels": 2, "accumulate": 1, "drain": 1})
    with pytest.raises(
        DeviceError, match="ARRAY_GO .*: goes on from 2 sums, of which the GOs before it have made 1$"
    ):
        check(*MATRIX, (Opcode.ARRAY_GO, {"pixels": 1}), more)


@pytest.mark.parametrize(("pixels", "fits"), [(1, True), (2, False)])
def test_weights_of_columns_that_nobody_looks_at(pixels: int, fits: bool) -> None:
    """Two of a word's 4 weights are written, by a program that brings them from a place where nobody looks."""
    go = {"vectors": 1, "slots": 1, "repeats": 1, "uops": 1, "lanes": 1 + pixels, "tail_lanes": 1 + pixels}
    memory, known = np.zeros(MEMORY_BYTES, np.uint8), np.ones(MEMORY_BYTES, bool)
    known[5000 : 5000 + 64] = False
    assembler = Assembler(CONFIG)
    fields = {"memory_address": 4096, "row_bytes": 64, "rows": 1}
    rows = {"memory_address": 5120, "local_address": 1024, "row_bytes": 4, "rows": 4}
    for opcode, given in [
        (Opcode.LOAD_GO, fields),
        (Opcode.LOAD_PITCH, {"memory_pitch": 2, "local_pitch": 4}),
        (Opcode.LOAD_GO, {**rows, "memory_address": 4096, "row_bytes": 2}),
        SIGNAL,
        WAIT,
        (Opcode.STORE_GO, {**rows, "row_bytes": 16, "rows": 1}),
        (Opcode.STORE_SIGNAL, {"semaphore": 3, "count": 1}),
        (Opcode.LOAD_WAIT, {"semaphore": 3, "count": 1}),
        (Opcode.LOAD_GO, {"memory_address": 5120, "space": 1, "row_bytes": 16, "rows": 1}),
        (Opcode.LOAD_SIGNAL, {"semaphore": 4, "count": 1}),
        (Opcode.ARRAY_WAIT, {"semaphore": 4, "count": 1}),
        *MATRIX[6:],
        (Opcode.ARRAY_GO, {"pixels": 1, "drain": 1}),
        (Opcode.VECTOR_GO, go),
    ]:
        assembler.emit(opcode, **given)
    size = assembler.place(memory, 0)
    with pytest.raises(
        DeviceError, match=f"STORE_GO .*: reads byte 1026 of the activation memory, {UNWRITTEN}"
    ):
        verify(CONFIG, memory.copy(), 0, size)
    scratch = np.zeros(MEMORY_BYTES, bool)
    scratch[5120:5136] = True
    if fits:
        assert verify(CONFIG, memory, 0, size, scratch=scratch).pieces == 1
        return
    with pytest.raises(
        DeviceError,
        match="VECTOR_GO .*: uses lane 2 of the array's vectors: for it the array reads byte 2 of the weight memory, "
        f"{UNWRITTEN}",
    ):
        verify(CONFIG, memory, 0, size, scratch=scratch)


def test_external_memory_that_nobody_gave() -> None:
    known = np.zeros(MEMORY_BYTES, bool)
    known[:4096] = True
    brings = [load(4080, 0)]
    done = at(0, [*brings, SIGNAL, WAIT, store(4096, 0)], known=known)
    assert done.known.sum() == 4096 + 16
    with pytest.raises(DeviceError, match=f"LOAD_GO .*: reads byte 4096 of the external memory, {UNWRITTEN}"):
        at(0, [load(4081, 0)], known=known)


def test_what_only_one_way_writes_is_not_known_behind_both() -> None:
    way = [load(4096, 1024), SIGNAL, (Opcode.VECTOR_WAIT, {"semaphore": 2, "count": 1})]
    moved = (Opcode.VECTOR_STREAM, {"stream": 0, "address": 1024})
    program = [*ready("VECTOR"), MOVE, TEST, branch(11, Condition.IF_SET), *way, moved, TURN]
    with pytest.raises(
        DeviceError, match=f"VECTOR_GO .*: reads byte 1024 of the activation memory, {UNWRITTEN}"
    ):
        check(*program)
    program[6] = branch(7, Condition.NEVER)
    assert check(*program).pieces == 2


@pytest.mark.parametrize(
    ("loop", "start", "why"),
    [
        ([branch(7, Condition.ALWAYS)], 112, ""),
        ([branch(7, Condition.IF_SET)], 112, ""),
        ([TEST, branch(7, Condition.IF_CLEAR)], 112, 0),
        # Another byte changes.
        ([TURN, (Opcode.VECTOR_TEST, {"address": 4}), branch(7, Condition.IF_SET)], 112, 4),
        # The byte is brought again, always the same one; stored before, it may be another one.
        (
            [
                load(4096, 0),
                (Opcode.LOAD_SIGNAL, {"semaphore": 2, "count": 1}),
                (Opcode.VECTOR_WAIT, {"semaphore": 2, "count": 1}),
                TEST,
                branch(7, Condition.IF_SET),
            ],
            112,
            0,
        ),
        # A loop in a loop that ends, which does not change what it tests.
        ([TURN, TEST, branch(8, Condition.IF_SET), TEST, branch(7, Condition.IF_SET)], 128, 0),
    ],
)
def test_loops_without_an_exit(loop: list[tuple[Opcode, dict[str, int]]], start: int, why: str | int) -> None:
    if isinstance(why, int):
        why = f": nothing in it changes byte {why} of the activation memory, which it tests"
    with pytest.raises(
        DeviceError,
        match=rf"^PROGRAM at program counter {start}: the loop that begins there has no exit{why}$",
    ):
        check(*ready("VECTOR"), *COUNT_DOWN, *loop)


def test_loops_in_loops_that_end() -> None:
    loop = [TURN, TEST, branch(8, Condition.IF_SET), TURN, TEST, branch(7, Condition.IF_SET)]
    with pytest.raises(DeviceError, match="program counter 128: the loop that begins there has no exit"):
        check(*ready("VECTOR"), *COUNT_DOWN, *loop)
    loop[2] = branch(7, Condition.IF_SET)
    assert check(*ready("VECTOR"), *COUNT_DOWN, *loop).data_loops == (112,)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            [
                *ready("VECTOR"),
                MOVE,
                (Opcode.VECTOR_GO, TURN[1] | {"vectors": (1 << 24) - 1, "repeats": 65_535}),
            ],
            r"VECTOR_GO .*: takes [0-9,.]+ times as long as one instruction may in this check "
            r"\(vectors 16,777,215, repeats 65,535, uops 1\)$",
        ),
        (
            [load(0, 0), (Opcode.LOAD_GO, load(0, 0)[1] | {"rows": 65_535, "row_bytes": 4096})],
            "LOAD_GO .*: takes",
        ),
        (
            [
                turn
                for number in range(22)
                for turn in (
                    branch(3 + 2 * number, Condition.IF_SET),
                    (
                        Opcode.VECTOR_DIMS,
                        {
                            "stream": number % 4,
                            "pair": number // 4 % 3,
                            "count_low": 2 + number,
                            "stride_low": 0,
                            "count_high": 1,
                            "stride_high": 0,
                        },
                    ),
                )
            ],
            "this program of 46 instructions has more paths than are followed here: after .* pieces between branches",
        ),
    ],
)
def test_checks_that_would_take_too_long(program: list[tuple[Opcode, dict[str, int]]], message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        check(*program)
