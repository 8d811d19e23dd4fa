"""How kernels are found, and the types in which they get their operands."""

import numpy as np
import pytest

from tosaic.compiler.ir import DType
from tosaic.errors import ModelError, UnsupportedError
from tosaic.sim.golden import evaluate_operator
from tosaic.sim.golden.kernels import float_kernel, kernel


@pytest.fixture(autouse=True)
def no_kernels(monkeypatch):
    """Leaves only the kernels that a test registers."""
    for name in ("_INTEGER_KERNELS", "_FLOAT_KERNELS"):
        monkeypatch.setattr(f"tosaic.sim.golden.kernels.{name}", {})


def compute(op, operand, out):
    return evaluate_operator(op, [operand], {}, [out])[0]


def test_float_kernels_compute_in_float64_and_round_once():
    """2^24 + 1 is no float32: it would be rounded, and then the result again."""
    seen = []

    @float_kernel("THIRD")
    def third(input1):
        seen.append(input1.dtype)
        return (input1 + 1) / 3

    given = np.array([1 << 24], np.float32)
    found = compute("THIRD", given, DType.FP32)
    assert seen == [np.float64] and found.dtype == np.float32
    assert found.tolist() == [np.float32(((1 << 24) + 1) / 3)]
    with pytest.raises(UnsupportedError, match="does not compute THIRD on integers"):
        compute("THIRD", np.array([3], np.int32), DType.INT32)


@pytest.mark.parametrize("any_type", [False, True])
def test_kernels_of_integers_get_what_there_is(any_type):
    """Floats only where elements are just moved or compared, and as they are."""
    seen = []

    @kernel("MIRROR", any_type=any_type)
    def mirror(input1):
        seen.append(input1.dtype)
        return input1[::-1]

    assert compute("MIRROR", np.array([1, 2], np.int8), DType.INT8).tolist() == [2, 1]
    floats = np.array([1, 2], np.float16)
    if any_type:
        assert compute("MIRROR", floats, DType.FP16).tolist() == [2, 1]
        assert seen == [np.int8, np.float16]
    else:
        with pytest.raises(UnsupportedError, match="does not compute MIRROR on floats"):
            compute("MIRROR", floats, DType.FP16)


def test_operands_and_attributes_are_counted():
    @kernel("ADDED")
    def added(input1, input2, input3=0, *, axis, times=1):
        return (input1 + input2 + input3 + axis) * times

    one = np.array([1], np.int32)

    def of(count, **attributes):
        return evaluate_operator("ADDED", [one] * count, attributes, [DType.INT32])[0].tolist()

    assert of(2, axis=5) == [7] and of(3, axis=5, times=2, nan_mode="PROPAGATE") == [16]
    for count in (1, 4):
        with pytest.raises(ModelError, match=f"ADDED takes 3 operands, not {count}"):
            of(count, axis=0)
    with pytest.raises(ModelError, match="ADDED lacks the attribute axis"):
        of(2, times=2)
