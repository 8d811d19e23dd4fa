"""Imports an NNEF model as a TOSA graph, operation by operation."""

import itertools
import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.allowance import Allowance, TooLargeError
from tosaic.compiler.importers.lowering.layout_pass import cancel_transposes
from tosaic.compiler.importers.nnef.bit_stream import packed_bytes
from tosaic.compiler.importers.nnef.graph import NnefOperation, TensorValue, tensors_in
from tosaic.compiler.importers.nnef.model import NnefModel, load_model
from tosaic.compiler.importers.nnef.quantization_file import QuantizationEntry
from tosaic.compiler.importers.nnef.standard_library import compound_operations
from tosaic.compiler.importers.nnef.tosa import (
    convolution,
    elementwise,
    pooling,
    quantization,
    reductions,
    regions,
    resampling,
    shaping,
)
from tosaic.compiler.importers.nnef.tosa.node import MAX_NUMBER, MAX_RANK, STORAGE, NnefNode, constant
from tosaic.compiler.importers.nnef.tosa.registry import HANDLERS
from tosaic.compiler.importers.survey import Survey
from tosaic.compiler.ir import Graph, State, validate
from tosaic.compiler.ir.tensors import name_after
from tosaic.errors import InputError, ModelError, UnsupportedError

_HANDLER_MODULES = (
    convolution,
    elementwise,
    pooling,
    quantization,
    reductions,
    regions,
    resampling,
    shaping,
)
WHOLE = compound_operations() & set(HANDLERS)
"""Compounds that are lowered as they stand."""

FOLDED_ELEMENTS = 1 << 16
"""A constant of one repeated value with more elements is repeated at run time."""


def import_nnef(
    path: str | pathlib.Path,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    survey: Survey | None = None,
) -> Graph:
    """The TOSA graph of an NNEF model: a folder, its graph.nnef, or a tar archive.

    scalar is fp32, integer int32, logical bool. `shapes` replaces the shapes of inputs, by identifier. A variable
    that is updated is an input `LABEL.state` and an output `LABEL.next`, in the graph's `states`. `survey` is told of
    every operation of the document. Raises InputError, ModelError (an NnefError for what the text forbids) or
    UnsupportedError.
    """
    return NnefImporter(
        load_model(pathlib.Path(path), whole=WHOLE, shapes=_whole_shapes(shapes)), survey
    ).run()


def _whole_shapes(shapes: Mapping[str, int | Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    found = {}
    for name, sizes in (shapes or {}).items():
        if isinstance(sizes, int):
            raise InputError(
                f"--shape {name}={sizes}: NNEF has no open dimensions; give an input its whole shape, "
                f"such as {name}={sizes},3,224,224"
            )
        found[name] = tuple(int(size) for size in sizes)
    return found


class NnefImporter:
    """The state of one import, which uses up the model's data: the graph under construction, and its tensors."""

    def __init__(self, model: NnefModel, survey: Survey | None = None) -> None:
        self.model, self.survey = model, survey or Survey()
        self.allowance = Allowance(model.file_bytes)
        self.low = Lowering(model.graph.name, self.allowance)
        self.tensors: dict[int, str] = {}
        self.variables: dict[str, str] = {}
        self.names: dict[int, list[str]] = {}
        for name, tensor in model.graph.tensors.items():
            self.names.setdefault(id(tensor), []).append(name)
        # Inputs and outputs that carry an updated variable from run to run, by label in lower case.
        self.states: dict[str, str] = {}
        self.next: list[tuple[str, str]] = []
        self.initial: dict[str, np.ndarray] = {}

    def run(self) -> Graph:
        """The finished TOSA graph; of a survey that met operations without a TOSA form, the unfinished one."""
        operations = self.model.graph.operations
        updated = {_label(o.arguments["variable"]) for o in operations if o.name == "update"}
        # Inputs come first: their names must not be taken.
        for operation in operations:
            if operation.name == "external":
                self._surveyed([operation])
        self._state_inputs(updated)
        for _, group in itertools.groupby(operations, key=lambda o: id(o.origin)):
            rest = [operation for operation in group if operation.name != "external"]
            if rest:
                self._surveyed(rest)
        if not self.survey.complete:
            return self.low.graph
        tensors = self.model.graph.tensors
        outputs = [(name, self.tensors[id(tensors[name])]) for name in self.model.graph.outputs]
        result = cancel_transposes(self.low.graph, outputs + self.next)
        result.states = {
            self.states[label]: State(f"{self._spelling(label)}.next", initial)
            for label, initial in self.initial.items()
        }
        validate(result)
        return result

    # --- survey ---------------------------------------------------------------------------------------------

    def _surveyed(self, group: Sequence[NnefOperation]) -> None:
        """The operations of one invocation in the document."""
        origin, first = group[0].origin, len(self.low.graph.operators)
        try:
            for operation in group:
                self._lower(operation)
        except UnsupportedError as error:
            self.survey.refused(origin.name, origin.target, error)
            for tensor in itertools.chain.from_iterable(o.tensors() for o in group):
                if id(tensor) not in self.tensors and tensor.data in STORAGE:
                    self.tensors[id(tensor)] = self.low.build.input(
                        f"{tensor.name}/placeholder_{len(self.tensors)}", tensor.shape, STORAGE[tensor.data]
                    )
            return
        made = self.low.graph.operators[first:]
        name_after(origin.target, made)
        self.survey.lowered(origin.name, origin.target, made)

    # --- operations -----------------------------------------------------------------------------------------

    def _lower(self, operation: NnefOperation) -> None:
        node = NnefNode(self.low, operation, self.tensors)
        results = operation.tensors()
        self._check(node, results)
        try:
            if operation.name == "external":
                held = [
                    self.low.build.input(
                        self._input_name(results[0]), results[0].shape, STORAGE[results[0].data]
                    )
                ]
            elif operation.name == "constant":
                held = [self._constant(node)]
            elif operation.name == "variable":
                held = [self._variable(node)]
            else:
                made = HANDLERS[operation.name](node)
                held = [made] if isinstance(made, str) else made
        except TooLargeError as error:
            raise UnsupportedError(f"{node}: {error}") from None
        except ModelError as error:
            node.unsupported(f"it has no TOSA form here: {error}", "change its shapes")
        for result, name in zip(results, held, strict=True):
            assert self.low.shape(name) == result.shape, (str(node), self.low.shape(name), result.shape)
            self.tensors[id(result)] = self._quantized(result, name)
        if operation.name == "update":
            variable = operation.arguments["variable"]
            assert isinstance(variable, TensorValue)
            # The value as it is handed over: what graph.quant says of the result is not for the variable.
            self.next.append((f"{self._spelling(_label(variable))}.next", held[0]))

    def _check(self, node: NnefNode, results: Sequence[TensorValue]) -> None:
        for tensor in (*tensors_in(node.operation.arguments), *results):
            if tensor.data not in STORAGE:
                node.unsupported(f"TOSA has no tensor<{tensor.data}>", "remove it from the graph")
            if len(tensor.shape) > MAX_RANK:
                node.unsupported(
                    f"{tensor!r} has rank {len(tensor.shape)}; TOSA's tensors have {MAX_RANK} dimensions at most",
                    "join dimensions",
                )
            if math.prod(tensor.shape) > MAX_NUMBER:
                node.unsupported(f"{tensor!r} has more than {MAX_NUMBER} elements", "use smaller extents")

    def _input_name(self, tensor: TensorValue) -> str:
        names = self.names[id(tensor)]
        return next(name for name in names if name in self.model.graph.inputs)

    def _constant(self, node: NnefNode) -> str:
        shape, dtype = node.result.shape, STORAGE[node.result.data]
        values = np.array(node["value"])
        if values.size == 1 and math.prod(shape) > FOLDED_ELEMENTS:
            one = constant(node, values.reshape((1,) * len(shape)), dtype)
            return self.low.build.add("TILE", [one, self.low.build.shape(shape)])
        return constant(node, np.broadcast_to(values.reshape(shape if values.size > 1 else ()), shape), dtype)

    def _variable(self, node: NnefNode) -> str:
        label = _label(node.result)
        if label not in self.variables:
            found, dtype = self.model.data[label], STORAGE[node.result.data]
            self.allowance.decoded(found.values, packed_bytes(found.values.size, found.encoding.bits))
            stored = constant(node, found.values, dtype)
            # What is held here is not held in the model too.
            del self.model.data[label]
            initial = self.low.data(stored)
            assert initial is not None
            if label in self.states:
                self.initial[label] = initial
            self.variables[label] = self.states.get(label, stored)
        return self.variables[label]

    def _state_inputs(self, labels: set[str]) -> None:
        for label in sorted(labels):
            variable = self.model.graph.variables[label][0]
            name = f"{self._spelling(label)}.state"
            self.states[label] = self.low.build.input(name, variable.shape, STORAGE[variable.data])

    def _spelling(self, label: str) -> str:
        """A label as the document first writes it."""
        producer = self.model.graph.variables[label][0].producer
        assert producer is not None
        return str(producer.arguments["label"])

    def _check_range(self, name: str, entry: QuantizationEntry) -> None:
        low, high = entry.parameters.get("min", 0.0), entry.parameters["max"]
        assert isinstance(low, float) and isinstance(high, float)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UnsupportedError(
                f"{entry.position}: {name!r} is quantized from {low} to {high}; give it a range that goes up"
            )

    def _quantized(self, tensor: TensorValue, held: str) -> str:
        """The tensor after what `graph.quant` says of it (7.1)."""
        for name in self.names.get(id(tensor), []):
            entry = self.model.quantization.get(name)
            if entry is not None:
                if tensor.data != "scalar":
                    raise UnsupportedError(
                        f"{entry.position}: {name!r} is a tensor<{tensor.data}>; only scalars can be quantized"
                    )
                self._check_range(name, entry)
                numbers = {k: float(v) for k, v in entry.parameters.items() if isinstance(v, int | float)}
                bits = int(numbers.pop("bits"))
                held = quantization.quantized(self.low, held, entry.algorithm, numbers, bits)
        return held


def _label(value: object) -> str:
    """The label of a variable in lower case, as labels are compared."""
    assert isinstance(value, TensorValue) and value.producer is not None
    return str(value.producer.arguments["label"]).lower()
