"""TOSA elementwise operators as expressions of micro-operations (clauses 2.4 to 2.8 and 2.13)."""

import dataclasses
import math
import typing
from collections.abc import Callable

import numpy as np

from tosaic.compiler.fuse.expression import ArrayResult, Immediate, Load, Node, Value, clamped
from tosaic.compiler.ir import ByOperator, DType, Graph, Operator
from tosaic.errors import UnsupportedError
from tosaic.hw.isa import Element, Op

_SCALES = ("multiplier", "shift")

_Translation = Callable[["Translator", Operator], Value]
_TRANSLATIONS = ByOperator[_Translation]()
"""Translations by operator; methods of the translator register here."""


@dataclasses.dataclass
class PerChannel:
    """Multipliers and shifts along the last axis."""

    multipliers: np.ndarray
    shifts: np.ndarray

    def repeated(self, times: int) -> "PerChannel":
        """Returns the parameters for channels that come `times` times."""
        return PerChannel(np.tile(self.multipliers, times), np.tile(self.shifts, times))


@dataclasses.dataclass(frozen=True)
class RunTimeScales:
    """Multipliers (int32) and shifts (int8) along the last axis that are computed at run time: names of tensors."""

    multipliers: str
    shifts: str


class Translator:
    """Builds the expression of one layer. `operand` gives the value of a tensor (a node made before, a load, a
    constant), `uses` how often the layer reads it; `result` is the tensor that the layer stores. `has_array`: the layer
    begins with an operator of the array, which may have biases."""

    def __init__(
        self,
        graph: Graph,
        operand: Callable[[str], Value],
        uses: Callable[[str], int],
        result: str,
        *,
        has_array: bool = False,
    ):
        self.graph, self.operand, self.uses, self.result = graph, operand, uses, result
        self.has_array = has_array
        self.per_channel: PerChannel | RunTimeScales | None = None
        self.bias: np.ndarray | None = None
        """What is added along the last axis of a layer that goes by channels anyway."""
        self.table: str | None = None

    def translate(self, operator: Operator) -> Value:
        """The value that `operator` computes; UnsupportedError when no micro-operations do."""
        if operator.op in _TRANSLATIONS:
            value = _TRANSLATIONS[operator.op](self, operator)
        else:
            raise UnsupportedError(f"{operator}: the vector unit has no micro-operations for {operator.op}")
        if isinstance(value, Node):
            value.layer_tensor = operator.outputs[0]
        return value

    # --- helpers

    def _tensor(self, operator: Operator, position: int = 0) -> typing.Any:
        return self.graph.tensors[operator.inputs[position]]

    def _target(self, operator: Operator) -> DType:
        return self.graph.tensors[operator.outputs[0]].dtype

    def _value(self, operator: Operator, name: str) -> int:
        return int(self.graph.operand_value(operator, name).reshape(-1)[0])

    def _binary(self, operator: Operator, op: Op) -> Value:
        if op is Op.ADD:
            for name, line in (operator.inputs, operator.inputs[::-1]):
                bias = self._as_bias(operator, line)
                if bias is not None:
                    self.bias = bias
                    return Node(Op.MOV, self.operand(name), bias=True, wrap32=True)
        a, b = self.operand(operator.inputs[0]), self.operand(operator.inputs[1])
        wrap32 = op in (Op.ADD, Op.SUB) and self._target(operator) is DType.INT32
        if op in (Op.MAX, Op.MIN):
            for value, bound, name in ((a, b, operator.inputs[0]), (b, a, operator.inputs[1])):
                if isinstance(bound, Immediate):
                    low = bound.value if op is Op.MAX else DType.INT32.min
                    high = bound.value if op is Op.MIN else DType.INT32.max
                    return clamped(value, low, high, self.uses(name))
        if op is Op.ADD:
            fused = self._into_rescale(operator, a, b, wrap32)
            if fused is not None:
                return fused
        return Node(op, a, b, wrap32=wrap32)

    def _as_bias(self, operator: Operator, name: str) -> np.ndarray | None:
        """The operand `name` of an ADD as the lanes' biases, if it is a constant line along the channels and they are
        free. They cost nothing, where int32 elements would be loaded again for each of several rows."""
        line, shape = self.graph.tensors[name].data, self.graph.tensors[operator.outputs[0]].shape
        if line is None or self.bias is not None or self.has_array or self.per_channel is None:
            return None
        along = 1 < line.size < math.prod(shape) and line.shape[-1:] == shape[-1:] == (line.size,)
        return line.reshape(-1) if along else None

    def _into_rescale(self, operator: Operator, a: Value, b: Value, wrap32: bool) -> Node | None:
        """ADD of a RESCALE's result is that RESCALE's B operand: one micro-operation less."""
        for first, second, name in ((a, b, operator.inputs[0]), (b, a, operator.inputs[1])):
            if not isinstance(first, Node) or first.op is not Op.RESCALE or self.uses(name) != 1:
                continue
            plain = first.out_zp == 0 and first.clamp is None and not (first.wrap32 and not wrap32)
            if first.b is None and plain and first is not second:
                first.b, first.wrap32 = second, wrap32
                return first
        return None

    # --- operators with parameters

    @_TRANSLATIONS.of("CLAMP")
    def _clamp(self, operator: Operator) -> Value:
        low, high = (int(operator.attributes[key]) for key in ("min_val", "max_val"))
        value, dtype = self.operand(operator.inputs[0]), self._tensor(operator).dtype
        if isinstance(value, Load) and low <= dtype.min and high >= dtype.max:
            return value
        return clamped(value, low, high, self.uses(operator.inputs[0]))

    @_TRANSLATIONS.of("RESCALE")
    def _rescale(self, operator: Operator) -> Value:
        graph, attributes = self.graph, operator.attributes
        value, source = self.operand(operator.inputs[0]), self._tensor(operator)
        target = graph.tensors[operator.outputs[0]]
        input_zp, output_zp = self._value(operator, "input_zp"), self._value(operator, "output_zp")
        bits = source.dtype.bits
        if attributes.get("input_unsigned"):
            input_zp &= (1 << bits) - 1
            if isinstance(value, Load):
                value = Load(value.tensor, Element.UINT8 if bits == 8 else Element.UINT16)
            else:
                value = Node(Op.AND, value, Immediate((1 << bits) - 1))
        if target.dtype in (DType.INT8, DType.INT16) and self._is_idle(operator) and isinstance(value, Node):
            # Of a scale of 1 a zero point and bounds are left.
            if value.op is not Op.MOV and not attributes.get("output_unsigned"):
                ends = target.dtype.min, target.dtype.max
                return clamped(value, *ends, self.uses(operator.inputs[0]), output_zp - input_zp)
        node = Node(Op.RESCALE, value, a_zp=input_zp, round=attributes["rounding_mode"] == "DOUBLE_ROUND")
        self._absorb(node, operator.inputs[0])
        self._scale(operator, node)
        if target.dtype in (DType.INT8, DType.INT16):
            bits = target.dtype.bits
            if attributes.get("output_unsigned"):
                output_zp &= (1 << bits) - 1
                node.clamp = (0, (1 << bits) - 1)
            else:
                node.clamp = (target.dtype.min, target.dtype.max)
        node.out_zp = output_zp
        return node

    def _is_idle(self, operator: Operator) -> bool:
        """Whether a RESCALE multiplies by 1."""
        if any(self.graph.const(name) is None for name in operator.inputs[1:3]):
            return False
        multipliers, shifts = (self.graph.operand_value(operator, name).astype(object) for name in _SCALES)
        return bool(np.all(multipliers == 2**shifts))

    def _scale(self, operator: Operator, node: Node) -> None:
        """Gives a RESCALE its multiplier and shift, or says that each channel has its own."""
        multiplier, shift = operator.inputs[1:3]
        scales: PerChannel | RunTimeScales
        if self.graph.const(multiplier) is None or self.graph.const(shift) is None:
            scales = RunTimeScales(multiplier, shift)
        else:
            scales = PerChannel(
                *(self.graph.operand_value(operator, name).reshape(-1).astype(np.int64) for name in _SCALES)
            )
            if all((values == values[0]).all() for values in (scales.multipliers, scales.shifts)):
                node.multiplier, node.shift = int(scales.multipliers[0]), int(scales.shifts[0])
                return
        if self.per_channel is not None:
            raise UnsupportedError(f"{operator}: a second per-channel RESCALE in one layer")
        self.per_channel, node.per_channel = scales, True

    def _absorb(self, node: Node, name: str) -> None:
        """Accumulators and their bias come into the RESCALE that alone reads them directly."""
        value = node.a
        if self.uses(name) == 1 and isinstance(value, Node) and value.op is Op.MOV:
            if isinstance(value.a, ArrayResult) and value.clamp is None:
                node.a, node.bias = value.a, value.bias

    @_TRANSLATIONS.of("MUL")
    def _mul(self, operator: Operator) -> Value:
        """Translates MUL, also int48 = int48 or int32 times int32 modulo 2^48, which decompositions need."""
        shift = self._value(operator, "shift")
        names = operator.inputs[:2]
        if self._target(operator) is not DType.INT48:
            scaled = self._by_constant(names, shift)
            if scaled is not None:
                return scaled
            return self._product(names, shift)
        # Only A has 48 bits.
        names.sort(key=lambda name: -self.graph.tensors[name].dtype.bits)
        a, b = self.operand(names[0]), self.operand(names[1])
        if isinstance(b, Immediate) and not isinstance(a, Immediate):
            # A RESCALE adds as well, so that multiplication and addition are one micro-operation.
            node = Node(Op.RESCALE, a, multiplier=b.value, shift=0)
            self._absorb(node, names[0])
            return node
        return Node(Op.MUL, a, b, shift=shift)

    def _product(self, names: list[str], shift: int) -> Node:
        """A product of int32. What RESCALE has doubled some times before the product is shifted as often less."""
        a, b = (self.operand(name) for name in names)
        for value, other, name in ((a, b, names[0]), (b, a, names[1])):
            if self.uses(name) != 1 or not isinstance(value, Node) or value is other:
                continue
            doubled = _doublings(value)
            if doubled is not None and doubled <= shift:
                return Node(Op.MUL, value.a, other, shift=shift - doubled, a_zp=value.a_zp, wrap32=True)
        return Node(Op.MUL, a, b, shift=shift, wrap32=True)

    def _by_constant(self, names: list[str], shift: int) -> Node | None:
        """A product with a constant that is multiplied by a RESCALE, which may add as well."""
        for value, factor in (names, names[::-1]):
            constant = self.operand(factor)
            if isinstance(constant, Immediate) and self.graph.tensors[value].data is None:
                return Node(
                    Op.RESCALE, self.operand(value), multiplier=constant.value, shift=shift, wrap32=True
                )
        return None

    @_TRANSLATIONS.of("TABLE")
    def _table(self, operator: Operator) -> Value:
        if self.table is not None:
            raise UnsupportedError(f"{operator}: a second TABLE in one layer")
        self.table = self.graph.operand(operator, "table")
        op = Op.TABLE8 if self._tensor(operator).dtype is DType.INT8 else Op.TABLE16
        return Node(op, self.operand(operator.inputs[0]))

    @_TRANSLATIONS.of("NEGATE")
    def _negate(self, operator: Operator) -> Value:
        target = self.graph.tensors[operator.outputs[0]].dtype
        zps = (
            [self._value(operator, name) for name in ("input1_zp", "output_zp")]
            if target is DType.INT8
            else [0, 0]
        )
        node = Node(Op.MUL, self.operand(operator.inputs[0]), Immediate(-1), a_zp=zps[0], out_zp=zps[1])
        if target is DType.INT32:
            node.wrap32 = True
        else:
            node.clamp = (target.min, target.max)
        return node

    @_TRANSLATIONS.of("ABS")
    def _abs(self, operator: Operator) -> Value:
        return Node(Op.ABS, self.operand(operator.inputs[0]), wrap32=True)

    @_TRANSLATIONS.of("CLZ")
    def _clz(self, operator: Operator) -> Value:
        return Node(Op.CLZ, self.operand(operator.inputs[0]))

    @_TRANSLATIONS.of("BITWISE_NOT")
    def _bitwise_not(self, operator: Operator) -> Value:
        return Node(Op.XOR, self.operand(operator.inputs[0]), Immediate(-1))

    @_TRANSLATIONS.of("LOGICAL_NOT")
    def _logical_not(self, operator: Operator) -> Value:
        return Node(Op.XOR, self.operand(operator.inputs[0]), Immediate(1))

    @_TRANSLATIONS.of("LOGICAL_LEFT_SHIFT")
    def _logical_left_shift(self, operator: Operator) -> Value:
        a, b = self.operand(operator.inputs[0]), self.operand(operator.inputs[1])
        return _narrowed(Node(Op.LSL, a, b, wrap32=True), self._tensor(operator).dtype)

    @_TRANSLATIONS.of("LOGICAL_RIGHT_SHIFT")
    def _logical_right_shift(self, operator: Operator) -> Value:
        a, b = self.operand(operator.inputs[0]), self.operand(operator.inputs[1])
        dtype = self._tensor(operator).dtype
        if dtype.bits < 32:
            a = Node(Op.AND, a, Immediate((1 << dtype.bits) - 1))
        return _narrowed(Node(Op.LSR, a, b, wrap32=True), dtype)

    @_TRANSLATIONS.of("ARITHMETIC_RIGHT_SHIFT")
    def _arithmetic_right_shift(self, operator: Operator) -> Value:
        rounding = bool(operator.attributes["round"])
        return Node(
            Op.ASR, self.operand(operator.inputs[0]), self.operand(operator.inputs[1]), round=rounding
        )

    @_TRANSLATIONS.of("SELECT")
    def _select(self, operator: Operator) -> Value:
        condition, true, false = (self.operand(name) for name in operator.inputs)
        # Read twice, and a load stream moves on with every read.
        kept = Node(Op.MOV, false) if isinstance(false, Load) else false
        return Node(Op.ADD, Node(Op.MUL, Node(Op.SUB, true, kept), condition), kept)

    @_TRANSLATIONS.of("CAST")
    def _cast(self, operator: Operator) -> Value:
        value, target = self.operand(operator.inputs[0]), self.graph.tensors[operator.outputs[0]].dtype
        if target is DType.BOOL:
            return Node(Op.XOR, Node(Op.EQ, value, Immediate(0)), Immediate(1))
        if target.bits >= self._tensor(operator).dtype.bits or target is DType.INT32:
            # Read once, the loaded element is what the next micro-operation takes: loads extend.
            once = isinstance(value, Load) and self.uses(operator.outputs[0]) == 1
            return value if once else Node(Op.MOV, value)
        if operator.outputs[0] == self.result:
            # The store takes the low bits.
            return value if isinstance(value, Node) else Node(Op.MOV, value)
        return _narrowed(value, target)


def _doublings(node: Node) -> int | None:
    """How often a node doubles its operand, if that is all it does."""
    plain = node.op is Op.RESCALE and node.b is None and node.clamp is None and not node.out_zp
    if not plain or node.per_channel or node.average or node.bias or node.wrap32 or node.multiplier < 1:
        return None
    doubled = node.multiplier.bit_length() - 1 - node.shift
    return doubled if doubled >= 0 and node.multiplier == 1 << node.shift + doubled else None


def _narrowed(value: Value, dtype: DType) -> Value:
    """The low bits of a value that `dtype` keeps, sign-extended for whoever reads the register."""
    if dtype.bits >= 32:
        return value
    spare = Immediate(32 - dtype.bits)
    return Node(Op.ASR, Node(Op.LSL, value, spare, wrap32=True), spare)


def _single(op: Op) -> _Translation:
    """The translation of operators that are one micro-operation of two operands."""
    return lambda translator, operator: translator._binary(operator, op)


_TRANSLATIONS.of("ADD")(_single(Op.ADD))
_TRANSLATIONS.of("SUB")(_single(Op.SUB))
_TRANSLATIONS.of("MAXIMUM")(_single(Op.MAX))
_TRANSLATIONS.of("MINIMUM")(_single(Op.MIN))
_TRANSLATIONS.of("BITWISE_AND", "LOGICAL_AND")(_single(Op.AND))
_TRANSLATIONS.of("BITWISE_OR", "LOGICAL_OR")(_single(Op.OR))
_TRANSLATIONS.of("BITWISE_XOR", "LOGICAL_XOR")(_single(Op.XOR))
_TRANSLATIONS.of("EQUAL")(_single(Op.EQ))
_TRANSLATIONS.of("GREATER")(_single(Op.GT))
_TRANSLATIONS.of("GREATER_EQUAL")(_single(Op.GE))


def translated() -> frozenset[str]:
    """The operators that have a translation: those of the kind ELEMENTWISE."""
    return frozenset(_TRANSLATIONS)
