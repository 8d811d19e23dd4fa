"""Elementwise operators as micro-operations: which ones, and what of other operators they take in."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.expression import ArrayResult, Immediate, Load, Node, Value
from tosaic.compiler.fuse.fold import constant_scalar
from tosaic.compiler.fuse.translate import PerChannel, RunTimeScales, Translator
from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.machine import ELEMENT
from tosaic.errors import UnsupportedError
from tosaic.hw.isa import Op

I8, I16, I32, I48, BOOL = DType.INT8, DType.INT16, DType.INT32, DType.INT48, DType.BOOL
SHAPE = (1, 2, 6)


def shown(value: Value) -> str:
    """An expression as a text: a node by its operation, operands and fields that are not as usual."""
    if isinstance(value, Load):
        return f"{value.tensor}:{value.element.name}"
    if isinstance(value, Immediate):
        return str(value.value)
    if not isinstance(value, Node):
        return type(value).__name__
    usual = Node(value.op, value.a)
    names = [field.name for field in dataclasses.fields(Node)]
    fields = {name: getattr(value, name) for name in names if name not in ("op", "a", "b", "layer_tensor")}
    parts = [shown(each) for each in (value.a, value.b) if each is not None]
    parts += [
        name if each is True else f"{name}={each}"
        for name, each in fields.items()
        if each != getattr(usual, name)
    ]
    return f"{value.op.name}({', '.join(parts)})"


class Layer:
    """Operators that are translated one after the other, each from what those before have left."""

    def __init__(self, *, uses: int = 1, has_array: bool = False):
        self.build = LayerBuilder(1)
        self.values: dict[str, Value] = {}
        self.translator = Translator(
            self.build.graph, self._operand, lambda name: uses, "nobody's", has_array=has_array
        )

    def _operand(self, name: str) -> Value:
        if name in self.values:
            return self.values[name]
        scalar = constant_scalar(self.build.graph, name)
        return (
            Load(name, ELEMENT[self.build.graph.tensors[name].dtype]) if scalar is None else Immediate(scalar)
        )

    def inputs(self, *dtypes: DType) -> list[str]:
        return [self.build.input(name, SHAPE, dtype) for name, dtype in zip("abc", dtypes, strict=False)]

    def operator(self, output: str) -> Operator:
        found = self.build.graph.producer(output)
        assert found is not None
        return found

    def translated(self, output: str, *, stored: bool = False) -> str:
        if stored:
            self.translator.result = output
        value = self.values[output] = self.translator.translate(self.operator(output))
        assert not isinstance(value, Node) or value.layer_tensor == output
        return shown(value)


def of(op: str, *dtypes: DType, stored: bool = False, uses: int = 1, **attributes: object) -> str:
    """One operator of inputs alone."""
    layer = Layer(uses=uses)
    return layer.translated(layer.build.add(op, layer.inputs(*dtypes), **attributes), stored=stored)


@pytest.mark.parametrize(
    "op, dtypes, attributes, wanted",
    [
        ("ADD", (I32, I32), {}, "ADD(a:INT32, b:INT32, wrap32)"),
        ("SUB", (I32, I32), {}, "SUB(a:INT32, b:INT32, wrap32)"),
        ("MAXIMUM", (I32, I32), {}, "MAX(a:INT32, b:INT32)"),
        ("MINIMUM", (I32, I32), {}, "MIN(a:INT32, b:INT32)"),
        ("BITWISE_AND", (I8, I8), {}, "AND(a:INT8, b:INT8)"),
        ("BITWISE_OR", (I16, I16), {}, "OR(a:INT16, b:INT16)"),
        ("BITWISE_XOR", (I32, I32), {}, "XOR(a:INT32, b:INT32)"),
        ("BITWISE_NOT", (I32,), {}, "XOR(a:INT32, -1)"),
        ("LOGICAL_AND", (BOOL, BOOL), {}, "AND(a:UINT8, b:UINT8)"),
        ("LOGICAL_OR", (BOOL, BOOL), {}, "OR(a:UINT8, b:UINT8)"),
        ("LOGICAL_XOR", (BOOL, BOOL), {}, "XOR(a:UINT8, b:UINT8)"),
        ("LOGICAL_NOT", (BOOL,), {}, "XOR(a:UINT8, 1)"),
        ("EQUAL", (I32, I32), {}, "EQ(a:INT32, b:INT32)"),
        ("GREATER", (I32, I32), {}, "GT(a:INT32, b:INT32)"),
        ("GREATER_EQUAL", (I32, I32), {}, "GE(a:INT32, b:INT32)"),
        ("ABS", (I32,), {}, "ABS(a:INT32, wrap32)"),
        ("CLZ", (I32,), {}, "CLZ(a:INT32)"),
        ("ARITHMETIC_RIGHT_SHIFT", (I32, I32), dict(round=True), "ASR(a:INT32, b:INT32, round)"),
        ("ARITHMETIC_RIGHT_SHIFT", (I8, I8), dict(round=False), "ASR(a:INT8, b:INT8)"),
        ("LOGICAL_LEFT_SHIFT", (I32, I32), {}, "LSL(a:INT32, b:INT32, wrap32)"),
        (
            *("LOGICAL_LEFT_SHIFT", (I16, I16), {}),
            "ASR(LSL(LSL(a:INT16, b:INT16, wrap32), 16, wrap32), 16)",
        ),
        ("LOGICAL_RIGHT_SHIFT", (I32, I32), {}, "LSR(a:INT32, b:INT32, wrap32)"),
        (
            *("LOGICAL_RIGHT_SHIFT", (I8, I8), {}),
            "ASR(LSL(LSR(AND(a:INT8, 255), b:INT8, wrap32), 24, wrap32), 24)",
        ),
        # The value that is taken where the condition is 0 is read twice.
        (
            *("SELECT", (BOOL, I32, I32), {}),
            "ADD(MUL(SUB(b:INT32, MOV(c:INT32)), a:UINT8), MOV(c:INT32))",
        ),
        (
            "CLAMP",
            (I8,),
            dict(min_val=-100, max_val=127, nan_mode="PROPAGATE"),
            "MOV(a:INT8, clamp=(-100, 127))",
        ),
        (
            "CLAMP",
            (I8,),
            dict(min_val=-128, max_val=126, nan_mode="PROPAGATE"),
            "MOV(a:INT8, clamp=(-128, 126))",
        ),
        ("CLAMP", (I8,), dict(min_val=-128, max_val=127, nan_mode="PROPAGATE"), "a:INT8"),
        ("CAST", (I32,), dict(dtype=BOOL), "XOR(EQ(a:INT32, 0), 1)"),
        ("CAST", (I8,), dict(dtype=I16), "a:INT8"),
        ("CAST", (I8,), dict(dtype=I32), "a:INT8"),
        ("CAST", (I48,), dict(dtype=I32), "a:INT48"),
        ("CAST", (I16,), dict(dtype=I8), "ASR(LSL(a:INT16, 24, wrap32), 24)"),
        ("CAST", (I32,), dict(dtype=I16), "ASR(LSL(a:INT32, 16, wrap32), 16)"),
    ],
)
def test_an_operator(op: str, dtypes: tuple[DType, ...], attributes: dict, wanted: str) -> None:
    assert of(op, *dtypes, **attributes) == wanted


def test_a_cast_that_is_read_twice_or_stored() -> None:
    assert of("CAST", I8, dtype=I32, uses=2) == "MOV(a:INT8)"
    assert of("CAST", I32, dtype=I8, stored=True) == "MOV(a:INT32)"
    layer = Layer()
    total = layer.build.add("ADD", layer.inputs(I32, I32))
    layer.translated(total)
    narrow = layer.build.add("CAST", [total], dtype=I8)
    assert layer.translated(narrow, stored=True) == "ADD(a:INT32, b:INT32, wrap32)"


@pytest.mark.parametrize("op, wanted", [("MAXIMUM", "(5, 2147483647)"), ("MINIMUM", "(-2147483648, 5)")])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_constant_bound(op: str, wanted: str, swapped: bool) -> None:
    layer = Layer()
    operands = [*layer.inputs(I32), layer.build.constant(np.full((1, 1, 1), 5), I32)]
    output = layer.build.add(op, operands[::-1] if swapped else operands)
    assert layer.translated(output) == f"MOV(a:INT32, clamp={wanted})"


@pytest.mark.parametrize("dtype, wanted", [(I32, ", wrap32"), (I8, ", clamp=(-128, 127), a_zp=3, out_zp=-7")])
def test_negate(dtype: DType, wanted: str) -> None:
    layer = Layer()
    zeros = [layer.build.zero_point(dtype, value if dtype is I8 else 0) for value in (3, -7)]
    assert layer.translated(layer.build.add("NEGATE", [*layer.inputs(dtype), *zeros])) == (
        f"MUL(a:{dtype.name}, -1{wanted})"
    )


@pytest.mark.parametrize("dtype, wanted", [(I8, "TABLE8(a:INT8)"), (I16, "TABLE16(a:INT16)")])
def test_a_table(dtype: DType, wanted: str) -> None:
    layer = Layer()
    count, values = (256, I8) if dtype is I8 else (513, I16)
    table = layer.build.constant(np.arange(count) % 100, values)
    outputs = [layer.build.add("TABLE", [name, table]) for name in layer.inputs(dtype, dtype)]
    assert layer.translated(outputs[0]) == wanted
    assert layer.translator.table == table
    with pytest.raises(UnsupportedError, match="a second TABLE in one layer$"):
        layer.translated(outputs[1])


# --- products


def product(dtypes: tuple[DType, DType], factor: int | None, shift: int = 0, *, swapped: bool = False) -> str:
    layer = Layer()
    operands = layer.inputs(*dtypes)
    if factor is not None:
        operands[1] = layer.build.constant(np.full((1, 1, 1), factor), dtypes[1])
    amount = layer.build.constant(np.array([shift]), I8)
    output = layer.build.add("MUL", [*(operands[::-1] if swapped else operands), amount], dtype=dtypes[0])
    layer.build.graph.tensors[output].dtype = I48 if I48 in dtypes else I32
    return layer.translated(output)


@pytest.mark.parametrize(
    "dtypes, factor, shift, wanted",
    [
        ((I8, I8), None, 0, "MUL(a:INT8, b:INT8, wrap32)"),
        ((I32, I32), None, 9, "MUL(a:INT32, b:INT32, wrap32, shift=9)"),
        ((I32, I32), 7, 9, "RESCALE(a:INT32, wrap32, shift=9, multiplier=7)"),
        ((I48, I32), None, 0, "MUL(a:INT48, b:INT32)"),
        ((I48, I32), 7, 0, "RESCALE(a:INT48, multiplier=7)"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_product(
    dtypes: tuple[DType, DType], factor: int | None, shift: int, wanted: str, swapped: bool
) -> None:
    """A is the operand of 48 bits, and a constant becomes a multiplier, wherever they stand."""
    if swapped and factor is None and I48 not in dtypes:
        wanted = wanted.replace("a:", "x:").replace("b:", "a:").replace("x:", "b:")
    assert product(dtypes, factor, shift, swapped=swapped) == wanted


# --- sums


def scaled(layer: Layer, name: str, dtype: DType = I32, **options: int) -> str:
    """A RESCALE by 5 / 4, behind which something may be added."""
    zeros = options.pop("input_zp", 0), options.pop("output_zp", 0)
    build = layer.build
    how = dict(scale32=True, per_channel=False, input_unsigned=False, output_unsigned=False) | options
    operands = [
        build.constant([5], I32),
        build.constant([2], I8),
        build.zero_point(build.graph.tensors[name].dtype, zeros[0]),
        build.zero_point(dtype, zeros[1]),
    ]
    rounding = "DOUBLE_ROUND" if how.pop("double", False) else "SINGLE_ROUND"
    return build.add("RESCALE", [name, *operands], dtype=dtype, rounding_mode=rounding, **how)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    "dtype, options, uses, joins",
    [
        (I32, {}, 1, True),
        (I32, dict(input_zp=3), 1, True),
        (I32, {}, 2, False),
        (I8, {}, 1, False),
    ],
)
def test_a_sum_with_a_scaled_operand(
    dtype: DType, options: dict, uses: int, joins: bool, swapped: bool
) -> None:
    """It is that RESCALE's B, unless somebody else reads what is scaled, or it is limited before."""
    layer = Layer(uses=uses)
    source = I8 if "input_zp" in options else I32
    a, b = layer.inputs(source, I32)
    small = scaled(layer, a, dtype, **options)
    before = layer.translated(small)
    layer.build.graph.tensors[small].dtype = I32
    found = layer.translated(layer.build.add("ADD", [b, small] if swapped else [small, b]))
    if joins:
        assert found == before.replace(f"a:{source.name}", f"a:{source.name}, b:INT32, wrap32")
    else:
        assert found == (f"ADD(b:INT32, {before}, wrap32)" if swapped else f"ADD({before}, b:INT32, wrap32)")


def test_a_rescale_takes_one_sum_in() -> None:
    """The first operand that can takes the other one."""
    layer = Layer()
    a, b = layer.inputs(I32, I32)
    scales = [scaled(layer, name) for name in (a, b)]
    for each in scales:
        layer.translated(each)
    total = layer.build.add("ADD", scales)
    inner = "RESCALE(b:INT32, shift=2, multiplier=5)"
    joined = f"RESCALE(a:INT32, {inner}, wrap32, shift=2, multiplier=5)"
    assert layer.translated(total) == joined
    assert layer.translated(layer.build.add("ADD", [total, a])) == f"ADD({joined}, a:INT32, wrap32)"


def test_a_value_is_not_added_to_itself_inside_itself() -> None:
    layer = Layer()
    small = scaled(layer, layer.inputs(I32)[0])
    one = layer.translated(small)
    assert layer.translated(layer.build.add("ADD", [small, small])) == f"ADD({one}, {one}, wrap32)"


# --- scales


@pytest.mark.parametrize(
    "source, target, options, wanted",
    [
        (I8, I32, dict(input_zp=3), "RESCALE(a:INT8, shift=2, a_zp=3, multiplier=5)"),
        (
            I32,
            I8,
            dict(output_zp=-7),
            "RESCALE(a:INT32, clamp=(-128, 127), shift=2, out_zp=-7, multiplier=5)",
        ),
        (
            I32,
            I16,
            dict(double=True),
            "RESCALE(a:INT32, round, clamp=(-32768, 32767), shift=2, multiplier=5)",
        ),
        (
            *(I8, I32, dict(input_zp=-3, input_unsigned=True)),
            "RESCALE(a:UINT8, shift=2, a_zp=253, multiplier=5)",
        ),
        (
            *(I16, I8, dict(input_unsigned=True, output_unsigned=True, output_zp=-1)),
            "RESCALE(a:UINT16, clamp=(0, 255), shift=2, out_zp=255, multiplier=5)",
        ),
        (
            *(I32, I16, dict(output_unsigned=True)),
            "RESCALE(a:INT32, clamp=(0, 65535), shift=2, multiplier=5)",
        ),
    ],
)
def test_a_scale(source: DType, target: DType, options: dict, wanted: str) -> None:
    layer = Layer()
    assert layer.translated(scaled(layer, layer.inputs(source)[0], target, **options)) == wanted


def idle(layer: Layer, name: str, multiplier: int = 1 << 3, **options: int) -> str:
    """A RESCALE to int8 by `multiplier` / 8."""
    output = scaled(layer, name, I8, **options)
    operator = layer.operator(output)
    operator.inputs[1] = layer.build.constant([multiplier], I32)
    operator.inputs[2] = layer.build.constant([3], I8)
    return output


@pytest.mark.parametrize("before", ["ABS", "CAST", None])
def test_a_scale_of_1_is_bounds_of_what_makes_its_operand(before: str | None) -> None:
    layer = Layer()
    (name,) = layer.inputs(I32)
    if before is not None:
        name = layer.build.add(before, [name], **(dict(dtype=I32) if before == "CAST" else {}))
        layer.values[name] = Node(Op.ABS if before == "ABS" else Op.MOV, Load("a", ELEMENT[I8]))
    found = layer.translated(idle(layer, name, input_zp=0, output_zp=-7))
    assert (
        found
        == {
            "ABS": "ABS(a:INT8, clamp=(-128, 127), out_zp=-7)",
            "CAST": "RESCALE(MOV(a:INT8), clamp=(-128, 127), shift=3, out_zp=-7, multiplier=8)",
            None: "RESCALE(a:INT32, clamp=(-128, 127), shift=3, out_zp=-7, multiplier=8)",
        }[before]
    )


def test_zero_points_of_a_scale_of_1_are_one() -> None:
    layer = Layer()
    name = layer.build.add("ADD", layer.inputs(I32, I32))
    layer.values[name] = Node(Op.MAX, Load("a", ELEMENT[I8]), Load("b", ELEMENT[I8]))
    layer.build.graph.tensors[name].dtype = I8
    wanted = "MAX(a:INT8, b:INT8, clamp=(-128, 127), out_zp=-10)"
    assert layer.translated(idle(layer, name, input_zp=3, output_zp=-7)) == wanted


@pytest.mark.parametrize("changed", [dict(multiplier=9), dict(output_unsigned=True)])
def test_other_scales_stay(changed: dict) -> None:
    layer = Layer()
    name = layer.build.add("ABS", layer.inputs(I32))
    layer.translated(name)
    assert layer.translated(idle(layer, name, **changed)).startswith("RESCALE(ABS(a:INT32, wrap32)")


def test_scales_of_channels() -> None:
    """Equal scales become one for all channels; others belong to the layer, which has them once."""
    layer = Layer()
    for name, multipliers, shifts in (("a", [5] * 6, [2] * 6), ("b", [5] * 6, [2] * 5 + [3])):
        output = scaled(layer, layer.build.input(name, SHAPE, I32))
        operator = layer.operator(output)
        operator.attributes["per_channel"] = True
        operator.inputs[1:3] = [layer.build.constant(multipliers, I32), layer.build.constant(shifts, I8)]
        wanted = "shift=2, multiplier=5" if name == "a" else "per_channel"
        equal = f"RESCALE({name}:INT32, {wanted})"
        assert layer.translated(output) == equal
    scales = layer.translator.per_channel
    assert isinstance(scales, PerChannel)
    assert (scales.multipliers.tolist(), scales.shifts.tolist()) == ([5] * 6, [2] * 5 + [3])
    twice = scales.repeated(2)
    assert (twice.multipliers.tolist(), twice.shifts.tolist()) == ([5] * 12, 2 * ([2] * 5 + [3]))
    with pytest.raises(UnsupportedError, match="a second per-channel RESCALE in one layer$"):
        layer.translated(output)


@pytest.mark.parametrize("place", [1, 2])
def test_scales_that_are_computed_at_run_time(place: int) -> None:
    layer = Layer()
    output = scaled(layer, layer.inputs(I32)[0], I8)
    operator = layer.operator(output)
    operator.inputs[place] = layer.build.input("scale", (6,), I32 if place == 1 else I8)
    assert layer.translated(output) == "RESCALE(a:INT32, per_channel, clamp=(-128, 127))"
    assert layer.translator.per_channel == RunTimeScales(*operator.inputs[1:3])


# --- what leaves the array


@pytest.mark.parametrize(
    "uses, clamp, wanted",
    [
        (1, None, "RESCALE(ArrayResult, bias, shift=2, multiplier=5)"),
        (2, None, "RESCALE(MOV(ArrayResult, bias), shift=2, multiplier=5)"),
        (1, (0, 9), "RESCALE(MOV(ArrayResult, bias, clamp=(0, 9)), shift=2, multiplier=5)"),
    ],
)
def test_sums_come_into_the_rescale_that_alone_reads_them(
    uses: int, clamp: tuple[int, int] | None, wanted: str
) -> None:
    layer = Layer(uses=uses)
    (name,) = layer.inputs(I32)
    layer.values[name] = Node(Op.MOV, ArrayResult(), bias=True, clamp=clamp)
    assert layer.translated(scaled(layer, name)) == wanted


def line(layer: Layer, shape: tuple[int, ...]) -> str:
    return layer.build.constant(np.arange(np.prod(shape)).reshape(shape), I32)


def sum_with(make: Callable[[Layer], str], *, per_channel: bool = True, **options: bool) -> Layer:
    """A layer that adds a constant to what goes by channels."""
    layer = Layer(**options)
    if per_channel:
        layer.translator.per_channel = PerChannel(np.zeros(6), np.zeros(6))
    layer.translated(layer.build.add("ADD", [*layer.inputs(I32), make(layer)]))
    return layer


@pytest.mark.parametrize("shape, is_bias", [((1, 1, 6), True), ((1, 2, 6), False), ((1, 2, 1), False)])
def test_a_line_that_is_added_is_the_lanes_bias(shape: tuple[int, ...], is_bias: bool) -> None:
    layer = sum_with(lambda layer: line(layer, shape))
    if not is_bias:
        assert layer.translator.bias is None
        return
    assert layer.translator.bias is not None and layer.translator.bias.tolist() == list(range(6))
    assert [shown(value) for value in layer.values.values()] == ["MOV(a:INT32, bias, wrap32)"]
    # They are taken.
    again = layer.build.add("ADD", ["a", line(layer, (1, 1, 6))])
    assert layer.translated(again).startswith("ADD(a:INT32, ")


def test_biases_that_the_lanes_do_not_have() -> None:
    """The layer has no parameters of channels, or the array's are there."""
    for found in (
        sum_with(lambda layer: line(layer, (1, 1, 6)), per_channel=False),
        sum_with(lambda layer: line(layer, (1, 1, 6)), has_array=True),
        sum_with(lambda layer: layer.build.input("b", (1, 1, 6), I32)),
        sum_with(lambda layer: layer.build.constant(np.full((1, 1, 1), 4), I32)),
    ):
        assert found.translator.bias is None


def test_a_line_is_found_on_either_side() -> None:
    layer = Layer()
    layer.translator.per_channel = PerChannel(np.zeros(6), np.zeros(6))
    output = layer.build.add("ADD", [line(layer, (1, 1, 6)), *layer.inputs(I32)])
    assert layer.translated(output) == "MOV(a:INT32, bias, wrap32)"
