"""What the network's own framework computes: ONNX Runtime or LiteRT, on one thread."""

import pathlib
from collections.abc import Callable, Mapping

import numpy as np

Arrays = dict[str, np.ndarray]
ONNX_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


def framework(
    path: pathlib.Path, values: Mapping[str, int | float] | None = None
) -> Callable[[Arrays], Arrays]:
    """A function from inputs to outputs, by name. `values` are inputs that never change."""
    return _onnx_runtime(path, values or {}) if path.suffix == ".onnx" else _litert(path)


def _onnx_runtime(path: pathlib.Path, values: Mapping[str, int | float]) -> Callable[[Arrays], Arrays]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # More would compute pairs of QuantizeLinear and DequantizeLinear in integers that saturate on some processors.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(str(path), options)
    outputs = [each.name for each in session.get_outputs()]

    def run(inputs: Arrays) -> Arrays:
        fed = {
            each.name: np.asarray(values.get(each.name, inputs.get(each.name))).astype(ONNX_TYPES[each.type])
            for each in session.get_inputs()
        }
        return dict(zip(outputs, session.run(None, fed), strict=True))

    return run


def _litert(path: pathlib.Path) -> Callable[[Arrays], Arrays]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(str(path), num_threads=1)
    if any(each["dtype"] == np.int8 for each in interpreter.get_input_details()):
        # Integers: the kernels that define them. The optimized ones may round differently.
        interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    allocated: dict[str, tuple[int, ...]] = {}

    def run(inputs: Arrays) -> Arrays:
        shapes = {name: value.shape for name, value in inputs.items()}
        details = interpreter.get_input_details()
        if shapes != allocated:
            for each in details:
                if tuple(each["shape"]) != shapes[each["name"]]:
                    interpreter.resize_tensor_input(each["index"], shapes[each["name"]])
            interpreter.allocate_tensors()
            allocated.update(shapes)
        for each in details:
            interpreter.set_tensor(each["index"], inputs[each["name"]])
        interpreter.invoke()
        return {
            each["name"]: interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()
        }

    return run
