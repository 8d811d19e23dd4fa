"""ResNet-50 at 224x224, int8, with random weights, as a .tosa file: how large networks run, not what they know.

    python bench/resnet50.py resnet50.tosa
    python bench/resnet50.py stage3.tosa --stage 3
    tosaic bench resnet50.tosa --on emulator --check
    tosaic bench stage3.tosa --check

The topology of torchvision (strides in the 3x3 convolutions), in the operators a TFLite conversion gives.
`--stage N` is the first two blocks of stage N alone: the one that halves the image and widens it, and another.
"""

import argparse

from random_network import CLASSES, IMAGE_SIZE, IMAGE_ZERO_POINT, Activation, RandomNetwork

from tosaic.compiler.ir import Graph, write_tosa

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels inside the blocks, blocks, stride of the first one."""
_EXPANSION = 4


def bottleneck(net: RandomNetwork, x: Activation, channels: int, stride: int) -> Activation:
    """A block: narrow, convolve, widen, and add what came in."""
    y = net.convolution(x, channels, 1)
    y = net.convolution(y, channels, 3, stride)
    y = net.convolution(y, _EXPANSION * channels, 1, linear=0)
    if y.channels != x.channels or stride > 1:
        x = net.convolution(x, _EXPANSION * channels, 1, stride, linear=0)
    return net.add(x, y)


def resnet50(seed: int = 0) -> Graph:
    """The whole network: an int8 image [1, 224, 224, 3] to 1000 int8 logits."""
    net = RandomNetwork("resnet50", seed)
    x = net.convolution(net.image(IMAGE_SIZE, 3, IMAGE_ZERO_POINT), 64, 7, 2)
    x = net.pool(x, "MAX_POOL2D", 3, 2)
    for channels, blocks, stride in STAGES:
        for block in range(blocks):
            x = bottleneck(net, x, channels, stride if block == 0 else 1)
    x = net.pool(x, "AVG_POOL2D", x.size, 1)
    return net.finish(net.convolution(x, CLASSES, 1, linear=0))


def stage(number: int, seed: int = 0) -> Graph:
    """The first two blocks of stage 2, 3 or 4."""
    channels, _, stride = STAGES[number - 1]
    net = RandomNetwork(f"resnet50 stage {number}", seed)
    x = net.image(IMAGE_SIZE // (1 << number), _EXPANSION * STAGES[number - 2][0])
    for step in (stride, 1):
        x = bottleneck(net, x, channels, step)
    return net.finish(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", help="the .tosa file to write")
    parser.add_argument("--stage", type=int, choices=(2, 3, 4), help="two blocks of this stage alone")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    write_tosa(stage(chosen.stage, chosen.seed) if chosen.stage else resnet50(chosen.seed), chosen.file)


if __name__ == "__main__":
    main()
