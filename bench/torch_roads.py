"""Compares the two roads of `tosaic.from_torch`; prints the table of docs/records/pytorch_roads.md.

`python bench/torch_roads.py` quantizes each network by each road, for int8 and int16, runs samples that calibration did
not see on the emulator, bit for bit as golden, and prints SQNR against PyTorch, cycles, and what is refused.
"""

import argparse
import math
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import tosaic

CALIBRATION_SAMPLES, HELD_OUT_SAMPLES = 16, 4


class Convolutions(nn.Module):
    """Convolution, batch normalization, a depthwise block with a residual, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU6())
        self.depthwise = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Hardswish())
        self.pointwise = nn.Conv2d(16, 16, 1)
        self.head = nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.stem(image)
        features = features + self.pointwise(self.depthwise(features))
        return self.head(functional.adaptive_avg_pool2d(features, 1).flatten(1))


class Attention(nn.Module):
    """A transformer block: layer normalization, multi-head attention, GELU."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        batch, length, width = tokens.shape
        parts = self.queries(self.before(tokens)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.softmax(query @ key.transpose(-1, -2) / math.sqrt(width // self.heads), -1)
        tokens = tokens + self.out((scores @ value).transpose(1, 2).reshape(batch, length, width))
        return tokens + self.narrow(functional.gelu(self.wide(self.between(tokens))))


class SwiGlu(nn.Module):
    """RMS normalization and a gated feed-forward layer, as Llama's."""

    def __init__(self, width: int = 32, hidden: int = 64) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scaled = self.norm(tokens)
        return tokens + self.down(functional.silu(self.gate(scaled)) * self.up(scaled))


class Decoder(nn.Module):
    """Downwards by a convolution, upwards by a resize and by a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.Conv2d(12, 12, 3, padding=1)
        self.up = nn.ConvTranspose2d(12, 3, 2, stride=2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.down(image))
        larger = functional.interpolate(torch.relu(self.middle(features)), scale_factor=2.0, mode="bilinear")
        return torch.sigmoid(self.up(larger[:, :, ::2, ::2] + features))


class Recurrent(nn.Module):
    """A recurrent layer over 8 steps and a classifier of its last state."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.layer, self.head = kind(16, 24, batch_first=True), nn.Linear(24, 10)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(steps)[0][:, -1])


NETWORKS = {
    "CNN with depthwise block": (Convolutions, (1, 3, 32, 32)),
    "transformer block": (Attention, (1, 16, 32)),
    "RMSNorm and SwiGLU": (SwiGlu, (1, 16, 32)),
    "resize and transposed convolution": (Decoder, (1, 3, 32, 32)),
    "LSTM, 8 steps": (lambda: Recurrent(nn.LSTM), (1, 8, 16)),
    "GRU, 8 steps": (lambda: Recurrent(nn.GRU), (1, 8, 16)),
}


def measured(name: str, road: str, activations: str) -> str:
    """SQNR and cycles of a network on a road, or the first words of the refusal."""
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    module = make().eval()
    calibration = torch.randn(CALIBRATION_SAMPLES, *shape)
    held_out = torch.randn(HELD_OUT_SAMPLES, *shape)
    try:
        session = tosaic.from_torch(
            module, held_out[0], calibration, road=road, activations=activations, target="emulator"
        )
    except tosaic.Error as error:
        return f"refused: {str(error)[:200]}"
    signal = noise = 0.0
    for sample in held_out:
        with torch.no_grad():
            wanted = module(sample).numpy().astype(np.float64)
        got = session.run({session.inputs[0].name: sample}, check=True)["output"]
        signal, noise = signal + float((wanted**2).sum()), noise + float(((got - wanted) ** 2).sum())
    return f"{10 * math.log10(signal / noise):.1f} dB, {session.stats['cycles']:,}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", help="parts of names; all without")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = [(road, kind) for kind in ("int8", "int16") for road in ("onnx", "executorch")]
    print(f"| network | {' | '.join(f'{road}, {kind}' for road, kind in columns)} |")
    print(f"|---{'|---' * len(columns)}|")
    for name in NETWORKS:
        if not options.networks or any(part in name for part in options.networks):
            cells = [measured(name, road, kind) for road, kind in columns]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
