"""Control flow: both ways of a COND_IF, and the turns of a WHILE_LOOP, are judged one by one."""

import numpy as np
import pytest
from control_graphs import Control, finished, plus
from test_certify import with_field

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode

LARGE, SMALL = (40, 80), (2, 3)
"""Results of this shape are computed in a branch of the program, of that one by SELECT."""


def chosen(shape: tuple[int, int], *, swapped: bool = False, twice: bool = False) -> Graph:
    """x + 3 or x * 5, by a comparison of two numbers; `twice`: and once more, by the other comparison."""
    build = Control()
    x, a, b = (
        build.input(name, size, DType.INT32) for name, size in (("x", shape), ("a", (1,)), ("b", (1,)))
    )
    condition = build.add("GREATER", [a, b])

    def times(g: Control, names: list[str]) -> list[str]:
        return [g.add("MUL", [names[0], g.number(5, (1, 1)), g.constant(np.array([0]), DType.INT8)])]

    branches = (times, plus(3)) if swapped else (plus(3), times)
    (y,) = build.choose(condition, [x], *branches)
    if twice:
        (y,) = build.choose(build.add("LOGICAL_NOT", [condition]), [y], plus(-1), times)
    return finished(build, [y, condition])


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("twice", [False, True])
def test_branches(shape: tuple[int, int], twice: bool, config: str) -> None:
    graph = chosen(shape, twice=twice)
    program = compile_graph(graph, get_config(config))
    done = tosaic.certify(graph, program)
    assert done.verdict == "EQUAL" and done.log2_error < -60
    assert [each.verdict for each in done.outputs.values()] == ["EQUAL"] * 2


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_swapped_branches_differ(shape: tuple[int, int]) -> None:
    done = tosaic.certify(chosen(shape), compile_graph(chosen(shape, swapped=True), get_config("base")))
    assert done.verdict == "DIFFERENT" and done.witness is not None


def test_a_fault_in_one_branch_is_seen() -> None:
    """The number that only one branch adds."""
    graph = chosen(LARGE)
    program = compile_graph(graph, get_config("base"))
    seen = 0
    for which in range(4):
        try:
            faulty, _ = with_field(program, Opcode.VECTOR_BOUNDS, "immediate", 1, which)
        except IndexError:
            break
        done = tosaic.certify(graph, faulty)
        assert done.verdict == "DIFFERENT" and done.witness is not None
        seen += 1
    assert seen


def halved(g: Control, name: str) -> str:
    """The nearest number whose double fits 32 bits."""
    low, high = (g.number(value, (1, 1)) for value in (-(1 << 30), (1 << 30) - 1))
    return g.add("MINIMUM", [g.add("MAXIMUM", [name, low]), high])


@pytest.mark.parametrize("clipped", [False, True])
def test_a_branch_requires_nothing_where_it_is_not_taken(clipped: bool) -> None:
    """x + x must fit 32 bits in the one branch, x alone is the other: of all x, those that do not fit, too. A program
    may clip x in the one, and not in the other."""
    graphs = []
    for own in (False, clipped):
        build = Control()
        x, c = build.input("x", LARGE, DType.INT32), build.input("c", (1,), DType.BOOL)

        def doubled(g: Control, names: list[str]) -> list[str]:
            return [g.add("ADD", [names[0]] * 2)]

        def same(g: Control, names: list[str], own: bool = own) -> list[str]:
            return [halved(g, names[0]) if own else g.add("IDENTITY", names)]

        graphs.append(finished(build, build.choose(c, [x], doubled, same)))
    done = tosaic.certify(graphs[0], compile_graph(graphs[1], get_config("base")))
    assert done.verdict == ("DIFFERENT" if clipped else "EQUAL")


@pytest.mark.parametrize("config", ["nano", "base"])
def test_a_loop_of_known_turns(config: str) -> None:
    build = Control()
    x = build.input("x", (3, 5), DType.INT32)
    graph = finished(build, build.counted(build.number(5, (1,)), [x], plus(7)))
    program = compile_graph(graph, get_config(config))
    assert tosaic.certify(graph, program).verdict == "EQUAL"
    other = Control()
    x = other.input("x", (3, 5), DType.INT32)
    fewer = finished(other, other.counted(other.number(4, (1,)), [x], plus(7)))
    assert tosaic.certify(graph, compile_graph(fewer, get_config(config))).verdict != "EQUAL"


def test_a_loop_whose_turns_an_input_tells_within_limits() -> None:
    """0 to 4 turns: five paths."""
    build = Control()
    x, n = build.input("x", (3, 5), DType.INT32), build.input("n", (1,), DType.INT8)
    n = build.add("CLAMP", [n], min_val=0, max_val=4, nan_mode="PROPAGATE")
    turns = build.add("CAST", [n], dtype=DType.INT32)
    graph = finished(build, build.counted(turns, [x], plus(7)))
    assert tosaic.certify(graph, config="base").verdict == "EQUAL"


@pytest.mark.nightly
def test_many_paths_are_undecided() -> None:
    """Each of 8 conditions is another one: 256 paths."""
    build = Control()
    x = build.input("x", SMALL, DType.INT32)
    for number in range(8):
        condition = build.input(f"c{number}", (1,), DType.BOOL)
        (x,) = build.choose(condition, [x], plus(number), plus(-number))
    done = tosaic.certify(finished(build, [x]), config="base")
    assert done.verdict == "UNDECIDED"
    assert done.reason.startswith("the method does not reach more than 128 paths, the last of COND_IF_")
