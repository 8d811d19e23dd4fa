"""The float model that integers are compared with, run by its own framework where that is installed."""

import importlib.util
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers.bindings import Bindings, Bound
from tosaic.compiler.importers.torch_models.program import inputs_of, outputs_of, read_program
from tosaic.compiler.ir import Graph
from tosaic.driver.session import Session
from tosaic.errors import InputError, ModelError, in_words, reading

FloatModel = Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]]
"""Outputs by name of one sample's inputs by name."""


def float_model(source: Any, bound: Bound = None) -> tuple[str, FloatModel]:
    """What computes the model, in words, and the function that does: a function is taken as it is; an ONNX file runs in
    ONNX Runtime, a TFLite file in LiteRT, an exported program in PyTorch, all others on golden."""
    if callable(source):
        return getattr(source, "__name__", "function"), source
    suffix = "" if isinstance(source, Graph) else pathlib.Path(source).suffix
    for ending, package, run in (
        (".onnx", "onnxruntime", _onnxruntime),
        (".tflite", "ai_edge_litert", _litert),
        (".pt2", "torch", _torch),
    ):
        if suffix == ending and importlib.util.find_spec(package) is not None:
            path = pathlib.Path(source)
            if not path.is_file():
                raise InputError(f"{path}: cannot be read: there is no such file")
            return f"{path.name} ({package})", run(path)
    how = Bindings.of(bound)
    session = Session(source, "golden", shapes=how.shapes, values=how.values)
    name = "the graph" if isinstance(source, Graph) else pathlib.Path(source).name
    return f"{name} (golden)", lambda sample: _on_golden(session, sample)


def _on_golden(session: Session, sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    types = {each.name: each.numpy for each in session.inputs}
    return session.run({name: value.astype(types.get(name, value.dtype)) for name, value in sample.items()})


def _onnxruntime(path: pathlib.Path) -> FloatModel:
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"{path}: ONNX Runtime refuses it: {error}") from None
    types = {each.name: _NUMPY[each.type] for each in session.get_inputs() if each.type in _NUMPY}
    names = [each.name for each in session.get_outputs()]

    def run(sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        fed = {name: value.astype(types[name]) for name, value in sample.items() if name in types}
        try:
            return dict(zip(names, session.run(names, fed), strict=True))
        except Exception as error:
            raise InputError(f"{path}: ONNX Runtime refuses the data: {error}") from None

    return run


_NUMPY = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(int16)": np.int16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}


def _litert(path: pathlib.Path) -> FloatModel:
    from ai_edge_litert.interpreter import Interpreter

    with reading(path, "convert it again"):
        interpreter = Interpreter(model_path=str(path))
        interpreter.allocate_tensors()
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()

    def run(sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for details, value in zip(inputs, _in_order(sample, [each["name"] for each in inputs]), strict=True):
            interpreter.set_tensor(details["index"], value.astype(details["dtype"]))
        interpreter.invoke()
        return {each["name"]: interpreter.get_tensor(each["index"]) for each in outputs}

    return run


def _torch(path: pathlib.Path) -> FloatModel:
    import torch

    program = read_program(path)
    with reading(path, "export it again"):
        module, inputs, outputs = program.module(), inputs_of(program), outputs_of(program)

    def run(sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = _in_order(sample, [each.name for each in inputs])
        fed = [torch.from_numpy(value.astype(port.dtype)) for port, value in zip(inputs, values, strict=True)]
        try:
            with torch.no_grad():
                results = module(*fed)
        except Exception as error:
            raise InputError(f"{path}: PyTorch refuses the data: {in_words(error)}") from None
        results = results if isinstance(results, tuple | list) else (results,)
        return {port.name: value.numpy() for port, value in zip(outputs, results, strict=True)}

    return run


def _in_order(sample: dict[str, np.ndarray], names: list[str]) -> list[np.ndarray]:
    """The sample's arrays by the float model's names, or in their order where it has names of its own."""
    if set(names) <= set(sample):
        return [sample[name] for name in names]
    if len(names) != len(sample):
        raise InputError(
            f"the float model has the inputs {', '.join(map(repr, names))}, the model {', '.join(map(repr, sample))}"
        )
    return list(sample.values())
