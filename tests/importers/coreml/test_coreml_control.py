"""Branches and loops: known at import, and decided at run time."""

import numpy as np
import pytest
from coreml_models import array, floats, layer, model, run

from tosaic.compiler.importers.coreml import import_coreml
from tosaic.errors import ModelError, UnsupportedError


def network(*layers):
    return {"layers": list(layers)}


def constant(name, value):
    return layer(
        "loadConstantND", [], [name], shape=np.atleast_1d(value).shape, data=floats(np.atleast_1d(value))
    )


def of_x(layers, outputs=("y",), inputs=("x",)):
    return model(layers, [array(name, [3]) for name in inputs], [array(name, []) for name in outputs])


X = np.array([1.0, -2.0, 3.0], np.float32)


def branch(condition, then, otherwise):
    return layer(
        "branch", [condition], [], name="choice", ifBranch=network(*then), elseBranch=network(*otherwise)
    )


@pytest.mark.parametrize("known", [0.0, 1.0])
def test_branch_with_a_known_condition_takes_one_side(known):
    chosen = branch(
        "c", [layer("add", ["x"], ["y"], alpha=1.0)], [layer("multiply", ["x"], ["y"], alpha=2.0)]
    )
    message = of_x([constant("c", known), chosen])
    np.testing.assert_array_equal(run(message, {"x": X})["y"], X + 1 if known else X * 2)
    assert len(import_coreml(message.SerializeToString()).operators) == 1


@pytest.mark.parametrize("sign", [1, -1])
def test_branch_at_run_time_selects(sign):
    layers = [
        layer("reduceSum", ["x"], ["total"], reduceAll=True),
        layer("greaterThan", ["total"], ["c"], alpha=0.0),
        layer("copy", ["x"], ["kept"]),
        branch(
            "c",
            [
                layer("add", ["x"], ["t"], alpha=1.0),
                layer("multiply", ["t"], ["y"], alpha=3.0),
                layer("copy", ["t"], ["kept"]),
            ],
            [layer("multiply", ["x"], ["y"], alpha=2.0)],
        ),
        layer("addBroadcastable", ["y", "kept"], ["z"]),
    ]
    x = X * sign
    got = run(of_x(layers, ("y", "z")), {"x": x})
    y, kept = ((x + 1) * 3, x + 1) if x.sum() > 0 else (x * 2, x)
    np.testing.assert_allclose(got["y"], y)
    np.testing.assert_allclose(got["z"], y + kept)


def test_branch_that_changes_a_shape_at_run_time_is_refused():
    longer = [layer("concatND", ["x", "x"], ["y"], axis=0)]
    layers = [
        layer("reduceSum", ["x"], ["c"], reduceAll=True),
        branch("c", longer, [layer("copy", ["x"], ["y"])]),
    ]
    with pytest.raises(UnsupportedError, match=r"'y' from \[6\] to \[3\].*keep the shape"):
        run(of_x(layers), {"x": X})


def loop(body, condition=(), name="turns", inputs=(), **params):
    if condition:
        params |= {"conditionNetwork": network(*condition)}
    return layer("loop", list(inputs), [], name=name, bodyNetwork=network(*body), **params)


STEP = [layer("multiply", ["s"], ["t"], alpha=2.0), layer("copy", ["t"], ["s"])]


def test_for_loop():
    layers = [layer("copy", ["x"], ["s"]), loop(STEP, maxLoopIterations=4), layer("copy", ["s"], ["y"])]
    np.testing.assert_array_equal(run(of_x(layers), {"x": X})["y"], X * 16)
    layers[1] = loop(STEP, inputs=["n"], maxLoopIterations=9)
    np.testing.assert_array_equal(run(of_x([constant("n", 3), *layers]), {"x": X})["y"], X * 8)


COUNT = [layer("add", ["i"], ["j"], alpha=1.0), layer("copy", ["j"], ["i"])]


def test_while_loop_with_a_condition_that_is_computed_at_import():
    layers = [
        constant("i", 0),
        layer("copy", ["x"], ["s"]),
        loop([*STEP, *COUNT], [layer("lessThan", ["i"], ["go"], alpha=5.0)], conditionVar="go"),
        layer("copy", ["s"], ["y"]),
    ]
    np.testing.assert_array_equal(run(of_x(layers), {"x": X})["y"], X * 32)


@pytest.mark.parametrize("limit", [1.0, 5.0, 100.0, 1e6])
def test_while_loop_that_data_ends_before_its_limit(limit):
    """Doubles s while the sum of squares is below a limit, six times at most."""
    condition = [
        layer("reduceSumSquare", ["s"], ["q"], reduceAll=True),
        layer("lessThan", ["q"], ["go"], alpha=limit),
    ]
    layers = [
        layer("copy", ["x"], ["s"]),
        loop(STEP, condition, conditionVar="go", maxLoopIterations=6),
        layer("copy", ["s"], ["y"]),
    ]
    wanted = X
    for _ in range(6):
        if (wanted**2).sum() < limit:
            wanted = wanted * 2
    np.testing.assert_allclose(run(of_x(layers), {"x": X})["y"], wanted)


@pytest.mark.parametrize("limit", [0.0, 20.0, 1e9])
@pytest.mark.parametrize("leave", ["loopBreak", "loopContinue"])
def test_break_and_continue_at_run_time(leave, limit):
    """After doubling, leaves when the sum of squares is beyond a limit; otherwise adds 1 to `n`."""
    body = [
        *STEP,
        layer("reduceSumSquare", ["s"], ["q"], reduceAll=True),
        layer("greaterThan", ["q"], ["c"], alpha=limit),
        branch("c", [layer(leave, [], [], name="leave")], []),
        layer("add", ["n"], ["m"], alpha=1.0),
        layer("copy", ["m"], ["n"]),
    ]
    layers = [
        constant("n", [0.0, 0, 0]),
        layer("copy", ["x"], ["s"]),
        loop(body, maxLoopIterations=4),
        layer("addBroadcastable", ["s", "n"], ["y"]),
    ]
    s, n = X, 0
    for _ in range(4):
        s = s * 2
        if (s**2).sum() > limit:
            if leave == "loopBreak":
                break
            continue
        n += 1
    np.testing.assert_allclose(run(of_x(layers), {"x": X})["y"], s + n)


def test_nested_loops():
    inner = loop(STEP, name="inner", maxLoopIterations=2)
    layers = [layer("copy", ["x"], ["s"]), loop([inner], maxLoopIterations=3), layer("copy", ["s"], ["y"])]
    np.testing.assert_array_equal(run(of_x(layers), {"x": X})["y"], X * 64)


def test_loops_that_cannot_be_unrolled_are_refused():
    start = layer("copy", ["x"], ["s"])
    condition = [layer("reduceSum", ["s"], ["go"], reduceAll=True)]
    with pytest.raises(UnsupportedError, match="'go' is computed at run time.*maxLoopIterations"):
        run(of_x([start, loop(STEP, condition, conditionVar="go")]), {"x": X})
    with pytest.raises(UnsupportedError, match="it runs more than 4096 times"):
        run(of_x([start, loop([], maxLoopIterations=10**12)]), {"x": X})
    deep = loop([layer("copy", ["x"], ["s"])] * 16, name="a", maxLoopIterations=4000)
    with pytest.raises(ModelError, match="more than 65536 layers"):
        run(of_x([start, loop([deep], name="b", maxLoopIterations=4000)]), {"x": X})
    with pytest.raises(ModelError, match="it stands in no loop"):
        run(of_x([layer("loopBreak", [], [], name="out"), layer("copy", ["x"], ["y"])]), {"x": X})


def test_only_copy_may_write_a_name_again():
    twice = [layer("add", ["x"], ["y"], alpha=1.0), layer("multiply", ["x"], ["y"], alpha=2.0)]
    with pytest.raises(ModelError, match="it writes 'y', which is there already"):
        run(of_x(twice), {"x": X})
    again = [layer("add", ["x"], ["y"], alpha=1.0), layer("copy", ["x"], ["y"])]
    np.testing.assert_array_equal(run(of_x(again), {"x": X})["y"], X)
    with pytest.raises(ModelError, match="reads 'z', which no layer before it writes"):
        run(of_x([layer("copy", ["z"], ["y"])]), {"x": X})
