"""Types and static shapes of a model's tensors, for a survey that goes on behind a node without a TOSA form."""

from typing import Any

from tosaic.compiler.importers.onnx_models import package_process
from tosaic.compiler.importers.onnx_models.opsets import mixed_as_functions
from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.compiler.importers.onnx_models.values import KINDS, STORAGE


def result_types(model: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Element type and shape by name, of the tensors that TOSA can hold and whose shape ONNX can infer."""
    whole = load_onnx_package().ModelProto()
    whole.CopyFrom(model)
    mixed_as_functions(load_onnx_package(), whole)
    try:
        inferred = package_process.infer_shapes(whole)
    except ValueError:  # it refuses, or crashes
        return {}
    found = {}
    for value in (*inferred.graph.value_info, *inferred.graph.output):
        tensor = value.type.tensor_type
        kind = KINDS.get(tensor.elem_type, "")
        if kind not in STORAGE or not tensor.HasField("shape"):
            continue
        shape = tuple(dimension.dim_value for dimension in tensor.shape.dim)
        if all(shape):
            found[value.name] = kind, shape
    return found
