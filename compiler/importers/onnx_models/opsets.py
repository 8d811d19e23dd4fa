"""Versions of ONNX's operators: models of older ones than the importer knows are converted by the package onnx."""

from typing import Any

import numpy as np

from tosaic.compiler.importers.onnx_models import package_process
from tosaic.compiler.importers.onnx_models.errors import first_line
from tosaic.errors import UnsupportedError

DEFAULT_DOMAINS = ("", "ai.onnx")
OLDEST_OPSET = 7
"""Older models are converted to it."""
_INITIALIZERS_ARE_INPUTS = 3
"""The last IR version where every initializer is one of the graph's inputs."""


def opset_of(model: Any) -> int:
    """Version of the default domain's operators."""
    return next(entry.version for entry in model.opset_import if entry.domain in DEFAULT_DOMAINS)


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
        newer = package_process.convert_version(older, OLDEST_OPSET)
    except (package_process.PackageRefusalError, package_process.PackageCrashError) as error:
        raise UnsupportedError(
            f"opset {opset} is older than {OLDEST_OPSET}, and the onnx package cannot convert the model: "
            f"{first_line(error).rpartition('failed: ')[2]}; export it again with a newer opset"
        ) from None
    _keep_channel_slopes(onnx, newer)
    return newer


def _keep_channel_slopes(onnx: Any, model: Any) -> None:
    """PRelu's slopes were one per channel before opset 7, and since then broadcast from the last axis.

    The converter leaves them as they are.
    """
    nodes = list(model.graph.node)
    if not any(node.op_type == "PRelu" for node in nodes):
        return
    inferred = package_process.infer_shapes(model).graph
    known = {value.name: value for value in (*model.graph.input, *inferred.value_info)}
    ranks = {name: len(value.type.tensor_type.shape.dim) for name, value in known.items()}
    ranks |= {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    del model.graph.node[:]
    for node in nodes:
        if node.op_type == "PRelu" and ranks.get(node.input[1]) == 1 and ranks.get(node.input[0], 0) > 2:
            sizes, slopes = f"{node.output[0]}/sizes", f"{node.output[0]}/slopes"
            shape = np.array([-1, *[1] * (ranks[node.input[0]] - 2)])
            model.graph.initializer.append(onnx.numpy_helper.from_array(shape, sizes))
            model.graph.node.append(onnx.helper.make_node("Reshape", [node.input[1], sizes], [slopes]))
            node.input[1] = slopes
        model.graph.node.append(node)
