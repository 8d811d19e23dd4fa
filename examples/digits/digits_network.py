"""The two networks of this example, described once: the trainer and the quantizer both read these lists.

A network is a sequence of layers. Each layer takes the output of the layer before it; `Add` takes the output
of one earlier layer as well, by name. Activations are NHWC. Weights are laid out as TOSA wants them:
[OC, KH, KW, IC] for CONV2D, [KH, KW, C, 1] for DEPTHWISE_CONV2D.
"""

from dataclasses import dataclass

IMAGE_SIZE = 8
CLASSES = 10


@dataclass(frozen=True)
class Conv:
    """Convolution with bias; `pad` is [top, bottom, left, right] and must satisfy TOSA's exact division."""

    name: str
    out_channels: int
    kernel: int = 3
    stride: int = 1
    pad: tuple[int, int, int, int] = (1, 1, 1, 1)
    relu: bool = True
    depthwise: bool = False


@dataclass(frozen=True)
class Add:
    """Adds the output of layer `skip` to the output of the layer before."""

    name: str
    skip: str
    relu: bool = True


@dataclass(frozen=True)
class AveragePool:
    """Global average over height and width: [N, H, W, C] -> [N, 1, 1, C]."""

    name: str


@dataclass(frozen=True)
class Flatten:
    """[N, H, W, C] -> [N, 1, 1, H*W*C], so that the fully connected layer is a 1x1 convolution."""

    name: str


Layer = Conv | Add | AveragePool | Flatten

# The padding of a stride-2 3x3 convolution over an even size: 8 -> 4 -> 2 with no row left over.
HALVING = (0, 1, 0, 1)
NO_PADDING = (0, 0, 0, 0)

DIGITS: tuple[Layer, ...] = (
    Conv("conv1", 16),
    Conv("conv2", 16, relu=False),
    Add("residual", skip="conv1"),
    Conv("depthwise", 16, stride=2, pad=HALVING, depthwise=True),
    Conv("pointwise", 32, kernel=1, pad=NO_PADDING),
    Conv("conv3", 32),
    AveragePool("pool"),
    Conv("logits", CLASSES, kernel=1, pad=NO_PADDING, relu=False),
)

DIGITS_TINY: tuple[Layer, ...] = (
    Conv("conv1", 8, stride=2, pad=HALVING),
    Conv("conv2", 16, stride=2, pad=HALVING),
    Flatten("flatten"),
    Conv("logits", CLASSES, kernel=1, pad=NO_PADDING, relu=False),
)

NETWORKS: dict[str, tuple[Layer, ...]] = {"digits": DIGITS, "digits_tiny": DIGITS_TINY}


def conv_output_shape(layer: Conv, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Output [H, W, C] of a convolution over [H, W, C]."""
    top, bottom, left, right = layer.pad
    height = (shape[0] + top + bottom - layer.kernel) // layer.stride + 1
    width = (shape[1] + left + right - layer.kernel) // layer.stride + 1
    return height, width, layer.out_channels


def output_shapes(network: tuple[Layer, ...]) -> dict[str, tuple[int, int, int]]:
    """[H, W, C] of every layer's output, by layer name; "input" is the image."""
    shapes = {"input": (IMAGE_SIZE, IMAGE_SIZE, 1)}
    current = shapes["input"]
    for layer in network:
        match layer:
            case Conv():
                current = conv_output_shape(layer, current)
            case AveragePool():
                current = (1, 1, current[2])
            case Flatten():
                current = (1, 1, current[0] * current[1] * current[2])
        shapes[layer.name] = current
    return shapes


def weight_shapes(network: tuple[Layer, ...]) -> dict[str, tuple[int, int, int, int]]:
    """Weight shape of every convolution, by layer name, in TOSA's layout."""
    shapes = output_shapes(network)
    result: dict[str, tuple[int, int, int, int]] = {}
    previous = "input"
    for layer in network:
        if isinstance(layer, Conv):
            channels = shapes[previous][2]
            if layer.depthwise:
                result[layer.name] = (layer.kernel, layer.kernel, channels, 1)
            else:
                result[layer.name] = (layer.out_channels, layer.kernel, layer.kernel, channels)
        previous = layer.name
    return result


def multiply_accumulates(network: tuple[Layer, ...]) -> int:
    """Multiply-accumulates of one inference, counting those that meet padding."""
    shapes, weights = output_shapes(network), weight_shapes(network)
    total = 0
    for layer in network:
        if isinstance(layer, Conv):
            height, width, channels = shapes[layer.name]
            inputs = 1 if layer.depthwise else weights[layer.name][3]
            total += height * width * channels * layer.kernel**2 * inputs
    return total
