"""NNEF models on disk."""

import pathlib
from collections.abc import Mapping

import numpy as np

from tosaic.compiler.importers.nnef.tensor_file import Algorithm, ItemEncoding, write_tensor


def dat(values: np.ndarray) -> bytes:
    """A tensor file that stores values as they are."""
    if values.dtype == np.bool_:
        return write_tensor(values.astype(np.uint8), ItemEncoding(Algorithm.INTEGER, 1))
    if values.dtype.kind in "iu":
        return write_tensor(values, ItemEncoding(Algorithm.INTEGER, 32, signed=True))
    return write_tensor(values, ItemEncoding(Algorithm.FLOAT, 32))


def write_model(
    folder: pathlib.Path, text: str, variables: Mapping[str, np.ndarray], quantization: str = ""
) -> pathlib.Path:
    """A folder with a graph and the data of its variables by label."""
    folder.mkdir(exist_ok=True)
    (folder / "graph.nnef").write_text(text)
    if quantization:
        (folder / "graph.quant").write_text(quantization)
    for label, values in variables.items():
        file = folder / f"{label}.dat"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(dat(values))
    return folder
