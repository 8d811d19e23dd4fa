"""Images of a CONV3D's data, one behind the other: which are taken for each plane of the kernel, and how."""

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.convolution_3d import convolution_3d
from tosaic.compiler.legalize.rewriting import Rewriting

Step = tuple[str | tuple[int, ...], ...]


def steps(images: int, planes: int, stride: int) -> list[list[Step]]:
    """What comes before each CONV2D, with the constants: RESHAPE to a shape, SLICE from a start of a size. The data are
    images of six planes of 3 by 4 by 5."""
    build = LayerBuilder(1)
    x = build.input("x", (images, 6, 3, 4, 5), DType.INT8)
    weights = build.random_constant((2, planes, 1, 1, 5), DType.INT8, -9, 9)
    zeros = [build.zero_point(DType.INT8) for _ in range(2)]
    how = dict(pad=[0] * 6, stride=[stride, 1, 1], dilation=[1] * 3, acc_type=DType.INT32, local_bound=False)
    build.output(build.add("CONV3D", [x, weights, build.constant([0, 0], DType.INT32), *zeros], **how))
    new = Rewriting(build.graph, build.graph.operators[0])
    assert convolution_3d(new)
    found: list[list[Step]] = [[]]
    for operator in new.operators:
        if operator.op == "CONV2D":
            found.append([])
        elif operator.op in ("RESHAPE", "SLICE"):
            values = [build.graph.tensors[name] for name in operator.inputs]
            numbers = [
                tuple(each.data.tolist())
                for each in values
                if each.dtype is DType.SHAPE and each.data is not None
            ]
            found[-1].append((operator.op, *numbers))  # type: ignore[arg-type]
    return found[:-1]


def rows(first: int, size: int) -> Step:
    """A view of some images."""
    return "SLICE", (first, 0, 0, 0), (size, 3, 4, 5)


@pytest.mark.parametrize("images", [1, 2])
def test_all_images_are_a_view(images: int) -> None:
    assert steps(images, 1, 1) == [[("RESHAPE", (6 * images, 3, 4, 5))]]


def test_each_plane_takes_images_from_the_next_one_on() -> None:
    whole = ("RESHAPE", (6, 3, 4, 5))
    assert steps(1, 3, 1) == [[whole, rows(first, 4)] for first in range(3)]


@pytest.mark.parametrize("images", [1, 2])
def test_images_of_a_group_are_taken_from_the_rows_of_a_longer_image(images: int) -> None:
    """Two planes of stride 2: of every two images the first, and the second."""
    whole, size = ("RESHAPE", (3 * images, 6, 4, 5)), (3 * images, 3, 4, 5)
    assert steps(images, 2, 2) == [[whole, ("SLICE", (0, row, 0, 0), size)] for row in (0, 3)]


@pytest.mark.parametrize("planes, stride, groups, count", [(3, 1, [0, 1, 2], 4), (4, 2, [0, 0, 1, 1], 2)])
def test_several_images_are_cut_each_by_itself(
    planes: int, stride: int, groups: list[int], count: int
) -> None:
    """Where not all of their planes, or groups of planes, are taken."""
    found = steps(2, planes, stride)
    for plane, group in enumerate(groups):
        size = 60 * stride
        wanted: list[Step] = [
            ("RESHAPE", (2, 6 // stride, size)),
            ("SLICE", (0, group, 0), (2, count, size)),
            ("RESHAPE", (2 * count, 3 * stride, 4, 5)),
        ]
        if stride > 1:
            wanted.append(("SLICE", (0, 3 * (plane % stride), 0, 0), (2 * count, 3, 4, 5)))
        assert found[plane] == wanted
    assert len(found) == planes
