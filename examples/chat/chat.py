"""Text from a quantized decoder, a token at a time, on the accelerator.

    python examples/chat/chat.py [--model pieces] [--weights int4] [--on sim|emulator] [--prompt TEXT] [--count N]
        [--temperature T] [--seed S] [--check]

The accelerator computes each step in integers and remembers keys and values between steps; the next token is drawn
here from its logits. Prints what each token takes in cycles.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from chat_models import MODELS
from chat_tokens import Tokenizer
from quantize import make_model

from tosaic import Session


def logits_of(session: Session, token: int, check: bool = False) -> np.ndarray:
    """Reals [vocabulary] of what follows a token. `check` compares the step with golden."""
    output = session.outputs[0]
    assert output.encoding is not None
    feed = {session.inputs[0].name: np.array([[token]], np.int32)}
    return output.encoding.dequantize(session.run(feed, check=check)[output.name]).ravel()


def steps(
    session: Session,
    tokenizer: Tokenizer,
    prompt: str,
    count: int,
    temperature: float = 0.0,
    seed: int = 1,
    check: bool = False,
) -> Iterator[str]:
    """`count` tokens that follow the prompt, as they come."""
    random = np.random.default_rng(seed)
    *before, token = tokenizer.encode(prompt).tolist()
    for each in before:
        logits_of(session, each, check)
    for _ in range(count):
        logits = logits_of(session, token, check)
        # The largest of logits with Gumbel noise is a draw from their softmax.
        token = int((logits + random.gumbel(size=logits.size) * temperature).argmax())
        yield tokenizer.decode([token])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="characters")
    parser.add_argument("--weights", choices=("int8", "int4"), default="int8")
    parser.add_argument("--on", default="sim", help="target, as of `tosaic run`")
    parser.add_argument("--config", default="base")
    parser.add_argument("--prompt", help="default: a start that the model knows")
    parser.add_argument("--count", type=int, default=300, help="tokens")
    parser.add_argument("--temperature", type=float, default=0.4, help="0: always the likeliest token")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="compare every tensor of every step with golden")
    chosen = parser.parse_args()
    model = MODELS[chosen.model]
    tokenizer, _ = model.load()
    prompt = model.prompt if chosen.prompt is None else chosen.prompt
    if not len(tokenizer.encode(prompt)):
        parser.error("--prompt: give at least one character of ASCII")
    path = make_model(chosen.model, chosen.weights)
    # int4 stays four bits in memory.
    compress = "fast" if chosen.weights == "int4" else None
    session = Session(path, chosen.on, chosen.config, keep_layers=chosen.check, compress=compress)
    print(prompt, end="", flush=True)
    cycles: list[int] = []
    for piece in steps(
        session, tokenizer, prompt, chosen.count, chosen.temperature, chosen.seed, chosen.check
    ):
        print(piece, end="", flush=True)
        cycles.append(session.result.cycles if session.result else 0)
    if any(cycles):
        told = f"{min(cycles):,}" + (f" to {max(cycles):,}" if max(cycles) > min(cycles) else "")
        print(f"\n\n{len(cycles)} tokens on {chosen.on} ({chosen.config}): {told} cycles each", end="")
    if chosen.check:
        print(f"\nbit-exact: {len(session.kept)} tensors of each step equal golden", end="")
    print()


if __name__ == "__main__":
    main()
