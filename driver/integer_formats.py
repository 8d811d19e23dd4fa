"""Formats whose models may bring their own integers: each has an entry point, as its importer has."""

import pathlib
from collections.abc import Callable

import numpy as np

from tosaic.compiler.importers.bindings import Bindings, Bound, bind_values
from tosaic.compiler.ir import Encoding, Graph
from tosaic.driver.encodings import Encodings, parse_encodings
from tosaic.plugins import load_plugin, plugins

GROUP = "tosaic.integer_formats"
"""Entry points: the name is a suffix, the value a function (path, bound). It returns the integers that a model brings,
with the encodings of inputs and outputs; None for a model that brings none. It raises UnsupportedError for one that has
encodings, but no integers as it is: then its floats are taken."""


def open_integers(path: pathlib.Path, bound: Bound) -> tuple[Graph, Encodings] | None:
    """The integers of a model that brings its encodings; None for any other model."""
    if path.suffix not in plugins(GROUP) or not path.is_file():
        return None
    return load_plugin(GROUP, path.suffix, Callable)(path, Bindings.of(bound))


def open_nnr(path: pathlib.Path, bound: Bindings) -> tuple[Graph, Encodings] | None:
    """Reads an NNR bitstream: the TOSA graph that it carries with scales."""
    from tosaic.compiler.importers.nnr_models import import_nnr_integers

    carried = import_nnr_integers(path)
    return (carried[0], parse_encodings(carried[1], str(path))) if carried else None


def open_tflite(path: pathlib.Path, bound: Bindings) -> tuple[Graph, Encodings]:
    """Reads a TFLite model: what is between QUANTIZE and DEQUANTIZE."""
    from tosaic.compiler.importers.tflite import import_tflite_integers

    graph, held = import_tflite_integers(path, bound.sizes)
    encodings = {name: Encoding(*encoding) for name, encoding in held.items()}
    integers = {
        name: encodings[name].quantize(np.asarray(value, np.float32)) if name in encodings else value
        for name, value in bound.values.items()
    }
    bind_values(graph, integers)
    return graph, encodings


def open_torch(path: pathlib.Path, bound: Bindings) -> tuple[Graph, Encodings] | None:
    """Reads a PyTorch program: what is between PT2E's pairs."""
    from tosaic.driver.quantize.torch_modules import import_quantized

    found = import_quantized(path)
    return (found.graph, {**found.inputs, **found.outputs}) if found else None


def open_onnx(path: pathlib.Path, bound: Bindings) -> tuple[Graph, Encodings] | None:
    """Reads an ONNX model: what is between QuantizeLinear and DequantizeLinear."""
    from tosaic.driver.quantize.kept_models import open_encoded

    return open_encoded(path, bound)
