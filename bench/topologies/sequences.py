"""Networks of speech and language since 2019, in the shapes of their papers, with random weights."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    return (scores if mask is None else scores + mask).softmax(-1) @ values


class Encoder(nn.Module):
    """A block of BERT: attention of all tokens, then a network of each; norms behind them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.taken = nn.Linear(width, 3 * width)
        self.given = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        rows, tokens, width = x.shape
        split = self.taken(x).reshape(rows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = attention(split[0], split[1], split[2]).transpose(1, 2).reshape(rows, tokens, width)
        x = self.norms[0](x + self.given(seen))
        return self.norms[1](x + self.narrow(F.gelu(self.wide(x))))


class Bert(nn.Module):
    """Two blocks of BERT-small, behind the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Encoder(512, 8), Encoder(512, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


class Conformer(nn.Module):
    """A block of a conformer: half a network, attention, a gated depthwise convolution over time, half a network."""

    def __init__(self, width: int = 144, heads: int = 4, kernel: int = 31) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.halves = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
            for _ in range(2)
        )
        self.taken, self.given = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gated = nn.Conv1d(width, 2 * width, 1)
        self.over_time = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.mixed = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        rows, tokens, width = x.shape
        x = x + 0.5 * self.halves[0](self.norms[0](x))
        split = self.taken(self.norms[1](x)).reshape(rows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.given(attention(*split).transpose(1, 2).reshape(rows, tokens, width))
        y = F.glu(self.gated(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.mixed(F.silu(self.over_time(y))).transpose(1, 2)
        x = x + 0.5 * self.halves[1](self.norms[3](x))
        return self.norms[4](x)


class Conformers(nn.Module):
    """Two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Conformer(), Conformer())

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


def root_mean_square(x: Tensor, scale: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale


class Decoder(nn.Module):
    """A layer of a language model for one token: earlier keys and values come in, and go out with its own."""

    def __init__(self, width: int, heads: int, shared: int, hidden: int, earlier: int) -> None:
        super().__init__()
        self.heads, self.shared, self.each = heads, shared, width // heads
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(2))
        self.queries = nn.Linear(width, width, bias=False)
        self.keys, self.values = (nn.Linear(width, shared * self.each, bias=False) for _ in range(2))
        self.given = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)
        angles = earlier * 10000.0 ** (-torch.arange(self.each // 2) / (self.each // 2))
        self.register_buffer("cosines", torch.cat([angles, angles]).cos())
        self.register_buffer("sines", torch.cat([angles, angles]).sin())

    def turned(self, x: Tensor) -> Tensor:
        """Rotary positions."""
        first, second = x.chunk(2, -1)
        return x * self.cosines + torch.cat([-second, first], -1) * self.sines

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = root_mean_square(x, self.norms[0])
        queries = self.turned(self.queries(y).reshape(1, 1, self.heads, self.each).transpose(1, 2))
        key = self.turned(self.keys(y).reshape(1, 1, self.shared, self.each).transpose(1, 2))
        value = self.values(y).reshape(1, 1, self.shared, self.each).transpose(1, 2)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        grouped = queries.reshape(1, self.shared, self.heads // self.shared, self.each)
        x = x + self.given(attention(grouped, keys, values).reshape(1, 1, -1))
        y = root_mean_square(x, self.norms[1])
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), keys, values
