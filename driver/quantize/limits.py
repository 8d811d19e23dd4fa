"""What keeps an output far from its floats: an input whose encoding alone is too coarse, or the operator behind which
most of the noise is, and the setting that helps, which is tried before it is told."""

import dataclasses
import itertools
import warnings
from collections.abc import Iterator, Mapping

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.quantizer.canonical import PRODUCTS
from tosaic.compiler.quantizer.plan import MOVES
from tosaic.errors import ModelWarning
from tosaic.sim.golden import evaluate

from .input_curves import choose_curves, rounded_alone
from .measurement import measure
from .mixed_precision import all_weights, named, results
from .prepared import ACTIVATIONS, Quantization
from .samples import Samples

LEAST_DB = {DType.INT8: 20.0, DType.INT16: 35.0}
"""An output below this is looked into, by the type of the activations."""
_TRIED = 8
"""Samples that are looked at."""


def warn_of_limits(found: Quantization, sqnr_db: Mapping[str, float], samples: Samples) -> None:
    """ModelWarning for each output below LEAST_DB, with what limits it. `sqnr_db` has what was measured of each."""
    least = LEAST_DB[ACTIVATIONS[found.prepared.activations]]
    chosen = samples[:_TRIED]
    for output in found.result.outputs:
        measured = sqnr_db.get(output, np.inf)
        if measured < least:
            text = _limit_of_inputs(found, output, chosen, least) or _limit_inside(
                found, output, chosen, least
            )
            warnings.warn(f"output {output!r} has {measured:.1f} dB: {text}", ModelWarning, stacklevel=3)


def _limit_of_inputs(found: Quantization, output: str, samples: Samples, least: float) -> str:
    """Names the input whose rounding alone keeps an output low in a model of floats; nothing where none does."""
    source, result = found.source, found.result
    wanted = [evaluate(source, sample) for sample in samples]
    limits = {
        name: rounded_alone(source, samples, wanted, name, encoding)[output]
        for name, encoding in result.inputs.items()
    }
    name = min(limits, key=lambda each: limits[each], default="")
    if not name or limits[name] >= least:
        return ""
    text = (
        f"the {result.inputs[name].dtype.bits} bits of input {name!r} alone limit it to {limits[name]:.1f} dB"
    )
    if name not in found.prepared.curves and name in choose_curves(
        source, samples, "auto", result.inputs[name].dtype
    ):
        return f"{text}; leave --input-curve none out"
    for setting, again in _settings(found, [name]):
        reached = _measured(again, output, samples)
        if reached >= least:
            return f"{text}; with {setting} it has {reached:.1f} dB"
    return (
        f"{text}, and 16 bits are not enough; give it more even values: their logarithm or root, made before"
    )


def _limit_inside(found: Quantization, output: str, samples: Samples, least: float) -> str:
    """Names the operator with which most of the noise comes in, and what was tried with success."""
    graph = found.canonical
    name = _noisiest(found, output, samples)
    op = graph.producer(name)
    shown = name if op is None else op.source or name
    kind = "an input" if op is None else f"{op.op} of tensor {name!r}"
    text = f"most of its noise comes in at {shown!r} ({kind})"
    best = -np.inf
    outputs = found.finer | results(graph)
    tries = [("--outputs int16", found.prepared.quantization(outputs))] if name == output else []
    for setting, again in itertools.chain(tries, _settings(found, _layers_at(graph, name))):
        reached = _measured(again, output, samples)
        best = max(best, reached)
        if reached >= least:
            return f"{text}; with {setting} it has {reached:.1f} dB"
    return f"{text}, and 16 bits everywhere give it {best:.1f} dB: the model makes much of small differences there"


def _settings(found: Quantization, layers: list[str]) -> Iterator[tuple[str, Quantization]]:
    """Settings in the order of what they cost, and what they make of the model; `layers` may have 16 bits alone."""
    prepared, graph = found.prepared, found.canonical
    if layers:
        options = " ".join(f"--keep-int16 {layer!r}" for layer in layers)
        yield options, prepared.quantization(found.finer | named(graph, layers))
    wide = dataclasses.replace(prepared, activations="int16")
    if prepared.activations != "int16":
        yield "--activations int16", wide.quantization(found.finer)
    yield "--activations int16 --weights int16", wide.quantization(found.finer | all_weights(graph))


def _layers_at(graph: Graph, name: str) -> list[str]:
    """The product that makes a tensor, or else those that read it, as `named` takes them."""
    op, pending, found = graph.producer(name), [name], dict[str, None]()
    if op is not None and op.op in PRODUCTS:
        return [op.source or name]
    while pending:
        for reader in graph.consumers(pending.pop()):
            if reader.op in PRODUCTS:
                found[reader.source or reader.outputs[0]] = None
            elif reader.op in MOVES:
                pending += reader.outputs
    return list(found)


def _measured(found: Quantization, output: str, samples: Samples) -> float:
    """The SQNR of one output."""
    outputs = measure(dataclasses.replace(found, samples=samples)).outputs
    return next(each.sqnr_db for each in outputs if each.name == output)


def _noisiest(found: Quantization, output: str, samples: Samples) -> str:
    """The tensor whose integers bring most of the noise. The first tensors of the model are those that integers gave,
    the others are computed from them in floats: halving finds where one more adds much."""
    graph, result = found.canonical, found.result
    names = [
        *result.inputs,
        *(name for op in graph.operators for name in op.outputs if name in result.layers),
    ]
    runs = [_both(found, sample) for sample in samples]

    def noise(count: int) -> float:
        total = 0.0
        for floats, integers in runs:
            kept = {name: integers[name] for name in names[:count]}
            error = _from(graph, output, kept, floats) - floats[output].astype(np.float64)
            total += float((error * error).sum())
        return total

    low, high = 0, len(names)
    at_low, at_high = 0.0, noise(high)
    while high - low > 1:
        middle = (low + high) // 2
        at_middle = noise(middle)
        if at_middle - at_low >= at_high - at_middle:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return names[low]


def _both(
    found: Quantization, sample: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Tensors of a sample in floats, and as their integers stand for them."""
    graph, result = found.canonical, found.result
    floats = {**sample, **evaluate(graph, dict(sample), keep=True)}
    encoded = {
        name: result.inputs[name].quantize(value) if name in result.inputs else value
        for name, value in sample.items()
    }
    integers = {**encoded, **evaluate(result.graph, encoded, keep=True)}
    reals = {name: encoding.dequantize(integers[name]) for name, encoding in result.inputs.items()}
    for name, part in result.layers.items():
        if part.tensor in integers:
            reals[name] = part.reals(integers[part.tensor]).reshape(floats[name].shape)
    return floats, {name: reals.get(name, value).astype(value.dtype) for name, value in floats.items()}


def _from(
    graph: Graph, output: str, known: Mapping[str, np.ndarray], floats: Mapping[str, np.ndarray]
) -> np.ndarray:
    """An output computed in floats from tensors that are known; what they do not lead to is as it was."""
    if output in known:
        return known[output].astype(np.float64)
    needed, operators, sources = {output}, list[Operator](), dict[str, np.ndarray]()
    for op in reversed(graph.operators):
        if needed.isdisjoint(op.outputs) or all(name in known for name in op.outputs):
            continue
        operators.append(op)
        needed.update(op.inputs)
    made = {name for op in operators for name in op.outputs} - known.keys()
    for name in needed - made:
        if name in known or graph.tensors[name].data is None:
            sources[name] = known[name] if name in known else floats[name]
    part = Graph(graph.name, list(sources), [output], graph.tensors, operators[::-1])
    return evaluate(part, sources)[output].astype(np.float64)
