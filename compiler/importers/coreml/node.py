"""What a handler sees of one layer: its inputs as TOSA tensors, its parameters, its results."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.importers.coreml.weights import read_weights
from tosaic.compiler.importers.lowering import Lowering, SourceNode
from tosaic.compiler.ir import DType
from tosaic.errors import ModelError

Shape = tuple[int, ...]
MAX_MADE = 1 << 23
"""Elements of a constant that is not in the file."""
MAX_RANK = 6
"""TOSA's; Core ML goes to 5, and slidingWindows, stack and expandDims one further."""


@dataclass(frozen=True)
class CoreMlValue:
    """A Core ML blob, of floats always. `tensor` in the TOSA graph has `shape`, or lacks axes of one in front.

    Networks of rank 5, [Seq, Batch, C, H, W], so keep the images of rank 4 that TOSA's operators want.
    """

    tensor: str
    shape: Shape


def stripped(shape: Sequence[int]) -> Shape:
    """A shape without its leading ones."""
    first = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return tuple(shape[first:])


class CoreMlNode(SourceNode):
    """One layer with its input blobs and the graph under construction."""

    def __init__(self, low: Lowering, message: Any, kind: str, inputs: Sequence[CoreMlValue]) -> None:
        super().__init__(low)
        self.kind = kind
        self.name: str = message.name or next(iter(message.output), "")
        self.params: Any = getattr(message, kind)
        self.input_names, self.output_names = list(message.input), list(message.output)
        self.inputs = list(inputs)

    def __str__(self) -> str:
        return f"layer {self.name!r} ({self.kind})"

    # --- complaints -----------------------------------------------------------------------------------------

    def wrong(self, reason: str) -> NoReturn:
        """Raises ModelError with the layer and its first tensor."""
        raise ModelError(f"{self}{self.described_tensors()}: {reason}")

    def require(self, condition: bool, reason: str) -> None:
        """Raises ModelError unless the condition holds."""
        if not condition:
            self.wrong(reason)

    def described_tensors(self) -> str:
        """The first three inputs, with their shapes."""
        shapes = " and ".join(
            f"{name!r} {list(blob.shape)}"
            for name, blob in zip(self.input_names[:3], self.inputs, strict=False)
        )
        return f", tensor {shapes}" if shapes else ""

    # --- inputs ---------------------------------------------------------------------------------------------

    def shape(self, index: int = 0) -> Shape:
        """Returns the shape of an input."""
        return self.inputs[index].shape

    def rank(self, index: int = 0) -> int:
        """Returns the rank of an input."""
        return len(self.inputs[index].shape)

    def axis(self, axis: int, rank: int | None = None) -> int:
        """An axis counted from the front; ModelError if there is no such one."""
        rank = self.rank() if rank is None else rank
        self.require(-rank <= axis < rank, f"axis {axis} of {rank}")
        return axis % rank

    def affordable(self, elements: int, what: str) -> None:
        """Raises UnsupportedError when a constant that the lowering needs is too large: a small file must not
        take memory.
        """
        if elements > MAX_MADE:
            self.unsupported(
                f"{what} has {elements} elements, more than {MAX_MADE}", "make its sizes smaller"
            )

    def need_rank(self, least: int, most: int = MAX_RANK) -> None:
        """Raises ModelError unless the rank of the first input is in the range."""
        self.require(least <= self.rank() <= most, f"rank {self.rank()}, where {least} to {most} is allowed")

    def x(self, index: int = 0) -> str:
        """An input with its whole shape."""
        blob = self.inputs[index]
        return self.low.reshape(blob.tensor, blob.shape)

    def loose(self, index: int = 0, rank: int = 1) -> str:
        """An input for what counts axes from the end: axes of one in front may be missing, `rank` are there."""
        blob = self.inputs[index]
        held = self.low.shape(blob.tensor)
        if len(held) >= rank:
            return blob.tensor
        return self.low.reshape(blob.tensor, (1,) * (rank - len(held)) + held)

    def image(self, index: int = 0, inner: int = 3) -> str:
        """An input as [N, C, H, W] (or another number of inner axes): those in front are one batch."""
        shape = self.shape(index)
        return self.low.reshape(self.inputs[index].tensor, (math.prod(shape[:-inner]), *shape[-inner:]))

    def known(self, index: int) -> np.ndarray:
        """Value of an input that decides shapes, and so must be known at import."""
        data = self.low.data(self.x(index))
        if data is None:
            self.unsupported(
                f"input {self.input_names[index]!r} is computed at run time, but it decides shapes, which are fixed "
                "in TOSA",
                "make it a constant (loadConstantND)",
            )
        return data

    def whole_numbers(self, index: int) -> list[int]:
        """`known` as a list of integers."""
        values = self.known(index).reshape(-1)
        self.require(bool(np.isfinite(values).all()), f"{self.input_names[index]!r} holds NaN or infinity")
        return [int(value) for value in values]

    def indices(self, index: int, size: int | None = None) -> str:
        """An input of whole numbers as int32; negative ones count from the end of `size`."""
        low, x = self.low, self.x(index)
        if size is not None:
            x = low.select(low.is_negative(x), low.plus(x, size), x)
        return low.cast(x, DType.INT32)

    # --- parameters -----------------------------------------------------------------------------------------

    def weights(
        self, field: str, shape: Sequence[int], channels: int | None = None, params: Any = None
    ) -> np.ndarray:
        """A WeightParams field as float32 of `shape`; `channels` are the outermost axis, if not shape[0]."""
        shape = tuple(int(size) for size in shape)
        message = getattr(self.params if params is None else params, field)
        outer = shape[0] if channels is None and shape else channels or 1
        values = read_weights(message, math.prod(shape), f"{self}: {field}", outer).reshape(shape)
        return (
            values if self.low.allowance is None else self.low.allowance.decoded(values, message.ByteSize())
        )

    def constant(self, values: ArrayLike) -> str:
        """A float constant."""
        return self.low.constant(np.asarray(values, np.float32), DType.FP32)

    # --- results --------------------------------------------------------------------------------------------

    def out(self, tensor: str, shape: Sequence[int] | None = None) -> CoreMlValue:
        """A result. With `shape`, the tensor has the same elements in that shape."""
        held = self.low.shape(tensor)
        shape = held if shape is None else tuple(int(size) for size in shape)
        if not shape:
            shape = (1,)
        self.require(len(shape) <= MAX_RANK, f"its result has rank {len(shape)}; {MAX_RANK} is TOSA's limit")
        if stripped(held) != stripped(shape) or len(held) > len(shape) or not held:
            tensor = self.low.reshape(tensor, shape)
        return CoreMlValue(tensor, shape)

    def out_known(self, values: ArrayLike) -> CoreMlValue:
        """A result that is known at import."""
        array = np.atleast_1d(np.asarray(values, np.float32))
        self.require(array.size > 0, "its result has no elements, and TOSA has no empty tensors")
        return self.out(self.constant(array))

    def same(self, tensor: str) -> CoreMlValue:
        """A result with the shape of the first input."""
        return self.out(tensor, self.shape())
