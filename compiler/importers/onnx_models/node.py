"""What a handler sees of one ONNX node: its inputs as TOSA tensors, its attributes, its results."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, SourceNode
from tosaic.compiler.importers.onnx_models.errors import RunTimeValueError
from tosaic.compiler.importers.onnx_models.values import OFFSET, STORAGE, OnnxValue, constant_value
from tosaic.compiler.ir import DType


class OnnxNode(SourceNode):
    """One node with its input values (None for an omitted one) and the graph under construction."""

    def __init__(
        self,
        low: Lowering,
        op: str,
        name: str,
        opset: int,
        attributes: dict[str, Any],
        inputs: Sequence[OnnxValue | None],
        output_names: Sequence[str],
    ) -> None:
        super().__init__(low)
        self.op, self.name, self.opset = op, name, opset
        self.attributes, self.inputs, self.output_names = attributes, list(inputs), list(output_names)

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}"

    def described_tensors(self) -> str:
        """The first tensor."""
        first = next((value.name for value in self.inputs if value), "") or self.output_names[0]
        return f" (tensor {first!r})"

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute's value; strings are decoded."""
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def wants(self, index: int) -> bool:
        """Whether output `index` is used (named)."""
        return index < len(self.output_names) and bool(self.output_names[index])

    def has(self, index: int) -> bool:
        """Whether input `index` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> OnnxValue:
        """Input `index`; the reader has checked that required ones are there."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            self.unsupported(f"input {index} is missing", "give it")
        return value

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Returns the shape of an input."""
        return self.value(index).shape

    def kind(self, index: int = 0) -> str:
        """Returns the element type of an input."""
        return self.value(index).kind

    def const(self, index: int, default: Any = None) -> np.ndarray:
        """Value of an input that must be known now; `default` when it is omitted and has one."""
        if not self.has(index) and default is not None:
            return np.asarray(default)
        value = self.value(index)
        if value.data is None:
            raise RunTimeValueError(
                f"{self}: input {index} ({value.name!r}) is computed at run time, but it decides shapes or "
                "parameters, which are fixed in TOSA; make it an initializer, or fold it with a simplifier",
                value.name,
            )
        return value.data

    def ints(self, index: int, attribute: str = "", default: Any = None) -> list[int] | None:
        """A list of integers that is an attribute in old opsets and an input in new ones."""
        if attribute and attribute in self.attributes:
            return [int(v) for v in np.atleast_1d(self.attributes[attribute])]
        if self.has(index):
            return [int(v) for v in self.const(index).reshape(-1)]
        return default

    # --- tensors --------------------------------------------------------------------------------------------

    def raw(self, index: int = 0) -> str:
        """Input as it is held: unsigned elements less their offset."""
        value = self.value(index)
        dtype = storage(self, value.kind)
        if value.tensor is None:
            assert value.data is not None
            data = value.data
            if value.kind == "bfloat16":
                data = data.astype(np.float32)
            if dtype.is_integer:
                data = data.astype(np.int64) - OFFSET.get(value.kind, 0)
                if data.size and not dtype.min <= data.min() <= data.max() <= dtype.max:
                    self.unsupported(
                        f"input {value.name!r} holds values that do not fit int32",
                        "TOSA has no int64: use int32",
                    )
            if data.size == 0:
                self.unsupported(f"input {value.name!r} has no elements", "TOSA has no empty tensors")
            value.tensor = self.low.constant(data, dtype)
        return value.tensor

    def wide(self, index: int = 0) -> str:
        """Input for arithmetic: floats and bools as they are, integers as int32."""
        return widen(self.low, self.raw(index), self.kind(index))

    def out(self, tensor: str, kind: str | None = None) -> OnnxValue:
        """A result of arithmetic, narrowed to `kind` (default: that of input 0); it wraps as ONNX's does."""
        kind = kind or self.kind()
        return self.out_raw(narrow(self.low, tensor, kind), kind)

    def out_raw(self, tensor: str, kind: str | None = None) -> OnnxValue:
        """A result as it is held."""
        data = self.low.data(tensor)
        kind = kind or self.kind()
        value = OnnxValue("", kind, self.low.shape(tensor), None, tensor)
        if data is not None and kind not in OFFSET and kind != "bfloat16":
            value.data = data.astype(kind)
        return value

    def out_constant(self, data: np.ndarray) -> OnnxValue:
        """A result that is known now."""
        return constant_value("", data)

    def axis(self, default: int = 0, rank: int | None = None) -> int:
        """Attribute `axis`, counted from the front."""
        rank = len(self.shape()) if rank is None else rank
        axis = int(self.attr("axis", default))
        return axis + rank if axis < 0 else axis


def storage(node: OnnxNode, kind: str) -> DType:
    """The TOSA type of an element type; UnsupportedError if there is none."""
    if kind not in STORAGE:
        node.unsupported(f"TOSA has no data type {kind}", "convert the model to float32 or int32")
    return STORAGE[kind]


def widen(low: Lowering, tensor: str, kind: str) -> str:
    """A held tensor as what it means: integers as int32."""
    if not low.dtype(tensor).is_integer:
        return tensor
    return low.plus(low.cast(tensor, DType.INT32), OFFSET.get(kind, 0))


def narrow(low: Lowering, tensor: str, kind: str) -> str:
    """A tensor of meant values as `kind` is held; integers wrap."""
    if not low.dtype(tensor).is_integer:
        return tensor
    return low.cast(low.plus(tensor, -OFFSET.get(kind, 0)), STORAGE[kind])
