"""TRANSPOSEs move towards the outputs, through what is between them, and cancel."""

import numpy as np
import pytest

from tosaic.compiler.importers.lowering.layout_pass import cancel_transposes
from tosaic.compiler.ir import DType, GraphBuilder
from tosaic.sim.golden import evaluate

FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]
"""The orders that put channels first, and last."""


def sliced(build, x):
    return build.add("SLICE", [x, build.shape([0, 2, 1, 0]), build.shape([2, 3, 3, 5])])


def tiled(build, x):
    return build.add("TILE", [x, build.shape([1, 3, 1, 2])])


def reversed_(build, x):
    return build.add("REVERSE", [x], axis=1)


def padded(build, x):
    amounts = build.shape([0, 0, 1, 2, 0, 3, 4, 0])
    return build.add("PAD", [x, amounts, build.constant([7], DType.INT8)])


def doubled(build, x):
    """Every row twice, as a nearest RESIZE writes it."""
    n, c, h, w = build.graph.tensors[x].shape
    x = build.add("RESHAPE", [x, build.shape([n, c, h, 1, w])])
    x = build.add("TILE", [x, build.shape([1, 1, 1, 2, 1])])
    return build.add("RESHAPE", [x, build.shape([n, c, 2 * h, w])])


def halves_joined(build, x):
    """The channel slices of a YOLO block, one of which is computed on."""
    n, c, h, w = build.graph.tensors[x].shape
    sizes = build.shape([n, c // 2, h, w])
    parts = [build.add("SLICE", [x, build.shape([0, start, 0, 0]), sizes]) for start in (0, c // 2)]
    parts.append(build.add("CLAMP", [parts[1]], min_val=-5, max_val=5, nan_mode="PROPAGATE"))
    return build.add("CONCAT", parts, axis=1)


@pytest.mark.parametrize("between", [sliced, tiled, reversed_, padded, doubled, halves_joined])
def test_no_transpose_is_left_between_channels_last(between):
    build = GraphBuilder("channels first inside")
    x = build.add("TRANSPOSE", [build.input("x", (2, 4, 5, 6), DType.INT8)], perms=FIRST)
    x = build.add("TRANSPOSE", [between(build, x)], perms=LAST)
    build.output(x)
    graph = build.finish()
    changed = cancel_transposes(graph, [("y", x)])
    assert "TRANSPOSE" not in [operator.op for operator in changed.operators]
    values = {"x": np.arange(240, dtype=np.int64).reshape(2, 4, 5, 6).astype(np.int8)}
    np.testing.assert_array_equal(evaluate(changed, values)["y"], evaluate(graph, values)[x])


def test_scales_of_channels_stay_with_the_last_axis():
    build = GraphBuilder("scales")
    turned = build.add("TRANSPOSE", [build.input("x", (1, 2, 3, 4), DType.INT8)], perms=LAST)
    zero = build.constant([0], DType.INT8)
    scales = build.constant([1 << 30, 1 << 29], DType.INT32), build.constant([30, 30], DType.INT8)
    scaled = build.add(
        "RESCALE",
        [turned, *scales, zero, zero],
        dtype=DType.INT8,
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=True,
    )
    build.output(scaled)
    x = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    result = evaluate(cancel_transposes(build.graph, [("y", scaled)]), {"x": x})["y"]
    assert result[..., 0].tolist() == [[list(row) for row in x[0, 0]]]
    assert result[0, 0, :, 1].tolist() == [6, 7, 7, 8]
