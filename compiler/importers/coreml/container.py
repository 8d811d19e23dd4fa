"""Finds the one neural network inside a .mlmodel file, or says why there is none."""

import pathlib
from dataclasses import dataclass
from typing import Any

from tosaic.compiler.importers.coreml.schema import messages
from tosaic.errors import InputError, ModelError, UnsupportedError

NEWEST_VERSION = 9
_NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")
_PIPELINES = ("pipeline", "pipelineClassifier", "pipelineRegressor")


@dataclass
class CoreMlContainer:
    """A neural network with its description. `network` is a NeuralNetwork, -Classifier or -Regressor message."""

    version: int
    description: Any
    network: Any
    kind: str
    file_bytes: int = 0

    @property
    def labels(self) -> list[str | int]:
        """A classifier's classes in the order of its probabilities; [] for other networks."""
        if self.kind != "neuralNetworkClassifier":
            return []
        which = self.network.WhichOneof("ClassLabels")
        return list(getattr(self.network, which).vector) if which else []


def read_container(source: "str | pathlib.Path | bytes") -> CoreMlContainer:
    """The network in a file or in its bytes.

    InputError when the file cannot be read, ModelError when it is no Core ML model, UnsupportedError for models
    that are no neural networks.
    """
    data = source if isinstance(source, bytes) else _read(pathlib.Path(source))
    container = _network(_parse(data))
    container.file_bytes = len(data)
    return container


def _read(path: pathlib.Path) -> bytes:
    if path.is_dir():
        kind = {".mlpackage": "an ML package", ".mlmodelc": "a compiled model"}.get(
            path.suffix, "a directory"
        )
        raise UnsupportedError(f"{path} is {kind}: {_WAY_OUT}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


_WAY_OUT = (
    "only NeuralNetwork models (.mlmodel) are imported; convert with coremltools.convert(..., "
    "convert_to='neuralnetwork'), or export ONNX"
)


def _parse(data: bytes) -> Any:
    model = messages()["Model"]()
    try:
        model.ParseFromString(data)
    except Exception as error:
        # protobuf's own class; its import path differs between releases.
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"it is not a Core ML model ({first})") from None
    return model


def _network(model: Any) -> CoreMlContainer:
    kind, version = model.WhichOneof("Type"), model.specificationVersion
    if kind is None:
        raise ModelError("it is not a Core ML model: it holds none of Core ML's kinds of models")
    if kind in _PIPELINES:
        return _of_pipeline(model, kind)
    if kind == "mlProgram":
        raise UnsupportedError(f"it is an ML program: {_WAY_OUT}")
    if kind not in _NETWORKS:
        raise UnsupportedError(f"it is a Core ML model of kind {kind}: {_WAY_OUT}")
    if not 1 <= version <= NEWEST_VERSION:
        raise ModelError(f"specification version {version} is not known; 1 to {NEWEST_VERSION} are")
    return CoreMlContainer(version, model.description, getattr(model, kind), kind)


def _of_pipeline(model: Any, kind: str) -> CoreMlContainer:
    pipeline = model.pipeline if kind == "pipeline" else getattr(model, kind).pipeline
    kinds = [inner.WhichOneof("Type") or "nothing" for inner in pipeline.models]
    if len(kinds) != 1:
        raise UnsupportedError(
            f"it is a {kind} of {len(kinds)} models ({', '.join(kinds[:8])}): import them one by one; "
            "coremltools.utils.load_spec and .pipeline.models give each"
        )
    inner = _network(pipeline.models[0])
    return inner
