"""A whole NNEF model: graph, tensors and quantization (chapter 6, all four steps)."""

import pathlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.nnef.container import (
    GRAPH_FILE,
    QUANTIZATION_FILE,
    NnefContainer,
    open_container,
)
from tosaic.compiler.importers.nnef.document import expand_document
from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.graph import FlatGraph, NnefOperation, Shape, TensorValue
from tosaic.compiler.importers.nnef.lexer import decode
from tosaic.compiler.importers.nnef.nnr_carriage import (
    carried_shape,
    is_carried,
    plain_encoding,
    read_carried,
)
from tosaic.compiler.importers.nnef.quantization_file import QuantizationEntry, parse_quantization
from tosaic.compiler.importers.nnef.tensor_file import ItemEncoding, read_header, read_tensor


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The data of a variable, and how its file stores it."""

    values: np.ndarray
    encoding: ItemEncoding


@dataclass(frozen=True, slots=True)
class NnefModel:
    """`data` is by label in lower case, as labels are compared; `quantization` by identifier."""

    graph: FlatGraph
    data: dict[str, StoredTensor]
    quantization: dict[str, QuantizationEntry]
    file_bytes: int = 0
    """Bytes of all files that were read; of an archive, unpacked."""


def load_model(
    path: pathlib.Path,
    *,
    whole: Collection[str] = (),
    shapes: Mapping[str, Shape] | None = None,
    data_version: str = "",
) -> NnefModel:
    """The model in a folder or tar archive. Raises NnefError.

    `whole` and `shapes` are those of `expand_document`. `data_version` chooses among versions of the data: the
    extension after `.dat`, such as "q8" for `filter.dat.q8` (5.1); others are ignored.
    """
    container = open_container(pathlib.Path(path))
    shown = f"{container.path}/{GRAPH_FILE}"
    graph = expand_document(decode(container.graph(), shown), shown, whole=whole, shapes=shapes)
    quantization: dict[str, QuantizationEntry] = {}
    text = container.read(QUANTIZATION_FILE)
    if text is not None:
        shown = f"{container.path}/{QUANTIZATION_FILE}"
        quantization = parse_quantization(decode(text, shown), graph.tensors, shown)
    suffix = f".dat.{data_version}" if data_version else ".dat"
    places = {_label(o) + suffix: label for label, vs in graph.variables.items() for o in _producers(vs)[:1]}
    data = {
        places[name]: _stored(container, graph.variables[places[name]], suffix)
        for name in container.in_order(places)
    }
    return NnefModel(graph, data, quantization, container.read_bytes)


def _stored(container: NnefContainer, variables: list[TensorValue], suffix: str) -> StoredTensor:
    """The data of the variables that share a label; the file is named by any of their spellings."""
    producers = _producers(variables)
    labels = list(dict.fromkeys(map(_label, producers)))
    for label in labels:
        file = f"{container.path}/{label}{suffix}"

        def check(start: bytes, size: int, file: str = file) -> None:
            shape = carried_shape(start) if is_carried(start, size) else read_header(start, size, file)[0]
            if shape is not None:
                _check_shape(shape, file, variables[0])

        content = container.read(label + suffix, check)
        if content is not None:
            return _checked(content, file, variables[0])
    raise NnefError(
        "V110",
        producers[0].position,
        f"the variable {labels[0]!r} has no file {labels[0]}{suffix}",
        "put its data into the model",
    )


def _producers(variables: list[TensorValue]) -> list[NnefOperation]:
    return [variable.producer for variable in variables if variable.producer is not None]


def _label(operation: NnefOperation) -> str:
    label = operation.arguments["label"]
    assert isinstance(label, str)
    return label


def _check_shape(shape: Shape, file: str, variable: TensorValue) -> None:
    if shape != variable.shape:
        raise NnefError(
            "V124",
            Position(file),
            f"the file has the extents {list(shape)}, the variable {list(variable.shape)}",
            "write the file again, or correct the shape in the graph",
        )


def _items(content: bytes, file: str, variable: TensorValue) -> tuple[np.ndarray, ItemEncoding]:
    """The tensor of a `.dat` file, which may be an NNR bitstream (NNR, annex A.4), and how it is or would be stored."""
    if not is_carried(content, len(content)):
        return read_tensor(content, file)
    values = read_carried(content, variable.shape, file)
    return values, plain_encoding(values)


def _checked(content: bytes, file: str, variable: TensorValue) -> StoredTensor:
    values, encoding = _items(content, file, variable)
    whole = values.dtype.kind in "iu"
    fits = {
        "scalar": True,
        "integer": whole,
        "logical": whole and bool(np.isin(values, (0, 1)).all()),
        "string": False,
    }
    if not fits[variable.data]:
        raise NnefError(
            "data-type",
            Position(file),
            f"{encoding.algorithm.name} items are the data of tensor<{variable.data}>",
        )
    return StoredTensor(values, encoding)
