"""Operators that ONNX defines by a function body: expanded to simpler nodes."""

from collections.abc import Iterable, Sequence
from typing import Any

from tosaic.compiler.importers.onnx_models import package_process
from tosaic.compiler.importers.onnx_models.opsets import set_opset
from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.compiler.importers.onnx_models.reader import add_defaults
from tosaic.compiler.importers.onnx_models.values import OnnxValue


def expand(node: Any, inputs: Sequence[OnnxValue | None], opset: int) -> list[Any] | None:
    """The nodes of the operator's function body for these inputs; None if it has none.

    Inputs and outputs keep their names; inner names begin with the node's first output.
    """
    onnx = load_onnx_package()
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    if not (schema.has_function or schema.has_context_dependent_function):
        return None
    infos: list[Any] = []
    initializers: list[Any] = []
    for name, value in zip(node.input, inputs, strict=True):
        if value is None or name in {info.name for info in infos}:
            continue
        number = onnx.TensorProto.DataType.Value(_SPELLING.get(value.kind, value.kind.upper()))
        infos.append(onnx.helper.make_tensor_value_info(name, number, list(value.shape)))
        if value.data is not None and value.data.size <= 1024:
            initializers.append(onnx.numpy_helper.from_array(value.data, name))
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
    whole = onnx.NodeProto()
    whole.CopyFrom(node)
    add_defaults(onnx, whole, opset)
    graph = onnx.helper.make_graph([whole], "function", infos, outputs, initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        inlined = package_process.inline_operator(model, node.op_type)
    except package_process.PackageRefusalError:
        return None
    if len(inlined.graph.node) == 1 and inlined.graph.node[0].op_type == node.op_type:
        return None
    nodes = list(inlined.graph.node)
    set_opset(nodes, opset)
    return _renamed(nodes, set(node.input) | set(node.output), next(iter(node.output)))


_SPELLING = {"float32": "FLOAT", "float64": "DOUBLE"}


def _renamed(nodes: list[Any], kept: set[str], prefix: str) -> list[Any]:
    """The nodes with inner names that no other expansion uses."""

    _rename(nodes, {name for node in nodes for name in node.output if name} - kept, prefix)
    for node in nodes:
        node.name = node.name or f"{prefix}/{node.op_type}"
    return nodes


def _rename(nodes: Iterable[Any], inner: set[str], prefix: str) -> None:
    """Puts the prefix before the names `inner`, in nested graphs too, which read them."""
    for node in nodes:
        node.input[:] = [f"{prefix}/{name}" if name in inner else name for name in node.input]
        node.output[:] = [f"{prefix}/{name}" if name in inner else name for name in node.output]
        for attribute in node.attribute:
            if attribute.type == attribute.GRAPH:
                own = {value.name for value in attribute.g.input}
                _rename(attribute.g.node, inner - own, prefix)
                for value in attribute.g.output:
                    value.name = f"{prefix}/{value.name}" if value.name in inner - own else value.name
