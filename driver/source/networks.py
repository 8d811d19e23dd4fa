"""The network that a session's integers are held against: found by the note of `quantize`, the file that was opened, or
what the user names."""

import dataclasses
import functools
import importlib.util
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers import is_imported
from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import Graph
from tosaic.compiler.quantizer import Quantized
from tosaic.driver.arguments import NodeArg
from tosaic.driver.encodings import sidecar
from tosaic.driver.quantize.measurement import Difference
from tosaic.errors import Error, InputError
from tosaic.install import install_command
from tosaic.sim.golden import evaluate

from .agreement import Agreement, Limits, OutputAgreement
from .float_models import FloatModel, float_graph, float_model, litert_tensors, on_golden
from .notes import LayerNote, SourceNote, read_note
from .pairs import quantized_pairs

Layers = Mapping[str, LayerNote]
Inside = tuple[FloatModel | None, Layers]
_GRAPHS = (".tosa", ".tsc")


@dataclasses.dataclass
class SourceNetwork:
    """A network, and what is known of the integers that stand for its tensors."""

    name: str
    """What computes it, in words."""
    outputs_of: FloatModel
    limits: Limits
    look_inside: Callable[[], Inside] = lambda: (None, {})
    """Called once: what gives all tensors of the network, and which of them integers stand for."""
    origin: Any = None
    """The file, graph or function that it is."""

    def agreement(self, outputs: list[NodeArg]) -> Agreement:
        """Returns an agreement that has seen nothing yet."""
        return Agreement(self.name, [OutputAgreement.of(each) for each in outputs])

    def outputs_for(self, given: Mapping[str, np.ndarray], outputs: list[NodeArg]) -> dict[str, np.ndarray]:
        """The network's outputs of one sample of reals, by the names of the session's."""
        found = self.outputs_of(dict(given))
        return {each.name: matching(each, place, found, len(outputs)) for place, each in enumerate(outputs)}

    def worst(
        self, integers: Graph, given: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]
    ) -> tuple[str, float] | None:
        """The tensor with the lowest SQNR on one sample, as the network has it and as golden's integers stand for it.
        None where no tensor is in both."""
        tensors_of, layers = self._inside
        if tensors_of is None:
            return None
        wanted, got = tensors_of(dict(given)), evaluate(integers, dict(values), keep=True)
        found: dict[str, float] = {}
        for name, layer in layers.items():
            same = name in wanted and layer.tensor in got and wanted[name].size == got[layer.tensor].size
            if same and wanted[name].dtype.kind == "f":
                difference = Difference(name, "", "", layer.shown)
                difference.add(wanted[name], layer.reals(got[layer.tensor]))
                if difference.signal > 0 and not math.isnan(difference.noise):
                    found[layer.shown] = min(difference.sqnr_db, found.get(layer.shown, math.inf))
        return min(found.items(), key=lambda each: each[1], default=None)

    @functools.cached_property
    def _inside(self) -> Inside:
        try:
            return self.look_inside()
        except Error:
            # The network has no form that golden evaluates: its outputs are compared all the same.
            return None, {}


def matching(output: NodeArg, place: int, sample: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """The float model's value of an output: by name, or by place where it has names of its own."""
    if output.name not in sample and len(sample) != count:
        raise InputError(
            f"the float model has no output {output.name!r}; its outputs are {', '.join(map(repr, sample))}"
        )
    value = np.asarray(sample[output.name] if output.name in sample else list(sample.values())[place])
    if value.size != math.prod(output.shape):
        raise InputError(
            f"output {output.name!r} has shape {list(output.shape)}, the float model's has {list(value.shape)}: "
            "are they the same model?"
        )
    return value.reshape(output.shape)


def layers_of(quantized: Quantized, shown: Mapping[str, str]) -> dict[str, LayerNote]:
    """The tensors of a float graph that integers stand for; `shown` tells what people are shown of them."""
    return {
        name: LayerNote(
            part.tensor,
            shown.get(name, name),
            tuple(float(each) for each in np.ravel(part.scale)),
            int(part.zero_point),
            float(part.low),
            float(part.high),
        )
        for name, part in quantized.layers.items()
    }


def find_network(
    model: Any,
    source: Any = None,
    bound: Bindings | None = None,
    *,
    asked_db: float | None = None,
    remembers: bool = False,
) -> SourceNetwork:
    """The network of what was opened as `model`; `source` names it where that says nothing.

    InputError where it cannot be found: the message says what to give."""
    if isinstance(source, SourceNetwork):
        limits = source.limits if asked_db is None else dataclasses.replace(source.limits, asked_db=asked_db)
        return dataclasses.replace(source, limits=limits)
    path = pathlib.Path(model) if isinstance(model, str | pathlib.Path) else None
    note = read_note(sidecar(path)) if path is not None and path.suffix in _GRAPHS else None
    own = path is not None and path.suffix not in _GRAPHS and is_imported(path) and path.suffix != ".nnr"
    limits = Limits(asked_db, note.outputs if note is not None else {}, steps=own and source is None)
    how = (
        note.bound
        if note is not None and not (bound and (bound.shapes or bound.values))
        else bound or Bindings()
    )
    if source is None:
        if own:
            source = path
        elif note is not None:
            source = note.found(path.name if path else "the model")
        elif isinstance(model, Graph) and any(model.tensors[name].dtype.is_float for name in model.outputs):
            source = model
        else:
            raise InputError(
                f"{path.name if path else 'the model'} does not say which network it was made of (tosaic quantize "
                "writes that into the .quant.json beside it): give the float model: --source MODEL, in Python "
                "Session(..., source=MODEL)"
            )
    if isinstance(source, str | pathlib.Path) and pathlib.Path(source).suffix == ".tflite":
        if importlib.util.find_spec("ai_edge_litert") is None:
            raise InputError(
                f"a TFLite model is compared with LiteRT, which is missing: {install_command('source')}"
            )
    name, run = float_model(source, how, remembers=remembers)
    return SourceNetwork(name, run, limits, lambda: _inside(model, source, how, note), source)


def _inside(model: Any, source: Any, bound: Bindings, note: SourceNote | None) -> Inside:
    """What gives all tensors of a network, and those that integers stand for."""
    if callable(source):
        return None, {}
    if note is not None:
        return on_golden(float_graph(source, bound), keep=True), note.layers
    if isinstance(model, Quantized):
        graph = float_graph(source, bound)
        shown = {name: op.source for op in graph.operators if op.source for name in op.outputs}
        return on_golden(graph, keep=True), layers_of(model, shown)
    suffix = pathlib.Path(source).suffix if str(source) == str(model) else ""
    if suffix == ".tflite":
        return litert_tensors(pathlib.Path(source), bound)
    if suffix == ".pt2":
        from tosaic.compiler.importers.torch_models.onnx_road import onnx_of
        from tosaic.compiler.importers.torch_models.program import read_program

        source = onnx_of(read_program(pathlib.Path(source)))
    found = quantized_pairs(source, bound) if suffix in (".onnx", ".pt2") else None
    return (found[0], layers_of(*found[1:])) if found is not None else (None, {})
