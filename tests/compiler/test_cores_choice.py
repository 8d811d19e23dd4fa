"""How a network is cut into segments for several cores, and which tokens pass between them."""

import itertools
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.cores.boxes import CannotCut
from tosaic.compiler.cores.choice import Chooser, Segment, _signature, multiplications
from tosaic.compiler.cores.cores_plan import CoresPlan, _ahead_bytes
from tosaic.compiler.cores.emission import FIRST_SEMAPHORE, CoresEmission, _Made
from tosaic.compiler.cores.grids import ONE_CORE, Grid, grids
from tosaic.compiler.cores.network import network_of
from tosaic.compiler.cores.share import Share, make_share
from tosaic.compiler.emit.commands import Work, command
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Address, Region, Span
from tosaic.compiler.place.external import ExternalMemory
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, Space, Unit
from tosaic.sim.golden import evaluate

SMALL = get_config("small")
LATENCY = 25
BORDER = 2 * LATENCY + 150


def choices(**changed: object) -> SimpleNamespace:
    return SimpleNamespace(
        **dict(config=SMALL, speed=MemorySpeed(None, LATENCY), keep_layers=False) | changed
    )


class Listed(Chooser):
    """The cycles of segments are in a list; `asked` has the most cycles that each may take."""

    def __init__(self, layers: int, cycles: dict[tuple[int, int, Grid], int], cores: int = 2):
        network = SimpleNamespace(layers=range(layers), graph=Graph("empty"))
        super().__init__(SimpleNamespace(network=network, choices=choices()), cores)  # type: ignore[arg-type]
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
    """Without the border and what follows."""
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


def work_of(channels: int, *, weights: int = 1) -> Graph:
    """A convolution of 1 by 1 with 3 input channels over 5 by 5 pixels, and a scale; `weights` are all the same."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 5, 5, 3), DType.INT8)
    operands = [
        build.constant(np.full((channels, 1, 1, 3), weights), DType.INT8),
        build.constant(np.zeros(channels), DType.INT32),
        build.zero_point(DType.INT8),
        build.zero_point(DType.INT8),
    ]
    how = dict(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.INT32, local_bound=False)
    build.output(build.rescale(build.add("CONV2D", [x, *operands], **how), DType.INT8))
    return build.finish()


class Shared(Chooser):
    """Shares of cores are in a list; `planned` are the graphs that were planned."""

    def __init__(self, graphs: list[Graph | None]):
        def share(first: int, last: int, grid: Grid, core: int) -> SimpleNamespace | None:
            if grid == Grid(1, 2):
                raise CannotCut("so")
            graph = graphs[core]
            return None if graph is None else SimpleNamespace(graph=graph)

        network = SimpleNamespace(graph=Graph("empty"))
        super().__init__(SimpleNamespace(network=network, choices=choices(), share=share), 2)  # type: ignore[arg-type]
        self.planned: list[Graph] = []

    def _planned(self, share, grid):  # type: ignore[no-untyped-def]
        self.planned.append(share.graph)
        return 77


def test_multiplications_of_a_graph() -> None:
    """25 pixels of 7 channels by 3 weights, and a scale for each."""
    assert multiplications(work_of(7)) == 25 * 7 * 3 + 25 * 7


def test_a_segment_takes_what_its_largest_share_does() -> None:
    small, large = work_of(4), work_of(7)
    for graphs in ([small, large], [large, small]):
        chooser = Shared(graphs)
        assert chooser.segment(0, 2, Grid(2, 1)) == Segment(0, 2, Grid(2, 1), 77)
        assert chooser.planned == [large]
        # Equal shares are planned once; a number of cores shares the memory otherwise.
        assert chooser.segment(2, 3, Grid(2, 1)) == Segment(2, 3, Grid(2, 1), 77)
        assert len(chooser.planned) == 1
        assert chooser.segment(0, 2, Grid(1, 1)) is not None
        assert len(chooser.planned) == 2
    assert Shared([small, large]).segment(0, 2, Grid(1, 2)) is None


def test_a_grid_of_which_one_core_has_all_is_no_cut() -> None:
    assert Shared([work_of(4), None]).segment(0, 1, Grid(2, 1)) is None
    assert Shared([None, work_of(4)]).segment(0, 1, Grid(2, 1)) is None
    assert Shared([work_of(4), None]).segment(0, 1, ONE_CORE) is not None
    assert Shared([None, None]).segment(0, 1, ONE_CORE) is None


def test_a_share_that_surely_takes_more_cycles_is_not_planned() -> None:
    """The array multiplies as often in each cycle as it has rows and columns."""
    graph = work_of(SMALL.rows * SMALL.columns)
    cycles = multiplications(graph) // (SMALL.rows * SMALL.columns)
    assert cycles * SMALL.rows * SMALL.columns == multiplications(graph)
    chooser = Shared([graph, None])
    assert chooser.segment(0, 1, ONE_CORE, cycles - 1) is None
    assert chooser.planned == []
    assert chooser.segment(0, 1, ONE_CORE, cycles) is not None


def test_graphs_that_take_the_same_cycles() -> None:
    """Values of small constants may be shapes or zero points; those of large ones are weights."""
    assert _signature(work_of(6, weights=1)) == _signature(work_of(6, weights=2))
    assert _signature(work_of(5, weights=1)) != _signature(work_of(5, weights=2))
    assert _signature(work_of(5)) != _signature(work_of(6))

    def repeated(count: int, value: int) -> Graph:
        build = LayerBuilder(1)
        x = build.input(f"x{value}", (1, count), DType.INT32)
        build.output(build.add("ADD", [x, build.constant(np.full((1, count), value), DType.INT32)]))
        return build.finish()

    assert _signature(repeated(16, 1)) != _signature(repeated(16, 2))
    assert _signature(repeated(17, 1)) == _signature(repeated(17, 2))


def test_an_operand_that_is_read_twice_is_another_graph() -> None:
    found = []
    for second in ("x", "y"):
        build = LayerBuilder(1)
        for name in "xy":
            build.input(name, (1, 4), DType.INT32)
        build.output(build.add("ADD", ["x", second]))
        found.append(_signature(build.finish()))
    assert found[0] != found[1]


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


# --- tokens


def emission(*made: tuple[int, int, int, int], cores: int = 3) -> CoresEmission:
    """(start, end, core, segment) of what was made."""
    found = CoresEmission(SimpleNamespace(cores=cores, external=ExternalMemory()), SMALL)  # type: ignore[arg-type]
    found._made = [_Made(Span(Region.DATA, start, end), core, segment) for start, end, core, segment in made]
    return found


def loads(*ranges: tuple[int, int], region: Region = Region.DATA) -> Work:
    address = Address(region, 0)
    go = command(Opcode.LOAD_GO, address, space=Space.AM, local_address=0, row_bytes=8, rows=1)
    return Work(Unit.LOAD, [go], reads=[Span(region, *each) for each in ranges])


def waits(work: list[Work]) -> list[tuple[int, int]]:
    """(semaphore behind that of core 0, tokens) of each."""
    assert all(each.waits_for_core and each.unit is Unit.LOAD for each in work)
    fields = [each.commands[0].instruction for each in work]
    assert all(each.opcode is Opcode.LOAD_WAIT for each in fields)
    return [(each.semaphore - FIRST_SEMAPHORE, each.count) for each in fields]


def test_a_core_waits_for_who_made_what_it_reads() -> None:
    made = emission((0, 64, 1, 0), (64, 128, 2, 0), (128, 192, 1, 1))
    assert waits(made._waits(1, loads((0, 64)))) == []
    assert waits(made._waits(0, loads((192, 256)))) == []
    assert waits(made._waits(0, loads((0, 64), region=Region.CONSTANTS))) == []
    assert waits(made._waits(0, loads((64, 65)))) == [(2, 1)]
    assert waits(made._waits(0, loads((127, 129), (0, 8)))) == [(1, 1)]
    assert made._readers == {(0, 2): {0}, (1, 1): {0}}


def test_one_token_stands_for_all_before_it() -> None:
    """Of its core."""
    made = emission((0, 64, 1, 0), (64, 128, 1, 1), (128, 192, 2, 1))
    assert waits(made._waits(0, loads((0, 1)))) == [(1, 1)]
    assert waits(made._waits(0, loads((0, 1)))) == []
    assert waits(made._waits(0, loads((0, 192)))) == [(1, 1), (2, 1)]
    assert waits(made._waits(0, loads((0, 192)))) == []
    assert waits(made._waits(2, loads((64, 65)))) == [(1, 1)]
    assert waits(made._waits(2, loads((0, 64)))) == []
    assert made._readers == {(0, 1): {0}, (1, 1): {0, 2}, (1, 2): {0}}


def test_waits_stand_before_the_load_that_needs_them() -> None:
    made = emission((0, 64, 1, 0))
    early, late, store = (
        loads((64, 128)),
        loads((0, 8)),
        Work(Unit.STORE, [], reads=[Span(Region.DATA, 0, 8)]),
    )
    found = made._with_waits(0, [store, early, late], 0)
    assert [each for each in found if not each.waits_for_core] == [store, early, late]
    assert waits(found[2:3]) == [(1, 1)]


def test_a_core_signals_all_readers_behind_the_work_of_a_segment() -> None:
    made = emission((0, 64, 1, 0), (64, 128, 1, 1))
    own = [Work(Unit.ARRAY, []), Work(Unit.VECTOR, [])]
    made._parts = [{1: own[:1]}, {0: [], 1: own[1:]}]
    for reader in (0, 2):
        made._waits(reader, loads((0, 1)))
    made._waits(0, loads((64, 65)))
    found = made._work(1)
    assert [found[0], found[2]] == own
    signals = [each.commands[0].instruction for each in (found[1], found[3])]
    assert [each.unit for each in (found[1], found[3])] == [Unit.STORE] * 2
    assert [(each.opcode, each.semaphore, each.count, each.cores) for each in signals] == [
        (Opcode.STORE_SIGNAL, FIRST_SEMAPHORE + 1, 1, 0b101),
        (Opcode.STORE_SIGNAL, FIRST_SEMAPHORE + 1, 1, 0b001),
    ]
    assert made._work(0) == made._work(2) == []


# --- what a plan says of itself


def test_cycles_of_a_plan_count_the_borders() -> None:
    segments = [SimpleNamespace(segment=SimpleNamespace(cycles=cycles)) for cycles in (100, 20, 3)]
    plan = SimpleNamespace(border_cycles=1000, segments=segments)
    assert CoresPlan.cycles.fget(plan) == 3123  # type: ignore[attr-defined]


def test_constants_that_come_while_other_cores_are_at_work() -> None:
    """In twice the border, and in twice the segment before where the core has no part in that."""
    plan = choices()
    bytes_per_cycle = plan.speed.bytes_per_cycle(SMALL)
    before = SimpleNamespace(segment=SimpleNamespace(cycles=300), shares={1: None})
    assert _ahead_bytes(0, None, plan, 50) == 0  # type: ignore[arg-type]
    assert _ahead_bytes(0, before, plan, 50) == 2 * 350 * bytes_per_cycle  # type: ignore[arg-type]


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
