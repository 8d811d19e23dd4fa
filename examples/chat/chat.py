"""Text from the quantized decoder, a character at a time, on the accelerator.

    python examples/chat/chat.py [--on sim|emulator] [--prompt TEXT] [--count N] [--temperature T] [--seed S] [--check]

The accelerator computes each step in integers and remembers keys and values between steps; the next character is drawn
here from its logits. Prints what each token takes in cycles.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from chat_text import decode, encode

from tosaic import Session

MODEL = Path(__file__).parent / "chat.tosa"
PROMPT = "The statement "


def steps(
    session: Session, prompt: str, count: int, temperature: float, seed: int, check: bool
) -> Iterator[str]:
    """`count` characters that follow the prompt, as they come. `check` compares every step with golden."""
    random, output = np.random.default_rng(seed), session.outputs[0]
    assert output.encoding is not None
    pending = list(encode(prompt))
    while count:
        feed = {session.inputs[0].name: np.array([[pending.pop(0)]], np.int32)}
        logits = output.encoding.dequantize(session.run(feed, check=check)[output.name]).ravel()
        if pending:
            continue
        # The largest of logits with Gumbel noise is a draw from their softmax.
        noise = random.gumbel(size=logits.size) * temperature
        pending.append(np.int32((logits + noise).argmax()))
        count -= 1
        yield decode(np.array(pending))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--on", default="sim", help="target, as of `tosaic run`")
    parser.add_argument("--config", default="base")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--count", type=int, default=300, help="characters")
    parser.add_argument("--temperature", type=float, default=0.4, help="0: always the likeliest character")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="compare every tensor of every step with golden")
    chosen = parser.parse_args()
    session = Session(MODEL, chosen.on, chosen.config, keep_layers=chosen.check)
    if not len(encode(chosen.prompt)):
        parser.error("--prompt: give at least one character of ASCII")
    print(chosen.prompt, end="", flush=True)
    cycles: list[int] = []
    for character in steps(
        session, chosen.prompt, chosen.count, chosen.temperature, chosen.seed, chosen.check
    ):
        print(character, end="", flush=True)
        cycles.append(session.result.cycles if session.result else 0)
    if any(cycles):
        told = f"{min(cycles):,}" + (f" to {max(cycles):,}" if max(cycles) > min(cycles) else "")
        print(f"\n\n{len(cycles)} tokens on {chosen.on} ({chosen.config}): {told} cycles each", end="")
    if chosen.check:
        print(f"\nbit-exact: {len(session.kept)} tensors of each step equal golden", end="")
    print()


if __name__ == "__main__":
    main()
