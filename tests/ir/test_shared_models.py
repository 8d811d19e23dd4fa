"""The shared example models, where they are present: read, validate, round-trip in both versions."""

from pathlib import Path

import numpy as np
import pytest
from one_operator_graphs import contents
from shared_files import SHARED, found

from tosaic.compiler.ir import Graph, read_tosa, validate, write_tosa

_MODELS = sorted((SHARED / "models").glob("*/*.tosa"))
_NEUTRAL = {"nan_mode": "PROPAGATE", "local_bound": False}


def without_neutral_attributes(graph: Graph) -> Graph:
    """The graph without attributes that have no meaning for integers and no place in 0.30."""
    for op in graph.operators:
        op.attributes = {k: v for k, v in op.attributes.items() if _NEUTRAL.get(k, ...) != v}
    return graph


@pytest.mark.filterwarnings("ignore:a constant of shape:tosaic.ModelWarning")
@pytest.mark.parametrize("path", found(_MODELS), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_round_trip(path: Path) -> None:
    graph = read_tosa(path)
    validate(graph)
    again = read_tosa(write_tosa(graph))
    validate(again)
    assert (again.inputs, again.outputs) == (graph.inputs, graph.outputs)
    assert {n: (t.shape, t.dtype) for n, t in again.tensors.items()} == {
        n: (t.shape, t.dtype) for n, t in graph.tensors.items()
    }
    for name, tensor in graph.tensors.items():
        assert (tensor.data is None) == (again.const(name) is None)
        assert tensor.data is None or np.array_equal(tensor.data, again.const(name))
    assert [(op.op, op.inputs, op.outputs, op.attributes) for op in again.operators] == [
        (op.op, op.inputs, op.outputs, op.attributes) for op in graph.operators
    ]


@pytest.mark.parametrize(
    "path",
    found(p for p in _MODELS if p.stat().st_size < 600_000),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_round_trip_through_0_30(path: Path) -> None:
    graph = read_tosa(path)
    again = read_tosa(write_tosa(graph, version=(0, 30)))
    validate(again)
    assert contents(without_neutral_attributes(again)) == contents(without_neutral_attributes(graph))
