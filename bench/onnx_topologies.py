"""The nine ImageNet topologies in the package onnx, with random weights, on golden against ONNX Runtime.

    python bench/onnx_topologies.py [--only NAME]... [--seed 1]

The package keeps the weights as ConstantOfShape nodes: each becomes a random tensor (He's scale for products, small
positive variances, ...), the same for both. The input is random with zero mean; outputs are compared before the last
Softmax, which would saturate. Prints the largest difference in parts of the output's range; exit 1 above 1e-4.
"""

import argparse
import math
import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.sim.golden import evaluate

FOLDER = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LIMIT = 1e-4


def reweighted(model: onnx.ModelProto, random: np.random.Generator) -> onnx.ModelProto:
    """The model with random initializers in place of constants of shape, without a Softmax at its end."""
    graph = model.graph
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes, weights = [], {}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            weights[node.output[0]] = tuple(int(size) for size in known[node.input[0]])
        else:
            nodes.append(node)
    values = _values(nodes, weights, random)
    last = nodes[-1]
    if last.op_type == "Softmax":
        nodes.pop()
        graph.output[0].name = last.input[0]
    del graph.output[0].type.tensor_type.shape.dim[:]
    graph.output[0].type.tensor_type.ClearField("shape")
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    data = [value for value in graph.input if value.name not in known and value.name in used]
    del graph.input[:]
    graph.input.extend(data)
    model.ir_version = 8
    return model


def _values(
    nodes: list[onnx.NodeProto], shapes: dict[str, tuple[int, ...]], random: np.random.Generator
) -> dict[str, np.ndarray]:
    readers = {name: (node, index) for node in nodes for index, name in enumerate(node.input)}
    values = {}
    for name, shape in shapes.items():
        node, index = readers.get(name, (None, 0))
        # Through the reshapes that prepare a weight.
        while node is not None and node.op_type in ("Unsqueeze", "Reshape") and index == 0 and name in shapes:
            if node.output[0] not in readers:
                break
            node, index = readers[node.output[0]]
        kind = node.op_type if node is not None else ""
        if kind in ("Conv", "Gemm", "MatMul") and index == 1:
            fan = math.prod(shape[1:]) if kind == "Conv" else shape[-1]
            values[name] = random.normal(size=shape) * math.sqrt(2 / fan)
        elif kind == "BatchNormalization" and index in (1, 4):
            values[name] = random.uniform(0.5, 1.5, shape)
        elif kind == "Mul":
            values[name] = random.uniform(0.5, 1.5, shape)
        else:
            values[name] = random.normal(size=shape) * 0.1
    return {name: value.astype(np.float32) for name, value in values.items()}


def difference(path: pathlib.Path, seed: int) -> tuple[float, int]:
    """(largest difference over the output's range, distinct outputs)."""
    random = np.random.default_rng(seed)
    model = reweighted(onnx.load(path), random)
    x = random.normal(size=(1, 3, 224, 224)).astype(np.float32)
    name = model.graph.input[0].name
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {name: x})
    (got,) = evaluate(import_onnx(model), {name: x}).values()
    return float(np.abs(got - wanted).max() / np.ptp(wanted)), len(np.unique(wanted))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="a part of a name")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    wrong = 0
    for path in sorted(FOLDER.glob("light_*.onnx")):
        if chosen.only and not any(part in path.name for part in chosen.only):
            continue
        started = time.monotonic()
        error, distinct = difference(path, chosen.seed)
        wrong += not error <= LIMIT
        print(
            f"{path.stem.removeprefix('light_'):14} {error:.1e} of the range, {distinct} distinct outputs, "
            f"{time.monotonic() - started:.0f} s",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
