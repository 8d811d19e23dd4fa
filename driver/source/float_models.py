"""The float model that integers are compared with, run by its own framework where that is installed."""

import contextlib
import importlib.util
import pathlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers import import_model, is_imported
from tosaic.compiler.importers.bindings import Bindings, Bound, bound_array
from tosaic.compiler.ir import Graph, unsigned_ports, unsigned_type
from tosaic.driver.models import open_model
from tosaic.errors import InputError, ModelError, in_words, reading
from tosaic.sim.golden import evaluate

from .notes import LayerNote

FloatModel = Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]]
"""Outputs by name of one sample's inputs by name."""


def float_model(source: Any, bound: Bound = None, *, remembers: bool = False) -> tuple[str, FloatModel]:
    """What computes the model, in words, and the function that does: a function is taken as it is; an ONNX file runs in
    ONNX Runtime, a TFLite file in LiteRT, an exported program in PyTorch, all others on golden, and there, too, a model
    that `remembers` from run to run: a sample has its states then."""
    if callable(source):
        return getattr(source, "__name__", "function"), source
    how = Bindings.of(bound)
    suffix = "" if isinstance(source, Graph) else pathlib.Path(source).suffix
    for ending, package, run in (
        (".onnx", "onnxruntime", _onnxruntime),
        (".tflite", "ai_edge_litert", _litert),
        (".pt2", "torch", _torch),
    ):
        if suffix == ending and not remembers and importlib.util.find_spec(package) is not None:
            path = pathlib.Path(source)
            if not path.is_file():
                raise InputError(f"{path}: cannot be read: there is no such file")
            return f"{path.name} ({package})", run(path, how)
    graph = float_graph(source, how)
    name = "the graph" if isinstance(source, Graph) else pathlib.Path(source).name
    return f"{name} (golden)", on_golden(graph)


def float_graph(source: "str | pathlib.Path | Graph", bound: Bound = None) -> Graph:
    """The graph that golden evaluates: a float model, even where its file has a form in integers. InputError for a
    program."""
    if isinstance(source, Graph):
        return source
    path = pathlib.Path(source)
    graph = import_model(path, bound) if is_imported(path) else open_model(path, bound)
    if not isinstance(graph, Graph):
        raise InputError(
            f"{path} is a compiled program, which golden does not evaluate: give the model it was made of"
        )
    return graph


def on_golden(graph: Graph, *, keep: bool = False) -> FloatModel:
    """Golden's outputs of a graph; with `keep` all its tensors."""
    types = {name: graph.tensors[name].dtype.numpy for name in graph.inputs}
    unsigned = {n: unsigned_type(graph.tensors[n].dtype) for n in unsigned_ports(graph) if n in graph.outputs}

    def run(sample: dict[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        values = {name: value for name, value in sample.items() if name in types}
        missing = [name for name in types if name not in values]
        if missing and len(values) == len(types) - len(missing) and len(sample) == len(types):
            values = dict(zip(types, sample.values(), strict=True))
        elif missing:
            raise InputError(
                f"the float model has the inputs {_listed(types)}, the model {_listed(sample)}: "
                "are they the same model?"
            )
        fed = {
            name: value.astype(types[name]).reshape(graph.tensors[name].shape)
            for name, value in values.items()
        }
        found = {**fed, **evaluate(graph, fed, keep=True)} if keep else evaluate(graph, fed)
        return {name: v.view(unsigned[name]) if name in unsigned else v for name, v in found.items()}

    return run


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _onnxruntime(path: pathlib.Path, how: Bindings) -> FloatModel:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Its warnings are not ours to show; and what is compared with is the model as it is written.
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"{path}: ONNX Runtime refuses it: {in_words(error)}") from None
    types = {each.name: _NUMPY[each.type] for each in session.get_inputs() if each.type in _NUMPY}
    shapes = {each.name: each.shape for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    constants = {
        name: bound_array(name, value, _sizes(shapes[name], how.shapes.get(name)), types[name])
        for name, value in how.values.items()
        if name in types
    }

    def run(sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        fed = {name: _typed(value, types[name]) for name, value in sample.items() if name in types}
        try:
            return dict(zip(names, session.run(names, {**constants, **fed}), strict=True))
        except Exception as error:
            raise InputError(f"{path}: ONNX Runtime refuses the data: {in_words(error)}") from None

    return run


def _sizes(shape: Sequence[Any], bound: Any) -> list[int]:
    """The shape of an input that is bound, open dimensions as 1."""
    return (
        list(np.atleast_1d(bound)) if bound is not None else [s if isinstance(s, int) else 1 for s in shape]
    )


def _typed(value: np.ndarray, dtype: Any) -> np.ndarray:
    """A value as the framework takes it: unsigned integers are the bits of signed ones here."""
    wanted = np.dtype(dtype)
    if wanted.kind == "u" and value.dtype.kind == "i" and wanted.itemsize == value.itemsize:
        return value.view(wanted)
    return value.astype(wanted)


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


def litert_tensors(path: pathlib.Path, how: Bindings) -> tuple[FloatModel, dict[str, LayerNote]]:
    """All tensors of a TFLite model, and the integers among them by what they stand for."""
    interpreter = _interpreter(path)
    interpreter.allocate_tensors()
    layers = {}
    # Bits of integers without sign: what they stand for is no line of what TOSA holds.
    ports = {
        each["index"]
        for each in (*interpreter.get_input_details(), *interpreter.get_output_details())
        if np.issubdtype(each["dtype"], np.unsignedinteger)
    }
    for each in interpreter.get_tensor_details():
        scale, zero_point = each["quantization"]
        if each["index"] not in ports and scale and np.issubdtype(each["dtype"], np.integer):
            offset = {np.uint8: 128, np.uint16: 32768}.get(each["dtype"], 0)
            layers[each["name"]] = LayerNote(
                each["name"], each["name"], (float(scale),), int(zero_point) - offset
            )
    return _litert(path, how, keep=True), layers


def _interpreter(path: pathlib.Path, *, keep: bool = False) -> Any:
    """LiteRT's, without its delegates, which round otherwise than its kernels do."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    with warnings.catch_warnings():
        # That it keeps tensors is what is wanted.
        warnings.simplefilter("ignore")
        return Interpreter(
            model_path=str(path),
            experimental_preserve_all_tensors=keep,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )


def _litert(path: pathlib.Path, how: Bindings, *, keep: bool = False) -> FloatModel:
    """LiteRT's outputs of a model; with `keep` all its tensors."""
    with reading(path, "convert it again"):
        interpreter = _interpreter(path, keep=keep)
        for details in interpreter.get_input_details():
            shape = how.shapes.get(details["name"])
            if shape is not None:
                interpreter.resize_tensor_input(details["index"], list(np.atleast_1d(shape)))
        interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    constants = {name: np.asarray(value) for name, value in how.values.items()}

    def run(sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = [each["name"] for each in inputs if each["name"] not in constants]
        given = constants | dict(zip(names, _in_order(sample, names), strict=True))
        for details in inputs:
            value = _encoded(np.broadcast_to(given[details["name"]], details["shape"]), details)
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        found = {}
        for each in interpreter.get_tensor_details() if keep else outputs:
            # Some tensors (of operators that were fused) hold nothing.
            with contextlib.suppress(ValueError):
                found[each["name"]] = _reals(interpreter.get_tensor(each["index"]), each)
        return found

    return run


def _encoded(value: np.ndarray, details: Mapping[str, Any]) -> np.ndarray:
    """A value as a TFLite tensor holds it: the integers of reals, where it has a scale."""
    scale, zero_point = details["quantization"]
    if value.dtype.kind != "f" or not scale:
        return np.ascontiguousarray(_typed(value, details["dtype"]))
    limits = np.iinfo(details["dtype"])
    exact = np.rint(value.astype(np.float64) / scale) + zero_point
    return np.clip(exact, limits.min, limits.max).astype(details["dtype"])


def _reals(value: np.ndarray, details: Mapping[str, Any]) -> np.ndarray:
    """What a TFLite tensor's integers stand for."""
    scale, zero_point = details["quantization"]
    return (value.astype(np.float64) - zero_point) * scale if scale and value.dtype.kind != "f" else value


def _torch(path: pathlib.Path, _: Bindings) -> FloatModel:
    from tosaic.compiler.importers.torch_models.program import read_program

    program = read_program(path)
    with reading(path, "export it again"):
        return torch_model(program)


def torch_model(program: Any) -> FloatModel:
    """An exported program, by PyTorch; outputs by the names of `outputs_of`, whatever structure holds them."""
    import torch
    import torch.utils._pytree as pytree

    from tosaic.compiler.importers.torch_models.program import inputs_of, outputs_of

    module, inputs, outputs = program.module(), inputs_of(program), outputs_of(program)

    def run(sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        values = _in_order(sample, [each.name for each in inputs])
        fed = [
            torch.from_numpy(np.ascontiguousarray(value.astype(port.dtype)))
            for port, value in zip(inputs, values, strict=True)
        ]
        with torch.no_grad():
            results = pytree.tree_leaves(module(*fed))
        return {port.name: value.detach().numpy() for port, value in zip(outputs, results, strict=True)}

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
