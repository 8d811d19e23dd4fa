"""MobileNetV2-1.0 at 224x224, int8, with random weights, as a .tosa file: the tables' row `mbv2_100_224`.

    python bench/mobilenet_v2.py mbv2_100_224.tosa
    tosaic bench mbv2_100_224.tosa --config base --on emulator

The operators and shapes are those that a conversion of TFLite gives, so the cycles are those of the tables.
"""

import argparse

from random_network import CLASSES, IMAGE_SIZE, IMAGE_ZERO_POINT, Activation, RandomNetwork

from tosaic.compiler.ir import Graph, write_tosa

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, stride of the first one: Sandler et al., arXiv 1801.04381, table 2."""
_LINEAR_ZERO_POINT = -10
"""Of what no ReLU follows."""
_BIAS_DEVIATION = 1500
"""Of the first stage's biases; a later stage's are wider, as in a trained network."""


def inverted_residual(
    net: RandomNetwork, x: Activation, expansion: int, channels: int, stride: int
) -> Activation:
    """A block: widen, convolve each channel, narrow, and add what came in where the shape is the same."""
    y = net.convolution(x, expansion * x.channels, 1) if expansion > 1 else x
    y = net.convolution(net.depthwise(y, 3, stride), channels, 1, linear=_LINEAR_ZERO_POINT)
    return net.add(x, y, linear=y.zero_point, ratio=0.8) if stride == 1 and x.channels == channels else y


def mobilenet_v2(seed: int = 0) -> Graph:
    """The whole network: an int8 image [1, 224, 224, 3] to 1000 int8 logits."""
    net = RandomNetwork("mobilenet_v2", seed)
    net.bias_deviation = _BIAS_DEVIATION
    x = net.convolution(net.image(IMAGE_SIZE, 3, IMAGE_ZERO_POINT), 32, 3, 2)
    for number, (expansion, channels, blocks, stride) in enumerate(STAGES, 1):
        net.bias_deviation = number * _BIAS_DEVIATION
        for block in range(blocks):
            x = inverted_residual(net, x, expansion, channels, stride if block == 0 else 1)
    x = net.mean(net.convolution(x, 1280, 1))
    return net.finish(net.convolution(x, CLASSES, 1, linear=_LINEAR_ZERO_POINT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", help="the .tosa file to write")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    write_tosa(mobilenet_v2(chosen.seed), chosen.file)


if __name__ == "__main__":
    main()
