"""Makes the integer networks for a window: calibrates on sentences that a voice reads, quantizes, writes to build/hear.

    python examples/hear/prepare.py [--seconds S] [-o DIRECTORY]

`hear.py` calls this for a window that it does not find.
"""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hear_audio import POSITION, RATE_HZ, Voice, log_mel
from hear_float import FloatWhisper
from hear_sentences import CALIBRATION
from hear_tosa import decoder_graph, encoder_graph
from hear_weights import Array, Whisper, load

from tosaic import Session
from tosaic.compiler.ir import Graph, write_tosa
from tosaic.driver.encodings import sidecar, write_encodings
from tosaic.driver.quantize import quantize_graph

BUILD = Path(__file__).parents[2] / "build" / "hear"
SECONDS_EACH = 1
"""Windows are whole multiples of this."""
TOKENS_A_SECOND = 6
STRIDE = 4
"""Tokens of which one is a calibration sample."""


@dataclass(frozen=True)
class Window:
    """How much sound the encoder hears and how many tokens the decoder remembers, itself and the prompt among them."""

    seconds: int

    @classmethod
    def of(cls, samples: int) -> "Window":
        """The shortest for so many samples."""
        return cls(max(1, -(-samples // (RATE_HZ * SECONDS_EACH))) * SECONDS_EACH)

    @property
    def positions(self) -> int:
        """Positions of the encoder."""
        return self.seconds * RATE_HZ // POSITION

    @property
    def context(self) -> int:
        """Tokens that the decoder has room for."""
        return self.seconds * TOKENS_A_SECOND + 16


def encoder_samples(window: Window) -> Array:
    """What the voice says, [samples, 1, 2 * positions, MELS]."""
    voice = Voice()
    return np.stack([log_mel(voice.say(text), window.positions) for text in CALIBRATION])[:, None]


def decoder_samples(whisper: Whisper, mels: Array, window: Window) -> dict[str, np.ndarray]:
    """What the float decoder reads and remembers while it writes what it hears: [samples, ...]."""
    encoder = Session(encoder_graph(whisper.parameters, window.positions), "golden")
    decoder = Session(decoder_graph(whisper.parameters, window.positions, window.context), "golden")
    reference, samples = FloatWhisper(whisper.parameters), list[dict[str, np.ndarray]]()
    for number, mel in enumerate(mels):
        heard = encoder.run({"mel": mel})
        decoder.state.reset()
        for place, token in enumerate(reference.listen(mel[0], window.context)):
            fed = {"token": np.array([[token]], np.int32), "place": np.array([[place]], np.int32), **heard}
            if (place + number) % STRIDE == 0:
                samples.append({**fed, **decoder.state})
            decoder.run(fed)
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


def prepare(window: Window, folder: Path = BUILD) -> tuple[Path, Path]:
    """The encoder's and the decoder's files of a window, which are made if they are not there."""
    names = (f"encoder-{window.seconds}s.tosa", f"decoder-{window.seconds}s.tosa")
    encoder, decoder = (folder / name for name in names)
    if encoder.exists() and decoder.exists():
        return encoder, decoder
    print(f"Making the integer networks for {window.seconds} s of sound: some minutes, once.", flush=True)
    whisper, mels = load(), encoder_samples(window)
    _write(encoder_graph(whisper.parameters, window.positions), {"mel": mels}, encoder, "int8")
    graph = decoder_graph(whisper.parameters, window.positions, window.context)
    _write(graph, decoder_samples(whisper, mels, window), decoder, "int16")
    return encoder, decoder


def _write(graph: Graph, samples: dict[str, np.ndarray], path: Path, activations: str) -> None:
    found = quantize_graph(
        graph, samples, activations=activations, outputs="int16", error_feedback=True
    ).result
    path.parent.mkdir(parents=True, exist_ok=True)
    write_encodings(sidecar(path), found.inputs, found.outputs)
    # Whoever stops this half way finds no half of a network.
    scratch = path.with_suffix(".part")
    write_tosa(found.graph, scratch)
    os.replace(scratch, path)
    print(f"{path}: {path.stat().st_size:,} bytes", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=BUILD)
    chosen = parser.parse_args()
    prepare(Window(chosen.seconds), chosen.output)


if __name__ == "__main__":
    main()
