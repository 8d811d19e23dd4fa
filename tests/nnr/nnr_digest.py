"""A digest of what the codec computes, compiled or interpreted: run as a program, it prints both."""

import hashlib

import numpy as np

from tosaic.nnr import (
    NnrError,
    decode_tensor,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_tensor,
    jit,
    quantize_dependent,
    quantize_uniform,
)
from tosaic.nnr import levels as coded


def digest() -> str:
    """Returns a hash of payloads, levels, bit positions, quantized values and messages of damage."""
    found = hashlib.sha256()
    rng = np.random.default_rng(7)
    for length in (0, 1, 4, 10, 255):
        for dq in (False, True):
            weights = rng.laplace(0, 40, 400) * (rng.random(400) < 0.6)
            weights[::97] *= 1e6
            rate, keep = float(rng.integers(2)), bool(rng.integers(2))
            levels = quantize_uniform(weights, 1)
            if dq:
                levels = quantize_dependent(weights, 1, rate_weight=rate, keep_zeros=keep)
            payload = encode_tensor(levels, cabac_unary_length=length, dq=dq)
            again = coded.decode(payload, 400, length, with_positions=True)
            assert np.array_equal(again.levels, levels)
            floats = encode_float_tensor(levels, -3, cabac_unary_length=length, dq=dq)
            values = decode_tensor(floats, (20, 20), payload_type="float32", cabac_unary_length=length)
            for part in (payload, floats, again.positions.tobytes(), levels.tobytes(), values.tobytes()):
                found.update(part)
            found.update(encode_codebook_tensor(np.abs(levels) % 60, cabac_unary_length=length))
            for damaged in (payload[:-9], payload[9:], payload + b"\0", b"\xff" + payload):
                try:
                    found.update(decode_tensor(damaged, (400,), cabac_unary_length=length).tobytes())
                except NnrError as error:
                    found.update(str(error).encode())
    return found.hexdigest()


if __name__ == "__main__":
    print("compiled" if jit.COMPILED else "interpreted", digest())
