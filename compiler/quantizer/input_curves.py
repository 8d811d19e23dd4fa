"""Inputs with a curve: their integers stand for a logarithm or a root, and the accelerator undoes it by tables.

    x    becomes    x / bent -> x',    where x' = unbend(x / bent)

The canonical graph still takes the reals x. The integer graph begins at x / bent, whose integers enter as x. Functions
of x' are tables of these integers. A convolution reads x' in 16 bits, or where these hold too few decades as a sum,
W x' = W small + W large, of what is cut at a bound and what is left above.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from tosaic.compiler.ir import (
    CurvedEncoding,
    DType,
    EncodingCurve,
    Graph,
    GraphBuilder,
    Operator,
    Trait,
    operators_with,
)
from tosaic.compiler.ir.building import FoldingBuilder, add_constant, remove_dead, rename_tensor
from tosaic.compiler.ir.tensors import SOURCE_END
from tosaic.compiler.quantizer.canonical import MACS
from tosaic.compiler.quantizer.rewrite import Quantized

_ENOUGH = 2.0**10
"""A range this many times a logarithm's unit has steps of 3 % of the unit in 16 bits with a bit of room."""
_MOVED = operators_with(Trait.MOVES) - {"CONCAT"}
Curves = Mapping[str, EncodingCurve]


def bend_inputs(graph: Graph, curves: Curves, largest: Mapping[str, float]) -> frozenset[str]:
    """Puts curves and what undoes them behind inputs, in place. `largest` has the largest magnitude of each.

    Returns the tensors that convolutions must read in 16 bits.
    """
    fine = set[str]()
    for name, curve in curves.items():
        fine |= _Bending(graph, name, curve, largest[name]).fine
    if curves:
        remove_dead(graph)
    return frozenset(fine & graph.tensors.keys())


class _Bending:
    """One input, and the tensors that it is moved to, which are bent, too."""

    def __init__(self, graph: Graph, name: str, curve: EncodingCurve, largest: float) -> None:
        self._graph, self._curve = graph, curve
        self._new = self._builder(name)
        bent = _bent(self._new, name, curve)
        whole = _unbent(self._new, bent, curve)
        parts = [whole]
        if curve.kind == "log" and largest > _ENOUGH * curve.unit:
            bound = math.sqrt(largest * curve.unit)
            small = self._new.op("CLAMP", whole, min_val=-bound, max_val=bound, nan_mode="PROPAGATE")
            parts = [small, self._new.op("SUB", whole, small)]
        self._bent, self._whole, self._parts = {name: bent}, {name: whole}, {name: parts}
        operators = list(graph.operators)
        graph.operators = list(self._new.build.operators)
        for op in operators:
            self._replace(op)
        self.fine = set(parts)
        """What convolutions read."""

    def _builder(self, name: str) -> FoldingBuilder:
        label = f"{name}{SOURCE_END}curve"
        return FoldingBuilder(
            GraphBuilder.replacing(self._graph, Operator("IDENTITY", [name], [f"{name}/curve"], {}, label))
        )

    def _replace(self, op: Operator) -> None:
        """Adds an operator to the graph, or what takes its place."""
        graph, source = self._graph, op.inputs[0] if op.inputs else ""
        constants = op.op in MACS and all(graph.tensors[name].data is not None for name in op.inputs[1:3])
        if source in self._bent and constants:
            self._part_product(op)
            return
        if source in self._bent and op.op in _MOVED and op.outputs[0] not in graph.outputs:
            self._move(op)
            return
        for name in op.inputs:
            if name in self._bent and name not in self._whole:
                new = self._builder(name)
                self._whole[name] = _unbent(new, self._bent[name], self._curve)
                graph.operators += new.build.operators
        op.inputs = [self._whole.get(name, name) for name in op.inputs]
        graph.operators.append(op)

    def _move(self, op: Operator) -> None:
        new, (name,) = FoldingBuilder(GraphBuilder.replacing(self._graph, op)), op.outputs
        dtype = self._graph.tensors[name].dtype

        def moved(source: str) -> str:
            return new.op(op.op, source, *op.inputs[1:], dtype=dtype, **op.attributes)

        self._bent[name] = moved(self._bent[op.inputs[0]])
        self._parts[name] = [moved(part) for part in self._parts[op.inputs[0]]]
        self._graph.operators += new.build.operators

    def _part_product(self, op: Operator) -> None:
        """A convolution as a sum of convolutions of the parts of what it reads."""
        graph, parts = self._graph, self._parts[op.inputs[0]]
        if len(parts) == 1:
            op.inputs[0] = parts[0]
            graph.operators.append(op)
            return
        new, dtype, bias = (
            FoldingBuilder(GraphBuilder.replacing(graph, op)),
            graph.tensors[op.outputs[0]].dtype,
            op.inputs[2],
        )
        none = add_constant(graph, f"{bias}/none", np.zeros(graph.tensors[bias].shape), dtype)
        terms = [
            new.op(op.op, part, op.inputs[1], each, *op.inputs[3:], dtype=dtype, **op.attributes)
            for part, each in zip(parts, (bias, none), strict=True)
        ]
        new.op("ADD", *terms, output=op.outputs[0])
        graph.operators += new.build.operators


def behind_curves(graph: Graph, curves: Curves) -> Graph:
    """The graph from the bent inputs on."""
    inputs = [bent_name(name) if name in curves else name for name in graph.inputs]
    if not curves:
        return graph
    needed, operators = (
        set(graph.outputs) | {state.output for state in graph.states.values()},
        list[Operator](),
    )
    for op in reversed(graph.operators):
        if not needed.isdisjoint(op.outputs) and not set(op.outputs) & set(inputs):
            operators.append(op)
            needed.update(op.inputs)
    return dataclasses.replace(graph, inputs=inputs, operators=operators[::-1])


def with_curves(found: Quantized, curves: Curves) -> Quantized:
    """Integers whose bent inputs are called, and encoded, as what enters the model."""
    if not curves:
        return found
    names = {bent_name(name): name for name in curves}
    for bent, name in names.items():
        rename_tensor(found.graph, bent, name)
    inputs = {
        names.get(each, each): CurvedEncoding.of(encoding, curves[names[each]]) if each in names else encoding
        for each, encoding in found.inputs.items()
    }
    layers = {
        name: dataclasses.replace(part, tensor=names.get(part.tensor, part.tensor))
        for name, part in found.layers.items()
    }
    return dataclasses.replace(found, inputs=inputs, layers=layers)


def bent_name(name: str) -> str:
    """What the bent numbers of an input are called."""
    return f"{name}/bent"


def _bent(new: FoldingBuilder, x: str, curve: EncodingCurve) -> str:
    size = new.op("ABS", x)
    if curve.kind == "log":
        size = new.op("LOG", _plus(new, _times(new, size, 1 / curve.unit), 1.0))
    else:
        size = new.op("POW", size, _number(new, x, 0.5))
    return _signed(new, x, size, bent_name(x))


def _unbent(new: FoldingBuilder, bent: str, curve: EncodingCurve) -> str:
    size = new.op("ABS", bent)
    if curve.kind == "log":
        size = _times(new, _plus(new, new.op("EXP", size), -1.0), curve.unit)
    else:
        size = new.op("MUL", size, size, new.constant([0], DType.INT8))
    return _signed(new, bent, size, None)


def _signed(new: FoldingBuilder, x: str, size: str, output: str | None) -> str:
    """A size with the sign of x."""
    return new.op(
        "SELECT", new.op("GREATER", _number(new, x, 0.0), x), _times(new, size, -1.0), size, output=output
    )


def _number(new: FoldingBuilder, x: str, value: float) -> str:
    return new.constant(np.full((1,) * new.rank(x), value), new.dtype(x))


def _plus(new: FoldingBuilder, x: str, value: float) -> str:
    return new.op("ADD", x, _number(new, x, value))


def _times(new: FoldingBuilder, x: str, value: float) -> str:
    return new.op("MUL", x, _number(new, x, value), new.constant([0], DType.INT8))
