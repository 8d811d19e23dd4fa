"""Imports a TFLite model as a TOSA graph, operator by operator."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.allowance import Allowance, TooLargeError
from tosaic.compiler.importers.lowering.layout_pass import cancel_transposes
from tosaic.compiler.importers.lowering.rescaling import unsigned_bits
from tosaic.compiler.importers.survey import Survey
from tosaic.compiler.importers.tflite import (
    arithmetic,
    comparisons,
    convolutions,
    curves,
    custom,
    fourier,
    indexing,
    layout,
    matrices,
    pools,
    recurrent,
    reductions,
    resizing,
    softmax,
    type_conversion,
)
from tosaic.compiler.importers.tflite.borders import Encodings, encodings_of, with_integer_borders
from tosaic.compiler.importers.tflite.control import ControlFlow
from tosaic.compiler.importers.tflite.node import TfliteNode, name_of, short_name
from tosaic.compiler.importers.tflite.reader import read_model
from tosaic.compiler.importers.tflite.registry import HANDLERS
from tosaic.compiler.importers.tflite.source_graph import (
    TfliteModel,
    TfliteOperator,
    TfliteSubgraph,
    TfliteTensor,
)
from tosaic.compiler.importers.tflite.values import OFFSET, STORAGE, TfliteValue
from tosaic.compiler.importers.tflite.variables import CarriedVariables
from tosaic.compiler.ir import DType, Graph, validate
from tosaic.compiler.ir.building import rename_tensors
from tosaic.compiler.ir.tensors import name_after
from tosaic.errors import InputError, ModelError, UnsupportedError

_HANDLER_MODULES = (
    arithmetic,
    comparisons,
    convolutions,
    curves,
    custom,
    fourier,
    indexing,
    layout,
    matrices,
    pools,
    recurrent,
    reductions,
    resizing,
    softmax,
    type_conversion,
)
Shapes = Mapping[str, int | Sequence[int]]
Values = dict[int, TfliteValue]
"""The tensors of one subgraph that are computed, by index."""


def import_tflite(path: pathlib.Path, shapes: Shapes | None = None, survey: Survey | None = None) -> Graph:
    """The TOSA graph of a .tflite file; inputs and outputs keep their names.

    int64 becomes int32; uint8 and uint16 inputs and outputs are int8 and int16 bit patterns. An open dimension is what
    the file's `shape` says, as in TFLite's interpreter; `shapes` binds inputs whole. What the model remembers is in
    the graph's `states`. Raises InputError, ModelError or UnsupportedError.
    """
    allowance = _allowance(path)
    return TfliteImporter(read_model(path, allowance), allowance, shapes or {}, survey or Survey()).run()


def import_tflite_integers(path: pathlib.Path, shapes: Shapes | None = None) -> tuple[Graph, Encodings]:
    """Imports as `import_tflite` does, with the integers themselves where a float input or output only stands
    for integers.

    Returns the graph, and what the integers of its inputs and outputs stand for.
    """
    allowance = _allowance(path)
    model = with_integer_borders(read_model(path, allowance))
    graph = TfliteImporter(model, allowance, shapes or {}, Survey()).run()
    return graph, encodings_of(model.subgraphs[0])


def _allowance(path: pathlib.Path) -> Allowance:
    try:
        return Allowance(path.stat().st_size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


class TfliteImporter:
    """The state of one import: the graph under construction, and the resource variables."""

    def __init__(self, model: TfliteModel, allowance: Allowance, shapes: Shapes, survey: Survey) -> None:
        self.model, self.survey = model, survey
        self.low = Lowering(model.subgraphs[0].name or "main", allowance)
        self.variables = CarriedVariables(self.low)
        self.control = ControlFlow(self.low, self.variables, self.subgraph)
        self.shapes = self._bound(shapes)
        # Tensors of unknown shape (only in a survey that keeps going), and the operator that is to blame.
        self.lost: dict[int, str] = {}
        # What the source calls the tensors of the graph under construction.
        self.names: dict[str, str] = {}
        self.origins: dict[str, TfliteNode] = {}

    def run(self) -> Graph:
        """The finished TOSA graph; of a survey that met operators without a TOSA form, the unfinished one."""
        main = self.model.subgraphs[0]
        values: Values = {}
        for index in main.inputs:
            values[index] = self._input(main.tensors[index])
        for operator in main.operators:
            self._surveyed(main, operator, values)
        if not self.survey.complete:
            return self.low.graph
        names = _distinct([main.tensors[index].name for index in main.outputs], self.low.graph)
        outputs = [
            (name, self._output(self._value(main, index, values)))
            for name, index in zip(names, main.outputs, strict=True)
        ]
        states, following = self.variables.finish()
        result = cancel_transposes(self.low.graph, outputs + following)
        result.states = states
        self._name_tensors(result)
        validate(result)
        return result

    def _name_tensors(self, graph: Graph) -> None:
        """Results keep the source's names, as far as they are still there and no other tensor has them."""
        made = {name for op in graph.operators for name in op.outputs}
        taken, names = set(graph.tensors), {}
        for tensor, name in self.names.items():
            name = short_name(name)
            if tensor in made and tensor not in graph.outputs and name not in taken:
                names[tensor] = name
                taken.add(name)
        rename_tensors(graph, names)

    # --- inputs and outputs ---------------------------------------------------------------------------------

    def _bound(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        main = self.model.subgraphs[0]
        inputs = {main.tensors[i].name: main.tensors[i] for i in main.inputs}
        bound = {}
        for name, sizes in shapes.items():
            if name not in inputs or isinstance(sizes, int):
                known = ", ".join(f"{key}={','.join(map(str, t.shape))}" for key, t in inputs.items())
                raise InputError(f"--shape {name}: a TFLite model's inputs are bound whole: --shape {known}")
            wanted, tensor = tuple(int(size) for size in sizes), inputs[name]
            if len(wanted) != len(tensor.shape) or min(wanted, default=1) < 1:
                raise InputError(
                    f"--shape {name}={','.join(map(str, wanted))}: the input has rank {len(tensor.shape)}, "
                    "and its sizes are positive"
                )
            bound[name] = wanted
        return bound

    def _input(self, tensor: TfliteTensor) -> TfliteValue:
        if tensor.kind not in STORAGE:
            raise UnsupportedError(
                f"input {tensor.name!r} has data type {tensor.kind.lower()}, which TOSA has not; convert the model to "
                "float32 or int8"
            )
        name = _distinct([tensor.name], self.low.graph)[0]
        dtype = DType.FP16 if tensor.kind == "FLOAT16" else STORAGE[tensor.kind]
        shape = self.shapes.get(tensor.name, tensor.shape)
        if 0 in shape:
            raise UnsupportedError(
                f"input {tensor.name!r} is {list(shape)}: TOSA has no empty tensors; bind its shape with --shape"
            )
        held = self.low.build.input(name, shape, dtype)
        if tensor.kind in OFFSET:
            held = unsigned_bits(self.low, held, OFFSET[tensor.kind], entering=True)
        elif dtype is DType.FP16:
            held = self.low.cast(held, DType.FP32)
        return TfliteValue(held, tensor.kind, tensor.name, tensor.quantization)

    def _output(self, value: TfliteValue) -> str:
        if value.kind == "FLOAT16":
            return self.low.cast(value.tensor, DType.FP16)
        if value.kind in OFFSET:
            return unsigned_bits(self.low, value.tensor, OFFSET[value.kind], entering=False)
        return value.tensor

    # --- survey ---------------------------------------------------------------------------------------------

    def _surveyed(self, graph: TfliteSubgraph, operator: TfliteOperator, values: Values) -> None:
        """An operator of the model's own subgraph; what is inside it counts as its own."""
        name = name_of(graph, operator)
        lost = next((index for index in operator.inputs if index in self.lost), None)
        if lost is not None:
            reason = f"reads {graph.tensors[lost].name!r}, of unknown shape after {self.lost[lost]}"
            self.survey.unknown(operator.kind, name, reason)
            self.lost.update(dict.fromkeys(operator.outputs, self.lost[lost]))
            return
        first = len(self.low.graph.operators)
        try:
            self.execute(graph, operator, values)
        except UnsupportedError as error:
            self.survey.refused(operator.kind, name, error)
            self._replace(graph, operator, values, f"{operator.kind} {name!r}")
        else:
            self.survey.lowered(operator.kind, name, self.low.graph.operators[first:])

    def _replace(self, graph: TfliteSubgraph, operator: TfliteOperator, values: Values, blamed: str) -> None:
        """Inputs in the place of results that have no TOSA form; those without a static shape are lost."""
        for index in operator.outputs:
            tensor = graph.tensors[index]
            if tensor.kind in STORAGE and min(tensor.shape, default=1) > 0 and not tensor.is_open:
                name = _distinct([f"{tensor.name}/placeholder"], self.low.graph)[0]
                held = self.low.build.input(name, tensor.shape, STORAGE[tensor.kind])
                values[index] = TfliteValue(held, tensor.kind, tensor.name, tensor.quantization)
            else:
                self.lost[index] = blamed

    # --- operators ------------------------------------------------------------------------------------------

    def subgraph(self, index: int, inputs: Sequence[TfliteValue]) -> list[TfliteValue]:
        """The outputs of another subgraph, whose operators join this graph."""
        if not 0 < index < len(self.model.subgraphs):
            raise ModelError(f"subgraph {index} of {len(self.model.subgraphs)} is called")
        graph = self.model.subgraphs[index]
        if len(inputs) != len(graph.inputs):
            raise ModelError(
                f"subgraph {graph.name!r} of {len(graph.inputs)} inputs is called with {len(inputs)}"
            )
        values: Values = dict(zip(graph.inputs, inputs, strict=True))
        for operator in graph.operators:
            self.execute(graph, operator, values)
        return [self._value(graph, output, values) for output in graph.outputs]

    def execute(self, graph: TfliteSubgraph, operator: TfliteOperator, values: Values) -> None:
        """One operator: reads its inputs, and writes its outputs into `values`."""
        inputs = [self._value(graph, i, values) if i >= 0 else None for i in operator.inputs]
        outputs = [graph.tensors[i] for i in operator.outputs]
        inner = [graph.tensors[i] for i in operator.intermediates if i >= 0]
        node = TfliteNode(self.low, operator, inputs, outputs, name_of(graph, operator), inner)
        node.origins, first = self.origins, len(self.low.graph.operators)
        node.made = results = self._handled(node)
        if len(results) == 1 and all(value is None or value.tensor != results[0] for value in inputs):
            self.origins.setdefault(results[0], node)
        for changed, left in node.changes.items():
            self.variables.change(node.x(changed), left)
        name_after(node.name, self.low.graph.operators[first:])
        for index, tensor, result in zip(operator.outputs, outputs, results, strict=True):
            values[index] = TfliteValue(result, tensor.kind, tensor.name, tensor.quantization)
            self.names.setdefault(result, tensor.name)

    def _value(self, graph: TfliteSubgraph, index: int, values: Values) -> TfliteValue:
        if index not in values:
            tensor = graph.tensors[index]
            values[index] = TfliteValue(self._constant(tensor), tensor.kind, tensor.name, tensor.quantization)
        return values[index]

    def _constant(self, tensor: TfliteTensor) -> str:
        if tensor.data is None or tensor.kind not in STORAGE:
            return self.variables.tensor(tensor)
        data, dtype = tensor.data, STORAGE[tensor.kind]
        if dtype.is_integer:
            data = data.astype(np.int64) - OFFSET[tensor.kind] if tensor.kind in OFFSET else data
            if data.size and not dtype.min <= data.min() <= data.max() <= dtype.max:
                if tensor.kind != "INT64":
                    raise UnsupportedError(
                        f"constant {tensor.name!r} holds {data.min()} to {data.max()}; TOSA's integers have 32 bits"
                    )
                # Ends of slices: "to the end" is the largest integer.
                data = np.clip(data, dtype.min, dtype.max)
        return self.low.constant(data, dtype)

    def _handled(self, node: TfliteNode) -> list[str]:
        try:
            if self.control.takes(node.kind):
                results: str | list[str] = self.control.execute(node)
            elif node.kind in HANDLERS:
                results = HANDLERS[node.kind](node)
            else:
                node.unsupported(
                    "the operator has no TOSA form", "replace it, or compute it outside of the model"
                )
        except TooLargeError as error:
            raise UnsupportedError(f"{node}: {error}") from None
        except ModelError as error:
            # An operator that TOSA does not have in this form: a rank, a type, a window.
            way_out = (
                "use float32, or int8 with a scale" if "data types" in str(error) else _way_out(self.model)
            )
            node.unsupported(f"it has no TOSA form here: {error}", way_out)
        except MemoryError:
            node.unsupported("it needs more memory than there is", "make its sizes smaller")
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, AttributeError) as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ModelError(f"{node}: its inputs and options do not fit together ({reason})") from error
        results = results if isinstance(results, list) else [results]
        if len(results) != len(node.outputs):
            raise ModelError(
                f"{node}: it has {len(node.outputs)} results, where the operator gives {len(results)}"
            )
        for index, result in enumerate(results):
            if result in self.low.graph.tensors and self.low.dtype(result) is not node.result_type(index):
                node.unsupported(
                    f"its result {node.outputs[index].name!r} is {node.outputs[index].kind.lower()}",
                    "convert the model again with one type for the tensors of an operator",
                )
        return results


def _way_out(model: TfliteModel) -> str:
    main = model.subgraphs[0]
    is_open = [main.tensors[index] for index in main.inputs if main.tensors[index].is_open]
    if not is_open:
        return "change its shapes"
    bound = " ".join(f"--shape {t.name}={','.join(map(str, t.signature))}" for t in is_open)
    return f"give the open sizes (-1): {bound}"


def _distinct(names: Sequence[str], graph: Graph) -> list[str]:
    """The names, with a number where another tensor or an earlier one has it."""
    found: list[str] = []
    taken = set(graph.inputs)
    for name in names:
        count, wanted = 0, name
        while wanted in taken:
            count, wanted = count + 1, f"{name}_{count + 1}"
        taken.add(wanted)
        found.append(wanted)
    return found
