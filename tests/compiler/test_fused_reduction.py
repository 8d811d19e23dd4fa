"""Elementwise operators with broadcast operands before and behind a reduction, in one layer."""

from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, decode

_LIMIT = 1 << 20


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_reduction_between_broadcasts(data):
    build = LayerBuilder(data.draw(st.integers(0, 99)))
    rank = data.draw(st.integers(1, 4))
    shape = [data.draw(st.integers(1, 7)) for _ in range(rank - 1)] + [data.draw(st.integers(1, 40))]

    def operand(full):
        some = tuple(size if data.draw(st.booleans()) else 1 for size in full)
        if data.draw(st.booleans()):
            return build.random_constant(some, DType.INT32, -_LIMIT, _LIMIT)
        return build.input(f"x{len(build.graph.inputs)}", some, DType.INT32)

    x = build.input("x", tuple(shape), DType.INT32)
    for _ in range(data.draw(st.integers(1, 2))):
        op = data.draw(st.sampled_from(["SUB", "BITWISE_XOR", "MAXIMUM"]))
        x = build.add(op, [x, operand(shape)], **({"nan_mode": "PROPAGATE"} if op == "MAXIMUM" else {}))
    for _ in range(data.draw(st.integers(1, 2))):
        axis = data.draw(st.integers(0, rank - 1))
        op = data.draw(st.sampled_from(["REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN"]))
        x = build.add(op, [x], axis=axis, **({} if op == "REDUCE_SUM" else {"nan_mode": "PROPAGATE"}))
        shape[axis] = 1
    if data.draw(st.booleans()):
        x = build.add("SUB", [x, operand(shape)])
    build.output(x)
    assert_equal_to_golden(build.finish(), data.draw(st.sampled_from(["small", "base"])))


def test_a_zero_point_costs_no_micro_operation():
    """CLAMP to all that int8 has, and RESCALE by 1: of each element only its zero point is subtracted."""
    build = LayerBuilder(3)
    x = build.clamp(build.input("x", (1, 49, 64), DType.INT8), -128, 127)
    inputs = [
        x,
        build.constant([1 << 30], DType.INT32),
        build.constant([30], DType.INT8),
        build.zero_point(DType.INT8, -17),
        build.zero_point(DType.INT32),
    ]
    attributes = dict(scale32=True, per_channel=False, input_unsigned=False, output_unsigned=False)
    wide = build.add("RESCALE", inputs, dtype=DType.INT32, rounding_mode="DOUBLE_ROUND", **attributes)
    build.output(build.add("REDUCE_SUM", [wide], axis=1))
    graph = build.finish()
    assert_equal_to_golden(graph, "base")
    program = compile_graph(graph, get_config("base"))
    raw = program.image[program.program_address :][: program.program_bytes]
    found = [decode(raw[start : start + 16]) for start in range(0, len(raw), 16)]
    goes = [i for i in found if i.opcode is Opcode.VECTOR_GO]
    assert {go.body_end - go.body_start for go in goes} == {1}


def test_what_makes_bytes_of_sums_stays_with_the_array():
    """A residual addition before a mean: the reduction takes the widening only."""
    build = LayerBuilder(3)
    x = build.input("x", (1, 8, 8, 16), DType.INT8)
    y = build.residual(build.rescale(build.conv(x, 16, (1, 1)), DType.INT8), x)
    inputs = [build.zero_point(DType.INT8, 5), build.zero_point(DType.INT8)]
    attributes = dict(kernel=[8, 8], stride=[1, 1], pad=[0, 0, 0, 0])
    build.output(build.add("AVG_POOL2D", [y, *inputs], acc_type=DType.INT32, **attributes))
    graph = build.finish()
    assert_equal_to_golden(graph, "base")
    layers = compile_graph(graph, get_config("base")).layers
    assert [layer.op for layer in layers] == ["CONV2D", "REDUCE_SUM"]
    assert len(layers[1].operators) == 4
