"""Images of a CONV3D's data, one behind the other: which are taken."""

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.convolution_3d import _every
from tosaic.compiler.legalize.rewriting import Rewriting


def rewriting(shape: tuple[int, ...]) -> Rewriting:
    build = LayerBuilder(1)
    build.output(build.add("IDENTITY", [build.input("x", shape, DType.INT8)]))
    return Rewriting(build.graph, build.graph.operators[0])


def made(new: Rewriting) -> list[tuple]:
    """The operators with their constant operands but for zero points, and the shapes that they make."""
    graph, found = new.graph, []
    for operator in new.operators:
        values = [graph.tensors[name] for name in operator.inputs]
        numbers = [
            tuple(each.data.tolist())
            for each in values
            if each.dtype is DType.SHAPE and each.data is not None
        ]
        found.append((operator.op, *numbers, graph.tensors[operator.outputs[0]].shape))
    return found


@pytest.mark.parametrize(
    "images, group, inside, counts, wanted",
    [
        (1, 0, 0, (6, 1), [("RESHAPE", (6, 3, 4, 5), (6, 3, 4, 5))]),
        (2, 0, 0, (6, 1), [("RESHAPE", (12, 3, 4, 5), (12, 3, 4, 5))]),
        (
            *(1, 2, 0, (4, 1)),
            [
                ("RESHAPE", (6, 3, 4, 5), (6, 3, 4, 5)),
                ("SLICE", (2, 0, 0, 0), (4, 3, 4, 5), (4, 3, 4, 5)),
            ],
        ),
        (
            *(1, 1, 1, (2, 2)),
            [
                ("RESHAPE", (3, 6, 4, 5), (3, 6, 4, 5)),
                ("SLICE", (1, 3, 0, 0), (2, 3, 4, 5), (2, 3, 4, 5)),
            ],
        ),
        (
            *(3, 0, 1, (3, 2)),
            [
                ("RESHAPE", (9, 6, 4, 5), (9, 6, 4, 5)),
                ("SLICE", (0, 3, 0, 0), (9, 3, 4, 5), (9, 3, 4, 5)),
            ],
        ),
        (
            *(2, 1, 1, (2, 2)),
            [
                ("RESHAPE", (2, 3, 120), (2, 3, 120)),
                ("SLICE", (0, 1, 0), (2, 2, 120), (2, 2, 120)),
                ("RESHAPE", (4, 6, 4, 5), (4, 6, 4, 5)),
                ("SLICE", (0, 3, 0, 0), (4, 3, 4, 5), (4, 3, 4, 5)),
            ],
        ),
    ],
)
def test_one_image_of_every_group(
    images: int, group: int, inside: int, counts: tuple[int, int], wanted: list[tuple]
) -> None:
    new = rewriting((images, 6, 3, 4, 5))
    _every(new, "x", group, inside, counts)
    assert made(new) == wanted
