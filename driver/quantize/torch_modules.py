"""Makes an integer graph with its encodings of a PyTorch module, by one of two roads."""

import copy
import dataclasses
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

from tosaic.compiler.importers.torch_models import tosa_backend
from tosaic.compiler.importers.torch_models.onnx_road import onnx_of
from tosaic.compiler.importers.torch_models.packages import load_executorch, load_pt2e, load_torch
from tosaic.compiler.importers.torch_models.program import (
    export,
    input_nodes,
    inputs_of,
    inputs_of_graph,
    is_quantized,
    read_program,
)
from tosaic.compiler.quantizer import Encoding, Quantized
from tosaic.driver.feeds import array_of
from tosaic.driver.float_graphs import computes_floats
from tosaic.errors import InputError, UnsupportedError

from .encoded_models import FloatPortError, import_encoded
from .prepared import Quantization
from .quantization import quantize_graph
from .torch_samples import Sample, samples_of, stacked

ROADS = ("onnx", "executorch")
DEFAULT_ROAD = "onnx"
"""The road that is better by the figures of docs/pytorch.md."""
ACTIVATIONS = ("int8", "int16")


@dataclasses.dataclass(frozen=True)
class QuantizedModule:
    """A module's program in floats, and its integers."""

    program: Any
    """The exported program: what the integers are compared with."""
    result: Quantized
    samples: list[Sample]
    """Samples of the calibration, in the order of forward()'s arguments; without one the example."""
    brought: bool = False
    """The module brought its integers."""
    quantization: Quantization | None = None
    """The quantization with the float graph, where Tosaic's quantizer made the integers."""


def quantize_module(
    module: Any, example_inputs: Sequence[Any], calibration: Any, road: str, activations: str
) -> QuantizedModule:
    """The exported program and its integers.

    A module that PT2E has prepared (for quantization after or during training) is converted first; one that it has
    converted keeps its encodings, and `activations` says nothing. Raises InputError, ModelError, UnsupportedError.
    """
    if road not in ROADS:
        raise InputError(f"there is no road {road!r}; use one of {', '.join(ROADS)}")
    if activations not in ACTIVATIONS:
        raise InputError(f"activations cannot be {activations!r}; use one of {', '.join(ACTIVATIONS)}")
    if _is_prepared(module):
        module = _converted(module, calibration)
    program = export(module, example_inputs)
    if is_quantized(program):
        example = [array_of("example", value) for value in example_inputs]
        return QuantizedModule(
            program, integers_of(program, road), [example] if example else [], brought=True
        )
    samples = samples_of(inputs_of(program), calibration, example_inputs)
    if road == "onnx":
        from tosaic.compiler.importers.onnx_models import import_onnx

        graph = import_onnx(onnx_of(program))
        if not computes_floats(graph):
            return QuantizedModule(program, Quantized(graph, {}, {}, {}), samples)
        data = stacked(inputs_of(program), samples)
        known = {name: array for name, array in data.items() if name in graph.inputs}
        found = quantize_graph(graph, known, activations=activations)
        return QuantizedModule(program, found.result, samples, quantization=found)
    quantized = quantized_by_executorch(program, samples, activations == "int16")
    return QuantizedModule(program, integers_of(quantized, road), samples)


def integers_of(program: Any, road: str) -> Quantized:
    """The integers of a program that holds PT2E's pairs of quantize and dequantize."""
    if road == "onnx":
        try:
            found = import_encoded(onnx_of(program))
        except FloatPortError as error:
            raise UnsupportedError(f"{error.reason}; quantize it as well, or use road='executorch'") from None
        assert found is not None
        return found
    lowered = tosa_backend.lower(program)
    inputs, outputs = (
        {name: Encoding(pair.dtype, pair.scale, pair.zero_point) for name, pair in side.items()}
        for side in (lowered.inputs, lowered.outputs)
    )
    return Quantized(lowered.graph, inputs, outputs, {})


def import_quantized(path: pathlib.Path) -> Quantized | None:
    """The integers of a .pt2 file that holds PT2E's pairs of quantize and dequantize; None for any other program."""
    program = read_program(path)
    return integers_of(program, DEFAULT_ROAD) if is_quantized(program) else None


def _is_prepared(module: Any) -> bool:
    """Whether PT2E's observers or fake quantizers are in the module."""
    torch = load_torch()
    if not isinstance(module, torch.fx.GraphModule):
        return False
    pt2e = load_pt2e()
    return any(isinstance(each, pt2e.ObserverBase | pt2e.FakeQuantizeBase) for each in module.modules())


def _converted(module: Any, calibration: Any) -> Any:
    """A copy of a prepared module, converted; if calibration data is given, its observers see it first."""
    pt2e, torch = load_pt2e(), load_torch()
    module = copy.deepcopy(module)  # to convert changes a module in place
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pt2e.move_exported_model_to_eval(module)
        if calibration is not None:
            with torch.no_grad():
                for sample in samples_of(inputs_of_graph(module), calibration, ()):
                    module(*map(torch.from_numpy, sample))
        return pt2e.quantize_pt2e.convert_pt2e(module)


def quantized_by_executorch(program: Any, samples: list[Any], int16: bool) -> Any:
    """The program with PT2E's pairs, by the quantizer of ExecuTorch's TOSA backend."""
    torch, pt2e = load_torch(), load_pt2e()
    _, arm = load_executorch()
    quantizer = arm.quantizer.TOSAQuantizer(tosa_backend.compile_spec(int16))
    chosen = (
        arm.quantizer.get_symmetric_a16w8_quantization_config()
        if int16
        else arm.quantizer.get_symmetric_quantization_config(is_per_channel=True)
    )
    quantizer.set_global(chosen)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            prepared = pt2e.quantize_pt2e.prepare_pt2e(program.module(check_guards=False), quantizer)
            for sample in samples:
                prepared(*map(torch.from_numpy, sample))
            converted = pt2e.quantize_pt2e.convert_pt2e(prepared)
        except Exception as error:  # whatever its annotators and passes raise
            said = " ".join(str(error).split())[:400]
            raise UnsupportedError(
                f"ExecuTorch cannot quantize the program ({type(error).__name__}: {said}); use road='onnx'"
            ) from error
    values = [node.meta["val"] for node in input_nodes(program)]
    return export(converted, [torch.zeros(tuple(value.shape), dtype=value.dtype) for value in values])
