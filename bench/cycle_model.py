"""Which dataflow gives which cycles: a model of the array for the networks we measure ourselves by.

    python bench/cycle_model.py MODEL.tosa... [--config base] [--bandwidth 16]

Every convolution of a model is costed under several dataflows on a rows x columns array; the model behind the
decision in docs/decisions/0001-dataflow.md. `resnet50` in place of a file costs that topology at 224x224. The
figures are compute cycles of each layer, or its weights' cycles on the bus where that is more; no latencies.
"""

import argparse
import dataclasses
import math
import pathlib
from collections.abc import Callable

from tosaic.compiler.ir import Graph, read_tosa
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config


@dataclasses.dataclass(frozen=True)
class Conv:
    """One convolution; for a depthwise one `ic` is 1 and `oc` the channels."""

    oh: int
    ow: int
    ic: int
    oc: int
    kh: int
    kw: int
    stride: int
    depthwise: bool = False

    @property
    def macs(self) -> int:
        return self.oh * self.ow * self.oc * self.kh * self.kw * self.ic

    @property
    def weight_bytes(self) -> int:
        return self.oc * self.kh * self.kw * self.ic


def output_stationary(conv: Conv, config: Config) -> int:
    """Rows are pixels, columns output channels; a word of W contiguous input bytes takes W cycles. Depthwise is a dense
    convolution with a diagonal weight matrix per block of W channels."""
    width = config.columns
    tiles = math.ceil(conv.oh * conv.ow / config.rows) * math.ceil(conv.oc / width)
    run = conv.kw * width if conv.depthwise else math.ceil(conv.kw * conv.ic / width) * width
    return tiles * conv.kh * run


def output_stationary_aligned(conv: Conv, config: Config) -> int:
    """The same with channels padded to whole words instead of runs over kernel columns."""
    width = config.columns
    tiles = math.ceil(conv.oh * conv.ow / config.rows) * math.ceil(conv.oc / width)
    return tiles * conv.kh * conv.kw * (width if conv.depthwise else math.ceil(conv.ic / width) * width)


def weight_stationary(conv: Conv, config: Config) -> int:
    """Rows hold inputs of the dot product, columns output channels; pixels stream, after loading each fold."""
    k = conv.kh * conv.kw * conv.ic
    folds = math.ceil(k / config.rows) * (conv.oc if conv.depthwise else math.ceil(conv.oc / config.columns))
    return folds * (conv.oh * conv.ow + config.rows)


def tap_stationary(conv: Conv, config: Config) -> int:
    """Returns the cycles as output_stationary does, but depthwise kernels that fit the rows hold taps and sum
    down the rows: one input vector of W channels per cycle over the padded image, plus filling the rows with
    taps and draining them.
    """
    if not conv.depthwise or conv.kh * conv.kw > config.rows or conv.kh > config.line_groups:
        return output_stationary(conv, config)
    line = (conv.ow - 1) * conv.stride + conv.kw
    lines = (conv.oh - 1) * conv.stride + conv.kh
    return math.ceil(conv.oc / config.columns) * (line * lines + 2 * config.rows)


DATAFLOWS: dict[str, Callable[[Conv, Config], int]] = {
    "weight stationary": weight_stationary,
    "output stationary, aligned": output_stationary_aligned,
    "output stationary, runs": output_stationary,
    "chosen: + tap-stationary depthwise": tap_stationary,
}


def convolutions(graph: Graph) -> list[Conv]:
    """The convolutions of a TOSA graph. One-column images count as one row: the compiler turns them."""
    found = []
    for operator in graph.operators:
        if operator.op not in ("CONV2D", "DEPTHWISE_CONV2D"):
            continue
        _, oh, ow, oc = graph.tensors[operator.outputs[0]].shape
        weight = graph.tensors[operator.inputs[1]].shape
        stride = operator.attributes["stride"][0]
        if operator.op == "CONV2D":
            conv = Conv(oh, ow, weight[3], oc, weight[1], weight[2], stride)
        else:
            conv = Conv(oh, ow, 1, oc, weight[0], weight[1], stride, depthwise=True)
        if graph.tensors[operator.inputs[0]].shape[2] == 1 and conv.kw == 1:
            conv = dataclasses.replace(conv, oh=conv.ow, ow=conv.oh, kh=conv.kw, kw=conv.kh)
        found.append(conv)
    return found


def resnet50() -> list[Conv]:
    """ResNet-50 at 224x224, strides in the 3x3 convolutions."""
    layers = [Conv(112, 112, 3, 64, 7, 7, 2)]
    channels, size = 64, 56
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            layers.append(Conv(size, size, channels, width, 1, 1, 1))
            size //= step
            layers.append(Conv(size, size, width, width, 3, 3, step))
            layers.append(Conv(size, size, width, 4 * width, 1, 1, 1))
            if block == 0:
                layers.append(Conv(size, size, channels, 4 * width, 1, 1, step))
            channels = 4 * width
    return [*layers, Conv(1, 1, 2048, 1000, 1, 1, 1)]


def cycles(
    layers: list[Conv], config: Config, bandwidth: int, dataflow: Callable[[Conv, Config], int]
) -> int:
    """Cycles of a network: per layer the array's, or its weights' on the bus."""
    return sum(max(dataflow(conv, config), math.ceil(conv.weight_bytes / bandwidth)) for conv in layers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help=".tosa files, or resnet50")
    parser.add_argument("--config", default="base")
    parser.add_argument("--bandwidth", type=int, default=16, help="bytes per cycle of the weights' bus")
    arguments = parser.parse_args()
    config = get_config(arguments.config)
    print(f"| network | MACs | ideal | {' | '.join(DATAFLOWS)} |")
    print("|---" * (3 + len(DATAFLOWS)) + "|")
    for model in arguments.models:
        layers = resnet50() if model == "resnet50" else convolutions(read_tosa(model))
        path = pathlib.Path(model)
        name = path.parent.name if path.stem == "model" else path.stem
        macs = sum(conv.macs for conv in layers)
        figures = [cycles(layers, config, arguments.bandwidth, dataflow) for dataflow in DATAFLOWS.values()]
        row = " | ".join(f"{figure:,}" for figure in figures)
        print(f"| {name} | {macs:,} | {math.ceil(macs / config.macs_per_cycle):,} | {row} |")


if __name__ == "__main__":
    main()
