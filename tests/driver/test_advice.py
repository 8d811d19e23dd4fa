"""What messages on wrong arrays advise, followed on a trained network: its classes come out right."""

import pathlib
import re
import shutil

import numpy as np
import pytest

import tosaic
import tosaic.examples
from tosaic.compiler.ir import DType, GraphBuilder

DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits"
COUNT = 20
CODE = r"give ((?:x|np\.asarray|tosaic\.quantize)[^ ]*\(.*?\)(?:\[[^]]*\])?|x\[[^]]*\])"
"""Python in a message."""


@pytest.fixture(scope="module")
def digits():
    """Integers [60, 8, 8, 1] and pixels 0..1 of the same images; the classes that the network gives them."""
    with np.load(DIGITS / "images.npz") as images:
        integers = images["inputs"][:COUNT].reshape(-1, 8, 8, 1)
    session = tosaic.Session(DIGITS / "digits.tosa", "emulator")
    classes = session.run_batch({"image": integers[:, None]})["scores"].reshape(COUNT, -1).argmax(1)
    return integers, session.inputs[0].encoding.dequantize(integers), classes


def planes():
    """A session whose input is [1, 2, 3, 5], each size another, and gives it back."""
    build = GraphBuilder()
    build.output(build.add("IDENTITY", [build.input("x", (1, 2, 3, 5), DType.INT8)], output="y"))
    return tosaic.Session(build.finish(), "golden")


def followed(session, name, x):
    """The array after what messages advise, one after the other."""
    for _ in range(4):
        try:
            session.run({name: x})
        except tosaic.InputError as error:
            said = str(error)
            assert "\n" not in said and not re.search(r"reshape|crop|astype\(np\.int8\)", said)
            (code,) = re.findall(CODE, said)
            x = eval(code, {"x": x, "np": np, "tosaic": tosaic})
        else:
            return x
    raise AssertionError("four pieces of advice were not enough")


WRONG = {
    "planes first": lambda q, real: q.transpose(0, 3, 1, 2),
    "no batch": lambda q, real: q[0],
    "no channels": lambda q, real: q[..., 0],
    "neither": lambda q, real: q[0, ..., 0],
    "one axis more": lambda q, real: q[None],
    "reals": lambda q, real: real.astype(np.float32),
    "reals of double precision, planes first": lambda q, real: real.transpose(0, 3, 1, 2),
    "pixels": lambda q, real: np.rint(real * 255).astype(np.uint8),
    "pixels as floats": lambda q, real: np.rint(real * 255).astype(np.float32),
    "pixels, wide, without channels": lambda q, real: np.rint(real * 255).astype(np.int64)[0, ..., 0],
    "integers in 32 bits": lambda q, real: q.astype(np.int32),
    "integers in 64 bits, without a batch": lambda q, real: q.astype(np.int64)[0],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_followed_advice_gives_the_right_classes(digits, wrong):
    session = tosaic.Session(DIGITS / "digits.tosa", "emulator")
    integers, pixels, classes = digits
    found = []
    for q, real in zip(integers, pixels, strict=True):
        x = followed(session, "image", WRONG[wrong](q[None], real[None]))
        found.append(session.run({"image": x})["scores"].argmax())
    assert found == classes.tolist()


def test_channels_last_is_told_as_a_transposition():
    session = planes()
    x = np.arange(30, dtype=np.int8).reshape(1, 2, 3, 5)
    for axes in ((0, 2, 3, 1), (0, 3, 2, 1), (3, 2, 1, 0), (1, 0, 2, 3)):
        turned = x.transpose(axes)
        assert np.array_equal(session.run({"x": followed(session, "x", turned)})["y"], x)
    with pytest.raises(tosaic.InputError) as raised:
        session.run({"x": x.transpose(0, 2, 3, 1)})
    assert str(raised.value) == (
        "input 'x' has shape [1, 3, 5, 2], the model wants [1, 2, 3, 5]: its axes are in another order, give "
        "x.transpose(0, 3, 1, 2)"
    )


def test_of_several_permutations_the_layout_is_named():
    build = GraphBuilder()
    build.output(build.add("IDENTITY", [build.input("x", (1, 3, 8, 8), DType.INT8)], output="y"))
    session = tosaic.Session(build.finish(), "golden")
    for shape, wanted in (
        ((1, 8, 8, 3), "x.transpose(0, 3, 1, 2)"),
        ((8, 8, 3), "x.transpose(2, 0, 1)[None]"),
    ):
        with pytest.raises(tosaic.InputError, match=re.escape(f"give {wanted}") + "$"):
            session.run({"x": np.zeros(shape, np.int8)})


def test_another_size_is_not_talked_into_fitting():
    with pytest.raises(tosaic.InputError) as raised:
        planes().run({"x": np.zeros((1, 2, 4, 5), np.int8)})
    assert str(raised.value).endswith(
        "the model wants [1, 2, 3, 5]: prepare samples of this shape as for the training"
    )


def test_samples_that_lie_in_another_order_are_told_both(digits):
    integers, _, classes = digits
    session = tosaic.Session(DIGITS / "digits.tosa", "emulator")
    with pytest.raises(tosaic.InputError) as raised:
        session.run({"image": integers[:6].transpose(0, 3, 1, 2)})
    said = str(raised.value)
    assert (
        "give x.transpose(0, 2, 3, 1), which then holds 6 samples: give --batch 6, or in Python session.map("
        in said
    )
    code = re.search(r"session\.map\(.*\)$", said)[0]
    outputs = list(eval(code, {"session": session, "x": integers[:6]}))
    assert [each["scores"].argmax() for each in outputs] == classes[:6].tolist()


def test_a_model_whose_scales_nobody_told_asks_for_them(digits, tmp_path):
    shutil.copy(DIGITS / "digits.tosa", tmp_path / "net.tosa")
    session = tosaic.Session(tmp_path / "net.tosa", "emulator")
    with pytest.raises(
        tosaic.InputError, match=r"there is no \.quant\.json beside it\), give tosaic\.quantize\(reals"
    ):
        session.run({"image": np.zeros((1, 8, 8, 1), np.float32)})


def test_pixels_of_a_network_with_other_reals(tmp_path):
    """Reals of -2 to 2.6 are pixels that were normalized: nobody but the training knows how."""
    (tmp_path / "net.quant.json").write_text(
        '{"inputs": {"image": {"dtype": "int8", "scale": 0.018, "zero_point": -17}}, "outputs": {}}'
    )
    shutil.copy(DIGITS / "digits_tiny.tosa", tmp_path / "net.tosa")
    session = tosaic.Session(tmp_path / "net.tosa", "emulator")
    with pytest.raises(tosaic.InputError) as raised:
        session.run({"image": np.full((1, 8, 8, 1), 200, np.uint8)})
    assert str(raised.value).endswith(
        "its integers stand for -1.998 to 2.592, make of the pixels what the training made of them, and give "
        "tosaic.quantize(reals, 0.018, -17)"
    )


def test_data_in_another_order_is_told_by_evaluate(digits):
    integers, _, _ = digits
    with pytest.raises(tosaic.InputError) as raised:
        tosaic.evaluate(DIGITS / "digits.tosa", {"image": integers.transpose(0, 3, 1, 2)})
    assert str(raised.value).endswith("its axes are in another order, give x.transpose(0, 2, 3, 1)")
