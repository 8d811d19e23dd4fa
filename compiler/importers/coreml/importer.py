"""Imports a Core ML NeuralNetwork as a TOSA graph, layer by layer."""

import pathlib
from collections.abc import Sequence
from typing import Any

from tosaic.compiler.importers.coreml import (
    activation,
    constants,
    elementwise,
    gathers,
    images,
    matrices,
    normalization,
    recurrent,
    reductions,
    reshapes,
    resizing,
    slices,
    sorting,
)
from tosaic.compiler.importers.coreml.container import read_container
from tosaic.compiler.importers.coreml.control import CoreMlControlFlow
from tosaic.compiler.importers.coreml.features import Features, Shapes
from tosaic.compiler.importers.coreml.layer_table import LAYERS
from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import HANDLERS
from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.allowance import Allowance, TooLargeError
from tosaic.compiler.importers.lowering.layout_pass import cancel_transposes
from tosaic.compiler.importers.survey import LoweringForm, Survey
from tosaic.compiler.ir import DType, Graph, validate
from tosaic.compiler.ir.tensors import name_after
from tosaic.errors import ModelError, UnsupportedError

_HANDLER_MODULES = (
    activation,
    constants,
    elementwise,
    gathers,
    images,
    matrices,
    normalization,
    recurrent,
    reductions,
    reshapes,
    resizing,
    slices,
    sorting,
)


def import_coreml(
    source: str | pathlib.Path | bytes, shapes: Shapes | None = None, survey: Survey | None = None
) -> Graph:
    """The TOSA graph of a .mlmodel (a path, or the file's bytes); inputs and outputs keep their names.

    Everything is float32 inside, as in Core ML. `shapes` binds flexible inputs; `survey` is told of every layer.
    A classifier's labels are in the graph's `labels`. Raises InputError, ModelError or UnsupportedError.
    """
    return CoreMlImporter(read_container(source), shapes or {}, survey or Survey()).run()


class CoreMlImporter:
    """The state of one import: the graph under construction, and the blobs by name."""

    def __init__(self, container: Any, shapes: Shapes, survey: Survey) -> None:
        self.container, self.survey = container, survey
        self.low = Lowering("main", Allowance(container.file_bytes))
        self.features = Features(self.low, container, shapes)
        self.blobs: dict[str, CoreMlValue] = {}
        self.control = CoreMlControlFlow(self.low, self.blobs, self.execute)
        # Blobs of unknown shape (only in a survey that keeps going), and the layer that is to blame.
        self.lost: dict[str, str] = {}

    def run(self) -> Graph:
        """The finished TOSA graph; of a survey that met layers without a TOSA form, the unfinished one."""
        self.blobs.update(self.features.inputs())
        layers = self.container.network.layers
        if not layers:
            raise ModelError("the network has no layers")
        self._check_versions(layers)
        for message in layers:
            self._surveyed(message)
        if not self.survey.complete:
            return self.low.graph
        last = next(iter(layers[-1].output), "")
        outputs = self.features.outputs(self.blobs, last)
        result = cancel_transposes(self.low.graph, outputs)
        if self.container.labels:
            result.labels[self.features.label_output or last] = self.container.labels
        validate(result)
        return result

    def _check_versions(self, layers: Sequence[Any]) -> None:
        """The mapping to rank 5 is for layers that were there before specification version 4."""
        if self.features.exact_arrays:
            return
        arrays = [
            f for f in self.container.description.input if f.type.WhichOneof("Type") == "multiArrayType"
        ]
        for message in layers if arrays else ():
            kind = message.WhichOneof("layer")
            if kind in LAYERS and LAYERS[kind].since > 3:
                raise ModelError(
                    f"layer {message.name!r} ({kind}) came with specification version {LAYERS[kind].since}, where the "
                    "mapping of multi-arrays to rank 5 is illegal: set arrayInputShapeMapping to EXACT_ARRAY_MAPPING"
                )

    # --- survey ---------------------------------------------------------------------------------------------

    def _surveyed(self, message: Any) -> None:
        """A layer of the outermost network; what is inside it counts as its own."""
        kind = message.WhichOneof("layer") or "no layer"
        name = message.name or next(iter(message.output), "")
        lost = next((each for each in message.input if each in self.lost), None)
        if lost is not None:
            self.survey.unknown(kind, name, f"reads {lost!r}, of unknown shape after {self.lost[lost]}")
            self._replace(message, self.lost[lost])
            return
        first = len(self.low.graph.operators)
        try:
            self.execute(message)
        except UnsupportedError as error:
            self.survey.refused(kind, name, error)
            self._replace(message, f"{kind} {name!r}")
        else:
            self.survey.lowered(kind, name, self.low.graph.operators[first:])

    def _replace(self, message: Any, blamed: str) -> None:
        """Inputs in the place of blobs that have no TOSA form; those without a static shape are lost."""
        for index, name in enumerate(message.output):
            told = message.outputTensor[index] if index < len(message.outputTensor) else None
            shape = tuple(told.dimValue) if told is not None else ()
            if shape and min(shape) > 0 and name not in self.low.graph.tensors:
                tensor = self.low.build.input(f"{name}/placeholder", shape, DType.FP32)
                self.blobs[name] = CoreMlValue(tensor, shape)
            else:
                self.lost[name] = blamed

    # --- layers ---------------------------------------------------------------------------------------------

    def execute(self, message: Any) -> None:
        """One layer: reads its inputs by name, and writes its outputs."""
        kind = message.WhichOneof("layer")
        if kind is None:
            raise ModelError(f"layer {message.name!r} is of no kind that is known")
        row = LAYERS[kind]
        missing = next((name for name in message.input if name not in self.blobs), None)
        if missing is not None:
            raise ModelError(
                f"layer {message.name!r} ({kind}) reads {missing!r}, which no layer before it writes"
            )
        node = CoreMlNode(self.low, message, kind, [self.blobs[name] for name in message.input])
        row.check_arity(node)
        if row.form is LoweringForm.NOT_REPRESENTABLE:
            name = f" {node.params.className!r}" if kind == "custom" else ""
            node.unsupported(
                f"it{name} has no TOSA form: {row.note}", "replace it, or compute it outside of the model"
            )
        if self.control.takes(kind):
            self.control.execute(node)
            return
        first = len(self.low.graph.operators)
        results = self._handled(node)
        name_after(node.name, self.low.graph.operators[first:])
        self.control.write(node, results)

    def _handled(self, node: CoreMlNode) -> list[CoreMlValue]:
        try:
            results = HANDLERS[node.kind](node)
        except TooLargeError as error:
            raise UnsupportedError(f"{node}: {error}") from None
        except ModelError as error:
            if str(error).startswith("layer "):
                raise
            # An operator that TOSA does not have in this form: a rank, a type, a window.
            node.unsupported(f"it has no TOSA form here: {error}", "change its shapes")
        except MemoryError:
            node.unsupported("it needs more memory than there is", "make its sizes smaller")
        except (ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError) as error:
            node.wrong(f"its parameters contradict each other or its inputs ({error})")
        return results if isinstance(results, list) else [results]
