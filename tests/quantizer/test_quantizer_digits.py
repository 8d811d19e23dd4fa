"""Trained networks from ONNX to the accelerator: precision, agreement, and every tensor bit for bit."""

import functools
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "quantization"))
import quantized_networks as networks

from tosaic import Session
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.driver.quantize import measure, quantize_graph
from tosaic.sim.golden import evaluate

SEED, BATCH = 21, 40
EPOCHS = {"cnn": 3, "depthwise": 3, "mlp": 10, "transformer": 8}


@functools.cache
def trained(name):
    digits = networks.load_digits(SEED)
    return digits, networks.train(name, digits, SEED, EPOCHS[name])


def sqnr_db(got, wanted):
    return 10 * np.log10((wanted**2).sum() / ((got - wanted) ** 2).sum())


def network(name, *more):
    """A parameter of a test; tests of one network share a worker, which trains it once."""
    return pytest.param(name, *more, marks=pytest.mark.xdist_group(f"digits {name}"))


@pytest.fixture(autouse=True)
def one_thread():
    """Small products on busy cores: several threads of BLAS take twenty times longer."""
    with threadpool_limits(1):
        yield


@pytest.mark.parametrize(
    "stretched",
    [pytest.param(False, id="plain"), pytest.param(True, id="stretched", marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize("name", [network(name) for name in networks.DESCRIPTIONS])
def test_digits(name, stretched):
    digits, parameters = trained(name)
    if stretched:
        parameters = networks.stretched(name, parameters, SEED)
    images = digits.test_images[:240]
    wanted = networks.forward(name, parameters, images)
    graph = import_onnx(networks.export(name, parameters), {"batch": BATCH})
    quantization = quantize_graph(graph, {"images": digits.train_images[:200]})
    source, result = quantization.result.inputs["images"], quantization.result.outputs["logits"]
    logits = np.concatenate(
        [
            result.dequantize(
                evaluate(quantization.graph, {"images": source.quantize(images[i : i + BATCH])})["logits"]
            )
            for i in range(0, len(images), BATCH)
        ]
    )
    assert sqnr_db(logits, wanted) >= 30
    assert (logits.argmax(1) == wanted.argmax(1)).mean() >= 0.98
    layers = measure(quantization).layers
    assert min(layer.sqnr_db for layer in layers) >= 20


@pytest.mark.parametrize(
    ("name", "activations", "target"),
    [
        network("cnn", "int8", "emulator"),
        network("depthwise", "int8", "emulator"),
        network("mlp", "int8", "emulator"),
        network("transformer", "int8", "emulator"),
        network("transformer", "int16", "emulator"),
        network("transformer", "int8", "sim"),
    ],
)
def test_every_tensor_is_golden(name, activations, target):
    digits, parameters = trained(name)
    graph = import_onnx(networks.export(name, parameters), {"batch": 2})
    quantization = quantize_graph(graph, {"images": digits.train_images[:40]}, activations=activations)
    images = quantization.result.inputs["images"].quantize(digits.test_images[:2])
    session = Session(quantization.graph, target=target, keep_layers=True)
    session.run({"images": images}, check=True)
    assert len(session.kept) >= 3
