"""Imports a checked ONNX model as a TOSA graph, node by node."""

import math
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.bindings import Bound
from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.allowance import Allowance, TooLargeError
from tosaic.compiler.importers.lowering.layout_pass import cancel_transposes
from tosaic.compiler.importers.lowering.rescaling import unsigned_bits
from tosaic.compiler.importers.onnx_models import (
    attention,
    elementwise,
    fourier,
    images,
    layout,
    matrices,
    microsoft_attention,
    microsoft_layers,
    microsoft_weights,
    quantized,
    recurrent,
    reductions,
    resizing,
    scatters,
)
from tosaic.compiler.importers.onnx_models.functions import expand
from tosaic.compiler.importers.onnx_models.loops import Unroller
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.opsets import (
    DEFAULT_DOMAINS,
    operator_name,
    opset_of,
    opset_of_node,
)
from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.compiler.importers.onnx_models.placeholders import result_types
from tosaic.compiler.importers.onnx_models.quantized_pairs import as_marker, check_scale
from tosaic.compiler.importers.onnx_models.reader import (
    node_label,
    read_model,
    stored_bytes,
)
from tosaic.compiler.importers.onnx_models.reference_nodes import computable, compute
from tosaic.compiler.importers.onnx_models.refusals import why_not
from tosaic.compiler.importers.onnx_models.registry import HANDLERS
from tosaic.compiler.importers.onnx_models.values import KINDS, OFFSET, STORAGE, OnnxValue, constant_value
from tosaic.compiler.importers.survey import Survey
from tosaic.compiler.ir import Graph, validate
from tosaic.compiler.ir.tensors import name_after
from tosaic.errors import ModelError, UnsupportedError

_HANDLER_MODULES = (
    attention,
    elementwise,
    fourier,
    images,
    layout,
    matrices,
    microsoft_attention,
    microsoft_layers,
    microsoft_weights,
    quantized,
    recurrent,
    reductions,
    resizing,
    scatters,
)
_SHAPE_INPUTS = {"CenterCropPad": (1,), "AffineGrid": (1,)}


def import_onnx(
    source: "str | pathlib.Path | Any", bound: Bound = None, survey: Survey | None = None
) -> Graph:
    """The TOSA graph of an ONNX model (a path or a ModelProto); inputs and outputs keep their names.

    int64 tensors become int32. uint8 and uint16 inputs and outputs are int8 and int16 bit patterns, as in
    `formats.import_model`. `bound` tells sizes of open dimensions and inputs that are constants; `survey` is told of
    every node. Raises InputError, ModelError or UnsupportedError.
    """
    return OnnxImporter(read_model(source, bound), survey or Survey()).run()


def import_onnx_pairs(source: "str | pathlib.Path | Any", bound: Bound = None) -> Graph | None:
    """Imports with a marker for each QuantizeLinear and DequantizeLinear; returns None if there is none."""
    importer = OnnxImporter(read_model(source, bound), Survey(), markers=True)
    graph = importer.run()
    return graph if importer.markers_made else None


class OnnxImporter:
    """The state of one import: the graph under construction and the values by name."""

    def __init__(self, model: Any, survey: Survey, markers: bool = False) -> None:
        self.onnx = load_onnx_package()
        self.model, self.survey, self.markers = model, survey, markers
        self.markers_made = False
        self.opset = opset_of(model)
        self.allowance = Allowance(stored_bytes(model.graph))
        self.low = Lowering(model.graph.name or "main", self.allowance)
        self.values: dict[str, OnnxValue] = {}
        self.unroller = Unroller(self.low, self._branch, self.tensor)
        # Tensors of unknown shape (only in a survey that keeps going), and the node that is to blame.
        self.lost: dict[str, str] = {}

    def run(self) -> Graph:
        """The finished TOSA graph; of a survey that met nodes without a TOSA form, the unfinished one."""
        graph = self.model.graph
        self._constants(graph)
        for value in graph.input:
            if value.name not in self.values:
                self._surveyed_input(value)
        for node in graph.node:
            self._surveyed_node(node)
        if not self.survey.complete:
            return self.low.graph
        outputs = [(value.name, self._output(value.name)) for value in graph.output]
        result = cancel_transposes(self.low.graph, outputs)
        validate(result)
        return result

    def _constants(self, graph: Any) -> None:
        for tensor in graph.initializer:
            self.values[tensor.name] = constant_value(tensor.name, self.onnx.numpy_helper.to_array(tensor))

    def _dense(self, sparse: Any) -> np.ndarray:
        values = self.onnx.numpy_helper.to_array(sparse.values)
        where = self.onnx.numpy_helper.to_array(sparse.indices)
        self.low.make_room(sparse.dims, values.dtype)
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        if where.ndim == 2:
            where = np.ravel_multi_index(tuple(where.T), dense.shape)
        if where.shape != values.shape or (where < 0).any():
            raise ValueError(f"{values.size} values at indices {list(where.shape)}")
        dense.reshape(-1)[where] = values
        return dense

    def _input(self, value: Any) -> None:
        kind = KINDS.get(value.type.tensor_type.elem_type, f"number {value.type.tensor_type.elem_type}")
        if kind not in STORAGE:
            raise UnsupportedError(
                f"input {value.name!r} has data type {kind}, which TOSA has not; convert the model to float32 or int32"
            )
        shape = tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)
        if 0 in shape:
            # TOSA has no empty tensors; but the value of one is known.
            self.values[value.name] = constant_value(value.name, np.zeros(shape, kind))
            return
        tensor = self.low.build.input(value.name, shape, STORAGE[kind])
        if kind in OFFSET:
            tensor = unsigned_bits(self.low, tensor, OFFSET[kind], entering=True)
            name_after(value.name, self.low.graph.operators[-1:])
        self.values[value.name] = OnnxValue(value.name, kind, shape, None, tensor)

    def _output(self, name: str) -> str:
        value = self.values[name]
        tensor = self.tensor(value)
        if value.kind not in OFFSET:
            return tensor
        tensor = unsigned_bits(self.low, tensor, OFFSET[value.kind], entering=False)
        name_after(name, self.low.graph.operators[-1:])
        return tensor

    def tensor(self, value: OnnxValue) -> str:
        """A value as it is held in the graph."""
        return OnnxNode(self.low, "output", value.name, self.opset, {}, [value], [value.name]).raw()

    # --- survey ---------------------------------------------------------------------------------------------

    def _surveyed_input(self, value: Any) -> None:
        try:
            self._input(value)
        except UnsupportedError as error:
            self.survey.refused("input", value.name, error)
            self._replace([value.name], f"input {value.name!r}")

    def _surveyed_node(self, node: Any) -> None:
        """A node of the outermost graph; what is inside it counts as its own."""
        kind, name = node.op_type, node.name or next(iter(node.output), "")
        lost = next((each for each in node.input if each in self.lost), None)
        if lost is not None:
            self.survey.unknown(kind, name, f"reads {lost!r}, of unknown shape after {self.lost[lost]}")
            self._replace(node.output, self.lost[lost])
            return
        first = len(self.low.graph.operators)
        try:
            self._nodes([node])
        except UnsupportedError as error:
            self.survey.refused(kind, name, error)
            self._replace(node.output, f"{kind} {name!r}")
        else:
            self.survey.lowered(kind, name, self.low.graph.operators[first:])

    def _replace(self, names: Sequence[str], blamed: str) -> None:
        """Inputs in the place of tensors that have no TOSA form; those without a static shape are lost."""
        types = result_types(self.model)
        for name in filter(None, names):
            if name not in types:
                self.lost[name] = blamed
                continue
            held, shape = types[name]
            tensor = self.low.build.input(f"{name}/placeholder", shape, STORAGE[held])
            self.values[name] = OnnxValue(name, held, shape, None, tensor)

    # --- nodes ----------------------------------------------------------------------------------------------

    def _nodes(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            first = len(self.low.graph.operators)
            results = self._node(node)
            for name, value in zip(node.output, results, strict=False):
                if name:
                    value.name = name
                    self.values[name] = value
            name_after(node.name or next(iter(node.output), ""), self.low.graph.operators[first:])

    def _node(self, node: Any) -> list[OnnxValue]:
        """The results of a node. What the checks of the reader have let through may still contradict itself."""
        try:
            return self._translated(node)
        except TooLargeError as error:
            raise UnsupportedError(f"{node_label(node)}: {error}") from None
        except (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ModelError(
                f"{node_label(node)}: its inputs and attributes do not fit together ({reason[:200]})"
            ) from error

    def _translated(self, node: Any) -> list[OnnxValue]:
        inputs = [self.values[name] if name else None for name in node.input]
        opset = opset_of_node(node, self.opset)
        attributes = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant" and "sparse_value" in attributes:
            return [constant_value("", self._dense(attributes["sparse_value"]))]
        check_scale(node, inputs)
        if node.domain in DEFAULT_DOMAINS and computable(node.op_type, inputs):
            known = compute(node, inputs, opset, self.allowance)
            if known is not None:
                return [constant_value("", value) for value in known]
        if node.op_type == "If":
            return self._if(node, inputs[0], attributes)
        if node.op_type == "Loop":
            return self.unroller.loop(node, inputs, attributes["body"])
        if node.op_type == "Scan":
            return self.unroller.scan(node, inputs, attributes, opset)
        view = OnnxNode(
            self.low,
            node.op_type,
            node.name or next(iter(node.output), ""),
            opset,
            attributes,
            inputs,
            node.output,
        )
        marker = as_marker(view) if self.markers else None
        if marker is not None:
            self.markers_made = True
            return [marker]
        handler = HANDLERS.get(operator_name(node))
        if handler is None:
            return self._function(node, inputs, view)
        try:
            results = handler(view)
        except ModelError as error:
            view.unsupported(f"it has no TOSA form here: {error}", "change the operator's shapes or types")
        return results if isinstance(results, list) else [results]

    def _function(self, node: Any, inputs: Sequence[OnnxValue | None], view: OnnxNode) -> list[OnnxValue]:
        """An operator without a handler, by its function body."""
        for index in _SHAPE_INPUTS.get(node.op_type, ()):
            view.const(index)
        body = expand(node, inputs, view.opset)
        if body is None:
            view.unsupported(*why_not(node.op_type))
        self._nodes(body)
        return [self.values[name] if name else OnnxValue("", "float32", ()) for name in node.output]

    # --- control flow ---------------------------------------------------------------------------------------

    def _branch(self, graph: Any, inputs: Sequence[OnnxValue] = ()) -> list[OnnxValue]:
        """The outputs of a nested graph, whose nodes join this one; its names end with it."""
        outer = dict(self.values)
        try:
            self.values.update(zip((value.name for value in graph.input), inputs, strict=True))
            self._constants(graph)
            self._nodes(graph.node)
            results = [self.values[value.name] for value in graph.output]
        finally:
            self.values = outer
        return [OnnxValue(v.name, v.kind, v.shape, v.data, v.tensor) for v in results]

    def _if(self, node: Any, condition: OnnxValue | None, attributes: dict[str, Any]) -> list[OnnxValue]:
        """A known condition picks its branch; otherwise both are computed, and one is selected."""
        assert condition is not None
        if condition.data is not None:
            return self._branch(attributes["then_branch" if condition.data.reshape(-1)[0] else "else_branch"])
        branches = self._possible_branches(node, condition, attributes)
        if len(branches) == 1:
            return branches[0]
        results = []
        for a, b in zip(*branches, strict=True):
            if a.shape != b.shape or a.kind != b.kind:
                raise UnsupportedError(
                    f"{node_label(node)}: its branches give {a.kind}{list(a.shape)} and {b.kind}{list(b.shape)} for "
                    "one output; TOSA's shapes are static: make them equal, or make the condition a "
                    f"constant{self._way_to_bind(condition)}"
                )
            chosen = self.low.select(self.tensor(condition), self.tensor(a), self.tensor(b))
            results.append(OnnxValue("", a.kind, a.shape, None, chosen))
        return results

    def _possible_branches(
        self, node: Any, condition: OnnxValue, attributes: dict[str, Any]
    ) -> list[list[OnnxValue]]:
        """The results of each branch, but for one that contradicts the shapes: a run that took it would fail."""
        found, errors = [], {}
        for name in ("then_branch", "else_branch"):
            first = len(self.low.graph.operators)
            try:
                found.append(self._branch(attributes[name]))
            except ModelError as error:
                del self.low.graph.operators[first:]
                errors[name] = error
            except UnsupportedError as error:
                error.args = (f"{error}{self._way_to_bind(condition)}",)
                raise
        if not found:
            raise next(iter(errors.values()))
        for name, failed in errors.items():
            warnings.warn(
                f"{node_label(node)}: its {name} cannot run: {failed}; the other one is taken whatever the condition "
                f"is{self._way_to_bind(condition)}",
                stacklevel=2,
            )
        return found

    def _way_to_bind(self, value: OnnxValue) -> str:
        """How to make a value known: the inputs that it is computed from, if they are single numbers."""
        index = self.low.graph.index()
        found: set[str] = set()
        waiting = [value.tensor]
        while waiting:
            name = waiting.pop()
            producer = index.producer(name) if name else None
            if name in self.low.graph.inputs:
                found.add(name)
            elif producer is not None:
                waiting += producer.inputs
        if not found or any(math.prod(self.low.graph.tensors[name].shape) > 1 for name in found):
            return ""
        return f"; bind it with {' '.join(f'--value {name}=NUMBER' for name in sorted(found))}"
