"""Random legal integer graphs: the graph that grows, and how an operator finds its operands.

Every tensor has known bounds, so that no operator breaks a REQUIRE of the specification: what a graph computes is
predictable, and all targets must agree bit for bit.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from tosaic.compiler.ir import OPERATORS, DType, GraphBuilder

Draw = Callable[[int, int], int]
"""A random integer, both ends included: hypothesis' choice or a random number generator's."""

Bounds = tuple[int, int]
T = TypeVar("T")

NUMBERS = (DType.INT8, DType.INT16, DType.INT32)
DATA = (DType.BOOL, *NUMBERS)
MAX_ELEMENTS = 4096
_SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 20, 31, 33, 40)


def full(dtype: DType) -> Bounds:
    """All values of a type."""
    return (0, 1) if dtype is DType.BOOL else (dtype.min, dtype.max)


def least(dtype: DType) -> Bounds:
    """All values but the minimum, whose negative does not exist."""
    return dtype.min + 1, dtype.max


class RandomGraph(GraphBuilder):
    """A graph under growth; `live` are the tensors that the next operator may read."""

    def __init__(self, draw: Draw, name: str = "random"):
        super().__init__(name)
        self.draw = draw
        self.random = np.random.default_rng(draw(0, (1 << 32) - 1))
        self.bounds: dict[str, Bounds] = {}
        self.distinct: set[str] = set()
        """Index inputs whose rows must not repeat a value (SCATTER)."""
        self.live: list[str] = []
        self.wide_shifts = True
        """Logical shifts by more than a type's width: 0 by TOSA 0.30, open by 1.0."""
        self.given: dict[str, np.ndarray] = {}
        """Values of the inputs that were constants, see `free_parameters`."""

    # --- choices

    def chance(self, percent: int) -> bool:
        """Yes in that number of cases of a hundred; hypothesis shrinks towards no."""
        return self.draw(0, 99) >= 100 - percent

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.draw(0, len(choices) - 1)]

    def sizes(self, rank: int, most: int = MAX_ELEMENTS) -> tuple[int, ...]:
        """A shape of at most the given number of elements."""
        shape: list[int] = []
        for _ in range(rank):
            room = most // math.prod(shape)
            shape.append(min(self.pick(_SIZES), max(1, room)))
        order = [self.draw(0, i) for i in range(rank)]
        for i, j in enumerate(order):
            shape[i], shape[j] = shape[j], shape[i]
        return tuple(shape)

    # --- tensors

    def dtype(self, name: str) -> DType:
        return self.graph.tensors[name].dtype

    def extent(self, name: str) -> tuple[int, ...]:
        return tuple(self.graph.tensors[name].shape)

    def put(self, name: str, bounds: Bounds | None = None) -> str:
        """Makes a new tensor an operand of later operators."""
        self.bounds[name] = bounds or full(self.dtype(name))
        self.live.append(name)
        return name

    def values(self, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None) -> np.ndarray:
        """Uniform values, one in eight of them an end of the range."""
        low, high = bounds or full(dtype)
        values = self.random.integers(low, high, shape, endpoint=True)
        ends = np.where(self.random.random(shape) < 0.5, low, high)
        return np.where(self.random.random(shape) < 0.125, ends, values).astype(dtype.numpy)

    def fixed(self, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None) -> str:
        """A constant that only the operator at hand reads."""
        name = self.constant(self.values(shape, dtype, bounds), dtype)
        self.bounds[name] = bounds or full(dtype)
        return name

    def scalar(self, value: int, dtype: DType) -> str:
        """A constant [1]."""
        name = self.constant(np.array([value]), dtype)
        self.bounds[name] = (value, value)
        return name

    def source(self, shape: tuple[int, ...], dtype: DType, bounds: Bounds | None = None) -> str:
        """A new graph input, or a constant that any operator may read."""
        if bounds is None and dtype is DType.INT32 and self.chance(60):
            bounds = (-(1 << 20), 1 << 20)  # Room for sums.
        if dtype is DType.INT48 or self.chance(30):
            name = self.fixed(shape, dtype, bounds)
            self.live.append(name)
            return name
        name = self.input(f"input_{len(self.graph.inputs)}", shape, dtype)
        return self.put(name, bounds)

    # --- operands

    def operand(
        self,
        dtypes: Sequence[DType],
        ranks: tuple[int, int] = (0, 6),
        fits: Callable[[tuple[int, ...]], bool] = lambda shape: True,
        bounds: Bounds | None = None,
    ) -> str:
        """A tensor of one of the types and ranks within the bounds: one that exists, if need be made to fit."""
        low, high = ranks

        def good(name: str) -> bool:
            shape = self.extent(name)
            return self.dtype(name) in dtypes and low <= len(shape) <= high and fits(shape)

        candidates = [name for name in self.live if good(name)]
        if candidates and self.chance(80):
            # Rather a late one: chains, not bushes.
            first = len(candidates) // 2 if self.chance(50) else 0
            return self.within(candidates[self.draw(first, len(candidates) - 1)], bounds)
        others = [name for name in self.live if self.dtype(name) in dtypes and self.dtype(name) in DATA]
        if others and self.chance(40):
            name = self.pick(others)
            shape = self.refold(math.prod(self.extent(name)), self.draw(low, high))
            if shape is not None and fits(shape):
                folded = self.add("RESHAPE", [name, GraphBuilder.shape(self, shape)])
                return self.within(self.put(folded, self.bounds[name]), bounds)
        shape = self.sizes(self.draw(low, high))
        for most in (5, 1):
            if not fits(shape):
                shape = tuple(min(size, most) for size in shape)
        return self.within(self.source(shape, self.pick(dtypes)), bounds)

    def refold(self, count: int, rank: int) -> tuple[int, ...] | None:
        """A shape of a rank with the given number of elements; None for a scalar of several."""
        if rank == 0:
            return () if count == 1 else None
        shape = []
        for _ in range(rank - 1):
            divisors = [d for d in range(1, count + 1) if count % d == 0]
            shape.append(self.pick(divisors))
            count //= shape[-1]
        return (*shape, count)

    def within(self, name: str, bounds: Bounds | None) -> str:
        """The tensor, or a narrowed copy of it, with values in the bounds (both ends of a type with int32)."""
        low, high = self.bounds[name]
        if bounds is None or (bounds[0] <= low and high <= bounds[1]):
            return name
        dtype, rank = self.dtype(name), len(self.extent(name))
        if dtype in (DType.INT8, DType.INT16):
            limited = self.add("CLAMP", [name], min_val=bounds[0], max_val=bounds[1], nan_mode="PROPAGATE")
            return self.put(limited, bounds)
        ones = (1,) * rank
        if bounds[0] == 0 and bounds[1] & (bounds[1] + 1) == 0 and self.chance(50):
            mask = self.fixed(ones, dtype, (bounds[1], bounds[1]))
            return self.put(self.add("BITWISE_AND", [name, mask]), bounds)
        shift = next((n for n in range(1, 32) if bounds[0] <= low >> n and (high >> n) < bounds[1]), 0)
        if shift and self.chance(50):
            amount = self.fixed(ones, dtype, (shift, shift))
            halved = self.add("ARITHMETIC_RIGHT_SHIFT", [name, amount], round=self.chance(50))
            return self.put(halved, (low >> shift, (high >> shift) + 1))
        for op, end in (("MAXIMUM", bounds[0]), ("MINIMUM", bounds[1])):
            limit = self.fixed(ones, dtype, (end, end))
            name = self.add(op, [name, limit], nan_mode="PROPAGATE")
        return self.put(name, bounds)

    def partner(self, name: str, dtype: DType | None = None, bounds: Bounds | None = None) -> str:
        """A tensor that broadcasts with another one: the same, an old one, or a new input or constant."""
        shape, dtype = self.extent(name), dtype or self.dtype(name)

        def good(other: str) -> bool:
            sizes = self.extent(other)
            return (
                self.dtype(other) is dtype
                and len(sizes) == len(shape)
                and all(a == b or 1 in (a, b) for a, b in zip(shape, sizes, strict=True))
                and math.prod(np.maximum(shape, sizes).tolist()) <= MAX_ELEMENTS
            )

        candidates = [other for other in self.live if good(other)]
        if candidates and self.chance(65):
            return self.within(self.pick(candidates), bounds)
        sizes = list(shape)
        for axis in range(len(sizes)):
            if self.chance(25):
                sizes[axis] = 1
            elif sizes[axis] == 1 and self.chance(25) and math.prod(shape) < MAX_ELEMENTS // 8:
                sizes[axis] = self.draw(1, 5)
        if math.prod(np.maximum(shape, sizes).tolist()) > MAX_ELEMENTS:
            sizes = list(shape)
        return self.source(tuple(sizes), dtype, bounds)

    # --- the end

    def close(self) -> None:
        """Declares outputs: everything that nothing reads, and some more."""
        read = {name for operator in self.graph.operators for name in operator.inputs}
        for operator in self.graph.operators:
            for name in operator.outputs:
                if name not in read or self.chance(20):
                    self.output(name)

    def free_parameters(self) -> None:
        """Makes half of the operators' parameters inputs (EXT-DYNAMIC), which are fed what the constants were."""
        graph = self.graph
        for operator in graph.operators:
            for operand, name in zip(OPERATORS[operator.op].operands, operator.inputs, strict=False):
                tensor = graph.tensors[name]
                free = operand.constant and tensor.data is not None and tensor.dtype is not DType.SHAPE
                if free and name not in graph.outputs and self.chance(50):
                    assert tensor.data is not None
                    self.given[name], tensor.data = tensor.data, None
                    graph.inputs.append(name)

    def feeds(self, seed: int) -> dict[str, np.ndarray]:
        """Values of the graph inputs within their bounds."""
        self.random = np.random.default_rng(seed)
        values = {}
        for name in self.graph.inputs:
            if name in self.given:
                values[name] = self.given[name]
                continue
            shape, dtype, (low, high) = self.extent(name), self.dtype(name), self.bounds[name]
            if name in self.distinct:
                rows = [self.random.permutation(high - low + 1)[: shape[1]] + low for _ in range(shape[0])]
                values[name] = np.stack(rows).astype(dtype.numpy)
            else:
                values[name] = self.values(shape, dtype, (low, high))
        return values
