"""Trains four networks on scikit-learn digits, quantizes them, runs them, compares with ONNX Runtime.

    python bench/quantize_digits.py [--seeds 5] [--on sim] [--images 8]

Each network (and its twin with stretched channels, the same function) goes ONNX -> float TOSA -> int8 -> the target,
where every tensor is compared with golden. Figures are of the held-out images; without
onnxruntime its columns stay empty.
Exit code 1 if a gate is missed: 30 dB, not more than 1 dB below ONNX Runtime, top-1 loss of 1 point (transformer 1.5),
agreement of 99 %, bit-exactness.
"""

import argparse
import pathlib
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples" / "quantization"))
import quantized_networks as networks

from tosaic import Session
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.driver.quantize import Quantization, quantize_graph
from tosaic.sim.golden import evaluate

CALIBRATION, BATCH = 200, 50
LEAST_DB, LEAST_AGREEMENT, MOST_LOSS = 30.0, 0.99, {"transformer": 0.015}


@dataclass(frozen=True)
class Figures:
    """Figures of integer logits against float ones."""

    sqnr_db: float
    agreement: float
    accuracy: float


def figures(logits: np.ndarray, wanted: np.ndarray, labels: np.ndarray) -> Figures:
    """Signal to noise, share of equal classes, share of right ones."""
    error = logits.astype(np.float64) - wanted
    classes = logits.argmax(1)
    return Figures(
        10 * np.log10((wanted.astype(np.float64) ** 2).sum() / (error**2).sum()),
        float((classes == wanted.argmax(1)).mean()),
        float((classes == labels).mean()),
    )


def quantized_logits(quantization: Quantization, images: np.ndarray) -> np.ndarray:
    """Logits of all images by golden, in reals."""
    source, result = quantization.result.inputs["images"], quantization.result.outputs["logits"]
    filled = np.resize(images, (-(-len(images) // BATCH) * BATCH, *images.shape[1:]))
    batches = [
        evaluate(quantization.graph, {"images": source.quantize(filled[i : i + BATCH])})["logits"]
        for i in range(0, len(filled), BATCH)
    ]
    return result.dequantize(np.concatenate(batches))[: len(images)]


def onnxruntime_logits(model: Any, calibration: np.ndarray, images: np.ndarray) -> np.ndarray | None:
    """Logits of ONNX Runtime's static int8 quantization, weights per channel; None where it is not installed."""
    try:
        import onnxruntime
        from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    except ImportError:
        return None

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.samples = iter(calibration)

        def get_next(self) -> dict[str, np.ndarray] | None:
            sample = next(self.samples, None)
            return None if sample is None else {"images": sample[None]}

    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/float.onnx", f"{folder}/int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            target,
            Reader(),
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
        )
        return onnxruntime.InferenceSession(target).run(None, {"images": images})[0]


def bit_exact_cycles(
    model: Any, calibration: np.ndarray, images: np.ndarray, target: str, config: str
) -> int:
    """Runs images on the target, every tensor against golden; cycles of the last one."""
    quantization = quantize_graph(import_onnx(model, {"batch": 1}), {"images": calibration})
    source = quantization.result.inputs["images"]
    exact = Session(quantization.graph, target=target, config=config, keep_layers=True)
    fast = Session(quantization.graph, target=target, config=config)
    for image in images:
        exact.run({"images": source.quantize(image[None])}, check=True)
        fast.run({"images": source.quantize(image[None])}, check=True)
    return int(fast.stats["cycles"])


def row(
    name: str, kind: str, seed: int, parameters: Any, digits: Any, options: argparse.Namespace
) -> list[str]:
    """Prints one network's figures; which gates it misses."""
    model = networks.export(name, parameters)
    calibration, images, labels = digits.train_images[:CALIBRATION], digits.test_images, digits.test_labels
    wanted = networks.forward(name, parameters, images)
    before = float((wanted.argmax(1) == labels).mean())
    quantization = quantize_graph(import_onnx(model, {"batch": BATCH}), {"images": calibration})
    ours = figures(quantized_logits(quantization, images), wanted, labels)
    cycles = bit_exact_cycles(model, calibration, images[: options.images], options.on, options.config)
    logits = onnxruntime_logits(model, calibration, images)
    theirs = None if logits is None else figures(logits, wanted, labels)
    other = "" if theirs is None else f"{theirs.sqnr_db:.1f} | {theirs.agreement:.2%} | {theirs.accuracy:.2%}"
    print(
        f"| {name} {kind} | {seed} | {before:.2%} | {ours.sqnr_db:.1f} | {ours.agreement:.2%} | {ours.accuracy:.2%} | "
        f"{other or ' | | '} | {cycles:,} |",
        flush=True,
    )
    gates = {
        "30 dB": ours.sqnr_db >= LEAST_DB,
        "1 dB of ONNX Runtime": theirs is None or ours.sqnr_db >= theirs.sqnr_db - 1,
        "agreement": ours.agreement >= LEAST_AGREEMENT,
        "top-1 loss": before - ours.accuracy <= MOST_LOSS.get(name, 0.01),
    }
    return [f"{name} {kind}, seed {seed}: {gate}" for gate, met in gates.items() if not met]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each network")
    parser.add_argument("--on", default="sim", help="emulator or sim")
    parser.add_argument("--config", default="base")
    parser.add_argument("--images", type=int, default=8, help="images that run on the target")
    options = parser.parse_args()
    print(
        "| network | seed | float top-1 | SQNR dB | agreement | top-1 | ORT SQNR dB | agreement | top-1 | cycles |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    missed: list[str] = []
    for seed in range(options.seeds):
        digits = networks.load_digits(seed)
        for name in networks.DESCRIPTIONS:
            parameters = networks.train(name, digits, seed)
            missed += row(name, "", seed, parameters, digits, options)
            missed += row(
                name, "stretched", seed, networks.stretched(name, parameters, seed), digits, options
            )
    for gate in missed:
        print(f"missed: {gate}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
