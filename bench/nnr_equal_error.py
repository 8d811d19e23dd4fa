"""The public codec nncodec at its default options, and what it does to a model's outputs: `tosaic nnr encode --calib
--target-sqnr` is then asked for no more error.

    python bench/nnr_equal_error.py samples KIND MODEL.onnx X.npz      speech of silero-vad, music, text_line, text_page
    python bench/nnr_equal_error.py weights MODEL.onnx W.npz
    python bench/nnr_equal_error.py nncodec W.npz D.npz [--stub torch,torchvision...]
    python bench/nnr_equal_error.py error MODEL.onnx X.npz D.npz       bytes, decibels of the worst output

The third step runs where nncodec is installed (nnr_interchange.py says how). For nncodec
scalars stay exact and take no bytes (an exponent of 1.99999 ruins a network), and the scales of Resize stay exact.
"""

import argparse
import pathlib
import sys
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
NOT_IN_FILES, IN_FILES = "/", "|"
"""A .npz file makes folders of the first; the second stands for it."""
SIZE = "nncodec's bytes"
CHUNK, CONTEXT, CHUNKS, RATE_HZ = 512, 64, 24, 16000
"""Sizes and sample rate of silero-vad."""


def speech(model: str) -> Arrays:
    """Chunks with the recurrent state that the network is in."""
    import onnxruntime
    import signals

    source = signals.Source(0, np.random.default_rng(1))
    sound = signals.speech(source, CONTEXT * CHUNK + CONTEXT, RATE_HZ)
    chunks = np.stack([sound[CHUNK * n :][: CHUNK + CONTEXT] for n in range(CHUNKS)])
    session, state, states = onnxruntime.InferenceSession(model), np.zeros((2, 1, 128), np.float32), []
    rate = np.array(RATE_HZ, np.int64)
    for chunk in chunks:
        states.append(state)
        _, state = session.run(None, {"input": chunk[None], "state": state, "sr": rate})
    return {"input": chunks[:, None], "state": np.stack(states), "sr": np.full(CHUNKS, rate)}


def music(model: str) -> Arrays:
    """Two pieces of voice at basic-pitch's rate."""
    import signals

    sound = signals.speech(signals.Source(0, np.random.default_rng(1)), 2 * 43844, 22050)
    return {"serving_default_input_2:0": sound.reshape(2, 43844, 1)}


def text(height: int, width: int, size: int, seed: int) -> np.ndarray:
    """Random letters in Pillow's font, -1 to 1."""
    from PIL import Image, ImageDraw, ImageFont

    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (width, height), tuple(int(v) for v in rng.integers(180, 256, 3)))
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    for y in range(4, height - size, int(size * 1.6)):
        x = 4 + int(rng.integers(20))
        line = "".join(chr(97 + c) if c < 26 else " " for c in rng.integers(0, 31, 60))
        draw.text((x, y), line, fill=tuple(int(v) for v in rng.integers(0, 90, 3)), font=font)
    values = np.asarray(image, np.float32) / 255 + rng.normal(0, 0.02, (height, width, 3))
    return ((values - 0.5) / 0.5).astype(np.float32).transpose(2, 0, 1)


def text_line(model: str) -> Arrays:
    """Six lines, every other one mirrored."""
    return {"x": np.stack([text(48, 192, 28, n)[:, :, :: (1 if n % 2 else -1)] for n in range(6)])}


def text_page(model: str) -> Arrays:
    """Two small pages."""
    return {"x": np.stack([text(96, 160, 18, n + 50) for n in range(2)])}


KINDS = {each.__name__: each for each in (speech, music, text_line, text_page)}


def weights(model: str) -> Arrays:
    """What `tosaic nnr encode --weights-only` codes."""
    from tosaic import nnr
    from tosaic.nnr import onnx_carriage, onnx_weights

    loaded = onnx_carriage.load(pathlib.Path(model))
    limit_bytes = 1 << 32
    return nnr.decode(onnx_weights.encode_weights(loaded, nnr.Settings()), limit_bytes=limit_bytes)


def coded(arrays: Arrays, stub: str) -> Arrays:
    """What nncodec makes of them, and its bytes."""
    import nnr_interchange

    sys.meta_path.insert(0, nnr_interchange._Stubs(stub.split(",")))
    oracle = nnr_interchange.Oracle()
    stream = oracle.encode({name: each for name, each in arrays.items() if each.ndim}, None)
    return {**oracle.decode(stream), SIZE: np.array(len(stream))}


def print_error(model: str, samples: Arrays, decoded: Arrays) -> None:
    """Bytes, and the signal-to-noise ratio of the worst output."""
    from tosaic.nnr import onnx_carriage
    from tosaic.nnr.onnx_calibration import decibels
    from tosaic.nnr.onnx_runs import OnnxRuns
    from tosaic.nnr.onnx_tensors import model_tensors

    loaded = onnx_carriage.load(pathlib.Path(model))
    held, size_bytes = model_tensors(loaded), int(decoded.pop(SIZE))
    exact = {name for node in loaded.graph.node if node.op_type == "Resize" for name in node.input[1:]}
    floats = {
        name: values.reshape(tuple(held[name].dims))
        for name, values in decoded.items()
        if values.dtype == np.float32 and name not in exact
    }
    ratio = min(map(decibels, OnnxRuns(loaded, samples).error(floats).values()))
    print(f"{size_bytes:,} bytes, {ratio:.4f} dB")


def load(path: str) -> Arrays:
    return {name.replace(IN_FILES, NOT_IN_FILES): values for name, values in np.load(path).items()}


def save(path: str, arrays: Arrays) -> None:
    named: dict[str, Any] = {name.replace(NOT_IN_FILES, IN_FILES): values for name, values in arrays.items()}
    np.savez(path, **named)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("step", choices=("samples", "weights", "nncodec", "error"))
    parser.add_argument("files", nargs="+")
    parser.add_argument("--stub", default="", help="as of nnr_interchange.py")
    chosen = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).parent / "zoo"))
    match chosen.step, *chosen.files:
        case "samples", kind, model, path:
            save(path, KINDS[kind](model))
        case "weights", model, path:
            save(path, weights(model))
        case "nncodec", source, path:
            save(path, coded(load(source), chosen.stub))
        case "error", model, samples, decoded:
            print_error(model, load(samples), load(decoded))
        case _:
            parser.error(f"{chosen.step} has other files")


if __name__ == "__main__":
    main()
