"""What an ONNX model computes with other values in its tensors, by ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.install import install_command
from tosaic.nnr.errors import NnrError
from tosaic.nnr.onnx_carriage import load_onnx_package
from tosaic.nnr.onnx_tensors import model_tensors

Outputs = dict[str, np.ndarray]


def load_onnxruntime() -> Any:
    """The module `onnxruntime`; NnrError with the way to install it."""
    try:
        import onnxruntime
    except ImportError:
        raise NnrError(
            f"measuring a model's outputs needs the package onnxruntime: {install_command('nnr')}"
        ) from None
    return onnxruntime


class OnnxRuns:
    """A model and samples of its inputs.

    samples: by input name, along the first axis; of the input's rank (a sample has 1 as its first size) or one more.
    """

    def __init__(self, model: Any, samples: Mapping[str, np.ndarray]) -> None:
        onnx = load_onnx_package()
        self._runtime = load_onnxruntime()
        self._model = onnx.ModelProto()
        self._model.CopyFrom(model)
        self._tensors = model_tensors(self._model)
        self._feeds = _feeds(self._session(), samples)
        self.expected = self.outputs({})

    def outputs(self, values: Mapping[str, np.ndarray]) -> Outputs:
        """The float outputs of all samples, float64, with `values` in place of the model's own."""
        kept = {name: self._tensors[name].SerializeToString() for name in values}
        try:
            for name, array in values.items():
                # What is read is the raw data: the other fields are for values of other types.
                self._tensors[name].ClearField("float_data")
                self._tensors[name].raw_data = np.ascontiguousarray(array, "<f4").tobytes()
            session = self._session()
        finally:
            for name, data in kept.items():
                self._tensors[name].ParseFromString(data)
        names = [output.name for output in session.get_outputs()]
        try:
            runs = [session.run(names, feed) for feed in self._feeds]
        except Exception as error:
            raise NnrError(f"ONNX Runtime cannot run the model: {_first_line(error)}") from None
        columns = {name: [np.asarray(run[number]) for run in runs] for number, name in enumerate(names)}
        return {
            name: np.concatenate([array.astype(np.float64).reshape(-1) for array in arrays])
            for name, arrays in columns.items()
            if arrays[0].dtype.kind == "f"
        }

    def error(self, values: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Returns by output the power of the error that `values` cause, as a share of the output's power.

        It is infinite when the model does not run: the scales of a Resize, say, must be exact.
        """
        shares = {}
        try:
            found = self.outputs(values)
        except NnrError:
            return dict.fromkeys(self.expected, np.inf)
        for name, wanted in self.expected.items():
            power = float(np.mean(wanted**2))
            with np.errstate(invalid="ignore", over="ignore"):
                error = (
                    float(np.mean((found[name] - wanted) ** 2)) if found[name].size == wanted.size else np.inf
                )
            shares[name] = error / power if power else (np.inf if error else 0.0)
        return shares

    def _session(self) -> Any:
        options = self._runtime.SessionOptions()
        # A session runs once: what optimizing it takes does not come back.
        options.graph_optimization_level = self._runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            return self._runtime.InferenceSession(self._model.SerializeToString(), options)
        except Exception as error:
            # The runtime's classes derive from Exception, and differ between releases.
            raise NnrError(f"ONNX Runtime cannot run the model: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _feeds(session: Any, samples: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    inputs = {each.name: len(each.shape) for each in session.get_inputs()}
    if len(inputs) == 1 and set(samples) == {""}:
        # A .npy file has no names.
        samples = dict(zip(inputs, samples.values(), strict=True))
    if set(inputs) != set(samples):
        raise NnrError(
            f"the samples are for the inputs {', '.join(map(repr, samples)) or 'none'}; the model has "
            f"{', '.join(map(repr, inputs)) or 'none'}"
        )
    counts = {len(array) if array.ndim else 0 for array in samples.values()}
    if len(counts) != 1 or not min(counts):
        raise NnrError(
            f"every input needs the same number of samples along its first axis, not {sorted(counts)}"
        )
    for name, array in samples.items():
        if array.ndim not in (inputs[name], inputs[name] + 1):
            raise NnrError(
                f"samples of input {name!r} have the shape {list(array.shape)}; the input has {inputs[name]} "
                "dimensions, before which one may count the samples"
            )
    return [
        {
            name: np.asarray(array[number]) if array.ndim > inputs[name] else array[number : number + 1]
            for name, array in samples.items()
        }
        for number in range(min(counts))
    ]
