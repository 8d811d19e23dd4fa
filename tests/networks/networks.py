"""The shared example models and the digits, as data for tests."""

import functools
import json
import zlib
from pathlib import Path

import numpy as np
from shared_files import SHARED

from tosaic.driver.session import Session

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted(path.parent.name for path in SHARED.glob("models/*/layers.json"))
"""Models with one input, one output and the reference model's value of every tensor."""
DIGITS = ROOT / "examples" / "digits"


def present(*names: str) -> list[str]:
    """Returns those of the models that are here."""
    return [name for name in names if name in MODELS]


@functools.lru_cache(maxsize=8)
def session(
    model: str, target: str, config: str, optimize: bool = True, bandwidth: int | None = None
) -> Session:
    """A session on a shared model; on the emulator with every layer kept."""
    path = SHARED / "models" / model / "model.tosa"
    keep = target == "emulator"
    return Session(path, target, config, optimize=optimize, keep_layers=keep, memory_bandwidth=bandwidth)


def run(on: Session, model: str, index: int) -> None:
    """Runs input `index`; fails unless the output is that of TOSA's reference model."""
    folder = SHARED / "models" / model
    (given,), (made,) = on.inputs, on.outputs
    outputs = on.run({given.name: np.load(folder / f"inputs_{index}.npy")})
    np.testing.assert_array_equal(outputs[made.name], np.load(folder / f"outputs_{index}.npy"))


def reference_layers(model: str, index: int) -> dict[str, dict]:
    """Shape, dtype and CRC-32 of every tensor, by the reference model."""
    layers = json.loads((SHARED / "models" / model / "layers.json").read_text())[f"inputs_{index}.npy"]
    return {layer["tensor"]: layer for layer in layers}


def assert_layers_equal(kept: dict[str, np.ndarray], layers: dict[str, dict]) -> None:
    """Every tensor that the run left behind is the reference model's."""
    assert kept
    got = {name: (list(v.shape), str(v.dtype), f"{zlib.crc32(v.tobytes()):08x}") for name, v in kept.items()}
    assert got == {
        name: (layers[name]["shape"], layers[name]["dtype"], layers[name]["crc32"]) for name in kept
    }
