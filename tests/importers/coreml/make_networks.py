"""Makes the folder `networks`: PyTorch networks, converted by coremltools, with PyTorch's own outputs.

    pip install coremltools torch
    python tests/importers/coreml/make_networks.py

Weights and inputs are random, from a fixed seed. Each NAME.mlmodel has a NAME.npz: arrays `in_<input>` and
`out_<output>`. Run with coremltools 9.0 and torch 2.13.0; the tests need neither.
"""

import pathlib

import coremltools as ct
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "networks"


class Residual(nn.Module):
    """Convolutions with remainders, groups and dilation, batch normalization, pools, a sum, a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.depthwise = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.Hardswish()
        )
        self.grouped = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.stem(x)
        y = self.grouped(self.depthwise(x)) + x
        y = torch.cat([F.max_pool2d(y, 3, 2, 1), F.avg_pool2d(y, 3, 2, 1)], 1)
        return F.softmax(self.head(F.leaky_relu(y, 0.1).mean((2, 3))), 1)


class Unet(nn.Module):
    """A network that goes down and up again: transposed convolutions, both resamplings, reflection, pixel shuffle."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3, stride=2, padding=1)
        self.inner = nn.Conv2d(4, 4, 3)
        self.up = nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, output_padding=1)
        self.shuffle = nn.Conv2d(10, 8, 1)

    def forward(self, x):
        small = F.elu(self.down(x))
        small = torch.sigmoid(self.inner(F.pad(small, (1, 1, 1, 1), mode="reflect")))
        near = F.interpolate(small, scale_factor=2, mode="nearest")
        smooth = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
        y = torch.cat([x, self.up(small) + near, smooth], 1)
        return F.pixel_shuffle(torch.tanh(self.shuffle(y)), 2)


class Transformer(nn.Module):
    """One block: attention of two heads, layer normalization, GELU."""

    def __init__(self, size=16, heads=2):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 32), nn.GELU(), nn.Linear(32, size))

    def forward(self, x):
        batch, length, size = x.shape
        q, k, v = (
            self.qkv(self.first(x))
            .reshape(batch, length, 3, self.heads, size // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        weights = torch.softmax(q @ k.transpose(-2, -1) / (size // self.heads) ** 0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, size))
        return x + self.mlp(self.second(x))


class Recurrent(nn.Module):
    """An LSTM in both directions, then one in one direction."""

    def __init__(self):
        super().__init__()
        self.both = nn.LSTM(4, 5, bidirectional=True)
        self.one = nn.LSTM(10, 6)

    def forward(self, x):
        y, _ = self.both(x)
        z, (h, c) = self.one(y)
        return z, h, c


class Gated(nn.Module):
    """A GRU, which the converter writes as a loop."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4)

    def forward(self, x):
        return self.gru(x)[0]


class Indices(nn.Module):
    """Embedding, gather, top-k, cumulative sums, comparisons."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6)

    def forward(self, tokens):
        x = self.table(tokens)
        values, order = torch.topk(x, 3, dim=-1)
        mask = torch.where(x > 0.1, x, torch.zeros_like(x)).sum(-1)
        return values, order.to(torch.float32), mask, torch.cumsum(x, 1)


def images(**more):
    return ct.ImageType(name="x", shape=(1, 3, 19, 22), scale=1 / 127.5, bias=[-1.0, -0.9, -1.1], **more)


def convert(name, module, x, **options):
    """Converts, and writes both files."""
    module.eval()
    inputs = options.pop("inputs", None) or [ct.TensorType(name="x", shape=x.shape, dtype=x.numpy().dtype)]
    given = options.pop("torch_input", x)
    with torch.no_grad():
        traced = torch.jit.trace(module, given)
        results = module(given)
    results = results if isinstance(results, tuple) else (results,)
    model = ct.convert(traced, inputs=inputs, convert_to="neuralnetwork", **options)
    spec = model.get_spec()
    names = [f.name for f in spec.description.output if f.type.WhichOneof("Type") == "multiArrayType"]
    if len(names) != len(results):
        names = [spec.description.predictedProbabilitiesName]
    (FOLDER / f"{name}.mlmodel").write_bytes(spec.SerializeToString())
    arrays = {f"out_{n}": value.numpy() for n, value in zip(names, results, strict=True)}
    np.savez_compressed(FOLDER / f"{name}.npz", in_x=x.numpy(), **arrays)
    kinds = {layer.WhichOneof("layer") for layer in getattr(spec, spec.WhichOneof("Type")).layers}
    print(name, (FOLDER / f"{name}.mlmodel").stat().st_size, "bytes:", ", ".join(sorted(kinds)))


def scramble(module):
    """Statistics that are not the initial ones."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            layer.weight.data.normal_(1, 0.3)
            layer.bias.data.normal_()
    return module


def main():
    torch.manual_seed(5)
    FOLDER.mkdir(exist_ok=True)
    convert("residual", scramble(Residual()), torch.randn(2, 3, 19, 22))
    pixels = torch.randint(0, 256, (1, 3, 19, 22)).to(torch.float32)
    scaled = pixels / 127.5 + torch.tensor([-1.0, -0.9, -1.1]).reshape(1, 3, 1, 1)
    labels = ct.ClassifierConfig(["ant", "bee", "cat", "dog", "eel"])
    convert(
        "classifier",
        scramble(Residual()),
        pixels,
        torch_input=scaled,
        inputs=[images()],
        classifier_config=labels,
    )
    convert("unet", Unet(), torch.randn(1, 2, 8, 12))
    convert("transformer", Transformer(), torch.randn(2, 7, 16))
    convert("recurrent", Recurrent(), torch.randn(6, 1, 4))
    convert("gated", Gated(), torch.randn(5, 1, 3))
    convert("indices", Indices(), torch.randint(0, 11, (2, 5)).to(torch.int32))


if __name__ == "__main__":
    main()
