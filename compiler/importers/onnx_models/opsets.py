"""Versions of ONNX's operators: models of older ones than the importer knows are converted by the package onnx.

A local function may be of another opset than its model. Its nodes keep their own one in their metadata when they join
the model's, and each is read, checked and computed by it.
"""

from collections.abc import Iterator
from typing import Any

from tosaic.compiler.importers.onnx_models import package_process
from tosaic.compiler.importers.onnx_models.errors import first_line
from tosaic.errors import UnsupportedError

DEFAULT_DOMAINS = ("", "ai.onnx")


def operator_name(node: Any) -> str:
    """An operator's type, with its domain if that is not the default one."""
    return str(node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}")


OLDEST_OPSET = 7
"""Older models are converted to it."""
_OWN_OPSET = "tosaic.opset"
"""Key of a node's metadata, and the domain of functions that hold one such node."""
_FUNCTIONS = 8
"""The first IR version that has local functions."""
_INITIALIZERS_ARE_INPUTS = 3
"""The last IR version where every initializer is one of the graph's inputs."""


def opset_of(model: Any) -> int:
    """Version of the default domain's operators."""
    return next(entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAINS)


def opset_of_node(node: Any, opset: int) -> int:
    """Version of the default domain's operators by which a node is read, in a model of `opset`."""
    return next((int(entry.value) for entry in node.metadata_props if entry.key == _OWN_OPSET), opset)


def set_opset(nodes: Any, opset: int) -> None:
    """Notes the version of nodes that have none yet, and of those in the graphs inside."""
    for node in all_nodes(nodes):
        if not any(entry.key == _OWN_OPSET for entry in node.metadata_props):
            node.metadata_props.add(key=_OWN_OPSET, value=str(opset))


def all_nodes(nodes: Any) -> Iterator[Any]:
    """Nodes and those in the graphs inside, outer ones first."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from all_nodes(graph.node)


def with_one_opset(model: Any) -> None:
    """Makes local functions of the model's own opset, in place; the nodes of others note theirs."""
    opset = opset_of(model)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for function in model.functions:
        for entry in function.opset_import:
            if entry.domain in DEFAULT_DOMAINS and entry.version != opset:
                if entry.version < OLDEST_OPSET or opset < OLDEST_OPSET:
                    raise UnsupportedError(
                        f"local function {function.name!r} is of opset {entry.version}, in a model of opset {opset}; "
                        f"both must be {OLDEST_OPSET} or newer: export the model again with a newer opset"
                    )
                set_opset(function.node, entry.version)
            entry.version = (
                opset if entry.domain in DEFAULT_DOMAINS else versions.get(entry.domain, entry.version)
            )


def mixed_as_functions(onnx: Any, model: Any) -> None:
    """Puts each node of an opset of its own into a local function again, in place: the package infers by one opset."""
    opset = opset_of(model)
    for node in list(all_nodes(model.graph.node)):
        own = opset_of_node(node, opset)
        if (
            own == opset
            or node.domain not in DEFAULT_DOMAINS
            or any(attribute.HasField("g") for attribute in node.attribute)
        ):
            continue
        body = onnx.NodeProto()
        body.CopyFrom(node)
        # A function may not name an input or output twice, or leave one out.
        inputs = list(dict.fromkeys(name for name in node.input if name))
        outputs = [name for name in node.output if name]
        name = f"node_{len(model.functions)}"
        imports = [onnx.helper.make_opsetid("", own)]
        model.functions.append(onnx.helper.make_function(_OWN_OPSET, name, inputs, outputs, [body], imports))
        node.Clear()
        node.op_type, node.domain = name, _OWN_OPSET
        node.input.extend(inputs)
        node.output.extend(outputs)
    if model.functions:
        model.opset_import.append(onnx.helper.make_opsetid(_OWN_OPSET, 1))
        model.ir_version = max(model.ir_version, _FUNCTIONS)


def upgraded(onnx: Any, model: Any) -> Any:
    """A model of an opset older than OLDEST_OPSET in the words of that one, by the package's converter."""
    opset, older = opset_of(model), onnx.ModelProto()
    older.CopyFrom(model)
    declared = {value.name for value in older.graph.input}
    for tensor in older.graph.initializer:
        if tensor.name not in declared:  # the converter wants what these opsets did
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            older.graph.input.append(info)
    older.ir_version = min(older.ir_version, _INITIALIZERS_ARE_INPUTS)
    try:
        _place_operands(onnx, older)
        return package_process.convert_version(older, OLDEST_OPSET)
    except (package_process.PackageRefusalError, package_process.PackageCrashError) as error:
        raise UnsupportedError(
            f"opset {opset} is older than {OLDEST_OPSET}, and the onnx package cannot convert the model: "
            f"{first_line(error).rpartition('failed: ')[2]}; export it again with a newer opset"
        ) from None


def _place_operands(onnx: Any, model: Any) -> None:
    """Gives second operands the axes of one element that broadcasting from the last axis needs.

    Before opset 7 attribute `axis` said where an operand's axes stand in the first one, and PRelu's slopes stood at the
    channels. The converter counts axes from the wrong end, and forgets PRelu.
    """
    nodes = list(model.graph.node)
    if not any(_first_axis(node) is not None for node in nodes):
        return
    known = (*model.graph.input, *package_process.infer_shapes(model).graph.value_info)
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in known
        if value.type.tensor_type.HasField("shape")
    }
    del model.graph.node[:]
    for node in nodes:
        axis = _first_axis(node)
        if axis is not None:
            if not {*node.input} <= ranks.keys():
                raise UnsupportedError(
                    f"{node.op_type} {node.output[0]!r}: broadcasting by 'axis' needs operands of known rank; "
                    "export the model with opset 7 or newer"
                )
            rank, own = (ranks[name] for name in node.input)
            behind = (axis if axis >= 0 else axis + rank) + own
            if own and behind < rank:
                placed, axes = f"{node.output[0]}/placed", range(own, own + rank - behind)
                made = onnx.helper.make_node("Unsqueeze", [node.input[1]], [placed], axes=list(axes))
                model.graph.node.append(made)
                node.input[1] = placed
            kept = [attribute for attribute in node.attribute if attribute.name != "axis"]
            del node.attribute[:]
            node.attribute.extend(kept)
        model.graph.node.append(node)


def _first_axis(node: Any) -> int | None:
    """The axis of the first operand at which the second one begins; None where it ends with the last one."""
    if node.op_type == "PRelu":
        return 1
    given = {attribute.name: attribute.i for attribute in node.attribute}
    return given.get("axis") if given.get("broadcast") else None
