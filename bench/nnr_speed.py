"""How fast the NNR codec runs in software, on one core: bins per second of the decoder and the encoder.

    python bench/nnr_speed.py [MODEL.tosa...]

A row per kind of tensor: made-up int8 weights of three densities, then the int8 weights of the models. Process time,
the best of five; compilation is not counted. Needs numba (extra `nnr`): without it the same loops are interpreted.
"""

import argparse
import pathlib
import time
from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import DType, read_tosa
from tosaic.hw.cabac_timing import count_bins
from tosaic.nnr import decode_tensor, encode_tensor
from tosaic.nnr.jit import COMPILED

WEIGHTS = 1_000_000


def samples() -> dict[str, np.ndarray]:
    """A million weights each: dense, pruned, and levels near zero."""
    rng = np.random.default_rng(1)
    dense = np.rint(rng.laplace(0, 20, WEIGHTS)).clip(-127, 127).astype(np.int8)
    pruned = np.where(rng.random(WEIGHTS) < 0.8, 0, dense).astype(np.int8)
    small = np.rint(rng.laplace(0, 0.8, WEIGHTS)).clip(-127, 127).astype(np.int8)
    return {"dense int8": dense, "80 % zeros": pruned, "near zero": small}


def weights_of(path: pathlib.Path) -> np.ndarray:
    """The int8 constants of a model, one behind the other."""
    constants = (tensor for tensor in read_tosa(path).tensors.values() if tensor.data is not None)
    return np.concatenate([tensor.data.reshape(-1) for tensor in constants if tensor.dtype is DType.INT8])


def best_seconds(call: Callable[[], object]) -> float:
    """Returns the best of five calls, after one that may compile."""
    call()
    times = []
    for _ in range(5):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    tensors = samples()
    for path in parser.parse_args().models:
        tensors[path.parent.name if path.name == "model.tosa" else path.stem] = weights_of(path)
    print(f"{'compiled' if COMPILED else 'interpreted'}; millions of bins per second")
    print("| weights | unary length | bins per weight | bypass | bits per weight | decode | encode |")
    print("|---|---|---|---|---|---|---|")
    for name, weights in tensors.items():
        for length in (1, 10):
            payload = encode_tensor(weights, cabac_unary_length=length)
            assert np.array_equal(decode_tensor(payload, weights.shape, cabac_unary_length=length), weights)
            bins = count_bins(weights, length)
            total = bins.context_coded + bins.bypass
            rates = [
                total / best_seconds(call) / 1e6
                for call in (
                    lambda p=payload, n=length, w=weights: decode_tensor(p, w.shape, cabac_unary_length=n),
                    lambda n=length, w=weights: encode_tensor(w, cabac_unary_length=n),
                )
            ]
            print(
                f"| {name} | {length} | {total / weights.size:.2f} | {bins.bypass / total:.0%} | "
                f"{8 * len(payload) / weights.size:.2f} | {rates[0]:.1f} | {rates[1]:.1f} |"
            )


if __name__ == "__main__":
    main()
