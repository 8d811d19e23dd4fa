"""Shape propagation of the primitives, against extents worked out by hand or by the text's formulas."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nnef_cases import flat, variable

from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.graph import Shape
from tosaic.compiler.importers.nnef.window_shapes import automatic_padding

SHAPES: list[tuple[str, Shape]] = [
    ("y = conv(x, f, padding = [(1,1),(0,0)], stride = [2,1]);", (2, 6, 5, 7)),
    ("y = conv(x, f);", (2, 6, 9, 9)),
    ("y = conv(x, f, stride = [2,2]);", (2, 6, 5, 5)),
    ("y = conv(x, f, padding = [(0,0),(0,0)], dilation = [2,4]);", (2, 6, 5, 1)),
    ("y = deconv(t, f, padding = [(0,0),(0,0)], stride = [2,2]);", (2, 4, 19, 19)),
    ("y = deconv(t, f, stride = [2,2]);", (2, 4, 18, 18)),
    ("y = deconv(t, f, stride = [2,2], output_shape = [2,4,17,18]);", (2, 4, 17, 18)),
    ("y = box(x, size = [1,2], padding = [(0,0),(0,0),(0,0),(0,0)]);", (2, 3, 9, 9)),
    (
        "y = debox(x, size = [1,1,2,2], stride = [1,1,2,2], padding = [(0,0),(0,0),(0,0),(0,0)]);",
        (2, 4, 18, 18),
    ),
    ("y = max_pool(x, size = [1,1,3,3], stride = [1,1,2,2], border = 'ignore');", (2, 4, 5, 5)),
    ("y = nearest_upsample(x, factor = [2,3]);", (2, 4, 18, 27)),
    ("y = area_downsample(x, factor = [3,9]);", (2, 4, 3, 1)),
    ("y = multilinear_upsample(x, factor = [4,2]);", (2, 4, 36, 18)),
    ("y = argmax_reduce(x, axes = [1,3]);", (2, 1, 9, 1)),
    ("y = reshape(x, shape = [0,-1,3]);", (2, 108, 3)),
    ("y = unsqueeze(x, axes = [4,0]);", (1, 2, 4, 9, 1, 9)),
    ("t2 = mean_reduce(x, axes = [2,3]); y = squeeze(t2, axes = [2,3]);", (2, 4)),
    ("y = transpose(x, axes = [2,0,1]);", (9, 2, 4, 9)),
    ("y = concat([x, t], axis = 1);", (2, 10, 9, 9)),
    ("y = stack([x, x], axis = 4);", (2, 4, 9, 9, 2)),
    ("[y, z] = unstack(x, axis = 0);", (4, 9, 9)),
    ("y = slice(x, axes = [2,3], begin = [-3,1], end = [0,-1]);", (2, 4, 3, 7)),
    ("y = matmul(x, t1, transposeA = true, transposeB = true);", (2, 4, 9, 5)),
    ("y = add(x, b);", (2, 4, 9, 9)),
    ("y = add(b, 1.0);", (1, 4)),
    ("y = local_response_normalization(x, size = [1,5]);", (2, 4, 9, 9)),
    ("y = softmax(x);", (2, 4, 9, 9)),
    ("y = add_n([x, x, x]);", (2, 4, 9, 9)),
    ("[y, z] = copy_n(x, times = 2);", (2, 4, 9, 9)),
    ("y = linear_quantize(x, min = -1.0, max = 1.0, bits = 8);", (2, 4, 9, 9)),
    ("y = logarithmic_quantize(x, max = 4.0, bits = 4);", (2, 4, 9, 9)),
    ("y = batch_normalization(x, b, b, b, b, epsilon = 0.001);", (2, 4, 9, 9)),
    ("y = separable_conv(x, p, q, padding = [(1,1),(1,1)]);", (2, 7, 9, 9)),
    ("y = separable_deconv(t, d, q, stride = [2,2]);", (2, 4, 18, 18)),
    ("y = avg_roi_align(x, r, i, output_size = [3,3], sampling_rate = [2,2]);", (5, 4, 3, 3)),
]
VARIABLES = " ".join(
    [
        variable("f", "[6,4,3,3]"),
        variable("t", "[2,6,9,9]"),
        variable("t1", "[1,4,5,9]"),
        variable("b", "[1,4]"),
        variable("p", "[4,1,3,3]"),
        variable("q", "[7,4,1,1]"),
        variable("d", "[4,1,3,3]"),
        variable("r", "[5,4]"),
        "i = variable<integer>(shape = [5,1], label = 'i');",
    ]
)


@pytest.mark.parametrize(("body", "shape"), SHAPES)
def test_result_shape(body: str, shape: Shape) -> None:
    body = body.replace("deconv(t, d, q", "deconv(t, d, q2")
    extra = variable("q2", "[6,4,1,1]")
    graph = expand_document(flat(f"{VARIABLES} {extra} {body}", shape="[2,4,9,9]"))
    assert graph.tensors["y"].shape == shape


@given(st.integers(1, 60), st.integers(1, 7), st.integers(1, 5), st.integers(1, 4))
def test_automatic_padding_gives_one_window_per_stride(
    extent: int, size: int, stride: int, dilation: int
) -> None:
    """4.3: the padding makes ceil(X / s) windows, with the odd element behind, and is never negative."""
    before, after = automatic_padding(extent, size, stride, dilation)
    dilated = (size - 1) * dilation + 1
    assert 0 <= before <= after <= before + 1
    room = before + extent + after - dilated
    assert room >= 0
    windows = room // stride + 1
    assert windows == math.ceil(extent / stride)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_scaling_up_undoes_scaling_down(
    extent: int, size: int, stride: int, dilation: int, p: int, q: int
) -> None:
    """The up-scaled extent of the formula scales down to the extent it came from."""
    attributes = f"size = [{size}], stride = [{stride}], dilation = [{dilation}], padding = [({p},{q})]"
    up = (extent - 1) * stride + (size - 1) * dilation + 1 - p - q
    if up < 1:
        return
    body = f"u = debox(x, {attributes}); y = box(u, {attributes});"
    graph = expand_document(flat(body, shape=f"[{extent}]"))
    assert graph.tensors["u"].shape == (up,) and graph.tensors["y"].shape == (extent,)
