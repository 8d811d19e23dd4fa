"""Whisper tiny.en in NumPy, in floats: what the integers are judged by, and where calibration data comes from."""

import math

import numpy as np
from hear_weights import CONTEXT, END, HEAD, HEADS, PROMPT, SPACE, TEXT, WIDTH, Array, Parameters, layers_of

EPSILON = 1e-5
LOOP = 6
"""Tokens that come twice, one after the other, are a copy from this number on, and are left out."""
_erf = np.frompyfunc(math.erf, 1, 1)


def gelu(x: Array) -> Array:
    """x times the normal distribution's share below it."""
    return (x * 0.5 * (1 + _erf(x * np.float32(0.5**0.5)).astype(np.float32))).astype(np.float32)


def softmax(x: Array) -> Array:
    """Over the last axis."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def next_token(logits: Array, tokens: list[int]) -> int:
    """The likeliest token of text or END, whose numbers `logits` has; the first is neither a space nor END."""
    allowed = logits[:TEXT].copy()
    if len(tokens) == len(PROMPT):
        allowed[[SPACE, END]] = -np.inf
    return int(allowed.argmax())


def repeated(tokens: list[int]) -> int:
    """How many of the last tokens were said before, one after the other."""
    said, most = tokens[len(PROMPT) :], 0
    for count in range(1, len(said) // 2 + 1):
        tail, before = said[-count:], said[:-count]
        if not any(before[n : n + count] == tail for n in range(len(before) - count + 1)):
            break
        most = count
    return most


def is_over(tokens: list[int], most: int) -> bool:
    """Whether the text ends: by END, at the last place, or where LOOP tokens come a second time: a short window, whose
    sound has ended, is heard again."""
    return tokens[-1] == END or len(tokens) >= most or repeated(tokens) >= LOOP


def settled(tokens: list[int], most: int) -> int:
    """How many tokens of a text are sure: those that may be the beginning of a second copy are not, until it ends
    otherwise; then they are no copy."""
    copied = repeated(tokens)
    return len(tokens) - (copied if copied >= LOOP or not is_over(tokens, most) else 0)


class FloatWhisper:
    """The network of some parameters. Arrays are [positions or tokens, channels]."""

    def __init__(self, parameters: Parameters):
        self.parameters = parameters

    def linear(self, x: Array, name: str) -> Array:
        """x times a matrix, and its bias."""
        result: Array = x @ self.parameters[f"{name}/weight"].T + self.parameters[f"{name}/bias"]
        return result

    def norm(self, x: Array, name: str) -> Array:
        """Layer norm."""
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
        return x * self.parameters[f"{name}/gamma"] + self.parameters[f"{name}/beta"]

    def attended(self, query: Array, keys: Array, values: Array, seen: np.ndarray | None = None) -> Array:
        """What each query finds: [tokens, WIDTH] of all heads side by side; `seen` says which keys a token may."""

        def heads(x: Array) -> Array:
            return x.reshape(len(x), HEADS, HEAD).transpose(1, 0, 2)

        scores = heads(query) @ heads(keys).transpose(0, 2, 1) * np.float32(HEAD**-0.5)
        if seen is not None:
            scores = np.where(seen, scores, -np.inf)
        return (softmax(scores) @ heads(values)).transpose(1, 0, 2).reshape(len(query), WIDTH)

    def self_attention(self, x: Array, layer: str, causal: bool) -> Array:
        """x with what its own tokens tell."""
        a = self.norm(x, f"{layer}/self_attention/layer_norm")
        query, keys, values = np.split(self.linear(a, f"{layer}/self_attention/linear_0"), 3, -1)
        seen = np.tri(len(x), dtype=bool) if causal else None
        return x + self.linear(self.attended(query, keys, values, seen), f"{layer}/self_attention/linear_1")

    def feed_forward(self, x: Array, layer: str) -> Array:
        """x with the two matrices around a GELU."""
        hidden = gelu(self.linear(self.norm(x, f"{layer}/ffn/layer_norm"), f"{layer}/ffn/linear_0"))
        return x + self.linear(hidden, f"{layer}/ffn/linear_1")

    def encode(self, mel: Array) -> Array:
        """[positions, WIDTH] of a log-mel spectrum [2 * positions, MELS]."""
        x = mel
        for name, stride in (("encoder/conv1", 1), ("encoder/conv2", 2)):
            padded = np.pad(x, ((1, 1), (0, 0)))
            taps = [padded[tap : tap + len(x) : stride] @ each.T for tap, each in enumerate(self._taps(name))]
            x = gelu(sum(taps, np.float32(0)) + self.parameters[f"{name}/bias"])
        x = x + self.parameters["encoder/position_encodings/encodings"][: len(x)]
        for number in range(layers_of(self.parameters, "encoder")):
            x = self.self_attention(x, f"encoder/layer_{number}", causal=False)
            x = self.feed_forward(x, f"encoder/layer_{number}")
        return self.norm(x, "encoder/layer_norm")

    def decode(self, audio: Array, tokens: list[int]) -> Array:
        """Logits [tokens, vocabulary] of what follows each token."""
        table = self.parameters["decoder/embeddings/weight"]
        x = table[tokens] + self.parameters["decoder/position_encodings/encodings"][: len(tokens)]
        for number in range(layers_of(self.parameters, "decoder")):
            layer = f"decoder/layer_{number}"
            x = self.self_attention(x, layer, causal=True)
            query = self.linear(self.norm(x, f"{layer}/attention/layer_norm"), f"{layer}/attention/linear_0")
            keys, values = np.split(self.linear(audio, f"{layer}/attention/linear_1"), 2, -1)
            x = x + self.linear(self.attended(query, keys, values), f"{layer}/attention/linear_2")
            x = self.feed_forward(x, layer)
        return self.norm(x, "decoder/layer_norm") @ table.T

    def listen(self, mel: Array, most: int = CONTEXT) -> list[int]:
        """The prompt and the tokens that are heard, the likeliest one each time, up to END or `most`."""
        audio, tokens = self.encode(mel), list(PROMPT)
        while not is_over(tokens, most):
            tokens.append(next_token(self.decode(audio, tokens)[-1], tokens))
        return tokens[: settled(tokens, most)]

    def _taps(self, name: str) -> Array:
        """[kernel, output channel, input channel]."""
        return self.parameters[f"{name}/weight"].transpose(2, 0, 1)
