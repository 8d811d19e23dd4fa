"""A PyTorch module's integers against the module."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers.torch_models.onnx_road import onnx_of
from tosaic.compiler.importers.torch_models.program import inputs_of
from tosaic.driver.quantize.limits import warn_of_limits
from tosaic.driver.quantize.torch_modules import QuantizedModule
from tosaic.errors import ModelWarning
from tosaic.sim.golden import evaluate

from .agreement import Agreement, Limits
from .float_models import on_golden, torch_model
from .measured import comparable_layers, outputs_of
from .networks import Inside, SourceNetwork, layers_of
from .pairs import quantized_pairs

_MEASURED = 8
"""Calibration samples that a new session is compared on."""


def module_network(name: str, found: QuantizedModule) -> SourceNetwork:
    """The module, as what its integers are compared with."""
    return SourceNetwork(
        f"{name} (torch)", torch_model(found.program), Limits(steps=found.brought), lambda: _inside(found)
    )


def _inside(found: QuantizedModule) -> Inside:
    if found.brought:
        pairs = quantized_pairs(onnx_of(found.program))
        return (None, {}) if pairs is None else (pairs[0], layers_of(*pairs[1:]))
    made = found.quantization
    if made is None:
        return None, {}
    shown = {name: op.source for op in made.canonical.operators if op.source for name in op.outputs}
    return on_golden(made.source, keep=True), comparable_layers(made, made.samples[0], shown)


def measured_module(network: SourceNetwork, found: QuantizedModule) -> tuple[SourceNetwork, Agreement | None]:
    """How near golden's integers are to the module on a few samples, and the network that asks for as much from then
    on. A ModelWarning tells where that is too little; None without samples."""
    names = [port.name for port in inputs_of(found.program)]
    outputs, graph = outputs_of(found.result), found.result.graph
    agreement = network.agreement(outputs)
    given: list[Mapping[str, np.ndarray]] = []
    for sample in found.samples[:_MEASURED]:
        given.append(dict(zip(names, sample, strict=True)))
        values = _entered(found, given[-1])
        agreement.add(outputs, network.outputs_for(given[-1], outputs), evaluate(graph, values))
        # Of a module that brought its integers this takes an export, which waits until somebody asks.
        if agreement.worst is None and not found.brought:
            agreement.worst = network.worst(graph, given[-1], values)
    if not given:
        return network, None
    problem = agreement.problem(network.limits)
    if problem is not None:
        warnings.warn(f"the integers are not near the module's floats: {problem}", ModelWarning, stacklevel=3)
    if found.quantization is not None:
        chosen = found.quantization.samples[:_MEASURED]
        warn_of_limits(found.quantization, {each.name: each.sqnr_db for each in agreement.outputs}, chosen)
    noted = {each.name: each.note for each in agreement.outputs}
    return dataclasses.replace(network, limits=dataclasses.replace(network.limits, noted=noted)), agreement


def _entered(found: QuantizedModule, given: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What golden's integers get for reals."""
    graph, encodings = found.result.graph, found.result.inputs
    return {
        name: encodings[name].quantize(given[name])
        if name in encodings
        else given[name].astype(graph.tensors[name].dtype.numpy)
        for name in graph.inputs
    }
