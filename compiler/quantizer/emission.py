"""The integer graph under construction: every float tensor, in whatever integers its readers ask for."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tosaic.compiler.ir import ByOperator, DType, GraphBuilder, Operator, Trait, operators_with
from tosaic.compiler.ir.building import FoldingBuilder
from tosaic.compiler.ir.tensors import SOURCE_END
from tosaic.compiler.quantizer.canonical import MACS
from tosaic.compiler.quantizer.encoding import Encoding, Integers, multiplier_and_shift
from tosaic.compiler.quantizer.functions import RENAMES, is_real
from tosaic.compiler.quantizer.plan import MOVES, Plan
from tosaic.compiler.quantizer.tables import float32_table, int8_table, rescaled_bytes
from tosaic.errors import UnsupportedError

HEADROOM_BITS = 27
"""int32 tensors between layers are at most 2^27 for any input, so that sums of several fit."""
_LARGEST_RESCALED = 2.0**29
_LARGEST_SUM = 2.0**30
_LOOSE = 2.0**10
_PART_COARSER = 16.0
"""Parts of an int16 tensor keep its steps if their own would be at most this much finer: 11 bits are left."""
_COARSER = 1.0
"""Steps at least this much larger than those of the tensor in memory are made from that."""

_LEAST_FACTOR = 2.0**8
"""A factor of fewer bits is as coarse as the steps of int8."""
_PRODUCT_BITS = 30
_ON_THE_WAY = operators_with(Trait.ELEMENTWISE)
"""Operators that a convolution's layer computes on its sums' way out."""

Natural = Callable[["Emission", Operator], Integers]
Move = Callable[["Emission", Operator, Encoding], str]

NATURAL = ByOperator[Natural]()
"""How an operator's result comes about in integers, before anyone asks for an encoding."""
WHOLE = "whole numbers"
"""The key of `NATURAL` for results that hold whole numbers."""
MOVE = ByOperator[Move]()
"""How an operator that picks elements gives its result in a given encoding."""
PLAIN = ByOperator[Callable[["Emission", Operator], str]]()
"""How an operator with real operands gives a result that is not real (bool, indices)."""

natural = NATURAL.of


class Emission:
    """Emits integers for tensors of the plan's float graph.

    `request(tensor, encoding)` gives a tensor in an encoding, `wide(tensor)` in whatever form is most precise at
    hand, `plain(tensor)` one that is not real. Each form is emitted once.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.graph = plan, plan.graph
        self.low = FoldingBuilder(GraphBuilder(plan.graph.name))
        self._naturals: dict[str, Integers] = {}
        self._requests: dict[tuple[str, Encoding], str] = {}
        self._conversions: dict[tuple[str, Encoding, float, float], str] = {}
        self._plain: dict[str, str] = {}
        self._makers: dict[str, Operator] = {}
        """Who makes a tensor of the integer graph, for its first operators, `_known` of them."""
        self._known = 0

    # --- forms ----------------------------------------------------------------------------------------------

    def request(self, tensor: str, encoding: Encoding) -> str:
        """The tensor in an encoding, rounded once from its most precise form."""
        key = (tensor, encoding)
        if key not in self._requests:
            with self.named_after(tensor):
                self._requests[key] = self._requested(tensor, encoding)
        return self._requests[key]

    def activation(self, tensor: str, dtype: DType | None = None) -> Integers:
        """The tensor in its own encoding as an activation (or as int16 between layers)."""
        encoding = self.plan.encoding(tensor, dtype)
        return self.held(self.request(tensor, encoding), encoding)

    def wide(self, tensor: str) -> Integers:
        """The most precise form: what its producer computes, or the activation where there is one anyway."""
        if self.plan.held(tensor) and self.data(tensor) is None and tensor not in self.plan.precise:
            return self.activation(tensor)
        if tensor in self.plan.whole:
            return self.natural(tensor)
        op = self.plan.producers.get(tensor)
        if op is not None and op.op in RENAMES:
            inner = self.wide(op.inputs[0])
            if inner.uniform or self.shape(op.inputs[0])[-1:] == self.shape(tensor)[-1:]:
                return dataclasses.replace(inner, tensor=self.low.reshape(inner.tensor, self.shape(tensor)))
        if op is not None and op.op == "SLICE":
            whole, own = self.wide(op.inputs[0]).encoding, self.plan.encoding(tensor, DType.INT16)
            if whole is not None and whole.dtype is DType.INT16 and whole.scale <= _PART_COARSER * own.scale:
                return self.held(self.request(tensor, whole), whole)
        if op is not None and op.op in MOVES or self.data(tensor) is not None:
            return self.activation(tensor, DType.INT16)
        found = self.natural(tensor)
        if found.dtype is DType.INT32 and self.plan.narrows(tensor):
            return self.activation(tensor, DType.INT16)
        return found

    def settled(self, tensor: str) -> Integers:
        """`wide`, without bounds to apply, and with no more headroom than a few bits over what was seen."""
        found = self.wide(tensor)
        reach = found.reach if found.encoding is None else 0.0
        if reach and reach > _LOOSE * max(self.plan.largest(tensor), 1e-30):
            return self.activation(tensor, DType.INT16)
        return self.within_bounds(found)

    def natural(self, tensor: str) -> Integers:
        """What the producer of a tensor computes."""
        if tensor not in self._naturals:
            with self.named_after(tensor):
                self._naturals[tensor] = self._natural(tensor)
        return self._naturals[tensor]

    def plain(self, tensor: str) -> str:
        """A tensor that is not real: a constant, an input, or the result of an operator of the same kind."""
        if tensor not in self._plain:
            with self.named_after(tensor):
                self._plain[tensor] = self._emit_plain(tensor)
        return self._plain[tensor]

    def data(self, tensor: str) -> np.ndarray | None:
        """Returns the value of a constant of the float graph."""
        return self.graph.tensors[tensor].data

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Returns the shape of a tensor of the float graph."""
        return self.graph.tensors[tensor].shape

    def held(self, name: str, encoding: Encoding) -> Integers:
        """A tensor of the integer graph in an encoding."""
        bound = max(encoding.dtype.max - encoding.zero_point, encoding.zero_point - encoding.dtype.min)
        return Integers(
            name, encoding.dtype, np.array(encoding.scale), encoding.zero_point, bound, encoding=encoding
        )

    # --- conversions ----------------------------------------------------------------------------------------

    def convert(self, source: Integers, encoding: Encoding) -> str:
        """Integers in an encoding; bounds are applied, what does not fit saturates."""
        key = (source.tensor + str(source.scale.tobytes()), encoding, source.low, source.high)
        if key not in self._conversions:
            self._conversions[key] = self._converted(source, encoding)
        return self._conversions[key]

    def as_int32(self, source: Integers, scale: float | None = None) -> Integers:
        """int32 without zero point and bounds: at `scale`, or with all the precision that `HEADROOM_BITS` leave.

        int32 stays as it is when no scale is given.
        """
        if scale is None and source.dtype is DType.INT32:
            return self.within_bounds(source)
        if scale is None and source.uniform:
            # A power of two keeps 8-bit and 16-bit integers exact.
            room = HEADROOM_BITS - math.ceil(math.log2(max(source.bound, 1.0)))
            scale = source.step * 2.0 ** -min(max(room, 0), 8)
        elif scale is None:
            scale = source.reach / 2**HEADROOM_BITS
        encoding = Encoding(DType.INT32, scale)
        bound = math.ceil(source.reach / scale) + 1
        return Integers(self.convert(source, encoding), DType.INT32, np.array(scale), 0, bound)

    def as_summands(self, source: Integers, count: int) -> Integers:
        """int32 of which `count` may be added up; 8-bit and 16-bit integers as they are."""
        narrow = source.dtype in (DType.INT8, DType.INT16) and source.uniform
        found = self.as_int32(source, source.step if narrow else None)
        if found.bound * count < _LARGEST_SUM:
            return found
        return self.as_int32(found, found.reach * count / _LARGEST_SUM)

    def as_uniform(self, source: Integers) -> Integers:
        """Integers with one scale for the whole tensor."""
        if source.uniform:
            return source
        return self.as_int32(source, source.reach / 2**HEADROOM_BITS)

    def within_bounds(self, source: Integers) -> Integers:
        """Integers to which no bounds are still to be applied."""
        if not source.bounded:
            return source
        plain = dataclasses.replace(source, low=-math.inf, high=math.inf, encoding=None)
        if plain.dtype is not DType.INT32 or not plain.uniform:
            # Bounds of one element join the layer that computes the values; a line along the channels would not.
            plain = self.as_uniform(self.as_int32(plain))
        for bound, op in ((source.low, "MAXIMUM"), (source.high, "MINIMUM")):
            if abs(bound) < math.inf:
                limits = np.clip(np.rint(bound / plain.scale), -(2.0**31), 2.0**31 - 1)
                plain.tensor = self.emit(op, plain.tensor, self.line(limits, plain.tensor))
        return plain

    def line(self, values: np.ndarray, like: str, dtype: DType = DType.INT32) -> str:
        """A constant of one element, or one for each of the last axis, with the rank of a tensor."""
        rank = self.low.rank(like)
        values = np.asarray(values).reshape(-1)
        shape = (1,) * (rank - 1) + (values.size,) if rank else ()
        return self.low.constant(values.reshape(shape).astype(np.int64), dtype)

    def emit(self, op: str, *inputs: str, dtype: DType | None = None, **attributes: Any) -> str:
        """Adds an operator; its label begins with that of the float operator that it belongs to."""
        return self.low.op(op, *inputs, dtype=dtype, **attributes)

    @contextlib.contextmanager
    def named_after(self, tensor: str) -> Iterator[None]:
        """Labels what is emitted meanwhile with the float operator that makes the tensor, or with the input."""
        build, op = self.low.build, self.plan.producers.get(tensor)
        before, build.label = build.label, op.name if op is not None else f"{tensor}{SOURCE_END}input"
        try:
            yield
        finally:
            build.label = before

    # --- inside ---------------------------------------------------------------------------------------------

    def _requested(self, tensor: str, encoding: Encoding) -> str:
        data = self.data(tensor)
        if data is not None:
            return self.low.constant(encoding.quantize(data), encoding.dtype)
        if tensor in self.graph.inputs:
            return self.convert(self.natural(tensor), encoding)
        own = self.plan.forced.get(tensor)
        if own is not None and own != encoding:
            return self.convert(self.held(self.request(tensor, own), own), encoding)
        op = self.plan.producers[tensor]
        if self.plan.held(tensor) and encoding.dtype is DType.INT8 and op.op not in MOVES:
            held = self.plan.encoding(tensor)
            if held.dtype is DType.INT8 and encoding != held and encoding.scale >= _COARSER * held.scale:
                return self.convert(self.activation(tensor), encoding)
        if op.op in MOVE:
            return MOVE[op.op](self, op, encoding)
        if encoding.dtype is DType.INT8 and (entries := self._int8_entries(tensor, encoding)) is not None:
            source = self.wide(self.plan.functions.root(tensor))
            return self.emit("TABLE", source.tensor, self.low.constant(entries, DType.INT8))
        if self.plan.narrows(tensor) and not self.plan.held(tensor):
            stored = self.plan.encoding(tensor, DType.INT16)
            if encoding != stored:
                return self.convert(self.activation(tensor, DType.INT16), encoding)
        return self.convert(self.natural(tensor), encoding)

    def _int8_entries(self, tensor: str, encoding: Encoding) -> np.ndarray | None:
        """The table of a function of int8; None for other tensors, and for lines whose RESCALE rounds alike."""
        functions, own = self.plan.functions, self.plan.as_onnx
        root, bent = functions.root(tensor), functions.is_table(tensor)
        if root == tensor or not (bent or own):
            return None
        source = self.wide(root)
        if source.dtype is not DType.INT8 or not source.uniform or source.bounded:
            return None
        held = Encoding(DType.INT8, source.scale.item(), source.zero_point)
        if not own:
            return int8_table(lambda x: functions(tensor, x), held, encoding)
        entries = float32_table(lambda x: functions(tensor, x, np.float32), held, encoding)
        line = source if bent else self.natural(tensor)
        scaled = not bent and line.tensor == source.tensor and line.uniform
        return None if scaled and np.array_equal(entries, self._rescaled_bytes(line, encoding)) else entries

    def _rescaled_bytes(self, source: Integers, encoding: Encoding) -> np.ndarray:
        """What `_converted` makes of each int8 by RESCALE and CLAMP."""
        found = rescaled_bytes(source.scale.item() / encoding.scale, source.zero_point, encoding)
        return np.clip(found, *self._ends(source, encoding))

    def _natural(self, tensor: str) -> Integers:
        if tensor in self.graph.inputs:
            return self._input(tensor)
        op = self.plan.producers[tensor]
        key = "TABLE" if self.plan.functions.is_table(tensor) else op.op
        if tensor in self.plan.whole and key != "CAST":
            key = WHOLE
        if key not in NATURAL:
            raise UnsupportedError(
                f"{op} (tensor {self.graph.tensors[tensor]}): {op.op} has no integer form in the quantizer; replace it "
                "in the model, or compute it outside"
            )
        return NATURAL[key](self, op)

    def _input(self, tensor: str) -> Integers:
        encoding = self.plan.encoding(tensor)
        self.low.build.input(tensor, self.shape(tensor), encoding.dtype)
        return self.held(tensor, encoding)

    def _emit_plain(self, tensor: str) -> str:
        found = self.graph.tensors[tensor]
        if found.data is not None:
            return self.low.constant(found.data, found.dtype)
        if tensor in self.graph.inputs:
            return self.low.build.input(tensor, found.shape, found.dtype)
        op = self.plan.producers[tensor]
        if op.op in PLAIN and any(is_real(self.graph, name) for name in op.inputs):
            return PLAIN[op.op](self, op)
        if any(is_real(self.graph, name) for name in op.inputs) or len(op.outputs) != 1:
            raise UnsupportedError(
                f"{op} (tensor {found}): {op.op} has no integer form in the quantizer; replace it in the model"
            )
        return self.emit(op.op, *(self.plain(name) for name in op.inputs), dtype=found.dtype, **op.attributes)

    def _converted(self, source: Integers, encoding: Encoding) -> str:
        ratio = source.scale / encoding.scale
        target = encoding.dtype
        same = target is source.dtype and encoding.zero_point == source.zero_point and np.all(ratio == 1)
        if target is DType.INT32 and source.bounded:
            return self.convert(self.within_bounds(source), encoding)
        narrow = source.dtype is not DType.INT48 and source.zero_point == 0
        if target is DType.INT32 and narrow and np.all(ratio == 1) and not same:
            return self.emit("CAST", source.tensor, dtype=DType.INT32)
        if self.plan.as_onnx and target is source.dtype is DType.INT8 and source.uniform and not same:
            held = Encoding(DType.INT8, source.scale.item(), source.zero_point)
            entries = float32_table(lambda x: np.clip(x, source.low, source.high), held, encoding)
            if not np.array_equal(entries, self._rescaled_bytes(source, encoding)):
                return self.emit("TABLE", source.tensor, self.low.constant(entries, DType.INT8))
        result = source.tensor if same else self._rescaled(source, ratio, encoding)
        first, last = self._ends(source, encoding)
        if (first, last) != (target.min, target.max):
            result = self.emit("CLAMP", result, min_val=first, max_val=last)
        return result

    def _ends(self, source: Integers, encoding: Encoding) -> tuple[int, int]:
        """Bounds in an encoding. On the side of zero of one that ends there they come by saturation; so do those beyond
        its ends."""
        target = encoding.dtype
        low, high = (encoding.zero_point + bound / encoding.scale for bound in (source.low, source.high))
        first = max(target.min, min(target.max, round(low) if low > target.min else target.min))
        last = min(target.max, max(target.min, round(high) if high < target.max else target.max))
        return first, last

    def _rescaled(self, source: Integers, ratio: np.ndarray, encoding: Encoding) -> str:
        if source.reach / encoding.scale >= _LARGEST_RESCALED:
            source = self._limited(source, ratio)
            ratio = source.scale / encoding.scale
        if ratio.size > 1 and source.dtype is DType.INT32 and self._scales_by_channel(source.tensor):
            source = self._with_factors(source)
            ratio = source.scale / encoding.scale
        bits = 15 if source.dtype is DType.INT48 else 31
        pairs = [multiplier_and_shift(float(r), bits) for r in ratio.reshape(-1)]
        return self.emit(
            "RESCALE",
            source.tensor,
            self.low.constant([m for m, _ in pairs], DType.INT16 if bits == 15 else DType.INT32),
            self.low.constant([s for _, s in pairs], DType.INT8),
            self.low.constant([source.zero_point], source.dtype),
            self.low.constant([encoding.zero_point], encoding.dtype),
            dtype=encoding.dtype,
            scale32=bits == 31,
            rounding_mode="SINGLE_ROUND",
            per_channel=len(pairs) > 1,
        )

    def are_sums(self, tensor: str) -> bool:
        """Whether a convolution of the array computes a tensor of the integer graph."""
        maker = self._maker(tensor)
        return maker is not None and maker.op in ("CONV2D", "DEPTHWISE_CONV2D")

    def _maker(self, tensor: str) -> Operator | None:
        operators = self.low.build.operators
        for op in operators[self._known :]:
            self._makers |= dict.fromkeys(op.outputs, op)
        self._known = len(operators)
        return self._makers.get(tensor)

    def _scales_by_channel(self, tensor: str) -> bool:
        """Whether the layer that computes a tensor begins with sums that it scales by channel: it does so once."""
        maker = self._maker_of_channels(tensor)
        while maker is not None and maker.op in _ON_THE_WAY:
            if maker.op == "RESCALE" and maker.attributes["per_channel"]:
                before = self._maker_of_channels(maker.inputs[0])
                if before is not None and before.op in ("ADD", "SUB"):
                    # A constant, which goes into the convolution's bias.
                    terms = [name for name in before.inputs if name in self._makers]
                    before = self._maker_of_channels(terms[0]) if len(terms) == 1 else None
                return before is not None and before.op in MACS
            computed = [name for name in maker.inputs if name in self._makers]
            shapes = {self.low.build.graph.tensors[name].shape for name in (*computed, maker.outputs[0])}
            if len(shapes) > 1:
                return False  # What is computed for a whole row, such as its mean, is not there as the sums come.
            maker = self._maker_of_channels(computed[0]) if computed else None
        return False

    def _maker_of_channels(self, tensor: str) -> Operator | None:
        """Who makes a tensor, behind RESHAPEs that keep its channels: a matrix product is a convolution of pixels."""
        tensors, maker = self.low.build.graph.tensors, self._maker(tensor)
        while maker is not None and maker.op == "RESHAPE":
            source = maker.inputs[0]
            if tensors[source].shape[-1:] != tensors[maker.outputs[0]].shape[-1:]:
                return None
            maker = self._maker(source)
        return maker

    def _with_factors(self, source: Integers) -> Integers:
        """Makes int32 of one scale from int32 of several, by a product with a factor of each channel."""
        largest = float(source.scale.max())
        factors = np.rint(source.scale / largest * DType.INT16.max)
        if source.zero_point or factors.min() < _LEAST_FACTOR:
            return source
        shift = max(0, math.ceil(math.log2(max(source.bound, 1.0) * DType.INT16.max)) - _PRODUCT_BITS)
        tensor = self.emit(
            "MUL",
            source.tensor,
            self.line(factors, source.tensor),
            self.low.constant([shift], DType.INT8),
            dtype=DType.INT32,
        )
        scale, bound = largest / DType.INT16.max, source.bound * DType.INT16.max / 2.0**shift + 1
        return dataclasses.replace(
            source, tensor=tensor, scale=np.array(scale * 2.0**shift), bound=bound, encoding=None, bounds=None
        )

    def _limited(self, source: Integers, ratio: np.ndarray) -> Integers:
        """Integers cut to where a RESCALE by `ratio` stays in int32."""
        if source.dtype is not DType.INT32:
            scale = source.reach / 2**28
            ratio = ratio * (scale / source.scale)
            tensor = self._rescaled(source, source.scale / scale, Encoding(DType.INT32, scale))
            source = Integers(tensor, DType.INT32, np.array(scale), 0, 2.0**28 + 1)
        limit = np.floor(_LARGEST_RESCALED / 2 / np.maximum(ratio, 1e-300)).clip(1, 2**30)
        tensor = self.emit("MINIMUM", source.tensor, self.line(limit, source.tensor))
        tensor = self.emit("MAXIMUM", tensor, self.line(-limit, source.tensor))
        return dataclasses.replace(
            source, tensor=tensor, bound=float(limit.max()), encoding=None, bounds=limit
        )
