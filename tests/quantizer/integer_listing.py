"""Integer graphs as text, one operator to a line; and how float graphs become them in the same way on every machine.

    python tests/quantizer/integer_listing.py

writes `integer_graphs.txt` again; what has changed is for the review.
"""

import dataclasses
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from tosaic.compiler.ir import Graph
from tosaic.compiler.quantizer import Quantized, Statistics
from tosaic.driver.quantize import quantization, quantize_graph

RECORDED = Path(__file__).with_name("integer_graphs.txt")
_STEP, _CHANNEL_STEP, _SUM_STEP = 1 / 8, 1 / 4, 4.0
"""What is seen of tensors counts in such steps, extremes of channels and sums over them in coarser ones: another order
of sums, and other libraries, round otherwise."""
_INLINE = 8
"""Elements of a constant that is written out."""


def coarse_samples(graph: Graph, count: int = 3) -> dict[str, np.ndarray]:
    """Quarters from -2 to 2, small indices and truth values: products of such are exact."""
    random = np.random.default_rng(7)
    arrays = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        values = random.integers(-8, 9, (count, *tensor.shape))
        arrays[name] = (values / 4 if tensor.dtype.is_float else values & 3).astype(tensor.dtype.numpy)
    return arrays


def integers_of(graph: Graph, **options: str) -> Quantized:
    """The integer graph of a float one."""
    calibrate = quantization.calibrate

    def coarse(*arguments: object, **named: object) -> Statistics:
        found = calibrate(*arguments, **named)  # type: ignore[arg-type]
        for values in (found.low, found.high):
            values.update({name: float(_rounded(value, _STEP)) for name, value in values.items()})
        for key, channels in found.channels.items():
            kept = {name: _rounded(getattr(channels, name), _CHANNEL_STEP) for name in ("low", "high")}
            kept |= {
                name: _rounded(getattr(channels, name), _SUM_STEP) for name in ("total", "square", "sizes")
            }
            found.channels[key] = dataclasses.replace(channels, **kept)
        return found

    with mock.patch.object(quantization, "calibrate", coarse):
        return quantize_graph(graph, coarse_samples(graph), **options).result  # type: ignore[arg-type]


def _rounded(value: float | np.ndarray, step: float) -> np.ndarray:
    return np.rint(np.asarray(value) / step) * step


def listing(found: Quantized) -> Iterator[str]:
    """Inputs, operators and outputs; constants are in the lines of who reads them."""
    graph, numbers = found.graph, dict[str, str]()
    for name in graph.inputs:
        numbers[name] = f"%{len(numbers)}"
        yield f"{numbers[name]} = {name}: {graph.tensors[name].dtype.spelling}{_encoding(found.inputs, name)}"
    for op in graph.operators:
        operands = ", ".join(numbers.get(name) or _constant(graph, name) for name in op.inputs)
        results = []
        for name in op.outputs:
            numbers[name] = f"%{len(numbers)}"
            shape = "x".join(map(str, graph.tensors[name].shape))
            results.append(f"{numbers[name]}:{graph.tensors[name].dtype.spelling}[{shape}]")
        kept = {key: value for key, value in op.attributes.items() if value not in (False, None)}
        attributes = " ".join(f"{key}={getattr(value, 'name', value)}" for key, value in sorted(kept.items()))
        yield f"{', '.join(results)} = {op.op}({operands}) {attributes}".rstrip()
    for name in graph.outputs:
        yield f"{name} is {numbers[name]}{_encoding(found.outputs, name)}"


def _encoding(encodings: dict, name: str) -> str:
    if name not in encodings:
        return ""
    return f", {encodings[name].scale:.7g} from {encodings[name].zero_point}"


def _constant(graph: Graph, name: str) -> str:
    tensor = graph.tensors[name]
    assert tensor.data is not None
    if tensor.data.size <= _INLINE:
        return f"{np.asarray(tensor.data).tolist()}".replace(" ", "")
    digest = hashlib.sha256(np.ascontiguousarray(tensor.data).tobytes()).hexdigest()[:8]
    return f"{tensor.dtype.spelling}{list(tensor.shape)}#{digest}".replace(" ", "")


def recorded() -> dict[str, list[str]]:
    """The file's sections."""
    found: dict[str, list[str]] = {}
    for line in RECORDED.read_text().splitlines():
        if line.startswith("== "):
            found[line[3:]] = lines = []
        elif line:
            lines.append(line)
    return found


def main() -> None:
    from test_integer_graphs import CASES, integers

    sections = [
        f"== {' '.join(case)}\n" + "".join(f"{line}\n" for line in listing(integers(*case))) for case in CASES
    ]
    RECORDED.write_text("\n".join(sections))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
