"""A canonical float graph and its plan to an integer graph."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import Graph, Operator, State, Tensor, Trait, data_inputs, operators_with, validate
from tosaic.compiler.ir.building import fresh_name, remove_dead, rename_tensor
from tosaic.compiler.ir.topology import sort_operators
from tosaic.compiler.quantizer import (  # noqa: F401  (register lowerings)
    arithmetic,
    comparisons,
    curves,
    images,
    moves,
    products,
)
from tosaic.compiler.quantizer.emission import Emission
from tosaic.compiler.quantizer.encoding import Encoding
from tosaic.compiler.quantizer.functions import COMPARISONS, is_real
from tosaic.compiler.quantizer.plan import MOVES, Plan
from tosaic.errors import UnsupportedError

_SATURATING = MOVES | COMPARISONS | operators_with(Trait.BOUNDS)


@dataclass(frozen=True)
class Counterpart:
    """The integers that stand for a float tensor: real = scale * (q - zero_point)."""

    tensor: str
    scale: np.ndarray
    zero_point: int
    low: float
    high: float

    def reals(self, values: np.ndarray) -> np.ndarray:
        """The reals that a tensor's integers stand for."""
        return np.clip((values.astype(np.float64) - self.zero_point) * self.scale, self.low, self.high)


@dataclass
class Quantized:
    """An integer graph; the encodings of its inputs and outputs; what stands for which float tensor."""

    graph: Graph
    inputs: dict[str, Encoding]
    outputs: dict[str, Encoding]
    layers: dict[str, Counterpart]


def rewrite(plan: Plan) -> Quantized:
    """The integer graph. UnsupportedError names the operator and tensor that have no integer form."""
    source = plan.graph
    if source.subgraphs:
        raise UnsupportedError(
            f"graph {source.name!r}: control flow is not quantized; import the branches as graphs of their own"
        )
    refuse_nan(source)
    refuse_infinite(source)
    emission = Emission(plan)
    for name in source.inputs:
        # First of all: no tensor that is made later may take their names.
        if is_real(source, name):
            emission.natural(name)
        else:
            emission.plain(name)
    needed = _needed(plan)
    layers: dict[str, Counterpart] = {}
    index = source.index()
    for op in source.operators:
        for name in op.outputs:
            if name not in needed or not is_real(source, name) or op.op in MOVES:
                continue
            readers = index.consumers(name)
            if readers and all(reader.op == "CUSTOM" for reader in readers):
                continue  # rounded at once to the encoding that the model brings
            with emission.named_after(name):
                found = emission.wide(name)
            layers[name] = Counterpart(found.tensor, found.scale, found.zero_point, found.low, found.high)
    outputs: dict[str, Encoding] = {}
    results: list[tuple[str, str]] = []
    # What is left for the next run is in the integers that it will read.
    left = {state.output: name for name, state in source.states.items()}
    for name in source.outputs:
        if is_real(source, name):
            outputs[name] = plan.encoding(left.get(name, name))
            results.append((name, emission.request(name, outputs[name])))
            if name not in layers or layers[name].tensor != results[-1][1]:
                held = emission.held(results[-1][1], outputs[name])
                layers[name] = Counterpart(held.tensor, held.scale, held.zero_point, held.low, held.high)
        else:
            results.append((name, emission.plain(name)))
    graph = emission.low.graph
    inputs = {name: plan.encoding(name) for name in source.inputs if is_real(source, name)}
    graph.labels = dict(source.labels)
    graph.states = {
        name: State(
            state.output, inputs[name].quantize(state.initial) if name in inputs else np.array(state.initial)
        )
        for name, state in source.states.items()
    }
    _name_outputs(graph, results, layers)
    remove_dead(graph)
    sort_operators(graph)
    validate(graph)
    layers = {name: part for name, part in layers.items() if part.tensor in graph.tensors}
    return Quantized(graph, inputs, outputs, layers)


def refuse_nan(graph: Graph) -> None:
    """Raises UnsupportedError for a constant with NaN: no integer stands for it."""
    for op, tensor, values in _real_constants(graph):
        if np.any(np.isnan(values)):
            raise UnsupportedError(
                f"{op} (tensor {tensor}): the constant holds NaN, which is no number; give the model other weights"
            )


def refuse_infinite(graph: Graph) -> None:
    """Infinite bounds, and what is only moved, saturate; elsewhere nothing stands for them."""
    for op, tensor, values in _real_constants(graph):
        if op.op not in _SATURATING and np.any(np.isinf(values)):
            raise UnsupportedError(
                f"{op} (tensor {tensor}): the constant is infinite, which no integer is; give a finite number"
            )


def _real_constants(graph: Graph) -> Iterator[tuple[Operator, Tensor, np.ndarray]]:
    for op in graph.operators:
        for tensor in (graph.tensors[name] for name in op.inputs):
            if tensor.data is not None and tensor.data.dtype.kind == "f":
                yield op, tensor, tensor.data


def _needed(plan: Plan) -> set[str]:
    """The tensors that integers are emitted for: those inside of a function of one variable are not."""
    needed = set(plan.graph.outputs)
    for op in reversed(plan.graph.operators):
        for name in op.outputs:
            if name not in needed:
                continue
            if plan.functions.is_table(name):
                needed.add(plan.functions.root(name))
            else:
                needed.update(data_inputs(op))
    return needed


def _name_outputs(graph: Graph, results: list[tuple[str, str]], layers: dict[str, Counterpart]) -> None:
    """Gives the outputs their names: by renaming, or where a tensor is an input or a second output, by IDENTITY."""
    names: dict[str, str] = {}
    for name, tensor in results:
        if name in graph.tensors and name != tensor:
            _rename(graph, name, fresh_name(graph, f"{name}/inner"), layers)
        tensor = names.get(tensor, tensor)
        if tensor == name:
            graph.outputs.append(name)
            continue
        found = graph.tensors[tensor]
        if tensor in graph.inputs or tensor in graph.outputs or found.data is not None:
            graph.tensors[name] = Tensor(name, found.shape, found.dtype)
            graph.operators.append(Operator("IDENTITY", [tensor], [name], {}, _operator_name(graph, name)))
        else:
            _rename(graph, tensor, name, layers)
            names[tensor] = name
        graph.outputs.append(name)


def _operator_name(graph: Graph, output: str) -> str:
    return f"{output}/IDENTITY_{len(graph.operators)}"


def _rename(graph: Graph, old: str, new: str, layers: dict[str, Counterpart]) -> None:
    rename_tensor(graph, old, new)
    for key, part in layers.items():
        if part.tensor == old:
            layers[key] = Counterpart(new, part.scale, part.zero_point, part.low, part.high)
