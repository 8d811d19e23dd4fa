"""Loops of which inputs tell the number of turns: EQUAL for any number, and no fault is hidden."""

import collections
from collections.abc import Callable

import numpy as np
import pytest
from changed_certified import faulty_programs
from control_graphs import Body, Control, finished, plus

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.program import Program
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate

LARGE, SMALL = (40, 4), (3, 5)
MOST_CYCLES = 5_000


def times(number: int) -> Body:
    """Multiplies every tensor of the state, int32."""
    return lambda g, names: [
        g.add(
            "MUL",
            [name, g.number(number, (1,) * len(g.graph.tensors[name].shape)), g.constant([0], DType.INT8)],
        )
        for name in names
    ]


def exchanged(g: Control, names: list[str]) -> list[str]:
    return [*plus(1)(g, names[1:]), names[0]]


def kept(g: Control, names: list[str]) -> list[str]:
    return [names[0], *plus(1)(g, names[1:])]


def reversed_bytes(g: Control, names: list[str]) -> list[str]:
    limited = g.add("CLAMP", names, min_val=-100, max_val=90, nan_mode="PROPAGATE")
    return [g.add("REVERSE", [limited], axis=1)]


def by_branch(number: int) -> Body:
    """Either way, by a flag that changes, and by one that the state tells."""

    def body(g: Control, names: list[str]) -> list[str]:
        flag, x = names
        total = g.add("REDUCE_SUM", [g.add("REDUCE_SUM", [x], axis=0)], axis=1)
        large = g.add("RESHAPE", [g.add("GREATER", [total, g.number(9, (1, 1))]), g.shape((1,))])
        (x,) = g.choose(flag, [x], plus(3), plus(number))
        (x,) = g.choose(large, [x], times(-1), plus(1))
        return [g.add("LOGICAL_NOT", [flag]), x]

    return body


def within(number: int) -> Body:
    """A loop of its own, as often as the state's first tensor says."""
    return lambda g, names: [names[0], *g.counted(names[0], names[1:], plus(number))]


def twos(g: Control, names: list[str]) -> list[str]:
    """All bits of a tensor change at each turn, of constants at the beginning."""
    return [g.add("BITWISE_NOT", names[:1]), *plus(1)(g, names[1:])]


def repeated(body: Body, *state: tuple[tuple[int, ...], DType]) -> Graph:
    build = Control()
    given = [build.input(f"x{number}", *each) for number, each in enumerate(state)]
    return finished(build, build.counted(build.input("n", (1,), DType.INT32), given, body))


def one_after_the_other(number: int) -> Graph:
    build = Control()
    x, n, m = (
        build.input(name, size, DType.INT32) for name, size in (("x", SMALL), ("n", (1,)), ("m", (1,)))
    )
    (x,) = build.counted(n, [x], plus(number))
    (x,) = build.counted(m, build.counted(n, [x], times(5)), plus(1))
    return finished(build, [x])


def of_constants() -> Graph:
    build = Control()
    zeros, ones = (build.number(value, SMALL) for value in (0, -1))
    n = build.input("n", (1,), DType.INT32)
    y = build.counted(n, [zeros, ones], twos)
    return finished(build, y)


WIDE, FLAG = (SMALL, DType.INT32), ((1,), DType.BOOL)
GRAPHS: dict[str, tuple[Callable[[], Graph], Callable[[], Graph] | None]] = {
    "sum": (lambda: repeated(plus(7), WIDE), lambda: repeated(plus(8), WIDE)),
    "product": (lambda: repeated(times(3), WIDE), lambda: repeated(times(5), WIDE)),
    "exchange": (lambda: repeated(exchanged, WIDE, WIDE), lambda: repeated(kept, WIDE, WIDE)),
    "bytes": (lambda: repeated(reversed_bytes, ((2, 9), DType.INT8)), None),
    "words": (lambda: repeated(reversed_bytes, ((2, 9), DType.INT16)), None),
    "branches": (
        lambda: repeated(by_branch(5), FLAG, (LARGE, DType.INT32)),
        lambda: repeated(by_branch(6), FLAG, (LARGE, DType.INT32)),
    ),
    "nested": (
        lambda: repeated(within(3), ((1,), DType.INT32), WIDE),
        lambda: repeated(within(4), ((1,), DType.INT32), WIDE),
    ),
    "after each other": (lambda: one_after_the_other(3), lambda: one_after_the_other(4)),
    "constants": (of_constants, None),
}
"""Graphs, and some that differ from them in one number or tensor."""


SLOW = "branches"
"""A second is too long for `make test` to do it more than once."""


@pytest.mark.parametrize(
    ("name", "config"),
    [
        pytest.param(name, config, marks=[pytest.mark.nightly] * (name == SLOW and config == "base"))
        for name in GRAPHS
        for config in ("nano", "base")
    ],
)
def test_equal_after_any_number_of_turns(name: str, config: str) -> None:
    done = tosaic.certify(GRAPHS[name][0](), config=config)
    assert (done.verdict, done.reason) == ("EQUAL", "")
    assert done.log2_error < -60


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * (name == SLOW))
        for name, (_, other) in GRAPHS.items()
        if other
    ],
)
def test_another_loop_differs(name: str) -> None:
    graph, other = GRAPHS[name]
    assert other is not None
    done = tosaic.certify(graph(), compile_graph(other(), get_config("base")), keyed=False)
    assert done.verdict == "DIFFERENT" and done.witness is not None


def test_a_loop_that_never_ends_is_undecided() -> None:
    build = Control()
    x, c = build.input("x", SMALL, DType.INT32), build.input("c", (1,), DType.BOOL)
    looped = build.loop(
        [c, x], lambda g, names: [g.add("IDENTITY", names[:1])], lambda g, names: kept(g, names)
    )
    done = tosaic.certify(finished(build, looped), config="nano")
    assert done.verdict == "UNDECIDED"
    assert done.reason.startswith("the method does not reach more than 1024 turns of WHILE_LOOP")


def plus_a_row(g: Control, names: list[str]) -> list[str]:
    return [g.add("ADD", [names[0], g.constant(np.arange(1, 6)[None], DType.INT32)])]


def shows(graph: Graph, program: Program, tries: int) -> bool:
    """Whether one of some inputs shows that a program is not its graph, or that it does not end."""
    rng = np.random.default_rng(3)
    for number in range(tries):
        inputs = {
            "x0": rng.integers(-100, 100, SMALL, endpoint=True).astype(np.int32),
            "n": np.array([number % 7 - 1], np.int32),
        }
        memory = program.memory()
        for port in program.inputs:
            port.write(memory, inputs[port.name])
        place = program.program_address, program.program_bytes
        try:
            Emulator(program.config).run(memory, *place, max_cycles=MOST_CYCLES)
        except tosaic.DeviceError:
            return True
        (port,) = program.outputs
        if (port.read(memory) != evaluate(graph, inputs)[port.name]).any():
            return True
    return False


def campaign(config: str, faults: int, seed: int) -> collections.Counter[str]:
    graph = repeated(plus_a_row, WIDE)
    program, verdicts = compile_graph(graph, get_config(config)), collections.Counter[str]()
    for name, faulty in faulty_programs(program, faults, seed):
        try:
            # Other faults make loops that do not end.
            ends = not shows(graph, faulty, 5)
            done = tosaic.certify(graph, faulty, keyed=False) if ends else None
        except tosaic.DeviceError:
            verdicts["stops"] += 1
            continue
        verdicts[done.verdict if done else "shown"] += 1
        if done is not None and done.verdict == "EQUAL":
            assert not shows(graph, faulty, 30), name
    return verdicts


def test_a_slice_of_the_faults() -> None:
    assert campaign("nano", 8, 1)["shown"]


@pytest.mark.nightly
@pytest.mark.parametrize("config", ["nano", "base"])
def test_seeded_faults(config: str) -> None:
    verdicts = campaign(config, 60, 2)
    assert verdicts["shown"] + verdicts["DIFFERENT"] > 20
