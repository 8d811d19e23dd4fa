"""Parts of the quantizer alone: integers that constants were, grids of the model, what calibration learns."""

import numpy as np
import pytest
from float_networks import Floats, quantize_graph

from tosaic.compiler.ir import DType, GraphBuilder, Operator
from tosaic.compiler.quantizer.calibration import Channels, Statistics
from tosaic.compiler.quantizer.emission import Emission
from tosaic.compiler.quantizer.encoding import Encoding, Integers
from tosaic.compiler.quantizer.grids import StepGrid
from tosaic.compiler.quantizer.kept_grids import keep_grids, moved_encoding
from tosaic.compiler.quantizer.plan import Plan
from tosaic.compiler.quantizer.weight_grids import WeightGrid, weight_grid, with_biases

# --- integers that constants were


def grid_of(*rows: list[float], scale: float = 0.25) -> tuple[list[float], int] | None:
    found = weight_grid(np.array(rows) * scale)
    return None if found is None else ((found.scales / scale).tolist(), found.zero_point)


@pytest.mark.parametrize(
    "rows, wanted",
    [
        # The fewest integers that hold all elements, symmetric ones of 127 if these do, too.
        ([[127.0, 3.0]], ([1.0], 0)),
        ([[-127.0, 50.0]], ([1.0], 0)),
        ([[2.0, 1.0]], ([1.0], 0)),
        ([[6.0, 4.0, -2.0]], ([2.0], 0)),
        ([[0.0, 0.0]], ([4.0], 0)),
        ([[128.0, 1.0]], ([1.0], -1)),
        ([[-128.0, 1.0]], ([1.0], 0)),
        ([[-129.0, 1.0]], ([1.0], 1)),
        ([[200.0, 1.0, -55.0]], ([1.0], -73)),
        ([[200.0, 1.0, -56.0]], None),
        ([[255.0, 1.0]], ([1.0], -128)),
        ([[-255.0, 1.0]], None),
        ([[255.0, 254.0]], ([1.0], -128)),
        ([[-255.0, -254.0]], ([1.0], 127)),
        ([[256.0, 1.0]], None),
        # All channels share a zero point.
        ([[127.0, 3.0], [10.0, 1.0]], ([1.0, 1.0], 0)),
        ([[200.0, 1.0], [100.0, 1.0]], ([1.0, 1.0], -73)),
        ([[200.0, 1.0], [-55.0, 1.0]], ([1.0, 1.0], -73)),
        ([[200.0, 1.0], [-56.0, 1.0]], None),
        ([[1.0, np.pi], [1.0, 1.0]], None),
    ],
)
def test_integers_of_weights(rows: list[list[float]], wanted: tuple[list[float], int] | None) -> None:
    found = grid_of(*rows)
    if wanted is None:
        assert found is None
        return
    assert found is not None and found[1] == wanted[1]
    # A channel of zeros has the scale 1, whatever others have.
    assert found[0] == pytest.approx(wanted[0], rel=1e-12)


@pytest.mark.parametrize("beside, found", [(0.0019, True), (0.0021, False)])
def test_how_far_weights_may_lie_beside_integers(beside: float, found: bool) -> None:
    assert (weight_grid(np.array([[127.0, 64 + beside]])) is not None) is found


def test_many_elements_are_all_looked_at() -> None:
    """The first 16 alone need 2 steps; the last one needs 8."""
    row = [2.0, 1.0] * 8 + [0.25]
    found = weight_grid(np.array([row]))
    assert found is not None and found.scales.tolist() == [0.25]


@pytest.mark.parametrize(
    "row, bias, scale",
    [
        ([4.0, 1.0], 3.0, 1.0),
        ([4.0, 1.0], 3.5, 0.5),
        ([4.0, 1.0], 3.25, 0.25),
        ([64.0, 1.0], 3.5, 1.0),
        ([63.0, 1.0], 3.5, 0.5),
        ([4.0, 1.0], np.pi / 100, 1 / 31),
        ([0.0, 0.0], 5.0, 5.0 / 2**20),
        ([0.0, 0.0], -5.0, 5.0 / 2**20),
        ([0.0, 0.0], 0.0, 1.0),
        ([200.0, 1.0], 3.5, 1.0),
    ],
)
def test_finer_grids_for_biases(row: list[float], bias: float, scale: float) -> None:
    """The least factor for which the bias is whole, or the largest that weights of a byte have room for."""
    grid = WeightGrid(np.ones(1), 0)
    found = with_biases(grid, np.array([row]), np.array([bias]))
    assert found.scales.tolist() == [scale] and found.zero_point == 0
    assert grid.scales.tolist() == [1.0]


def test_grids_with_a_zero_point_stay() -> None:
    grid = WeightGrid(np.ones(1), 3)
    assert with_biases(grid, np.array([[4.0, 1.0]]), np.array([3.5])) is grid


# --- grids of the model


@pytest.mark.parametrize(
    "low, high, steps, encoding",
    [
        (0.0, 255.0, 255, Encoding(DType.INT8, 1.0, -128)),
        (-128.0, 127.0, 255, Encoding(DType.INT8, 1.0, 0)),
        (-255.0, 0.0, 255, Encoding(DType.INT8, 1.0, 127)),
        (-1.0, 1.0, 16, Encoding(DType.INT8, 0.125, -120)),
        (-1.0, 1.0, 256, None),
        (0.5, 1.0, 16, None),
        (-1.0, -0.5, 16, None),
        (0.0, 0.0, 16, None),
    ],
)
def test_encodings_of_steps(low: float, high: float, steps: int, encoding: Encoding | None) -> None:
    assert StepGrid(low, high, steps).encoding() == encoding


HALVES = Encoding(DType.INT8, 0.5, 10)


def bounded(op: str, *bounds: float, readers: str = "ABS", shape: tuple[int, ...] = (2, 3)) -> bool:
    """Whether what an operator leaves of an encoded tensor has its encoding."""
    build = GraphBuilder("bounds")
    x = build.input("x", shape, DType.FP32)
    if op == "CLAMP":
        y = build.add(op, [x], min_val=bounds[0], max_val=bounds[1], nan_mode="PROPAGATE")
    elif op == "SLICE":
        y = build.add(op, [x, build.shape([0, 1]), build.shape([2, 2])])
    else:
        y = build.add(op, [x, build.constant(np.reshape(bounds, (1, -1)), DType.FP32)], nan_mode="PROPAGATE")
    if readers:
        build.graph.operators += [
            Operator(name, [y], [f"z{number}"], {}, f"z{number}")
            for number, name in enumerate(readers.split())
        ]
    forced = {x: HALVES}
    keep_grids(build.graph, forced)
    assert set(forced) <= {x, y} and set(forced.values()) == {HALVES}
    return y in forced


@pytest.mark.parametrize(
    "op, bounds, kept",
    [
        ("SLICE", (), True),
        ("CLAMP", (0.0, 3.0), True),
        ("CLAMP", (0.0, 3.25), False),
        ("CLAMP", (0.25, 3.0), False),
        ("CLAMP", (-np.inf, np.inf), True),
        # 0.5 times -138 to 117 is what the type holds.
        ("CLAMP", (0.0, 58.25), False),
        ("CLAMP", (0.0, 58.75), True),
        ("CLAMP", (-68.75, 0.0), False),
        ("CLAMP", (-69.25, 0.0), True),
        ("CLAMP", (0.00049, 3.0), True),
        ("CLAMP", (0.00051, 3.0), False),
        ("MAXIMUM", (0.0,), True),
        ("MAXIMUM", (0.25,), False),
        ("MINIMUM", (1.5,), True),
        ("MINIMUM", (0.0, 1.0, 2.0), False),
        ("ADD", (1.0,), False),
    ],
)
def test_bounds_keep_the_grid_where_they_are_on_it(op: str, bounds: tuple[float, ...], kept: bool) -> None:
    assert bounded(op, *bounds) is kept


@pytest.mark.parametrize(
    "readers, kept", [("", True), ("CUSTOM", False), ("CUSTOM CUSTOM", False), ("CUSTOM ABS", True)]
)
def test_markers_round_what_they_alone_read(readers: str, kept: bool) -> None:
    assert bounded("CLAMP", 0.0, 3.0, readers=readers) is kept


def test_encodings_behind_moves() -> None:
    build = GraphBuilder("moves")
    x = build.input("x", (2, 3), DType.FP32)
    turned = build.add("TRANSPOSE", [x], perms=[1, 0])
    back = build.add("REVERSE", [turned], axis=0)
    other = build.add("ABS", [back])
    forced = {x: HALVES}
    assert [moved_encoding(build.graph, name, forced) for name in (x, turned, back, other)] == [
        HALVES,
        HALVES,
        HALVES,
        None,
    ]
    assert moved_encoding(build.graph, x, {}) is None


# --- integers and what was seen


def test_reals_of_integers() -> None:
    found = Integers("x", DType.INT32, np.array([0.5, 2.0]), bound=6)
    assert (found.uniform, found.reach, found.bounded) == (False, 12.0, False)
    bounds = np.array([100.0, 3.0])
    assert Integers("x", DType.INT32, np.array([0.5, 2.0]), bounds=bounds).reach == 50.0
    assert Integers("x", DType.INT32, np.array(0.5), low=0.0).bounded
    assert Integers("x", DType.INT32, np.array(0.5), high=0.0).bounded
    assert HALVES.high == 58.5
    assert HALVES.quantize([0.0, 0.25, 0.75, 58.5, 59.0, -69.0, -70.0]).tolist() == [
        10,
        10,
        12,
        127,
        127,
        -128,
        -128,
    ]
    assert HALVES.dequantize([10, 127, -128]).tolist() == [0.0, 58.5, -69.0]


def seen(**ranges: tuple[float, float]) -> Statistics:
    return Statistics(
        {name: low for name, (low, _) in ranges.items()}, {name: high for name, (_, high) in ranges.items()}
    )


@pytest.mark.parametrize(
    "there, times",
    [
        ((-1.0, 4.0), None),
        ((-1.0, 5.0), 1.25),
        ((-3.0, 4.0), 1.5),
        ((-3.0, 8.0), 2.0),
        ((0.0, 2.0), None),
    ],
)
def test_how_far_values_leave_the_range(there: tuple[float, float], times: float | None) -> None:
    """Measured by the end of the range here that is further from 0: 4."""
    found = seen(x=(-1.0, 4.0)).overshoot(seen(x=there, y=(-9.0, 9.0)))
    assert found == ({} if times is None else {"x": times})


def test_ranges_far_from_zero_are_left_by_what_is_beyond() -> None:
    assert seen(x=(2.0, 4.0)).overshoot(seen(x=(-1.0, 4.0))) == {"x": 1.25}
    assert seen(x=(2.0, 4.0)).overshoot(seen(x=(1.0, 4.0))) == {}
    assert seen(x=(0.0, 0.0)).overshoot(seen(x=(-1.0, 4.0))) == {}


def test_extremes_of_either() -> None:
    both = seen(x=(-1.0, 4.0), y=(1.0, 2.0)).extremes_with(seen(x=(-2.0, 3.0), z=(5.0, 6.0)))
    assert both == seen(x=(-2.0, 4.0), y=(1.0, 2.0), z=(5.0, 6.0))
    assert both.range("y") == (0.0, 2.0) and both.range_seen("y") == (1.0, 2.0)
    assert both.range("w") == both.range_seen("w") == (0.0, 0.0)


def test_what_runs_show_of_a_tensor() -> None:
    """Whatever is not finite counts not, nor do integers and what is empty."""
    found = Statistics()
    found.observe({"x": np.array([[1.0, -2.0], [3.0, 5.0]])}, {"x": {(1,)}})
    found.observe({"x": np.array([[0.0, 9.0]]), "i": np.array([7])}, {"x": {(1,)}})
    found.observe({"x": np.array([[np.inf, np.nan]]), "e": np.zeros(0)}, {})
    assert (found.low, found.high) == ({"x": -2.0}, {"x": 9.0})
    channels = found.channels["x", (1,)]
    assert (channels.low.tolist(), channels.high.tolist()) == ([0.0, -2.0], [3.0, 9.0])
    assert (channels.mean.tolist(), channels.power.tolist()) == ([4 / 3, 4.0], [10 / 3, 110 / 3])
    assert channels.largest.tolist() == [3.0, 9.0]
    joined = channels.joined(channels)
    assert joined.count == 6 and joined.mean.tolist() == [4 / 3, 4.0]
    nothing = Channels(*(np.zeros(1) for _ in range(4)))
    assert nothing.mean.tolist() == nothing.power.tolist() == [0.0]


# --- conversions


def emission() -> Emission:
    build = GraphBuilder("empty")
    return Emission(Plan(build.graph, Statistics()))


def test_what_is_in_an_encoding() -> None:
    """The bound is the end of the type that is further from the zero point."""
    for zero_point, bound in ((0, 128), (-1, 128), (-128, 255), (127, 255), (10, 138), (-10, 137)):
        encoding = Encoding(DType.INT8, 0.5, zero_point)
        found = emission().held("x", encoding)
        assert (found.bound, found.zero_point, found.reach) == (bound, zero_point, bound / 2)
        assert found.encoding is encoding


@pytest.mark.parametrize("doubled", [False, True])
@pytest.mark.parametrize(
    "factors, seen, bounded",
    [
        ([0.5, 3.0], 1.0, False),
        ([0.5, 3.0], 1.009, False),
        ([0.5, 3.0], 1.02, True),
        ([0.5, 3.0], 5.0, True),
        ([0.5, 0.5], 1.0, False),
        ([-0.5, 3.0], 1.0, True),
    ],
)
def test_an_upper_bound_that_saturation_applies(
    factors: list[float], seen: float, bounded: bool, doubled: bool
) -> None:
    """A clamp at 2 stands before a factor for each channel; no result was seen above the least bound, 1."""
    model = Floats()
    x = model.build.add("CLAMP", [model.input("x", (1, 4, 4, 2))], min_val=-3.0, max_val=2.0)
    line = model.constant(np.array(factors, np.float32).reshape(1, 1, 1, 2), DType.FP32)
    y = model.build.add("MUL", [x, line, model.build.constant([0], DType.INT8)])
    graph = model.finish(model.build.add("ADD", [y, y]) if doubled else y)
    values = np.full((16, 4, 4, 2), -0.25, np.float32)
    values[:, 0, 0] = [min(2.0, seen / abs(factors[0])), seen / factors[1]]
    made = quantize_graph(graph, {"x": values}).graph
    assert ("MINIMUM" in [each.op for each in made.operators]) == bounded
