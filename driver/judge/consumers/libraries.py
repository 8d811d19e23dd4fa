"""Consumers that are Python libraries: Tosaic's own targets, ONNX Runtime, LiteRT, ExecuTorch's portable operators."""

import importlib.util
import tempfile
from importlib import metadata
from typing import Any

import numpy as np

from tosaic.errors import InputError, UnsupportedError
from tosaic.install import install_command

from ..case import TOSA, JudgeCase
from ..outcome import Refusal
from .consumer import Outputs, consumer
from .in_process import InProcess

CONFIG = "base"


@consumer("golden")
class GoldenModel(InProcess):
    """The golden model: what the others are compared with."""

    name, form = "golden", TOSA

    def version(self) -> str:
        return f"tosaic {metadata.version('tosaic')}"

    def compute(self, case: JudgeCase) -> Outputs:
        from tosaic.sim.golden import evaluate

        return evaluate(case.graph, dict(case.feeds))


@consumer("emulator")
class TosaicEmulator(InProcess):
    """Tosaic's compiler and the emulator of its machine."""

    name, form = "emulator", TOSA

    def version(self) -> str:
        return f"tosaic {metadata.version('tosaic')}, configuration {CONFIG}"

    def load(self) -> None:
        import tosaic.driver.session  # noqa: F401

    def compute(self, case: JudgeCase) -> Outputs:
        from tosaic.driver.session import Session

        try:
            return Session(case.graph, "emulator", CONFIG).run(dict(case.feeds))
        except UnsupportedError as error:
            raise Refusal(str(error)) from None


class _Library(InProcess):
    """A library that reads another form of the network: inputs and outputs go by their order."""

    form: str
    package: str
    module: str
    extra: str

    def version(self) -> str:
        if importlib.util.find_spec(self.module) is None:
            raise InputError(f"{self.name}: {self.package} is missing: {install_command(self.extra)}")
        return f"{self.package} {metadata.version(self.package)}"

    def load(self) -> None:
        importlib.import_module(self.module)

    def compute(self, case: JudgeCase) -> Outputs:
        found = self.computed(case.forms[self.form], case.values)
        graph = case.graph
        if len(found) != len(graph.outputs):
            raise ValueError(f"{len(found)} outputs, the graph has {len(graph.outputs)}")
        return {
            name: np.asarray(value).reshape(tuple(graph.tensors[name].shape))
            for name, value in zip(graph.outputs, found, strict=True)
        }

    def computed(self, data: bytes, values: list[np.ndarray]) -> list[Any]:
        raise NotImplementedError


@consumer("onnxruntime")
class OnnxRuntime(_Library):
    """ONNX Runtime on the processor, all its optimizations on: pairs of QuantizeLinear and DequantizeLinear become its
    integer kernels."""

    name, form, package, module, extra = "onnxruntime", "onnx", "onnxruntime", "onnxruntime", "source"

    def computed(self, data: bytes, values: list[np.ndarray]) -> list[Any]:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise Refusal(str(error)) from None
        names = [each.name for each in session.get_inputs()]
        return session.run(None, dict(zip(names, values, strict=True)))


@consumer("litert")
class LiteRt(_Library):
    """LiteRT with its reference kernels."""

    name, form, package, module, extra = (
        "litert",
        "tflite",
        "ai-edge-litert",
        "ai_edge_litert.interpreter",
        "source",
    )

    def computed(self, data: bytes, values: list[np.ndarray]) -> list[Any]:
        from ai_edge_litert import interpreter as litert

        try:
            kernels = litert.OpResolverType.BUILTIN_REF
            runner = litert.Interpreter(model_content=data, experimental_op_resolver_type=kernels)
            runner.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise Refusal(str(error)) from None
        for details, value in zip(runner.get_input_details(), values, strict=True):
            dtype = np.dtype(details["dtype"])
            fits = dtype.itemsize == value.dtype.itemsize
            runner.set_tensor(
                details["index"],
                (value.view(dtype) if fits else value.astype(dtype)).reshape(details["shape"]),
            )
        runner.invoke()
        return [runner.get_tensor(details["index"]) for details in runner.get_output_details()]


@consumer("executorch")
class ExecuTorch(_Library):
    """ExecuTorch's portable operators: a program that no back end has taken a part of."""

    name, form, package, module, extra = "executorch", "pte", "executorch", "executorch.runtime", "torch"

    def load(self) -> None:
        super().load()
        import executorch.kernels.quantized  # noqa: F401 (quantize and dequantize are operators of their own)

    def computed(self, data: bytes, values: list[np.ndarray]) -> list[Any]:
        import torch
        from executorch.runtime import Runtime

        with tempfile.NamedTemporaryFile(suffix=".pte") as file:
            file.write(data)
            file.flush()
            method = Runtime.get().load_program(file.name).load_method("forward")
            return [each.numpy() for each in method.execute([torch.from_numpy(value) for value in values])]
