"""Small modules for the tests of PyTorch's roads."""

import torch
from torch import nn


class Classifier(nn.Module):
    """A convolution, a residual and a linear layer; the input has a name, the output a key."""

    def __init__(self, normalized=True):
        super().__init__()
        self.first, self.norm = (
            nn.Conv2d(2, 6, 3, padding=1),
            nn.BatchNorm2d(6) if normalized else nn.Identity(),
        )
        self.second, self.head = nn.Conv2d(6, 6, 3, padding=1), nn.Linear(6, 4)

    def forward(self, image):
        features = torch.relu(self.norm(self.first(image)))
        features = features + torch.relu(self.second(features))
        return {"logits": self.head(features.mean((2, 3)))}


class Tokens(nn.Module):
    """An embedding, which takes int64 tokens, and a choice, which may give int64 indices."""

    def __init__(self, choosing):
        super().__init__()
        self.choosing = choosing
        self.table, self.head = nn.Embedding(16, 8), nn.Linear(8, 5)

    def forward(self, tokens):
        scores = self.head(self.table(tokens))
        return (scores, scores.argmax(-1)) if self.choosing else scores


class Counter(nn.Module):
    """Changes a buffer when it runs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x)
        return self.total + x


class Sorted(nn.Module):
    """An operator that TOSA has not, between two that it has."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.after(torch.sort(self.before(x), dim=-1)[0])


def classifier(normalized=True):
    """The classifier with fixed weights, an image and 16 images to calibrate with."""
    torch.manual_seed(0)
    return Classifier(normalized), torch.randn(1, 2, 8, 8), torch.randn(16, 2, 8, 8)
