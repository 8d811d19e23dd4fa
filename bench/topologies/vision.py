"""Vision networks since 2019 in the shapes of their papers, with random weights and batch norms folded."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups)


class RepVgg(nn.Module):
    """RepVGG-A0, its branches merged: 3x3 convolutions alone."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for count, width in ((1, 48), (2, 48), (4, 96), (14, 192), (1, 1280)):
            for number in range(count):
                layers += [conv(channels, width, stride=2 if number == 0 else 1), nn.ReLU()]
                channels = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels, 1000)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.body(image).mean((2, 3)))


class Espcn(nn.Module):
    """ESPCN, three times as large: the pixels of the result come as channels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(1, 64, 5), nn.Tanh(), conv(64, 32), nn.Tanh(), conv(32, 9), nn.PixelShuffle(3)
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.body(image)


class Gate(nn.Module):
    """Squeeze and excite."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.excite = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        means = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.excite(F.silu(self.squeeze(means))))


class Fused(nn.Module):
    """EfficientNetV2's fused block: one 3x3 convolution widens."""

    def __init__(self, inputs: int, outputs: int, stride: int, widened: int) -> None:
        super().__init__()
        self.widen = conv(inputs, inputs * widened if widened > 1 else outputs, stride=stride)
        self.project = conv(inputs * widened, outputs, 1) if widened > 1 else None
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.widen(x))
        y = self.project(y) if self.project is not None else y
        return x + y if self.shortcut else y


class Inverted(nn.Module):
    """MobileNet's block with a gate."""

    def __init__(self, inputs: int, outputs: int, stride: int, widened: int) -> None:
        super().__init__()
        inner = inputs * widened
        self.widen, self.depthwise = conv(inputs, inner, 1), conv(inner, inner, 3, stride, inner)
        self.gate, self.project = Gate(inner, inputs // 4), conv(inner, outputs, 1)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.gate(F.silu(self.depthwise(F.silu(self.widen(x)))))
        y = self.project(y)
        return x + y if self.shortcut else y


class EfficientNetV2(nn.Module):
    """EfficientNetV2-B0."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv(3, 32, stride=2), nn.SiLU()]
        channels = 32
        for block, count, width, stride, widened in (
            (Fused, 1, 16, 1, 1),
            (Fused, 2, 32, 2, 4),
            (Fused, 2, 48, 2, 4),
            (Inverted, 3, 96, 2, 4),
            (Inverted, 5, 112, 1, 6),
            (Inverted, 8, 192, 2, 6),
        ):
            for number in range(count):
                layers.append(block(channels, width, stride if number == 0 else 1, widened))
                channels = width
        self.body = nn.Sequential(*layers, conv(channels, 1280, 1), nn.SiLU())
        self.head = nn.Linear(1280, 1000)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.body(image).mean((2, 3)))


class Universal(nn.Module):
    """MobileNetV4's universal inverted bottleneck: a depthwise convolution before, between, both or neither."""

    def __init__(
        self, inputs: int, outputs: int, before: int, between: int, stride: int, widened: float
    ) -> None:
        super().__init__()
        inner = int(inputs * widened)
        self.before = conv(inputs, inputs, before, 1 if between else stride, inputs) if before else None
        self.widen = conv(inputs, inner, 1)
        self.between = conv(inner, inner, between, stride, inner) if between else None
        self.project = conv(inner, outputs, 1)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.widen(self.before(x) if self.before is not None else x))
        y = F.relu(self.between(y)) if self.between is not None else y
        y = self.project(y)
        return x + y if self.shortcut else y


class MobileNetV4(nn.Module):
    """MobileNetV4-Conv-Small."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for kernel, width, stride in ((3, 32, 2), (3, 32, 2), (1, 32, 1), (3, 96, 2), (1, 64, 1)):
            layers += [conv(channels, width, kernel, stride), nn.ReLU()]
            channels = width
        for before, between, width, stride, widened in (
            (5, 5, 96, 2, 3),
            (0, 3, 96, 1, 2),
            (0, 3, 96, 1, 2),
            (0, 3, 96, 1, 2),
            (0, 3, 96, 1, 2),
            (3, 0, 96, 1, 4),
            (3, 3, 128, 2, 6),
            (5, 5, 128, 1, 4),
            (0, 5, 128, 1, 4),
            (0, 5, 128, 1, 3),
            (0, 3, 128, 1, 4),
            (0, 3, 128, 1, 4),
        ):
            layers.append(Universal(channels, width, before, between, stride, widened))
            channels = width
        self.body = nn.Sequential(*layers, conv(channels, 960, 1), nn.ReLU())
        self.head = nn.Sequential(conv(960, 1280, 1), nn.ReLU(), conv(1280, 1000, 1))

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.body(image).mean((2, 3), keepdim=True)).flatten(1)


class Cross(nn.Module):
    """Two 3x3 convolutions beside a shortcut, in a block of which half the channels go past (C3k2)."""

    def __init__(self, inputs: int, outputs: int, share: float) -> None:
        super().__init__()
        half, inner = int(outputs * share), max(8, int(outputs * share) // 2)
        self.split, self.half = conv(inputs, 2 * half, 1), half
        self.body = nn.Sequential(conv(half, inner), nn.SiLU(), conv(inner, half), nn.SiLU())
        self.join = conv(3 * half, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        first, second = F.silu(self.split(x)).split(self.half, 1)
        return F.silu(self.join(torch.cat([first, second, second + self.body(second)], 1)))


class YoloPose(nn.Module):
    """Persons and their 17 joints, in the shape of YOLO11n-pose: boxes, scores and joints of three sizes."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 64, 128, 128, 256)
        self.stem = nn.Sequential(conv(3, widths[0], stride=2), nn.SiLU(), conv(16, 32, stride=2), nn.SiLU())
        self.stages = nn.ModuleList()
        channels = 32
        for width, out in ((64, 64), (128, 128), (128, 128), (256, 256)):
            self.stages.append(
                nn.Sequential(Cross(channels, width, 0.25), conv(width, out, stride=2), nn.SiLU())
            )
            channels = out
        self.up = nn.ModuleList([Cross(256 + 128, 128, 0.5), Cross(128 + 128, 64, 0.5)])
        self.heads = nn.ModuleList(
            nn.ModuleList(
                nn.Sequential(
                    conv(width, inner), nn.SiLU(), conv(inner, inner), nn.SiLU(), conv(inner, outputs, 1)
                )
                for inner, outputs in ((64, 64), (64, 1), (51, 51))
            )
            for width in (64, 128, 256)
        )

    def forward(self, image: Tensor) -> list[Tensor]:
        found, y = [], self.stem(image)
        for stage in self.stages:
            y = stage(y)
            found.append(y)
        small = found[-1]
        middle = self.up[0](torch.cat([F.interpolate(small, scale_factor=2.0), found[-2]], 1))
        large = self.up[1](torch.cat([F.interpolate(middle, scale_factor=2.0), found[-3]], 1))
        return [
            head(level)
            for level, heads in zip((large, middle, small), self.heads, strict=True)
            for head in heads
        ]


class PointNet(nn.Module):
    """PointNet without its transforms: the same layers for each point, and the largest value of all points."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, 64), (64, 64), (64, 64), (64, 128), (128, 1024)):
            layers += [nn.Conv1d(inputs, outputs, 1), nn.ReLU()]
        self.points = nn.Sequential(*layers, nn.AdaptiveMaxPool1d(1), nn.Flatten())
        self.head = nn.Sequential(
            nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40)
        )

    def forward(self, points: Tensor) -> Tensor:
        return self.head(self.points(points))
