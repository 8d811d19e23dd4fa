"""Limits of rewrites, of loads and of the order of loads: each is met, and just missed."""

import numpy as np
import pytest
from control_graphs import Body, Control, plus
from indexed_graphs import resize_graph
from layer_graphs import LayerBuilder

from tosaic.compiler.emit.commands import Work
from tosaic.compiler.emit.emitter import Emitter, WeightsHere
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.conditional import both_are_computed
from tosaic.compiler.legalize.resize import resize
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.split_matmul import split_matmul
from tosaic.compiler.legalize.split_reduction import split_reduction
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.schedule.items import Item
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Unit

I8, I16, I32 = DType.INT8, DType.INT16, DType.INT32


def rewriting(graph: Graph) -> Rewriting:
    return Rewriting(graph, graph.operators[-1])


# --- branches


def both(then: Body, other: Body, shape: tuple[int, ...] = (1, 8)) -> bool:
    build = Control()
    flag, x = build.input("flag", (), DType.BOOL), build.input("x", shape, I32)
    build.choose(flag, [x], then, other)
    return both_are_computed(build.graph, build.graph.operators[-1])


def repeated(count: int) -> Body:
    """`count` operators, one after the other."""

    def body(g: Control, names: list[str]) -> list[str]:
        for _ in range(count):
            names = list(plus(1)(g, names))
        return names

    return body


@pytest.mark.parametrize(
    "elements, then, other, computed",
    [(2048, 1, 1, True), (2049, 1, 1, False), (1024, 3, 1, True), (1024, 4, 1, False), (4096, 1, 0, True)],
)
def test_branches_of_few_elements_are_both_computed(
    elements: int, then: int, other: int, computed: bool
) -> None:
    """4096 results of all their operators together."""
    assert both(repeated(then), repeated(other), (1, elements)) == computed


def test_elements_of_branches_inside_count() -> None:
    def inside(count: int) -> Body:
        def body(g: Control, names: list[str]) -> list[str]:
            flag = g.constant(np.array(True), DType.BOOL)
            return g.choose(flag, names, repeated(count), repeated(1))

        return body

    # The inner COND_IF has a result, too.
    assert both(inside(1), repeated(1), (1, 1024))
    assert not both(inside(2), repeated(1), (1, 1024))


def test_loops_and_products_are_not_computed_where_they_are_not_wanted() -> None:
    def loop(g: Control, names: list[str]) -> list[str]:
        return g.counted(g.number(3), names, plus(1))

    def nested(g: Control, names: list[str]) -> list[str]:
        return g.choose(g.constant(np.array(True), DType.BOOL), names, loop, plus(1))

    def product(g: Control, names: list[str]) -> list[str]:
        a = g.constant(np.ones((1, 1, 8)), I8)
        b = g.constant(np.ones((1, 8, 8)), I8)
        zeros = [g.constant([0], I8) for _ in range(2)]
        flat = g.add("RESHAPE", [g.add("MATMUL", [a, b, *zeros]), g.shape((1, 8))])
        return [g.add("ADD", [names[0], flat])]

    assert both(plus(1), plus(2))
    for body in (loop, nested, product):
        assert not both(body, plus(1)) and not both(plus(1), body)


# --- images


def resized(
    shape: tuple[int, ...], height: tuple, width: tuple, mode: str
) -> list[tuple[str, tuple[int, ...]]]:
    """The operators that a RESIZE becomes, and the shapes of what they make, but for RESHAPEs."""
    graph, _ = resize_graph(shape, height, width, mode)  # type: ignore[arg-type]
    new = rewriting(graph)
    assert resize(new)
    return [
        (operator.op, graph.tensors[operator.outputs[0]].shape)
        for operator in new.operators
        if operator.op != "RESHAPE"
    ]


SAME, TWICE, HALF = (1, 1, 0, 0), (2, 1, 0, 1), (1, 2, 0, -1)


@pytest.mark.parametrize("channels, op", [(7, "GATHER"), (8, "TILE")])
def test_pixels_of_some_channels_are_moved_one_by_one(channels: int, op: str) -> None:
    """A multiple of the size both ways: the halves of pixels lie in the same one."""
    found = resized((1, 3, 4, channels), (4, 2, -1, 1), (4, 2, -1, 1), "NEAREST")
    assert op in [name for name, _ in found]
    if op == "TILE":
        assert found == [("TILE", (1, 3, 2, 4, 2, 8))]


@pytest.mark.parametrize(
    "height, width", [(HALF, (4, 2, -1, 1)), ((4, 2, -1, 1), HALF), ((2, 1, 0, 0), (4, 2, -1, 1))]
)
def test_pixels_that_do_not_come_equally_often(height: tuple, width: tuple) -> None:
    """Some are left out, or the last one comes once."""
    found = resized((1, 4, 4, 8), height, width, "NEAREST")
    assert "TILE" not in [name for name, _ in found]


@pytest.mark.parametrize(
    "height, width, shapes",
    [
        # As few single pixels as possible: along the width before there are more rows, or after there are fewer.
        (TWICE, HALF, [(4, 2, 3), (1, 8, 6)]),
        (HALF, TWICE, [(1, 2, 12), (2, 8, 3)]),
        (SAME, TWICE, [(4, 8, 3)]),
        (TWICE, SAME, [(1, 8, 12)]),
    ],
)
def test_the_order_in_which_pixels_are_taken(height: tuple, width: tuple, shapes: list) -> None:
    found = resized((1, 4, 4, 3), height, width, "NEAREST")
    assert [shape for name, shape in found if name == "GATHER"] == shapes


@pytest.mark.parametrize(
    "height, width, first",
    [
        (TWICE, HALF, "width"),
        (HALF, TWICE, "height"),
        (TWICE, TWICE, "width"),
        ((4, 1, 0, 3), TWICE, "width"),
        (TWICE, (4, 1, 0, 3), "height"),
    ],
)
def test_the_axis_that_leaves_less_is_interpolated_first(height: tuple, width: tuple, first: str) -> None:
    found = resized((1, 4, 4, 3), height, width, "BILINEAR")
    gathered = next(shape for name, shape in found if name == "GATHER")
    # Lines of the width are pixels; those of the height are rows.
    assert {"width": 3, "height": 12}[first] == gathered[-1]


def test_an_axis_that_stays_is_not_computed() -> None:
    found = [name for name, _ in resized((1, 4, 4, 3), SAME, SAME, "BILINEAR")]
    assert "MUL" not in found and "GATHER" not in found and "SUB" not in found
    scaled = [name for name, _ in resized((1, 4, 4, 3), (2, 2, 0, 0), SAME, "BILINEAR")]
    assert scaled.count("MUL") == 1


@pytest.mark.parametrize("unit, narrow", [(255, True), (256, False)])
def test_what_the_first_axis_leaves_fits_int16(unit: int, narrow: bool) -> None:
    found = [name for name, _ in resized((1, 2, 2, 3), SAME, (unit, unit, 0, 0), "BILINEAR")]
    assert ("CAST" in found[found.index("MUL") :]) == narrow


# --- splits

FOUR = get_config("small,am_bytes=4K")
LIMIT = 4096 // 8 // 4


def reduced(
    shape: tuple[int, ...], *, then: int | None = None, op: str = "REDUCE_MAX", config: Config | None = None
) -> list[int]:
    """The lengths of the pieces that a reduction is cut into; [] where it stays."""
    build = LayerBuilder(1)
    y = build.add(op, [build.input("x", shape, I8)], axis=1, nan_mode="PROPAGATE")
    if then is not None:
        build.output(build.add(op, [y], axis=then, nan_mode="PROPAGATE"))
    else:
        build.output(y)
    graph = build.finish()
    new = Rewriting(graph, graph.operators[0])
    if not split_reduction(new, config or FOUR):
        return []
    return [graph.tensors[operator.outputs[0]].shape[-1] for operator in new.operators if operator.op == op]


@pytest.mark.parametrize(
    "shape, pieces",
    [
        ((1, 3, LIMIT), []),
        ((1, 3, LIMIT + 1), [LIMIT, 1]),
        ((1, 2, LIMIT), []),
        ((1, 1, 2 * LIMIT), []),
        ((1, 2, LIMIT + 1), [LIMIT, 1]),
        ((2, 1, LIMIT + 1), []),  # it only renames
        ((1, 5, 3 * LIMIT), [LIMIT] * 3),
        ((1, 5, 3 * LIMIT - 1), [LIMIT, LIMIT, LIMIT - 1]),
    ],
)
def test_rows_that_are_reduced_in_pieces(shape: tuple[int, ...], pieces: list[int]) -> None:
    assert reduced(shape) == pieces


def test_pieces_of_one_element_in_the_smallest_memory() -> None:
    config = get_config("nano,am_bytes=16,am_banks=1")
    assert reduced((1, 3, 3), config=config) == [1, 1, 1]
    assert reduced((1, 3, 1), config=config) == []


def test_rows_whose_largest_is_found_in_pieces() -> None:
    assert reduced((1, 5, 2 * LIMIT + 1), op="ARGMAX") == [LIMIT, LIMIT, 1]
    assert reduced((1, 5, LIMIT), op="ARGMAX") == []
    assert reduced((1, 5, 2, LIMIT), op="ARGMAX") == [LIMIT, LIMIT]
    assert reduced((1, 5, 2, LIMIT // 2), op="ARGMAX") == []


@pytest.mark.parametrize(
    "inner, columns, then, pieces",
    [
        (2, LIMIT, 2, []),
        (2, LIMIT, 3, [LIMIT] * 2),
        (2, LIMIT, None, [LIMIT] * 2),
        (3, LIMIT, 2, [LIMIT] * 3),
        (2, LIMIT - 1, 2, []),
    ],
)
def test_reductions_that_join_a_layer_have_room_for_twice_as_much(
    inner: int, columns: int, then: int | None, pieces: list[int]
) -> None:
    """Over neighbouring axes the rest of a row is a piece."""
    assert reduced((1, 5, inner, columns), then=then) == pieces


@pytest.mark.parametrize(
    "machine, words, step",
    [("small,wm_bytes=4K", 64, 32), ("small,am_bytes=1K", 32, 16), ("nano,am_bytes=16,am_banks=1", 1, 1)],
)
def test_products_of_long_rows(machine: str, words: int, step: int) -> None:
    """Rows are as long as the weight memory holds words of, or a quarter of the activation memory; parts are half of
    that."""
    config = get_config(machine)
    columns = config.columns
    assert min(config.wm_bytes // columns**2, config.am_bytes // 4 // columns) == words

    def parts(depth: int, dtype: DType = I8) -> list[int]:
        build = LayerBuilder(1)
        a, b = build.input("a", (1, 2, depth), dtype), build.input("b", (1, depth, 3), dtype)
        build.output(build.add("MATMUL", [a, b, *(build.zero_point(dtype) for _ in range(2))]))
        new = rewriting(build.finish())
        if not split_matmul(new, config):
            return []
        assert new.operators[-1].op == "ADD" and new.operators[-1].outputs == build.graph.outputs
        return [build.graph.tensors[each.inputs[0]].shape[2] for each in new.operators if each.op == "MATMUL"]

    whole, part = words * columns, step * columns
    assert parts(whole) == []
    assert parts(whole + 1) == [part] * (words // step) + [1]
    assert parts(3 * part) == [part] * 3
    assert parts(whole + 1, I16) == []


# --- loads


@pytest.mark.parametrize("streamed, piece", [(False, 16384), (True, 32768)])
def test_weights_come_in_pieces(streamed: bool, piece: int) -> None:
    """They pass over the end of the weight memory, too; pieces that are there do not come again."""
    config = get_config("base,wm_bytes=64K")
    for size, sizes in ((piece, [piece]), (piece + 16, [piece, 16]), (100, [100])):
        emitter, source = Emitter(config, ExternalMemory()), Address(Region.CONSTANTS, 640)
        emitter.ring.place(Address(Region.CONSTANTS, 1 << 20), 48 * 1024)
        assert emitter.weights(source, size, streamed=streamed) == WeightsHere(48 * 1024, loaded=True)
        works = emitter.blocks.all[0].work
        places = [sum(sizes[:number]) for number in range(len(sizes))]
        assert [work.reads for work in works] == [
            [(source + place).span(count)] for place, count in zip(places, sizes, strict=True)
        ]
        fields = [work.commands[0].instruction.fields for work in works]
        starts = [(48 * 1024 + place) % (64 * 1024) for place in places]
        assert [(each["local_address"], each["row_bytes"]) for each in fields] == list(
            zip(starts, sizes, strict=True)
        )
        assert all(each["streamed"] == streamed and each["rows"] == 1 for each in fields)
        assert [sum(span.end - span.start for span in work.writes) for work in works] == sizes
        assert emitter.weights(source, size, streamed=streamed) == WeightsHere(48 * 1024, loaded=False)
        assert len(emitter.blocks.all[0].work) == len(works)


def item(unit: Unit, index: int, **parts: object) -> Item:
    waits: dict[Unit, int] = parts.pop("waits", {})  # type: ignore[assignment]
    work = Work(unit, [], **parts)  # type: ignore[arg-type]
    return Item(work, index, tuple(each for pair in waits.items() for each in pair))


def shown(items: list[Item]) -> str:
    return " ".join(f"{each.unit.name[0]}{each.index}" for each in interleave(items))


def test_loads_come_eight_before_their_use() -> None:
    """Eight loads come right after the last item for which somebody waits."""
    loads = [item(Unit.LOAD, number) for number in range(12)]
    store = item(Unit.STORE, 0)
    assert shown([store, *loads]) == "L0 L1 L2 L3 L4 L5 L6 L7 S0 L8 L9 L10 L11"
    store = item(Unit.STORE, 0, waits={Unit.LOAD: 1})
    assert shown([*loads, store]) == "L0 L1 L2 L3 L4 L5 L6 L7 L8 L9 S0 L10 L11"


def test_loads_come_before_an_array_and_who_takes_its_vectors() -> None:
    loads = [item(Unit.LOAD, number) for number in range(10)]
    array = item(Unit.ARRAY, 0)
    vector = item(Unit.VECTOR, 0, array_vectors=4, waits={Unit.LOAD: 1})
    assert shown([loads[0], array, *loads[1:], vector]) == "L0 L1 L2 L3 L4 L5 L6 L7 L8 L9 A0 V0"
    alone = item(Unit.VECTOR, 0, waits={Unit.LOAD: 1})
    assert shown([loads[0], array, *loads[1:], alone]) == "L0 L1 L2 L3 L4 L5 L6 L7 A0 L8 L9 V0"


def test_a_load_that_waits_for_work_comes_behind_it() -> None:
    first, second, third = item(Unit.LOAD, 0), item(Unit.LOAD, 1, waits={Unit.STORE: 0}), item(Unit.LOAD, 2)
    store, array = item(Unit.STORE, 0), item(Unit.ARRAY, 0, waits={Unit.LOAD: 1})
    assert shown([first, store, second, third, array]) == "L0 S0 L1 L2 A0"


def test_words_that_are_waited_for_one_by_one_are_loaded_before() -> None:
    loads = [item(Unit.LOAD, number) for number in range(12)]
    array = item(Unit.ARRAY, 0)
    array.behind_load = 3
    assert shown([*loads, array]) == "L0 L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 L11 A0"
    array.behind_load = 2
    assert shown([*loads, array]) == "L0 L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 A0 L11"


def test_a_load_that_waits_for_another_core_stays_where_it_is() -> None:
    """It comes after everything that other units do before it."""
    loads = [item(Unit.LOAD, 0), item(Unit.LOAD, 1, waits_for_core=True), item(Unit.LOAD, 2)]
    stores = [item(Unit.STORE, number) for number in range(3)]
    assert shown([stores[0], loads[0], stores[1], *loads[1:], stores[2]]) == "L0 S0 S1 L1 L2 S2"


def test_a_load_that_comes_too_late_is_an_error() -> None:
    late = item(Unit.LOAD, 0, waits={Unit.STORE: 0})
    store = item(Unit.STORE, 0, waits={Unit.LOAD: 0})
    with pytest.raises(AssertionError, match="^load 0 waits for work that comes after its use$"):
        interleave([late, store])
