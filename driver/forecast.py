"""What a float model will do on the accelerator once it is quantized, told before there is calibration data."""

import warnings
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import Graph
from tosaic.driver.layer_figures import layer_figures
from tosaic.driver.quantize import Quantization, quantize_graph
from tosaic.driver.session import Progress, Session
from tosaic.errors import ModelWarning
from tosaic.hw.config import Config

DEAREST = 5
"""Layers that are told of one by one."""
_SEED = 17


@dataclass(frozen=True)
class CostlyLayer:
    """A layer, its part of the run, and what limits it."""

    shown: str
    """Operators of the model and the layer's kind, as in reports: "conv1 … relu1 (CONV2D)"."""
    cycles: int
    utilization: float
    """MACs by those that the array could do in the layer's cycles, 1 at most."""
    limit: str


@dataclass(frozen=True)
class Forecast:
    """A quantized model's run. Cycles are the emulator's prediction."""

    layers: int
    cycles: int
    utilization: float
    memory_bytes: int
    """External memory, with the program, its weights and what it computes."""
    dearest: list[CostlyLayer]


def forecast(graph: Graph, config: Config, progress: Progress | None = None) -> Forecast:
    """Quantizes a float graph as `tosaic quantize` does, but on one sample of stand-ins, and predicts its run.

    What stand-ins do to accuracy says nothing of the model. Cycles are near those with honest data and not equal: which
    tensors keep 16 bits, and which channels are equalized, depends on it. Nothing is written.

    Raises what quantizing and compiling raise: the error names the operator that does not run, and the way out.
    """
    sample = stand_ins(graph)
    with warnings.catch_warnings():
        # Its integers are thrown away: one sample, and a random one, is enough for cycles.
        warnings.simplefilter("ignore", ModelWarning)
        samples = {name: value[None] for name, value in sample.items()}
        found = quantize_graph(graph, samples, progress=progress)
    session = Session(found.graph, "emulator", config, progress=progress)
    session.run({name: _encoded(found, name, sample[name]) for name in found.graph.run_inputs})
    return _told(session)


def stand_ins(graph: Graph) -> dict[str, np.ndarray]:
    """A value for each input: of floats normally distributed random numbers, else zeros, which any index may be."""
    generator = np.random.default_rng(_SEED)
    tensors = [graph.tensors[name] for name in graph.inputs]
    return {
        tensor.name: (
            generator.standard_normal(tensor.shape) if tensor.dtype.is_float else np.zeros(tensor.shape)
        ).astype(tensor.dtype.numpy)
        for tensor in tensors
    }


def _encoded(found: Quantization, name: str, value: np.ndarray) -> np.ndarray:
    encoding = found.result.inputs.get(name)
    return value if encoding is None else encoding.quantize(value)


def _told(session: Session) -> Forecast:
    stats, peak, program = session.stats, session.config.macs_per_cycle, session.program
    assert program is not None
    layers = layer_figures(stats, peak, session.timeline())
    dearest = [
        CostlyLayer(f"{layer.name} ({layer.op})", layer.cycles, layer.utilization, str(layer.limit))
        for layer in sorted(layers, key=lambda each: -each.cycles)[:DEAREST]
    ]
    return Forecast(
        len(program.layers), stats["cycles"], stats["mac_utilization"], program.memory_bytes, dearest
    )
