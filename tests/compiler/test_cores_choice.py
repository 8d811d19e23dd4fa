"""How a network is cut into segments for several cores, and which tokens pass between them."""

import itertools
import math
import random

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import program_of_cores
from tosaic.compiler.cores.choice import Chooser, Segment, multiplications
from tosaic.compiler.cores.cores_plan import CoresPlan, plan_cores
from tosaic.compiler.cores.emission import FIRST_SEMAPHORE
from tosaic.compiler.cores.grids import ONE_CORE, Grid, grids
from tosaic.compiler.cores.network import network_of
from tosaic.compiler.cores.share import Share, make_share
from tosaic.compiler.cores.share_plan import SharePlanner, any_addresses
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.search import Choices, plans_of, task_of
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, decode
from tosaic.sim.golden import evaluate

SMALL = get_config("small,cores=2,bus_words=2")
LATENCY = 25
BORDER = 2 * LATENCY + 150


def convolutions(
    *sources: int, kernel: int = 1, rows: int = 6, columns: int = 5, channels: int = 16
) -> Graph:
    """Layers, each of which reads the result of one before it, or the input: 0."""
    build = LayerBuilder(1)
    made, margin = [build.input("x", (1, rows, columns, channels), DType.INT8)], kernel // 2
    for source in sources:
        conv = build.conv(made[source], channels, (kernel, kernel), pad=(margin,) * 4)
        made.append(build.rescale(conv, DType.INT8))
    for number, name in enumerate(made):
        if number and number not in sources:
            build.output(name)
    return build.finish()


def planner_of(graph: Graph, bandwidth_bytes: float | None = None) -> SharePlanner:
    task = task_of(graph, Choices(SMALL, speed=MemorySpeed(bandwidth_bytes, LATENCY)))
    return SharePlanner(network_of(task.graph, SMALL), task.names, task.choices)


class Listed(Chooser):
    """The cycles of segments are in a list; `asked` has the most cycles that each may take."""

    def __init__(self, layers: int, cycles: dict[tuple[int, int, Grid], int]):
        super().__init__(planner_of(convolutions(*range(layers))), 2)
        assert len(self.planner.network.layers) == layers
        self.cycles = cycles
        self.asked: dict[tuple[int, int, Grid], float] = {}

    def segment(self, first: int, last: int, grid: Grid, most: float = math.inf) -> Segment | None:
        self.asked[first, last, grid] = most
        cycles = self.cycles.get((first, last, grid))
        return None if cycles is None else Segment(first, last, grid, cycles)


@pytest.mark.parametrize("seed", range(20))
def test_segments_take_the_fewest_cycles_of_all_ways_to_cut(seed: int) -> None:
    """Each one takes its own cycles and a border."""
    dice, layers = random.Random(seed), 5
    every = [(a, b, grid) for a in range(layers) for b in range(a + 1, layers + 1) for grid in grids(2)]
    cycles = {key: 200 * (key[1] - key[0]) + dice.randrange(300) for key in every if dice.random() < 0.7}
    cycles |= {(first, first + 1, ONE_CORE): 500 for first in range(layers)}
    ways = []
    for cuts in itertools.product((False, True), repeat=layers - 1):
        ends = [0, *(place for place, cut in enumerate(cuts, 1) if cut), layers]
        costs = [
            min((cycles[a, b, grid] for grid in grids(2) if (a, b, grid) in cycles), default=math.inf)
            for a, b in itertools.pairwise(ends)
        ]
        ways.append(sum(costs) + BORDER * len(costs))
    found = Listed(layers, cycles).segments()
    assert [each.first for each in found[1:]] == [each.last for each in found[:-1]]
    assert (found[0].first, found[-1].last) == (0, layers)
    assert sum(each.cycles + BORDER for each in found) == min(ways)


def test_of_equal_cuts_the_first_is_taken() -> None:
    """Grids with many parts of the leading axis come first, and shorter segments."""
    assert list(grids(4)) == [Grid(4, 1), Grid(2, 2), Grid(1, 4), ONE_CORE]
    same = {(0, 1, grid): 70 for grid in grids(2)}
    assert Listed(1, same).segments() == [Segment(0, 1, Grid(2, 1), 70)]
    apart = {(0, 1, ONE_CORE): 100, (1, 2, ONE_CORE): 100, (0, 2, ONE_CORE): 200 + BORDER}
    assert [each.last for each in Listed(2, apart).segments()] == [1, 2]
    apart[0, 2, ONE_CORE] -= 1
    assert [each.last for each in Listed(2, apart).segments()] == [2]


def test_a_segment_may_take_less_than_the_best_before_it() -> None:
    """The border and what follows are left out of the comparison."""
    table = {(0, 1, Grid(2, 1)): 90, (1, 2, ONE_CORE): 40}
    chooser = Listed(2, table)
    chooser.segments()
    best = 90 + BORDER + 40 + BORDER
    asked = [chooser.asked[key] for key in ((0, 1, Grid(2, 1)), (0, 1, Grid(1, 2)), (0, 2, ONE_CORE))]
    assert asked == [math.inf, 90, best - BORDER]


def test_segments_have_up_to_six_layers() -> None:
    chooser = Listed(8, {(first, first + 1, ONE_CORE): 1 for first in range(8)})
    chooser.segments()
    assert {last - first for first, last, _ in chooser.asked} == set(range(1, 7))
    assert {last for first, last, _ in chooser.asked if first == 5} == {6, 7, 8}


def test_the_layer_that_fits_no_core_is_named() -> None:
    with pytest.raises(UnsupportedError, match="^layer 1 of the network does not fit a core$"):
        Listed(3, {(0, 1, ONE_CORE): 1, (2, 3, ONE_CORE): 1}).segments()


@pytest.mark.parametrize("rows", [6, 7])
@pytest.mark.parametrize("grid", [Grid(2, 1), Grid(1, 2)])
def test_a_segment_takes_what_its_largest_share_does(grid: Grid, rows: int) -> None:
    """Core 0 has the larger part. The memory is shared as by a network on that many cores."""
    graph = convolutions(0, 1, kernel=3, rows=rows, channels=24)
    planner = planner_of(graph)
    chooser = Chooser(planner, 2)
    shares = planner.shares(0, 2, grid)
    assert isinstance(shares, dict) and list(shares) == [0, 1]
    sizes = [multiplications(share.graph) for share in shares.values()]
    assert sizes[0] >= sizes[1] and (sizes[0] > sizes[1]) == (rows == 7 or grid.last > 1)
    speed = planner.choices.speed.shared(SMALL, 2)
    addresses = any_addresses(planner.network)
    choices = Choices(SMALL, speed=speed)
    wanted = planner.plan(shares[0], ExternalMemory(), addresses, choices).cycles
    found = chooser.segment(0, 2, grid)
    assert found is not None and found.cycles == wanted


def test_a_grid_of_which_one_core_has_all_is_no_cut() -> None:
    chooser = Chooser(planner_of(convolutions(0, rows=1, columns=1, channels=8)), 2)
    assert chooser.segment(0, 1, Grid(2, 1)) is None
    assert chooser.segment(0, 1, Grid(1, 2)) is None
    assert chooser.segment(0, 1, ONE_CORE) is not None


def test_multiplications_of_a_graph() -> None:
    """25 pixels of 7 channels by 3 weights, and a scale for each."""
    build = LayerBuilder(1)
    conv = build.conv(build.input("x", (1, 5, 5, 3), DType.INT8), 7, (1, 1))
    build.output(build.rescale(conv, DType.INT8))
    assert multiplications(build.finish()) == 25 * 7 * 3 + 25 * 7


def test_a_share_that_surely_takes_more_cycles_is_no_choice() -> None:
    """The array multiplies as often in each cycle as it has rows and columns."""
    graph = convolutions(0, kernel=3, channels=64)
    cycles = multiplications(graph) / (SMALL.rows * SMALL.columns)
    chooser = Chooser(planner_of(graph), 2)
    assert chooser.segment(0, 1, ONE_CORE, cycles - 1) is None
    found = chooser.segment(0, 1, ONE_CORE, cycles)
    assert found is not None and found.cycles >= cycles


def test_segments_that_are_almost_the_same_have_their_own_cycles() -> None:
    """What is remembered of one is not taken for another that has other channels, operands or attributes, or that
    fewer cores share the memory for."""
    build = LayerBuilder(1)
    high = build.input("high", (1, 6, 6, 32), DType.INT8)
    low = build.input("low", (1, 3, 6, 32), DType.INT8)
    for x, kernel, channels, dilation in (
        (high, 1, 32, 1),
        (high, 1, 40, 1),
        (high, 3, 32, 1),
        (high, 3, 32, 2),
        (low, 1, 32, 1),
    ):
        margin = (kernel // 2 * dilation,) * 4
        build.output(build.conv(x, channels, (kernel, kernel), pad=margin, dilation=(dilation, dilation)))
    sums = [build.input(name, (1, 6, 6, 32), DType.INT32) for name in "ab"]
    for name in sums:
        build.output(build.add("ADD", [sums[0], name]))
    planner = planner_of(build.finish(), bandwidth_bytes=8)
    known = Chooser(planner, 2)
    count = len(planner.network.layers)
    assert count == 7
    found, wanted = [], []
    for first, grid in itertools.product(range(count), grids(2)):
        found.append(known.segment(first, first + 1, grid))
        wanted.append(Chooser(planner, 2).segment(first, first + 1, grid))
    assert found == wanted


# --- networks and shares


def chain() -> Graph:
    """Three convolutions; the first one's result is read by the other two, by the last one through a RESHAPE. The
    result of the second is the network's, too, under another shape."""
    build = LayerBuilder(1)

    def layer(x: str, name: str) -> str:
        found = build.rescale(build.conv(x, 4, (1, 1)), DType.INT8)
        build.graph.tensors[name] = build.graph.tensors.pop(found)
        build.graph.operators[-1].outputs[0] = build.graph.tensors[name].name = name
        return name

    a = layer(build.input("x", (1, 6, 6, 4), DType.INT8), "a")
    b = layer(a, "b")
    c = layer(build.add("RESHAPE", [a, build.shape((1, 9, 4, 4))]), "c")
    build.output(build.add("RESHAPE", [b, build.shape((1, 4, 9, 4))]))
    build.output(c)
    return build.finish()


def test_what_layers_leave_for_those_behind_them() -> None:
    graph = chain()
    network = network_of(graph, SMALL)
    assert [layer.output for layer in network.layers] == ["a", "b", "c"]
    assert {name: network.last_reader[name] for name in "xabc"} == {"x": 0, "a": 2, "b": 3, "c": 3}
    results = {(i, j): network.results(i, j) for i in range(3) for j in range(i + 1, 4)}
    assert results == {
        (0, 1): ["a"],
        (0, 2): ["a", "b"],
        (0, 3): ["b", "c"],
        (1, 2): ["b"],
        (1, 3): ["b", "c"],
        (2, 3): ["c"],
    }
    kinds = [[graph.operators[number].op for number in sorted(own)] for own in network.operators]
    assert kinds == [["CONV2D", "RESCALE"]] * 3
    assert sorted(graph.operators[number].op for number in network.free) == ["RESHAPE", "RESHAPE"]
    assert network.numbers(0, 3) == frozenset().union(*network.operators)
    assert network.numbers(1, 2) == network.operators[1]


def test_a_segment_whose_share_has_no_plan_is_given_up() -> None:
    """The middle rows of the first result are computed twice, so they must stay in memory, and do not fit."""
    build = LayerBuilder(1)
    first = build.rescale(
        build.conv(build.input("x", (1, 400, 40, 16), DType.INT8), 16, (3, 3), pad=(1,) * 4), DType.INT8
    )
    build.output(first)
    build.output(build.rescale(build.conv(first, 16, (3, 3), pad=(1,) * 4), DType.INT8))
    graph, refused = build.finish(), list[Segment]()

    class Hopeful(Chooser):
        def segment(self, first: int, last: int, grid: Grid, most: float = math.inf) -> Segment | None:
            if last - first == 2 and grid == Grid(2, 1) and not refused:
                return Segment(first, last, grid, 1)
            return super().segment(first, last, grid, most)

        def refuse(self, segment: Segment) -> None:
            refused.append(segment)
            super().refuse(segment)

    plan = plan_cores(task_of(graph, Choices(SMALL)), Hopeful)
    assert [(each.first, each.last) for each in refused] == [(0, 2)]
    assert plan is not None
    assert [(each.segment.first, each.segment.last) for each in plan.segments] == [(0, 1), (1, 2)]


# --- tokens


def cut(graph: Graph, *segments: tuple[int, Grid]) -> CoresPlan:
    """Returns the plan of a graph that is cut into segments of these numbers of layers."""

    class Told(Chooser):
        def segments(self) -> list[Segment]:
            found, first = list[Segment](), 0
            for layers, grid in segments:
                segment = self.segment(first, first + layers, grid)
                assert segment is not None
                found.append(segment)
                first += layers
            assert first == len(self.planner.network.layers)
            return found

    plan = plan_cores(task_of(graph, Choices(SMALL)), Told)
    assert plan is not None
    return plan


def tokens(plan: CoresPlan, graph: Graph) -> list[list[int]]:
    """Returns, for each core, the tokens for which its LOAD waits; the other core signals as many."""
    program = program_of_cores(plan, next(plans_of(task_of(graph, Choices(SMALL)))), graph, SMALL)
    memory = program.memory()
    waits: list[list[int]] = [[], []]
    signals: list[list[int]] = [[], []]
    for core, stream in enumerate(program.streams):
        code = memory[stream.address :][: stream.bytes].reshape(-1, 16)
        for each in map(decode, map(bytes, code)):
            if each.opcode is Opcode.LOAD_WAIT and each.semaphore >= FIRST_SEMAPHORE:
                assert each.semaphore - FIRST_SEMAPHORE == 1 - core
                waits[core].append(each.count)
            if each.opcode is Opcode.STORE_SIGNAL and each.semaphore >= FIRST_SEMAPHORE:
                assert (each.semaphore - FIRST_SEMAPHORE, each.cores) == (core, 1 << (1 - core))
                signals[1 - core].append(each.count)
    assert waits == signals
    return waits


ROWS_APART, CHANNELS_APART = Grid(2, 1), Grid(1, 2)


@pytest.mark.parametrize(
    "kernel, sources, segments, waits",
    [
        # Each core reads the rows that it has made; with a larger kernel some of the other one's.
        (1, (0, 1, 2), [(1, ROWS_APART)] * 3, ([], [])),
        (3, (0, 1, 2), [(1, ROWS_APART)] * 3, ([1, 1], [1, 1])),
        (3, (0, 1, 2), [(3, ROWS_APART)], ([], [])),
        # Every channel is read by both.
        (1, (0, 1, 2), [(1, CHANNELS_APART)] * 3, ([1, 1], [1, 1])),
        (1, (0, 1), [(1, ONE_CORE), (1, CHANNELS_APART)], ([], [1])),
        (1, (0, 1), [(1, CHANNELS_APART), (1, ONE_CORE)], ([1], [])),
        (1, (0, 1), [(2, ONE_CORE)], ([], [])),
        # One token stands for all before it: the third layer reads the first one's result, as the second does.
        (1, (0, 1, 1), [(1, CHANNELS_APART)] * 3, ([1], [1])),
        (1, (0, 0, 2, 1), [(1, CHANNELS_APART)] * 4, ([1], [1])),
        (1, (0, 0, 1, 2), [(1, CHANNELS_APART)] * 4, ([1, 1], [1, 1])),
    ],
)
def test_a_core_waits_for_who_made_what_it_reads(
    kernel: int,
    sources: tuple[int, ...],
    segments: list[tuple[int, Grid]],
    waits: tuple[list[int], list[int]],
) -> None:
    graph = convolutions(*sources, kernel=kernel)
    assert tokens(cut(graph, *segments), graph) == list(waits)


# --- what a plan says of itself


def test_cycles_of_a_plan_count_the_borders() -> None:
    plan = cut(convolutions(0, 1, 2), (1, ROWS_APART), (2, ONE_CORE))
    assert plan.border_cycles == 2 * Choices(SMALL).speed.latency_cycles + 150
    assert plan.cycles == 2 * plan.border_cycles + sum(each.segment.cycles for each in plan.segments)


def test_constants_that_come_while_other_cores_are_at_work() -> None:
    """They come in twice the border, and in twice the segment before where the core has no part in that."""
    graph = convolutions(0, 1, 2, channels=32)
    alone, both = cut(graph, (2, ONE_CORE), (1, ROWS_APART)).segments
    assert alone.ahead_bytes == {0: 0}
    cycles = Choices(SMALL).speed.latency_cycles * 2 + 150 + alone.segment.cycles
    bytes_per_cycle = Choices(SMALL).speed.shared(SMALL, 2).bytes_per_cycle(SMALL)
    assert both.ahead_bytes[1] == int(2 * cycles * bytes_per_cycle)
    assert 0 < both.ahead_bytes[0] < both.ahead_bytes[1]


# --- the graph of a share

ROWS = 8


def stack(*, residual: bool = False) -> Graph:
    """Two 3x3 convolutions of 8 rows of 5 pixels of 4 channels; with a sum of both results behind them."""
    build = LayerBuilder(1)

    def layer(x: str) -> str:
        return build.rescale(build.conv(x, 4, (3, 3), pad=(1, 1, 1, 1)), DType.INT8)

    a = layer(build.input("x", (1, ROWS, 5, 4), DType.INT8))
    b = layer(a)
    if residual:
        wide = [build.rescale(name, DType.INT32, shift=20) for name in (a, b, a)]
        b = build.add("ADD", [build.add("ADD", wide[:2]), wide[2]])
    build.output(b)
    return build.finish()


def rows(first: int, last: int, channels: tuple[int, int] = (0, 4)) -> tuple[tuple[int, int], ...]:
    return (0, 1), (first, last), (0, 5), channels


def share_of(graph: Graph, box: tuple[tuple[int, int], ...], operators: range | None = None) -> Share:
    (output,) = graph.outputs
    return make_share(graph, operators or range(len(graph.operators)), (), {output: box})


@pytest.mark.parametrize(
    "wanted, between, read",
    [
        ((0, 4), (0, 5), (0, 6)),
        ((4, 8), (3, 8), (2, 8)),
        ((2, 4), (1, 5), (0, 6)),
        ((3, 4), (2, 5), (1, 6)),
        ((0, 8), (0, 8), (0, 8)),
    ],
)
def test_a_share_computes_the_rows_that_it_needs(wanted: tuple, between: tuple, read: tuple) -> None:
    graph = stack()
    (output,) = graph.outputs
    share = share_of(graph, rows(*wanted))
    assert share.graph.inputs == ["x"] and share.graph.outputs == [output]
    assert share.boxes == {"x": rows(*read), output: rows(*wanted)}
    assert share.wanted == {output: rows(*wanted)}
    assert [operator.op for operator in share.graph.operators] == ["CONV2D", "RESCALE"] * 2
    shapes = [share.graph.tensors[operator.outputs[0]].shape for operator in share.graph.operators]
    assert shapes == [(1, last - first, 5, 4) for first, last in (between, between, wanted, wanted)]
    values = feeds(graph, 3)
    given = {"x": values["x"][:, read[0] : read[1]]}
    found = evaluate(share.graph, given)[output]
    np.testing.assert_array_equal(found, evaluate(graph, values)[output][:, wanted[0] : wanted[1]])


def test_what_other_operators_make_is_an_input() -> None:
    graph = stack()
    share = share_of(graph, rows(0, 4), range(2, 4))
    between = graph.operators[1].outputs[0]
    assert share.graph.inputs == [between]
    assert share.boxes[between] == rows(0, 5)
    assert [operator.op for operator in share.graph.operators] == ["CONV2D", "RESCALE"]


def test_some_channels_of_a_result() -> None:
    """Weights are cut, and what is read is whole."""
    graph = stack()
    share = share_of(graph, rows(0, 8, (1, 3)), range(2, 4))
    convolution = share.graph.operators[0]
    weights = share.graph.tensors[convolution.inputs[1]]
    whole = graph.tensors[graph.operators[2].inputs[1]]
    assert weights.data is not None and whole.data is not None
    np.testing.assert_array_equal(weights.data, whole.data[1:3])
    assert weights.name.endswith("'0") and weights.name not in graph.tensors
    assert share.boxes[share.graph.inputs[0]] == rows(0, 8)
    # Zero points are those of the network.
    assert convolution.inputs[3:] == graph.operators[2].inputs[3:]


def test_readers_of_fewer_rows_share_one_slice() -> None:
    """The sums read four of the five rows that the convolution needs."""
    graph = stack(residual=True)
    share = share_of(graph, rows(0, 4))
    names = [operator.op for operator in share.graph.operators]
    assert names.count("SLICE") == 1
    (cut,) = [operator for operator in share.graph.operators if operator.op == "SLICE"]
    assert share.graph.tensors[cut.outputs[0]].shape == (1, 4, 5, 4)
    readers = [operator for operator in share.graph.operators if cut.outputs[0] in operator.inputs]
    assert len(readers) == 2
    values = feeds(graph, 3)
    found = evaluate(share.graph, {"x": values["x"][:, :6]})[graph.outputs[0]]
    np.testing.assert_array_equal(found, evaluate(graph, values)[graph.outputs[0]][:, :4])
    # Where all readers want the same there is none.
    last = share_of(stack(residual=True), rows(0, 8))
    assert "SLICE" not in [operator.op for operator in last.graph.operators]
