"""What a handler sees of one TFLite operator: its inputs in TOSA, its options, the encodings of its results."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, SourceNode
from tosaic.compiler.importers.tflite.reader import names_of
from tosaic.compiler.importers.tflite.source_graph import TfliteOperator, TfliteSubgraph, TfliteTensor
from tosaic.compiler.importers.tflite.values import OFFSET, STORAGE, TfliteValue
from tosaic.compiler.ir import DType

_SHOWN_INPUTS = 3


def short_name(name: str) -> str:
    """A tensor's name in the model: the converter strings those of all operators together that it has joined."""
    return name.split(";", 1)[0]


def name_of(graph: TfliteSubgraph, operator: TfliteOperator) -> str:
    """TFLite's operators have no names: that of the first result, or of the first input where there is none."""
    tensors = [index for index in (*operator.outputs, *operator.inputs) if index >= 0]
    return short_name(graph.tensors[tensors[0]].name) if tensors else operator.kind


class TfliteNode(SourceNode):
    """One operator with its input values (None for an omitted one) and the graph under construction."""

    def __init__(
        self,
        low: Lowering,
        operator: TfliteOperator,
        inputs: Sequence[TfliteValue | None],
        outputs: Sequence[TfliteTensor],
        name: str,
        intermediates: Sequence[TfliteTensor] = (),
    ) -> None:
        super().__init__(low)
        self.operator, self.kind, self.name = operator, operator.kind, name
        self.inputs, self.outputs, self.intermediates = list(inputs), list(outputs), list(intermediates)
        self.changes: dict[int, str] = {}
        """What the operator leaves in inputs that it changes, by their index; a handler sets it."""
        self.origins: dict[str, TfliteNode] = {}
        """The operators so far that have one result, by the tensor that holds it."""
        self.made: list[str] = []
        """The tensors of its results, once it is lowered."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"

    def described_tensors(self) -> str:
        """The first inputs, with types and shapes, and the options."""
        given = [value for value in self.inputs[:_SHOWN_INPUTS] if value is not None]
        tensors = ", ".join(
            f"{v.name!r} {v.kind.lower()}{list(self.low.shape(v.tensor))}"
            for v in given
            if v.tensor in self.low.graph.tensors
        )
        options = self.described_options()
        return f" ({'; '.join(filter(None, (tensors, options)))})"

    def described_options(self) -> str:
        """The options that are numbers, with their names."""
        numbers = {k: v for k, v in self.operator.options.items() if isinstance(v, bool | int | float)}
        return " ".join(f"{name}={value:g}" for name, value in numbers.items())

    # --- options --------------------------------------------------------------------------------------------

    def option(self, name: str, default: Any = 0) -> Any:
        """A field of the options; `default` of a file that has no options, or not this one."""
        return self.operator.options.get(name, default)

    def choice(self, name: str, enumeration: str) -> str:
        """The name of an option's value."""
        value = self.option(name)
        return names_of(enumeration).get(value, f"{enumeration} {value}")

    def integers_option(self, name: str) -> list[int]:
        """An option that is a vector of integers."""
        return list(self.option(name, ()))

    # --- inputs ---------------------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        """Whether input `index` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int = 0) -> TfliteValue:
        """Input `index`, which the operator must have."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            self.unsupported(f"its input {index} is missing", "export the model again")
        return value

    def x(self, index: int = 0) -> str:
        """Input `index` as it is held in the graph."""
        return self.value(index).tensor

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Returns the shape of an input."""
        return self.low.shape(self.x(index))

    def known(self, index: int) -> np.ndarray:
        """The value of an input that decides shapes, and so must be known at import."""
        data = self.low.data(self.x(index))
        if data is None:
            self.unsupported(
                f"its input {index} ({self.value(index).name!r}) is computed at run time, but it decides shapes, which "
                "are fixed in TOSA",
                "make it a constant, or bind the shapes of the inputs with --shape",
            )
        return data

    def integers(self, index: int) -> list[int]:
        """`known` as a list of integers."""
        return [int(value) for value in self.known(index).reshape(-1)]

    def axis(self, value: int, rank: int | None = None) -> int:
        """An axis counted from the front."""
        rank = len(self.shape()) if rank is None else rank
        if not -rank <= value < rank:
            self.unsupported(f"axis {value} of a tensor of rank {rank}", "export the model again")
        return value % rank

    # --- types ----------------------------------------------------------------------------------------------

    @property
    def is_quantized(self) -> bool:
        """Whether its first input is integers that stand for reals."""
        return bool(self.inputs) and self.inputs[0] is not None and self.inputs[0].is_quantized

    @property
    def is_float(self) -> bool:
        """Whether its first input is reals."""
        return self.low.dtype(self.x()).is_float

    def result(self, index: int = 0) -> TfliteValue:
        """What result `index` will be: its kind and encoding."""
        tensor = self.outputs[index]
        value = TfliteValue("", tensor.kind, tensor.name, tensor.quantization)
        if self.is_quantized and tensor.quantization is None and tensor.kind in ("INT8", "UINT8", "INT16"):
            self.unsupported(f"its result {tensor.name!r} has no scale", "quantize the model again")
        return value

    def zero_of_result(self) -> int:
        """The integer, as it is held, that stands for zero in result 0; 0 of reals."""
        value = self.result()
        return value.zero_point if value.is_quantized else -OFFSET.get(value.kind, 0)

    def result_type(self, index: int = 0) -> DType:
        """The TOSA type that holds a result."""
        kind = self.outputs[index].kind
        if kind not in STORAGE:
            self.unsupported(f"TOSA has no data type {kind.lower()}", "convert the model to float32 or int8")
        return STORAGE[kind]

    def real(self, index: int = 0) -> str:
        """An input as reals: floats as they are, integers as what they stand for."""
        low, value = self.low, self.value(index)
        if low.dtype(value.tensor).is_float or not value.is_quantized:
            return value.tensor
        assert value.quantization is not None
        data, found = low.data(value.tensor), value.quantization
        if data is None:
            whole = low.cast(low.plus(low.cast(value.tensor, DType.INT32), -value.zero_point), DType.FP32)
            return low.times(whole, float(value.scale))
        shape = [1] * data.ndim
        if found.scales.size > 1:
            shape[found.axis] = found.scales.size
        low.make_room(data.shape, np.float32)
        offset = OFFSET.get(value.kind, 0)
        zero_points = found.zero_points.reshape(shape) - offset
        reals = (data.astype(np.float32) - zero_points.astype(np.float32)) * found.scales.reshape(shape)
        return low.constant(reals, DType.FP32)
