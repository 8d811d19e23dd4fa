"""Float TOSA graphs of one or a few operators, as importers write them, and how far their integers are from them."""

import math

import numpy as np

from tosaic import Session
from tosaic.compiler.importers.lowering import Lowering, activations, statistics
from tosaic.compiler.ir import DType, Graph, validate
from tosaic.driver.quantize import Quantization, measure, quantize_graph

RANDOM_SEED = 11
IMAGE = (1, 6, 6, 8)


class Floats(Lowering):
    """A Lowering with seeded constants."""

    def __init__(self) -> None:
        super().__init__("main")
        self.random = np.random.default_rng(RANDOM_SEED)

    def input(self, name: str, shape, dtype: DType = DType.FP32) -> str:
        return self.build.input(name, shape, dtype)

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.random.standard_normal(shape) * scale, DType.FP32)

    def finish(self, *outputs: str) -> Graph:
        for output in outputs:
            self.build.output(output)
        validate(self.graph)
        return self.graph


def samples(graph: Graph, count: int = 12, seed: int = 5) -> dict[str, np.ndarray]:
    """Normal numbers for float inputs, small indices for int32 ones, truth values for bool ones."""
    random = np.random.default_rng(seed)
    arrays = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        shape = (count, *tensor.shape)
        if tensor.dtype.is_float:
            arrays[name] = random.standard_normal(shape).astype(np.float32)
        elif tensor.dtype is DType.BOOL:
            arrays[name] = random.random(shape) < 0.5
        else:
            arrays[name] = random.integers(0, 4, shape, dtype=np.int32)
    return arrays


def worst_db(quantization: Quantization) -> float:
    """Least SQNR of the outputs on the calibration samples."""
    return min((output.sqnr_db for output in measure(quantization).outputs), default=math.inf)


def run_everywhere(quantization: Quantization, target: str = "emulator", keep_layers: bool = False) -> None:
    """The integer graph on a target, bit for bit against golden, for one sample and for extreme integers."""
    result = quantization.result
    session = Session(quantization.graph, target=target, keep_layers=keep_layers)
    random = np.random.default_rng(3)
    sample = quantization.samples[0]
    encoded = {
        name: result.inputs[name].quantize(value) if name in result.inputs else value
        for name, value in sample.items()
    }
    session.run(encoded, check=True)
    extreme = {
        name: random.choice([e.dtype.min, e.dtype.max], sample[name].shape).astype(e.dtype.numpy)
        for name, e in result.inputs.items()
    }
    session.run({**encoded, **extreme}, check=True)


__all__ = [
    "Floats",
    "IMAGE",
    "activations",
    "quantize_graph",
    "run_everywhere",
    "samples",
    "statistics",
    "worst_db",
]
