"""Elementwise operators with broadcast operands before and behind a reduction, in one layer."""

from emulation import assert_equal_to_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType

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
