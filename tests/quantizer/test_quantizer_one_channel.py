"""A convolution of one output channel has one scale, as a tensor without channels has, whatever reads it."""

import ast
import pathlib

import pytest
from float_networks import Floats, quantize_graph, run_everywhere, samples, statistics, worst_db
from shared_files import ABSENT, SHARED

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.driver.models import open_model
from tosaic.driver.quantize import load_samples

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = SHARED / "cases"


def _other(low: Floats, x: str) -> str:
    return low.input("other", low.shape(x))


READERS = {
    "softmax": lambda low, x: statistics.softmax(low, x, [1, 2]),
    "log_softmax": lambda low, x: statistics.log_softmax(low, x, [1, 2]),
    "residual": lambda low, x: low.add(x, _other(low, x)),
    "difference from its least": lambda low, x: low.sub(x, low.reduce("MIN", x, [1, 2])),
    "maximum": lambda low, x: low.maximum(x, _other(low, x)),
    "choice": lambda low, x: low.select(low.greater(x, low.scalar(0.3, x)), x, _other(low, x)),
    "norm": lambda low, x: statistics.standardize(low, x, [1, 2], 1e-5)[0],
    "exponential": lambda low, x: low.op("EXP", low.plus(x, 40.0)),
    "logarithm": lambda low, x: low.op("LOG", low.plus(low.op("ABS", x), 0.1)),
    "reciprocal": lambda low, x: low.op("RECIPROCAL", low.plus(low.op("ABS", x), 0.5)),
    "root": lambda low, x: low.sqrt(low.plus(low.mul(x, x), 0.1)),
    "slope below zero": lambda low, x: low.select(
        low.greater_equal(x, low.scalar(0.0, x)), x, low.times(x, 0.1)
    ),
}


@pytest.mark.parametrize("activations", ["int8", "int16"])
@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_one_channel_is_quantized(reader: str, activations: str) -> None:
    low = Floats()
    weight = low.normal(1, 1, 1, 8, scale=0.3)
    x = convolution.convolve(low, low.input("x", (1, 6, 6, 8)), weight, low.normal(1), [AxisWindow(1)] * 2)
    graph = low.finish(READERS[reader](low, x))
    found = quantize_graph(graph, samples(graph), activations=activations)
    assert worst_db(found) > 25
    run_everywhere(found)


@pytest.mark.parametrize(
    "case", ["models/linear1_attention_pooling", "numerics/one_channel_exp"], ids=lambda case: case[:8]
)
def test_cases_of_one_channel(case: str) -> None:
    path, alone = (CASES / f"{case}{end}" for end in (".onnx", "_cal.npz"))
    if not path.exists():
        pytest.skip(ABSENT)
    graph = open_model(str(path))
    known = load_samples(alone) if alone.exists() else samples(graph)
    assert worst_db(quantize_graph(graph, known)) > 25


def _arrays(trees: list[ast.Module]) -> set[str]:
    """Names of the fields that classes declare as arrays."""
    classes = [each for tree in trees for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    fields = [field for each in classes for field in each.body if isinstance(field, ast.AnnAssign)]
    arrays = [field for field in fields if ast.unparse(field.annotation).startswith("np.ndarray")]
    return {ast.unparse(field.target) for field in arrays}


def test_no_array_is_taken_for_a_number() -> None:
    """`float` of an array of one element is an error since NumPy 2.4 where it has an axis; `Integers.step` is none."""
    files = [
        path for folder in ("compiler/quantizer", "driver/quantize") for path in (ROOT / folder).glob("*.py")
    ]
    trees = {path: ast.parse(path.read_text()) for path in files}
    arrays = _arrays(list(trees.values()))
    assert {"scale", "bounds", "scales", "entries"} <= arrays
    found = [
        f"{path.name}:{call.lineno}: {ast.unparse(call)}"
        for path, tree in trees.items()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ("float", "int")
        if any(isinstance(each, ast.Attribute) and each.attr in arrays for each in call.args)
    ]
    assert not found
