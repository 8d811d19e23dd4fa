"""The ten networks by name: functions that return a module with random weights, and the shapes of its inputs."""

from sequences import Bert, Conformers, Decoder
from torch import nn
from vision import EfficientNetV2, Espcn, MobileNetV4, PointNet, RepVgg, YoloPose

Shape = tuple[int, ...]
QWEN_KEYS, SMOLLM_KEYS = (1, 2, 127, 64), (1, 3, 2047, 64)


def repvgg() -> tuple[nn.Module, Shape]:
    return RepVgg(), (1, 3, 160, 160)


def espcn() -> tuple[nn.Module, Shape]:
    return Espcn(), (1, 1, 90, 160)


def efficientnetv2() -> tuple[nn.Module, Shape]:
    return EfficientNetV2(), (1, 3, 192, 192)


def mobilenetv4() -> tuple[nn.Module, Shape]:
    return MobileNetV4(), (1, 3, 224, 224)


def yolo_pose() -> tuple[nn.Module, Shape]:
    return YoloPose(), (1, 3, 320, 320)


def pointnet() -> tuple[nn.Module, Shape]:
    return PointNet(), (1, 3, 1024)


def bert_small() -> tuple[nn.Module, Shape]:
    return Bert(), (1, 128, 512)


def conformer() -> tuple[nn.Module, Shape]:
    return Conformers(), (1, 100, 144)


def qwen_token() -> tuple[nn.Module, Shape, Shape, Shape]:
    return Decoder(width=896, heads=14, shared=2, hidden=4864, earlier=127), (1, 1, 896), QWEN_KEYS, QWEN_KEYS


def smollm_token() -> tuple[nn.Module, Shape, Shape, Shape]:
    return (
        Decoder(width=576, heads=9, shared=3, hidden=1536, earlier=2047),
        (1, 1, 576),
        SMOLLM_KEYS,
        SMOLLM_KEYS,
    )


NETWORKS = (
    repvgg,
    espcn,
    efficientnetv2,
    mobilenetv4,
    yolo_pose,
    pointnet,
    bert_small,
    conformer,
    qwen_token,
    smollm_token,
)
