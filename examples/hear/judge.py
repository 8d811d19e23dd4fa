"""Words that the integers hear, beside what the float network hears of the same sound.

    python examples/hear/judge.py [--count N] [--on golden]

Sentences of one voice, with none of which the integers were calibrated. Prints those that differ, and how many words.
"""

import argparse
import difflib
import re
import time

from hear import Listener
from hear_audio import Voice, log_mel
from hear_float import FloatWhisper
from hear_sentences import JUDGED
from hear_weights import PROMPT, load
from prepare import Window, prepare

from tosaic import Session

SECONDS = 5


def words(text: str) -> list[str]:
    """In small letters, without punctuation."""
    return re.findall(r"[a-z0-9']+", text.lower())


def differing(wanted: list[str], got: list[str]) -> int:
    """Words to replace, insert or leave out."""
    parts = difflib.SequenceMatcher(None, wanted, got, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for kind, a, b, c, d in parts if kind != "equal")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=len(JUDGED))
    parser.add_argument("--on", default="golden", help="target; all have the same integers")
    chosen = parser.parse_args()
    whisper, voice, window = load(), Voice(), Window(SECONDS)
    encoder, decoder = (Session(path, chosen.on) for path in prepare(window))
    listener, reference = Listener(whisper, window, encoder, decoder), FloatWhisper(whisper.parameters)
    total = wrong = 0
    began = time.process_time()
    for number, sentence in enumerate(JUDGED[: chosen.count], 1):
        samples = voice.say(sentence)
        tokens = reference.listen(log_mel(samples, window.positions), window.context)
        wanted = whisper.text(tokens[len(PROMPT) :])
        got = whisper.text(list(listener.tokens(samples)))
        count = differing(words(wanted), words(got))
        total, wrong = total + len(words(wanted)), wrong + count
        if count:
            print(f"float:   {wanted}\ninteger: {got}")
        spent = time.process_time() - began
        print(f"{number} sentences, {total} words: {wrong} differ; {spent:.0f} s of processor", flush=True)


if __name__ == "__main__":
    main()
