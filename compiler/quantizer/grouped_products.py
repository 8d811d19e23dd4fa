"""Products with weights of four bits in groups: a sum for each group, times its scale, all added up.

With int8 activations the sums are those of MATMULs, and a group's scale is a whole number of parts of its output
channel's: int32 holds the total, which is rounded once, behind it, as that of int8 weights is. What zero points take
away is the sum of a group's inputs, times each. Where int32 has no room for that, and with int16 activations, each
group's sums are rescaled before they are added up.
"""

import dataclasses

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.quantizer.emission import HEADROOM_BITS, Emission
from tosaic.compiler.quantizer.encoding import Integers
from tosaic.compiler.quantizer.groups import FACTOR_MAX, GroupGrid

_LARGEST_SUM = 2.0**31
_LARGEST_FACTOR = DType.INT16.max
_EXACT = 1e-4
_BIAS_ALONE = 2.0**20


def grouped_product(
    emission: Emission, op: Operator, source: Integers, grid: GroupGrid, bias: np.ndarray
) -> Integers:
    """The sums of a 1x1 convolution with weights on a grid, and with a bias [output channel]."""
    if source.dtype is DType.INT8:
        largest = np.abs(grid.scales).max(1)
        unit = np.where(largest > 0, largest, np.abs(bias) / (source.step * _BIAS_ALONE))
        unit[unit == 0] = 1.0
        factors = _factors(grid, source, bias, unit)
        if factors is not None:
            return _Scaled(emission, op, source, grid, *factors).total(bias)
    return _rescaled(emission, op, source, grid, bias)


def _factors(
    grid: GroupGrid, source: Integers, bias: np.ndarray, largest: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The groups' scales as whole numbers [output channel, group] times a unit [output channel]; None where int32 has
    no room for sums in such steps."""
    shares = grid.scales / largest[:, None]
    sums = np.stack([np.abs(grid.wide[:, first : first + size]).sum(1) for first, size in grid.spans()], 1)
    sums = (sums + np.abs(grid.zero_points) * grid.size) * source.bound
    # Each factor may be rounded up by a half.
    room = _LARGEST_SUM - sums.sum(1) / 2
    most = room / ((np.abs(shares) * sums).sum(1) + np.abs(bias) / (source.step * largest) + 1.0)
    if most.min() <= FACTOR_MAX:
        return None
    own = shares * FACTOR_MAX
    exact = np.abs(own - np.rint(own)).max() < _EXACT
    parts = FACTOR_MAX if exact else np.minimum(np.floor(most) - 1, _LARGEST_FACTOR)
    parts = np.broadcast_to(parts, largest.shape)
    return np.rint(shares * parts[:, None]).astype(np.int64), largest / parts


@dataclasses.dataclass(frozen=True)
class _Scaled:
    """Sums of groups, multiplied by whole numbers and added up in int32."""

    emission: Emission
    op: Operator
    source: Integers
    grid: GroupGrid
    factors: np.ndarray
    unit: np.ndarray

    def total(self, bias: np.ndarray) -> Integers:
        """All groups', with a bias [output channel]."""
        emission, low, grid, source = self.emission, self.emission.low, self.grid, self.source
        shape = emission.shape(self.op.outputs[0])
        depth = grid.integers.shape[1]
        x = low.reshape(source.tensor, (1, int(np.prod(shape[:-1])), depth))
        inputs = self._input_sums(x) if grid.zero_points.any() else None
        terms = [self._group(x, inputs, number) for number in range(grid.scales.shape[1])]
        scale = source.scale * self.unit
        sums = np.rint(bias / scale)
        if sums.any():
            terms.append(emission.line(sums, terms[0]))
        total = terms[0]
        for term in terms[1:]:
            total = emission.emit("ADD", total, term)
        exact = np.repeat(self.factors, grid.size, 1)[:, :depth] * grid.wide
        bounds = np.abs(exact).sum(1) * source.bound + np.abs(sums)
        result = low.reshape(total, shape)
        return Integers(result, DType.INT32, scale, 0, float(bounds.max()), bounds=bounds)

    def _group(self, x: str, inputs: str | None, number: int) -> str:
        low, grid = self.emission.low, self.grid
        first, size = list(grid.spans())[number]
        sums = self._product(low.slice_axis(x, 2, first, size), grid.integers[:, first : first + size].T)
        if inputs is not None and grid.zero_points[:, number].any():
            taken = self._times(low.slice_axis(inputs, 2, number, 1), grid.zero_points[:, number])
            sums = self.emission.emit("SUB", sums, taken)
        factors = self.factors[:, number]
        return sums if np.all(factors == 1) else self._times(sums, factors)

    def _product(self, x: str, weights: np.ndarray) -> str:
        low, source = self.emission.low, self.source
        zero_points = low.constant([source.zero_point], source.dtype), low.constant([0], DType.INT8)
        return self.emission.emit(
            "MATMUL", x, low.constant(weights[None], DType.INT8), *zero_points, dtype=DType.INT32
        )

    def _times(self, x: str, line: np.ndarray) -> str:
        shift = self.emission.low.constant([0], DType.INT8)
        return self.emission.emit("MUL", x, self.emission.line(line, x), shift, dtype=DType.INT32)

    def _input_sums(self, x: str) -> str:
        """The sums of each group's inputs, int32 [1, rows, group]."""
        grid = self.grid
        group = np.arange(grid.integers.shape[1])[:, None] // grid.size
        return self._product(x, (group == np.arange(grid.scales.shape[1])).astype(np.int8))


def _rescaled(
    emission: Emission, op: Operator, source: Integers, grid: GroupGrid, bias: np.ndarray
) -> Integers:
    """Sums of groups in their accumulators, rescaled to one scale in int32."""
    parts = [_part(emission, op, source, grid, number) for number in range(grid.scales.shape[1])]
    scale = (sum(part.reach for part in parts) + float(np.abs(bias).max())) / 2**HEADROOM_BITS
    if not scale:
        scale = 1.0
    terms = [emission.as_int32(part, scale) for part in parts]
    total, bound = terms[0].tensor, sum(term.bound for term in terms)
    lines = [emission.line(np.rint(bias / scale), total)] if bias.any() else []
    for term in (*(term.tensor for term in terms[1:]), *lines):
        total = emission.emit("ADD", total, term)
    return Integers(total, DType.INT32, np.array(scale), 0, bound + float(np.abs(bias).max()) / scale + 1)


def _part(emission: Emission, op: Operator, source: Integers, grid: GroupGrid, number: int) -> Integers:
    """A group's convolution, in its accumulator."""
    low, (first, size) = emission.low, list(grid.spans())[number]
    accumulator = DType.INT48 if source.dtype is DType.INT16 else DType.INT32
    # RESCALE has no negative scales.
    scales = grid.scales[:, number]
    integers = grid.wide[:, first : first + size] * np.where(scales < 0, -1, 1)[:, None]
    tensor = emission.emit(
        "CONV2D",
        low.slice_axis(source.tensor, 3, first, size),
        low.constant(integers[:, None, None, :], DType.INT8),
        low.constant(np.zeros(len(integers)), accumulator),
        low.constant([source.zero_point], source.dtype),
        low.constant([0], DType.INT8),
        dtype=accumulator,
        **{**op.attributes, "acc_type": accumulator},
    )
    bounds = np.abs(integers).sum(1) * source.bound
    return Integers(tensor, accumulator, source.scale * np.abs(scales), 0, float(bounds.max()), bounds=bounds)
