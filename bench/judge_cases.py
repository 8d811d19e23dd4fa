"""Networks in several forms for `tosaic dev judge`: random PyTorch modules, and random TFLite models.

    python bench/judge_cases.py torch -o build/judge/executorch-tosa --count 100 [--int16]
    python bench/judge_cases.py tflite -o build/judge/tosa-converter-for-tflite --count 100 [--operators 1]

`torch`: ExecuTorch's TOSA quantizer makes a module's integers, its TOSA back end the graph (graph.tosa); PyTorch's ONNX
exporter (graph.onnx, pairs of QuantizeLinear and DequantizeLinear) and ExecuTorch without a back end (graph.pte) take
the same integers. `tflite`: a random TFLite model (graph.tflite) and what Arm's converter makes of it (graph.tosa).
A case that is there is not made again. What a producer refuses is told, and counted in refused.txt.
"""

import argparse
import collections
import pathlib
import sys
import warnings
from typing import Any

import numpy as np

_IMPORTERS = pathlib.Path(__file__).resolve().parents[1] / "tests" / "importers"
sys.path.append(str(_IMPORTERS))

from tosaic.driver.judge import JudgeCase  # noqa: E402
from tosaic.errors import Error  # noqa: E402

CALIBRATION_SAMPLES = 4


class Refused(Exception):
    """A producer does not take the network."""


def tflite_case(seed: int, folder: pathlib.Path, *, operators: int = 0, **_: Any) -> JudgeCase:
    """A random TFLite model by Arm's converter."""
    from arm_converter import converted
    from tflite_builder import Builder
    from tflite_random import random_graph

    if operators:
        builder = Builder(np.random.default_rng(seed))
        for _ in range(operators):
            builder.grow()
    else:
        builder = random_graph(seed, 0)
    data = builder.packed()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "graph.tflite"
    file.write_bytes(data)
    shapes = {f"t{index}": list(builder.tensors[index].shape) for index in builder.inputs}
    try:
        graph = converted(file, shapes)
    except Exception as error:
        raise Refused(f"Arm's converter: {type(error).__name__}: {error}") from None
    feeds = {}
    for name, value in zip(graph.inputs, builder.feeds, strict=True):
        feeds[name] = np.ascontiguousarray(value).view(graph.tensors[name].dtype.numpy)
    return JudgeCase(folder.name, graph, feeds, {"tflite": data})


def random_module(seed: int) -> tuple[Any, tuple[int, ...]]:
    """A module of 2 to 6 layers, and its input's shape."""
    import torch
    from torch import nn

    random = np.random.default_rng(seed)
    torch.manual_seed(seed)

    class Residual(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.inner(x)

    class Gated(Residual):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.sigmoid(self.inner(x))

    def pick(*choices: Any) -> Any:
        return choices[int(random.integers(len(choices)))]

    def activation() -> nn.Module:
        return pick(
            nn.ReLU, nn.ReLU6, nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.GELU, nn.SiLU, nn.ELU, nn.Identity
        )()

    channels, size = pick(1, 3, 4, 8), pick(6, 8, 9)
    shape = (1, channels, size, size)
    layers: list[nn.Module] = []
    for _ in range(int(random.integers(1, 5))):
        kind, kernel = pick("conv", "depthwise", "pool", "residual", "gated"), pick(1, 3)
        if kind == "conv":
            wider = pick(4, 6, 8)
            layers.append(
                nn.Conv2d(channels, wider, kernel, padding=pick(0, kernel // 2), bias=pick(True, False))
            )
            channels = wider
        elif kind == "depthwise":
            layers.append(nn.Conv2d(channels, channels, 3, padding=1, groups=channels))
        elif kind == "pool":
            layers.append(pick(nn.MaxPool2d, nn.AvgPool2d)(2, stride=1))
        else:
            layers.append(pick(Residual, Gated)(nn.Conv2d(channels, channels, 1)))
        layers.append(activation())
    head = pick("linear", "mean", "none")
    if head == "mean":
        layers.append(nn.AdaptiveAvgPool2d(1))
    if head == "linear":
        with torch.no_grad():
            width = nn.Sequential(*layers, nn.Flatten(1))(torch.zeros(shape)).shape[1]
        layers += [nn.Flatten(1), nn.Linear(width, 5), pick(nn.Identity(), nn.Softmax(-1))]
    return nn.Sequential(*layers).eval(), shape


def torch_case(seed: int, folder: pathlib.Path, *, int16: bool, **_: Any) -> JudgeCase:
    """A random module by ExecuTorch's TOSA back end, its portable operators and ONNX."""
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge

    from tosaic.compiler.importers.torch_models import tosa_backend
    from tosaic.compiler.importers.torch_models.onnx_road import onnx_of
    from tosaic.compiler.importers.torch_models.program import export, inputs_of
    from tosaic.driver.quantize.torch_modules import quantized_by_executorch
    from tosaic.driver.quantize.torch_samples import samples_of

    module, shape = random_module(seed)
    samples = [torch.randn(shape) for _ in range(CALIBRATION_SAMPLES)]
    try:
        floats = export(module, (samples[0],))
        program = quantized_by_executorch(
            floats, samples_of(inputs_of(floats), samples, (samples[0],)), int16
        )
        lowered = tosa_backend.lower(program)
    except Error as error:
        raise Refused(str(error)) from None
    if lowered.inputs.keys() != set(lowered.graph.inputs) or lowered.outputs.keys() != set(
        lowered.graph.outputs
    ):
        raise Refused("an input or an output is left in floats")
    wrapped = _integers_only(program.module(check_guards=False), lowered)
    random = np.random.default_rng(seed)
    feeds, example = {}, []
    for name in lowered.graph.inputs:
        tensor = lowered.graph.tensors[name]
        # ExecuTorch's int16 is symmetric.
        low = tensor.dtype.min + (1 if int16 else 0)
        value = random.integers(low, tensor.dtype.max, tensor.shape, endpoint=True)
        feeds[name] = value.astype(tensor.dtype.numpy)
        example.append(torch.from_numpy(feeds[name]))
    exported = torch.export.export(wrapped, tuple(example))
    forms = {}
    try:
        forms["onnx"] = onnx_of(exported).SerializeToString()
    except Error as error:  # The other forms are judged.
        print(f"{folder.name} has no graph.onnx: {error}", flush=True)
    edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    forms["pte"] = bytes(edge.to_executorch().buffer)
    return JudgeCase(folder.name, lowered.graph, feeds, forms)


def _integers_only(inner: Any, lowered: Any) -> Any:
    """The module with the integers of its inputs and outputs: to encode what was decoded changes nothing."""
    import torch

    operators = torch.ops.quantized_decomposed

    def words(pair: Any) -> tuple[Any, ...]:
        dtype = torch.int16 if pair.dtype.bits == 16 else torch.int8
        return pair.scale, pair.zero_point, pair.dtype.min + (pair.dtype.bits == 16), pair.dtype.max, dtype

    class IntegersOnly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            pairs = zip(values, lowered.inputs.values(), strict=True)
            found = self.inner(
                *(operators.dequantize_per_tensor(value, *words(pair)) for value, pair in pairs)
            )
            found = found if isinstance(found, list | tuple) else (found,)
            ends = zip(found, lowered.outputs.values(), strict=True)
            return tuple(operators.quantize_per_tensor(value, *words(pair)) for value, pair in ends)

    return IntegersOnly()


MAKERS = {"torch": torch_case, "tflite": tflite_case}


def main() -> None:
    """Writes the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=MAKERS)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--int16", action="store_true", help="16-bit activations (torch)")
    parser.add_argument(
        "--operators", type=int, default=0, help="operators of a model (tflite; default: 3 to 7)"
    )
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    make, refused = MAKERS[chosen.kind], collections.Counter[str]()
    for number in range(chosen.count):
        seed = chosen.seed * 1_000_000 + number
        folder = chosen.output / f"{chosen.kind}{seed}"
        if (folder / "case.json").is_file():
            continue
        try:
            make(seed, folder, int16=chosen.int16, operators=chosen.operators).save(folder)
        except Refused as error:
            refused[" ".join(str(error).split())[:200]] += 1
            print(f"{folder.name} refused: {error}", flush=True)
    if refused:
        lines = [f"{count} {reason}\n" for reason, count in refused.most_common()]
        (chosen.output / "refused.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
