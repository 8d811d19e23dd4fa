"""What an ONNX file says of its inputs and outputs and of itself, as onnxruntime tells it."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.driver.feeds import ValueInfo, tensor_type
from tosaic.errors import InputError, reading

from .options import SessionOptions

_NO_VERSION = (1 << 63) - 1
"""What onnxruntime tells of a model without one."""


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What a model's file says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = _NO_VERSION
    custom_metadata_map: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Description:
    """An ONNX file's own words: inputs and outputs, the types of both, and the metadata."""

    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    types: dict[str, np.dtype]
    metadata: ModelMetadata
    bound: dict[str, list[int]]
    """The shapes of inputs whose open dimensions all were given sizes."""

    @property
    def open_inputs(self) -> list[ValueInfo]:
        """The inputs with a size that is not known."""
        return [each for each in self.inputs if any(not isinstance(size, int) for size in each.shape)]


def describe_onnx(path: pathlib.Path, options: SessionOptions) -> Description:
    """The description of a file, with the dimensions that `options` binds. InputError or ModelError where it
    cannot be read."""
    onnx = load_onnx_package()
    try:
        with reading(path, "export or copy it again"):
            model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    graph = model.graph
    weights = {each.name for each in graph.initializer} | {
        each.values.name for each in graph.sparse_initializer
    }
    inputs = [each for each in graph.input if each.name not in weights]
    known = {each.name: each for each in (*inputs, *graph.output) if each.type.HasField("tensor_type")}
    types = {name: _dtype(onnx, value) for name, value in known.items()}

    def told(value: Any) -> ValueInfo:
        if value.name not in known:
            return ValueInfo(value.name, [], "")
        return ValueInfo(value.name, _shape(value, options), tensor_type(types[value.name]))

    def bound(value: Any) -> tuple[str, list[int]]:
        shape = told(value).shape
        was_open = any(not size.HasField("dim_value") for size in value.type.tensor_type.shape.dim)
        return value.name, shape if was_open and all(isinstance(size, int) for size in shape) else []

    return Description(
        [told(each) for each in inputs],
        [told(each) for each in graph.output],
        types,
        ModelMetadata(
            model.producer_name,
            graph.name,
            model.domain,
            model.doc_string,
            graph.doc_string,
            model.model_version or _NO_VERSION,
            {each.key: each.value for each in model.metadata_props},
        ),
        {name: shape for name, shape in map(bound, inputs) if shape},
    )


def _dtype(onnx: Any, value: Any) -> np.dtype:
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    except KeyError:
        return np.dtype(np.float32)


def _shape(value: Any, options: SessionOptions) -> list[Any]:
    shape: list[Any] = []
    for size in value.type.tensor_type.shape.dim:
        if size.HasField("dim_value"):
            shape.append(size.dim_value)
        else:
            name = size.dim_param or None
            shape.append(options.bound(name, size.denotation) or name)
    return shape
