"""Random ONNX graphs of 3 to 8 operators, with inputs of all types; ONNX Runtime without optimizations is the judge.

`random_onnx_forms` and `random_onnx_layers` have the operators. A graph grows node by node; ONNX Runtime computes each
one at once: shapes and types are known, and what it refuses, or what is not finite, is left out.
"""

import collections
import dataclasses
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from tosaic import Session
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.ir import Graph
from tosaic.driver.quantize import quantize_graph
from tosaic.errors import Error
from tosaic.sim.golden import evaluate

CLOSE = 1e-4
"""Tolerance as a part of the output's range, or of SMALL: a difference keeps the rounding of its larger operands."""
SMALL = 1e-3
LARGEST = 1e4
SIZES = (1, 2, 3, 4, 6, 8)
MOST_INPUTS = 3
SAMPLES = 12
OPSETS = (13, 17, 18, 21, 24)
CARRIED = {"uint8": np.int8, "uint16": np.int16, "int64": np.int32}


class NotHereError(Exception):
    """A form that does not fit the graph so far."""


Form = Callable[["RandomOnnx"], None]
FORMS: dict[str, Form] = {}


def form(function: Form) -> Form:
    """Registers a form of an operator under its name."""
    FORMS[function.__name__] = function
    return function


class RandomOnnx:
    """A graph that grows, with one value of each tensor."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.opset = int(self.random.choice(OPSETS))
        self.values: dict[str, np.ndarray] = {}
        self.inputs: dict[str, Callable[[np.random.Generator], np.ndarray]] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.nodes: list[Any] = []
        self.used: set[str] = set()
        self.forms: list[str] = []

    @classmethod
    def grown(cls, seed: int) -> "RandomOnnx":
        """A graph of 3 to 8 forms."""
        graph = cls(seed)
        names, wanted = list(FORMS), int(graph.random.integers(3, 9))
        for _ in range(60):
            name = str(graph.random.choice(names))
            kept = dict(graph.values), list(graph.nodes), set(graph.used), dict(graph.inputs)
            try:
                FORMS[name](graph)
            except NotHereError:
                graph.values, graph.nodes, graph.used, graph.inputs = kept
                continue
            graph.forms.append(name)
            if len(graph.forms) == wanted:
                break
        return graph

    # --- choices ------------------------------------------------------------------------------------------------

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def maybe(self, one_in: int = 2) -> bool:
        return bool(self.random.integers(one_in) == 0)

    def shape(self, rank: int) -> tuple[int, ...]:
        if rank == 4:  # an image
            return (self.pick(1, 1, 2), self.pick(1, 2, 3, 4, 8), self.pick(4, 5, 6, 8), self.pick(4, 6, 7))
        return tuple(int(self.random.choice(SIZES)) for _ in range(rank))

    def tensor(self, kinds: str, ranks: Sequence[int] = (1, 2, 3, 4), fits: Any = None) -> str:
        """A tensor of one of the types, the later ones more often; a new input if there is none."""
        found = [
            name
            for name, value in self.values.items()
            if value.dtype.name in kinds.split() and value.ndim in ranks and (fits is None or fits(value))
        ]
        if found and not (len(self.inputs) < MOST_INPUTS and self.maybe(8)):
            name = found[max(int(self.random.integers(len(found))), int(self.random.integers(len(found))))]
            self.used.add(name)
            return name
        if len(self.inputs) == MOST_INPUTS or fits is not None:
            raise NotHereError
        return self.input(self.pick(*kinds.split()), self.shape(self.pick(*ranks)))

    def input(self, kind: str, shape: tuple[int, ...], high: int | None = None) -> str:
        """A new input; integers below `high`."""
        name = f"in{len(self.inputs)}_{kind}"
        if name in self.values:
            raise NotHereError

        def sample(random: np.random.Generator) -> np.ndarray:
            if kind == "float32":
                return random.standard_normal(shape).astype(np.float32)
            if kind == "bool":
                return random.random(shape) < 0.5
            if high is not None:
                return random.integers(0, high, shape).astype(kind)
            low, top = {"int8": (-128, 128), "uint8": (0, 256)}.get(kind, (-9, 10))
            return random.integers(low, top, shape).astype(kind)

        self.inputs[name] = sample
        self.values[name] = sample(self.random)
        self.used.add(name)
        return name

    def real(self, *ranks: int, fits: Any = None) -> str:
        """A float tensor."""
        return self.tensor("float32", ranks or (1, 2, 3, 4), fits)

    def constant(self, values: Any, kind: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, kind)
        return name

    def reals(self, *shape: int, scale: float = 1.0) -> str:
        """A constant of random floats."""
        return self.constant(self.random.standard_normal(shape) * scale)

    def broadcastable(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another one."""
        kept = tuple(size if self.maybe() else 1 for size in shape)
        return kept[int(self.random.integers(len(kept) + 1)) :] if self.maybe(3) else kept

    # --- growth -------------------------------------------------------------------------------------------------

    def add(
        self, op: str, inputs: Sequence[str], count: int = 1, domain: str = "", **attributes: Any
    ) -> list[str]:
        """A node; NotHereError if ONNX Runtime refuses it, or its results are of no use."""
        outputs = [f"t{len(self.nodes)}_{i}" for i in range(count)]
        given = {name: value for name, value in attributes.items() if value is not None}
        node = helper.make_node(op, inputs, outputs, f"{op}_{len(self.nodes)}", domain=domain, **given)
        feeds = {name: self.values[name] for name in read_by([node]) if name in self.values}
        try:
            results = run_onnx_runtime(self._model([node], list(feeds), outputs), feeds)
        except Exception:
            raise NotHereError from None
        for value in results:
            numbers = value.astype(np.float64)
            if not value.size or value.size > 4096 or value.ndim > 5:
                raise NotHereError
            if not np.isfinite(numbers).all() or np.abs(numbers).max() > LARGEST:
                raise NotHereError
        self.nodes.append(node)
        self.values |= dict(zip(outputs, results, strict=True))
        self.used |= set(feeds)
        return outputs

    def one(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node with one result."""
        return self.add(op, inputs, **attributes)[0]

    def _model(self, nodes: list[Any], inputs: list[str], outputs: list[str]) -> Any:
        read = read_by(nodes)
        graph = helper.make_graph(
            nodes,
            "random",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(self.values[name].dtype), self.values[name].shape
                )
                for name in inputs
            ],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [numpy_helper.from_array(self.constants[name], name) for name in self.constants if name in read],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def model(self) -> Any:
        """The ModelProto: outputs are what no node reads, and now and then something between."""
        made = [name for node in self.nodes for name in node.output]
        read = read_by(self.nodes)
        between = [name for name in made if name in read and self.random.integers(6) == 0]
        outputs = [name for name in made if name not in read] + between[:1]
        inputs = [name for name in self.inputs if name in read]
        return self._model(self.nodes, inputs, outputs)

    def sample(self, model: Any, random: np.random.Generator) -> dict[str, np.ndarray]:
        """Values of the model's inputs."""
        return {value.name: self.inputs[value.name](random) for value in model.graph.input}


def read_by(nodes: Any) -> dict[str, None]:
    """Names that nodes read, and the graphs inside."""
    found: dict[str, None] = {}
    for node in nodes:
        found |= dict.fromkeys(node.input)
        for attribute in node.attribute:
            found |= read_by(attribute.g.node)
    return found


def run_onnx_runtime(model: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime computes, without its optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(value) for value in session.run(None, feeds)]


def carried(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays as Tosaic takes them: unsigned bits as signed ones, int64 as int32."""
    return {
        name: value.view(CARRIED[value.dtype.name])
        if value.dtype.kind == "u"
        else value.astype(CARRIED.get(value.dtype.name, value.dtype))
        for name, value in values.items()
    }


# --- judgement ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Tally:
    """What became of the graphs; `wrong` and `crashed` must stay empty."""

    exact: int = 0
    quantized: int = 0
    refused: "collections.Counter[str]" = dataclasses.field(default_factory=collections.Counter)
    wrong: list[str] = dataclasses.field(default_factory=list)
    crashed: list[str] = dataclasses.field(default_factory=list)
    forms: "collections.Counter[str]" = dataclasses.field(default_factory=collections.Counter)

    def __str__(self) -> str:
        lines = [f"{self.exact} equal ONNX Runtime, {self.quantized} of them run as integers"]
        lines += [f"{count} refused: {reason}" for reason, count in self.refused.most_common()]
        return "\n".join([*lines, *self.wrong, *self.crashed])


def judge(seed: int, tally: Tally, quantized: bool = True) -> None:
    """Grows one graph; golden against ONNX Runtime, then the quantized graph on the emulator against golden."""
    grown = RandomOnnx.grown(seed)
    if not grown.nodes:
        return
    model = grown.model()
    if not model.graph.input:
        return
    tally.forms.update(grown.forms)
    stage = "import"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = import_onnx(model)
            stage = "golden"
            difference = _difference(grown, model, graph)
            if difference:
                tally.wrong.append(f"seed {seed}: {difference}; {grown.forms}")
                return
            tally.exact += 1
            stage = "quantize"
            if quantized:
                _quantized(grown, model, graph)
                tally.quantized += 1
    except Error as error:
        tally.refused[f"{stage}: {type(error).__name__}: {str(error)[:220]} (seed {seed})"] += 1
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        tally.crashed.append(
            f"seed {seed}: {stage}: {type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}: "
            f"{error}; {grown.forms}"
        )


def _difference(grown: RandomOnnx, model: Any, graph: Graph) -> str:
    """The output that differs from ONNX Runtime's, in words; "" if none does."""
    for number in range(2):
        feeds = grown.sample(model, np.random.default_rng(number + 50))
        wanted = run_onnx_runtime(model, feeds)
        got = evaluate(graph, carried(feeds))
        for value, right in zip(model.graph.output, wanted, strict=True):
            result = got[value.name]
            if (
                not np.isfinite(right.astype(np.float64)).all()
                or np.abs(right.astype(np.float64)).max() > 1e6
            ):
                continue
            real = right.dtype.kind == "f"
            if right.dtype.kind == "u":
                result = result.view(right.dtype)
            if result.shape != right.shape:
                return f"{value.name} has shape {result.shape}, not {right.shape}"
            result, right = result.astype(np.float64), right.astype(np.float64)
            span = max(float(np.abs(right).max()), float(np.ptp(right)), SMALL)
            far = float(np.abs(result - right).max())
            if not far <= (CLOSE * span if real else 0):
                return f"{value.name} is {far:g} off, in a range of {span:g}"
    return ""


def _quantized(grown: RandomOnnx, model: Any, graph: Graph) -> None:
    """Integers on the emulator, equal to golden on a sample. An integer graph as it is."""
    random = np.random.default_rng(7)
    parts = [carried(grown.sample(model, random)) for _ in range(SAMPLES)]
    samples = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    if not any(tensor.dtype.is_float for tensor in graph.tensors.values()):
        Session(graph, "emulator").run(parts[0], check=True)
        return
    result = quantize_graph(graph, samples).result
    encoded = {
        name: result.inputs[name].quantize(value) if name in result.inputs else value
        for name, value in parts[0].items()
    }
    Session(result.graph, "emulator").run(encoded, check=True)
