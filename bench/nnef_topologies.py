"""ImageNet topologies in the package onnx, turned into NNEF by Khronos' nnef_tools, on golden against ONNX Runtime.

    python bench/nnef_topologies.py [--only NAME]... [--seed 1]

The ONNX models with random weights of `onnx_topologies.py`, converted, imported as NNEF, and run on a random input of
zero mean; outputs are compared before the last Softmax. Prints the largest difference in parts of the output's range;
exit 1 above 1e-4, or when there is nothing to compare. Needs onnx, onnxruntime and nnef_tools.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from onnx_topologies import FOLDER, LIMIT, reweighted  # noqa: E402 (the path comes first)

from tosaic.compiler.importers import import_model  # noqa: E402
from tosaic.sim.golden import evaluate  # noqa: E402

NAMES = ("densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "zfnet512")


def difference(name: str, seed: int, folder: pathlib.Path) -> tuple[float, int, int]:
    """Largest difference over the output's range, distinct outputs, and TRANSPOSEs in the graph."""
    random = np.random.default_rng(seed)
    model = reweighted(onnx.load(FOLDER / f"light_{name}.onnx"), random)
    x = random.normal(size=(1, 3, 224, 224)).astype(np.float32)
    source, converted = folder / f"{name}.onnx", folder / name
    onnx.save(model, source)
    formats = ["--input-format", "onnx", "--output-format", "nnef"]
    files = ["--input-model", str(source), "--output-model", str(converted)]
    done = subprocess.run(
        [sys.executable, "-m", "nnef_tools.convert", *formats, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    if not (converted / "graph.nnef").is_file():
        raise RuntimeError(
            f"nnef_tools does not convert {name}: {(done.stdout + done.stderr).strip()[-300:]}"
        )
    graph = import_model(converted)
    (got,) = evaluate(graph, {graph.inputs[0]: x}).values()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {model.graph.input[0].name: x})
    largest = np.abs(got.reshape(-1) - wanted.reshape(-1)).max() / np.ptp(wanted)
    moves = sum(op.op == "TRANSPOSE" for op in graph.operators)
    return float(largest), len(np.unique(wanted)), moves


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    failed = False
    for name in chosen.only or NAMES:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            largest, distinct, moves = difference(name, chosen.seed, pathlib.Path(folder))
        failed |= not largest <= LIMIT or distinct < 100
        seconds = time.monotonic() - started
        print(
            f"{name:14} {largest:.1e} of the range, {distinct} distinct outputs, {moves} TRANSPOSE, {seconds:.0f} s",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
