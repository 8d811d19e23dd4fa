"""What keeps an output far from its floats is named, and the setting that is told with it helps."""

import re
import warnings

import numpy as np
import pytest
from float_networks import Floats, samples

from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.quantize import Quantization, measure, quantize_graph
from tosaic.driver.quantize.limits import warn_of_limits
from tosaic.errors import ModelWarning


def _coarse(low: Floats, x: str) -> str:
    """A product that reads x^5, of which a tanh tells the small values: of 8 bits in equal steps nothing is left."""
    square = low.mul(x, x)
    power = low.mul(low.mul(square, square), x)
    return low.op("TANH", matmul(low, power, low.constant(np.eye(16), DType.FP32)))


def _one(low: Floats) -> Graph:
    return low.finish(_coarse(low, low.input("x", (1, 32, 16))))


def _two(low: Floats) -> Graph:
    x = low.input("x", (1, 32, 16))
    return low.finish(low.add(_coarse(low, x), _coarse(low, low.times(x, 0.9))))


def _outputs(found: Quantization) -> dict[str, float]:
    return {each.name: each.sqnr_db for each in measure(found).outputs}


def _told(found: Quantization, decibels: dict[str, float]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_limits(found, decibels, found.samples)
    return [str(each.message) for each in caught if each.category is ModelWarning]


@pytest.mark.parametrize(
    ("network", "setting"), [(_one, r"--keep-int16 [\"']([\w']+)[\"']"), (_two, r"--activations (int16)")]
)
def test_the_operator_that_limits_an_output_is_named_with_what_helps(network, setting):
    graph = network(Floats())
    arrays = samples(graph, 16)
    found = quantize_graph(graph, arrays)
    ((output, before),) = _outputs(found).items()
    assert before < 20
    (text,) = _told(found, {output: before})
    wanted = (
        rf"output '{output}' has {before:.1f} dB: most of its noise comes in at '\w+' \([A-Z0-9]+ of tensor "
        rf"\"?'?[\w']+\"?\); with {setting} it has ([\d.]+) dB"
    )
    said = re.fullmatch(wanted, text)
    assert said is not None, text
    option: dict = {"keep_int16": [said[1]]} if "keep" in setting else {"activations": said[1]}
    better = _outputs(quantize_graph(graph, arrays, **option))[output]
    assert better >= 20 and better == pytest.approx(float(said[2]), abs=1.5)


def test_an_output_that_is_near_its_floats_is_no_matter():
    low = Floats()
    graph = low.finish(matmul(low, low.input("x", (1, 32, 16)), low.normal(16, 4)))
    found = quantize_graph(graph, samples(graph, 16))
    assert _told(found, _outputs(found)) == []
