"""`from_torch` of a module for every kind of input, judged by PyTorch, in the module's own types."""

import numpy as np
import pytest
import torch
from input_kinds import FEATURES, ROWS, SAMPLES, SCALE, Kind, kinds

import tosaic

GOOD_DB = 25
pytestmark = pytest.mark.long


class Network(torch.nn.Module):
    """What `USES` tells of."""

    def __init__(self, kind: Kind):
        super().__init__()
        self.kind = kind

        def constant(*shape):
            return torch.nn.Parameter(torch.from_numpy(kind.constant(*shape)), requires_grad=False)

        shape = kind.shape
        if kind.use in ("reals", "codes"):
            self.weight = constant(*shape) if len(shape) == 1 else constant(shape[-1], FEATURES)
        elif kind.use == "image":
            self.weight = constant(4, 1 if shape[-1] == 1 else 3, 3, 3)
        elif kind.use == "ids":
            self.table, self.weight = constant(ROWS, FEATURES), constant(FEATURES, 3)
        elif kind.use == "mask":
            self.scores = constant(*shape)

    def forward(self, x):
        match self.kind.use:
            case "reals":
                return torch.tanh(x * self.weight if x.ndim == 1 else x @ self.weight)
            case "codes":
                return torch.relu(((x.float() - self.kind.zero_point) * SCALE) @ self.weight)
            case "image":
                x = x.permute(0, 3, 1, 2) if self.kind.channels_last else x
                return torch.relu(
                    torch.nn.functional.conv2d((x.float() - 127.5) / 64, self.weight, padding=1)
                )
            case "numbers":
                return torch.maximum(x + 3, 5 - x)
            case "ids":
                return torch.tanh(torch.nn.functional.embedding(x, self.table)) @ self.weight
            case "mask":
                return torch.softmax(torch.where(x, self.scores * 4, torch.tensor(-1e4)), -1)


def session_of(kind: Kind):
    module, samples = Network(kind).eval(), [torch.from_numpy(x) for x in kind.samples(SAMPLES)]
    made = tosaic.from_torch(module, samples[0], [(x,) for x in samples], target="emulator")
    return made, module, samples


@kinds("reals", "image", "codes", "ids", "mask", most=3)
def test_results_are_near_pytorch_s(kind: Kind) -> None:
    if kind.dtype == "float32" and not np.any(kind.samples(1)):
        with pytest.raises(tosaic.InputError, match="is zero everywhere, which tells nothing of its range"):
            session_of(kind)
        return
    session, module, samples = session_of(kind)
    signal = noise = 0.0
    for x in samples[:4]:
        (got,) = session.run({"x": x}, check=True).values()
        wanted = module(x).numpy()
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        signal += float(np.square(wanted, dtype=np.float64).sum())
        noise += float(np.square(got - wanted, dtype=np.float64).sum())
    assert noise <= signal * 10 ** (-GOOD_DB / 10)


@kinds("numbers")
def test_integers_are_pytorch_s(kind: Kind) -> None:
    session, module, samples = session_of(kind)
    for x in samples[:4]:
        (got,) = session.run({"x": x}, check=True).values()
        assert got.dtype == module(x).numpy().dtype
        assert np.array_equal(got, module(x).numpy())
