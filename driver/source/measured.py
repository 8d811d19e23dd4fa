"""What `tosaic quantize` ends with: its integers against the network, on the samples that it measured on."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.quantizer import Quantized
from tosaic.driver.arguments import NodeArg, argument
from tosaic.driver.digests import digest_of
from tosaic.driver.quantize.measurement import Measurement
from tosaic.driver.quantize.prepared import Quantization
from tosaic.errors import Error
from tosaic.sim.golden import evaluate

from .agreement import Agreement, Limits
from .float_models import float_model
from .networks import SourceNetwork, layers_of
from .notes import LayerNote, SourceNote

_SAME = 1e-3
"""Share of a tensor's largest element by which the quantizer's form of a network and the network's own may differ."""


def outputs_of(result: Quantized) -> list[NodeArg]:
    """The outputs of the integers, with their encodings."""
    return [argument(result.graph.tensors[name], result.outputs) for name in result.graph.run_outputs]


def agreement_with(source: Any, bound: Bindings, found: Quantization, measured: Measurement) -> Agreement:
    """Returns the agreement of the integers with the network, in its own framework where that runs it, else
    on golden.
    """
    outputs, remembers = outputs_of(found.result), bool(found.graph.states)
    try:
        return _agreement(
            SourceNetwork(*float_model(source, bound, remembers=remembers), Limits()), outputs, measured
        )
    except Error:
        # The framework does not take what the importer takes.
        return _agreement(SourceNetwork(*float_model(found.source), Limits()), outputs, measured)


def _agreement(network: SourceNetwork, outputs: list[NodeArg], measured: Measurement) -> Agreement:
    agreement = network.agreement(outputs)
    for given, integers in measured.runs:
        agreement.add(outputs, network.outputs_for(given, outputs), integers)
    told = [each for each in (*measured.layers, *measured.outputs) if each.signal > 0]
    if told:
        worst = min(told, key=lambda each: each.sqnr_db)
        agreement.worst = worst.shown, worst.sqnr_db
    return agreement


def note_of(
    source: str | pathlib.Path,
    bound: Bindings,
    found: Quantization,
    measured: Measurement,
    agreement: Agreement,
) -> SourceNote:
    """What is written beside the integers of a file."""
    path = pathlib.Path(source)
    shown = {each.name: each.shown for each in (*measured.layers, *measured.outputs)}
    return SourceNote(
        path,
        digest_of(path),
        bound,
        measured.told_samples,
        {each.name: each.note for each in agreement.outputs},
        comparable_layers(found, measured.runs[0][0], shown),
    )


def comparable_layers(
    found: Quantization, sample: Mapping[str, np.ndarray], shown: Mapping[str, str]
) -> dict[str, LayerNote]:
    """The tensors that the network itself has with the same values: not those of masks that were softened."""
    own, canonical = (evaluate(graph, dict(sample), keep=True) for graph in (found.source, found.canonical))
    found_layers = layers_of(found.result, shown)
    return {
        name: layer
        for name, layer in found_layers.items()
        if name in own and name in canonical and _same(own[name], canonical[name])
    }


def _same(wanted: np.ndarray, got: np.ndarray) -> bool:
    if wanted.shape != got.shape or not np.all(np.isfinite(wanted)):
        return False
    return bool(np.abs(wanted - got).max(initial=0) <= _SAME * np.abs(wanted).max(initial=0))
