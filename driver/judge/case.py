"""What is judged: a graph with the values of its inputs, and the same network in other forms where it has them."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping

import numpy as np

from tosaic.compiler.ir import Graph, read_tosa, validate, write_tosa
from tosaic.driver.replacing import replacing
from tosaic.errors import InputError, reading

GRAPH = "graph.tosa"
DESCRIPTION = "case.json"
TOSA = "tosa"
FORMS = ("tflite", "onnx", "pte")
"""Other forms of a network, by the suffix of its file."""


@dataclasses.dataclass(frozen=True)
class JudgeCase:
    """A graph and its inputs, in the order of `graph.inputs`."""

    name: str
    graph: Graph
    feeds: Mapping[str, np.ndarray]
    forms: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    """Files of the same network by suffix: inputs and outputs in the graph's order."""

    def save(self, folder: pathlib.Path) -> None:
        """Write the folder that `cmd:PROGRAM` is given, and that `read_case` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        write_tosa(self.graph, folder / GRAPH)
        for name, value in zip(input_files(self.graph), self.values, strict=True):
            np.save(folder / name, value)
        for suffix, data in self.forms.items():
            (folder / f"graph.{suffix}").write_bytes(data)
        with replacing(folder / DESCRIPTION) as scratch:
            scratch.write_text(json.dumps(description(self.graph), indent=1) + "\n")

    @property
    def values(self) -> list[np.ndarray]:
        """The inputs in the graph's order."""
        shapes = {name: tuple(self.graph.tensors[name].shape) for name in self.graph.inputs}
        return [np.ascontiguousarray(self.feeds[name]).reshape(shape) for name, shape in shapes.items()]

    def outputs_in(self, folder: pathlib.Path) -> dict[str, np.ndarray]:
        """The outputs that a program has written into the folder. OSError or ValueError where one cannot be read."""
        files = zip(self.graph.outputs, output_files(self.graph), strict=True)
        return {name: np.load(folder / file, allow_pickle=False) for name, file in files}


def input_files(graph: Graph) -> list[str]:
    """Names of the files of inputs: a tensor's name may be none of a file."""
    return [f"input_{number}.npy" for number in range(len(graph.inputs))]


def output_files(graph: Graph) -> list[str]:
    return [f"output_{number}.npy" for number in range(len(graph.outputs))]


def description(graph: Graph) -> dict[str, list[dict[str, object]]]:
    """`case.json`: what the files are."""

    def ports(names: list[str], files: list[str]) -> list[dict[str, object]]:
        return [
            {
                "name": name,
                "file": file,
                "type": graph.tensors[name].dtype.name.lower(),
                "numpy": str(np.dtype(graph.tensors[name].dtype.numpy)),
                "shape": list(graph.tensors[name].shape),
            }
            for name, file in zip(names, files, strict=True)
        ]

    return {
        "inputs": ports(graph.inputs, input_files(graph)),
        "outputs": ports(graph.outputs, output_files(graph)),
    }


def read_case(folder: pathlib.Path) -> JudgeCase:
    """The case that `JudgeCase.save` or another producer wrote. InputError or ModelError for what is none."""
    graph = read_tosa(folder / GRAPH)
    validate(graph)
    feeds = {}
    for name, file in zip(graph.inputs, input_files(graph), strict=True):
        feeds[name] = load_values(graph, name, folder / file)
    files = {suffix: folder / f"graph.{suffix}" for suffix in FORMS}
    forms = {suffix: path.read_bytes() for suffix, path in files.items() if path.is_file()}
    return JudgeCase(folder.name, graph, feeds, forms)


def load_values(graph: Graph, name: str, file: pathlib.Path) -> np.ndarray:
    """An input's values as golden holds them: of unsigned ones the same bits. InputError where they do not fit."""
    with reading(file, "write it again, by numpy.save", InputError):
        value = np.load(file, allow_pickle=False)
    tensor = graph.tensors[name]
    wanted = np.dtype(tensor.dtype.numpy)
    if value.dtype.kind == "u" and wanted.kind == "i" and value.dtype.itemsize == wanted.itemsize:
        value = value.view(wanted)
    if value.dtype != wanted or value.size != np.prod(tensor.shape, dtype=int):
        raise InputError(
            f"{file}: holds {value.dtype}{list(value.shape)}, input {name!r} is {wanted}{list(tensor.shape)}"
        )
    return value.reshape(tuple(tensor.shape))
