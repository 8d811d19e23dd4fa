"""scikit-learn's digits, split once and for all: 1,347 images to train on and 450 held out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HELD_OUT = 450
SPLIT_SEED = 20240
PIXEL_MAX = 16


@dataclass(frozen=True)
class Split:
    """Pixels are uint8 [N, 8, 8] in 0..16, labels uint8 [N] in 0..9."""

    train_pixels: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_pixels: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


def load_split() -> Split:
    """The fixed split, by a seeded permutation of `sklearn.datasets.load_digits`."""
    from sklearn.datasets import load_digits  # only training needs scikit-learn

    digits = load_digits()
    pixels, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    train, test = order[HELD_OUT:], order[:HELD_OUT]
    return Split(pixels[train], labels[train], pixels[test], labels[test])


def to_float(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[N, 8, 8] pixels in 0..16 -> [N, 8, 8, 1] in 0..1."""
    return pixels[..., None].astype(np.float32) / PIXEL_MAX


def to_int8(pixels: NDArray[np.uint8]) -> NDArray[np.int8]:
    """[N, 8, 8] pixels in 0..16 -> [N, 8, 8, 1] int8, scale 1/255, zero point -128; exact, half up."""
    return ((pixels[..., None].astype(np.int32) * 255 + PIXEL_MAX // 2) // PIXEL_MAX - 128).astype(np.int8)
