"""Cycles of float ONNX networks by Tosaic's quantizer, beside ONNX Runtime's (QDQ) of the same network.

    python bench/quantized_twins.py FOLDER/NET.onnx... [--on emulator] [--no-twins]

NET.npz beside NET.onnx has the calibration samples. Prints a Markdown table: cycles on `base` at full bandwidth and
latency 50, with outputs equal to golden's, and the worst output's SQNR against ONNX Runtime's floats on these samples.
"""

import argparse
import pathlib
import tempfile

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import tosaic
from tosaic.compiler.ir import write_tosa
from tosaic.driver.encodings import sidecar, write_encodings
from tosaic.driver.models import open_model
from tosaic.driver.quantize import quantize_graph
from tosaic.errors import DeviceError, UnsupportedError

Arrays = dict[str, np.ndarray]
CONFIG = "base"


class Samples(CalibrationDataReader):
    """What ONNX Runtime's calibration reads, one sample after the other."""

    def __init__(self, feeds: list[Arrays]) -> None:
        self._left = iter(feeds)

    def get_next(self) -> Arrays | None:
        return next(self._left, None)


def feeds_of(model: pathlib.Path) -> list[Arrays]:
    """The samples beside `model`, each in the shapes of its inputs."""
    with np.load(model.with_suffix(".npz")) as file:
        arrays = dict(file)
    inputs = onnxruntime.InferenceSession(model).get_inputs()
    counts = {len(arrays[i.name]) // i.shape[0] for i in inputs}
    (count,) = counts
    return [{i.name: np.split(arrays[i.name], count)[n] for i in inputs} for n in range(count)]


def floats(model: pathlib.Path, feeds: list[Arrays]) -> list[list[np.ndarray]]:
    """ONNX Runtime's outputs, sample by sample."""
    session = onnxruntime.InferenceSession(model)
    return [session.run(None, feed) for feed in feeds]


def sqnr(wanted: list[list[np.ndarray]], found: list[list[np.ndarray]]) -> float:
    """Returns the SQNR of the worst output, over all samples, in dB."""
    ratios = []
    for output in range(len(wanted[0])):
        signal = sum(float((sample[output].astype(np.float64) ** 2).sum()) for sample in wanted)
        noise = sum(
            float(((w[output].astype(np.float64) - f[output].reshape(w[output].shape)) ** 2).sum())
            for w, f in zip(wanted, found, strict=True)
        )
        ratios.append(10 * np.log10(signal / noise))
    return float(min(ratios))


def own(model: pathlib.Path, feeds: list[Arrays], folder: pathlib.Path) -> pathlib.Path:
    """The network by Tosaic's quantizer."""
    samples = {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}
    found = quantize_graph(open_model(str(model)), samples)
    path = folder / f"{model.stem}.tosa"
    path.write_bytes(write_tosa(found.graph))
    write_encodings(sidecar(path), found.result.inputs, found.result.outputs)
    return path


def twin(model: pathlib.Path, feeds: list[Arrays], folder: pathlib.Path) -> pathlib.Path:
    """The network by ONNX Runtime's quantizer: int8, weights per channel."""
    prepared, path = folder / f"{model.stem}.prepared.onnx", folder / f"{model.stem}.qdq.onnx"
    quant_pre_process(model, prepared)
    quantize_static(
        prepared,
        path,
        Samples(feeds),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )
    return path


def run(path: pathlib.Path, feeds: list[Arrays], target: str) -> tuple[int, float, list[list[np.ndarray]]]:
    """Cycles, the share of busy multipliers, and the real outputs of golden for each sample.

    Raises:
        DeviceError: the target's outputs are not golden's.
    """
    golden, outputs = tosaic.Session(str(path), target="golden"), []
    session = tosaic.Session(str(path), target=target, config=CONFIG)
    for number, feed in enumerate(feeds):
        integers = {i.name: _encoded(feed[i.name], i.encoding) for i in session.inputs}
        found = golden.run(integers)
        if number == 0:
            computed = session.run(integers)
            if any(not np.array_equal(found[name], computed[name]) for name in found):
                raise DeviceError(f"{path.stem}: {target} and golden differ")
        outputs.append([_decoded(found[o.name], o.encoding) for o in session.outputs])
    return session.stats["cycles"], session.stats["mac_utilization"], outputs


def _encoded(values: np.ndarray, encoding: object) -> np.ndarray:
    return tosaic.quantize(values, encoding.scale, encoding.zero_point)


def _decoded(values: np.ndarray, encoding: object) -> np.ndarray:
    return tosaic.dequantize(values, encoding.scale, encoding.zero_point)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="NET.onnx")
    parser.add_argument("--on", default="emulator", help="target (emulator)")
    parser.add_argument("--no-twins", action="store_true", help="Tosaic's quantizer only")
    arguments = parser.parse_args()
    print("| network | by | cycles | utilization | SQNR, dB |\n|---|---|---:|---:|---:|", flush=True)
    for model in arguments.models:
        feeds = feeds_of(model)
        wanted = floats(model, feeds)
        for by, make in (("own", own), ("QDQ", twin))[: 1 if arguments.no_twins else 2]:
            with tempfile.TemporaryDirectory() as folder:
                path = make(model, feeds, pathlib.Path(folder))
                try:
                    cycles, utilization, found = run(path, feeds, arguments.on)
                except UnsupportedError as error:
                    print(f"| {model.stem} | {by} | {error} | | |", flush=True)
                    continue
            print(
                f"| {model.stem} | {by} | {cycles:,} | {utilization:.1%} | {sqnr(wanted, found):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
