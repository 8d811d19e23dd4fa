"""Words out of sound, as they come, on the accelerator: Whisper tiny.en in integers.

    python examples/hear/hear.py [FILE.wav | --say SENTENCE] [--on emulator|golden|sim] [--check]

The encoder hears the whole window, of as many seconds as the sound has; the decoder writes a token at a time and
remembers keys and values between them. The likeliest token is chosen here. Prints what a second of sound and what a
token takes in cycles, and what the float network hears.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hear_audio import RATE_HZ, Voice, log_mel, read_wav
from hear_float import FloatWhisper, is_over, next_token, settled
from hear_weights import PROMPT, Array, Whisper, load
from prepare import Window, prepare

from tosaic import Error, Session

SENTENCE = "The old clock in the hall has stopped, and nobody knows what time it is."
LONGEST_SECONDS = 30


class Listener:
    """Both networks of a window on a target. `cycles` are those of the encoder, then of each token."""

    def __init__(self, whisper: Whisper, window: Window, encoder: Session, decoder: Session):
        self.whisper, self.window, self.encoder, self.decoder = whisper, window, encoder, decoder
        self.cycles: list[int] = []

    def tokens(self, samples: Array, check: bool = False) -> Iterator[int]:
        """What is heard, token by token, as far as it is no copy of what was heard before. `check` compares every
        tensor of every run with golden."""
        mel = log_mel(samples, self.window.positions)[None]
        self.decoder.state.reset()
        self.cycles = []
        heard = self._run(self.encoder, {"mel": mel}, check)
        tokens, pending, given = [PROMPT[0]], list(PROMPT[1:]), len(PROMPT)
        while True:
            place = len(tokens) - 1
            fed = {"token": np.array([[tokens[place]]], np.int32), "place": np.array([[place]], np.int32)}
            logits = self._run(self.decoder, {**fed, **heard}, check)["logits"].ravel()
            if pending:
                tokens.append(pending.pop(0))
                continue
            tokens.append(next_token(logits, tokens))
            sure = settled(tokens, self.window.context)
            yield from tokens[given:sure]
            given = max(given, sure)
            if is_over(tokens, self.window.context):
                return

    def _run(self, session: Session, reals: dict[str, np.ndarray], check: bool) -> dict[str, np.ndarray]:
        """A run with reals in and out."""
        fed = {
            each.name: reals[each.name] if each.encoding is None else each.encoding.quantize(reals[each.name])
            for each in session.inputs
        }
        results = session.run(fed, check=check)
        self.cycles.append(session.result.cycles if session.result else 0)
        ends = [each for each in session.outputs if each.encoding is not None]
        return {
            each.name: each.encoding.dequantize(results[each.name]).astype(np.float32)
            for each in ends
            if each.encoding is not None
        }


def open_listener(
    whisper: Whisper, samples: Array, target: str, config: str = "base", check: bool = False
) -> Listener:
    """The networks for a sound, which are made if they are not there; `check` keeps their tensors to compare."""
    window = Window.of(min(len(samples), LONGEST_SECONDS * RATE_HZ))
    encoder, decoder = (Session(path, target, config, keep_layers=check) for path in prepare(window))
    return Listener(whisper, window, encoder, decoder)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wav", nargs="?", type=Path, help="16-bit wav file of up to 30 s")
    parser.add_argument("--say", default=SENTENCE, help="what espeak-ng says, if there is no file")
    parser.add_argument("--on", default="emulator", help="target, as of `tosaic run`")
    parser.add_argument("--config", default="base")
    parser.add_argument("--check", action="store_true", help="compare every tensor of every run with golden")
    chosen = parser.parse_args()
    try:
        hear(chosen)
    except Error as error:
        parser.exit(1, f"{error}\n")


def hear(chosen: argparse.Namespace) -> None:
    """Prints what is heard, and what it took."""
    whisper = load()
    samples = read_wav(chosen.wav) if chosen.wav else Voice().say(chosen.say)
    listener = open_listener(whisper, samples, chosen.on, chosen.config, chosen.check)
    window, tokens, shown = listener.window, list[int](), 0
    for token in listener.tokens(samples, chosen.check):
        tokens.append(token)
        text = whisper.text(tokens)
        print(text[shown:], end="", flush=True)
        shown = len(text)
    print()
    encoder, *each = listener.cycles
    if encoder:
        sound = len(samples) / RATE_HZ
        print(f"{encoder:,} cycles for {window.seconds} s of sound: {encoder / window.seconds:,.0f} a second")
        print(
            f"{len(each)} tokens: {sum(each) / len(each):,.0f} cycles each, {sum(each) / sound:,.0f} a second"
        )
    if chosen.check:
        kept = len(listener.encoder.kept), len(listener.decoder.kept)
        print("bit-exact: {} tensors of the encoder and {} of each step equal golden".format(*kept))
    reference = FloatWhisper(whisper.parameters).listen(log_mel(samples, window.positions), window.context)
    print(f"the float network hears: {whisper.text(reference[len(PROMPT) :])}")


if __name__ == "__main__":
    main()
