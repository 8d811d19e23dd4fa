"""What scripts for onnxruntime do with a session, and one array, and several samples."""

import pathlib
import pydoc

import numpy as np
import pytest

import tosaic
import tosaic.examples
from tosaic.compiler.ir import DType, GraphBuilder

DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits"


@pytest.fixture
def session():
    return tosaic.Session(DIGITS / "digits_tiny.tosa", "emulator")


@pytest.fixture(scope="module")
def images():
    with np.load(DIGITS / "images.npz") as data:
        return data["inputs"][:5].reshape(-1, 8, 8, 1)


def two_inputs():
    """y = a + b, in int32."""
    build = GraphBuilder()
    a, b = build.input("a", (1, 4), DType.INT32), build.input("b", (1, 4), DType.INT32)
    build.output(build.add("ADD", [a, b], output="y"))
    return tosaic.Session(build.finish(), "golden")


def test_names_and_feed_give_a_list(session, images):
    wanted = session.run({"image": images[:1]})["scores"]
    for names in (None, [], ["scores"]):
        (scores,) = session.run(names, {"image": images[:1]})
        assert np.array_equal(scores, wanted)
    (scores,) = session.run(None, input_feed={"image": images[:1]})
    assert np.array_equal(scores, wanted)


def test_the_array_of_a_single_input(session, images):
    assert np.array_equal(session.run(images[:1])["scores"], session.run({"image": images[:1]})["scores"])


def test_inputs_and_outputs_as_onnxruntime_tells_them(session):
    (image,), (scores,) = session.get_inputs(), session.get_outputs()
    assert (image.name, image.shape, image.type) == ("image", [1, 8, 8, 1], "tensor(int8)")
    assert (scores.name, scores.shape, scores.type) == ("scores", [1, 10], "tensor(int8)")


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_samples_run_one_after_the_other(images, target):
    session = tosaic.Session(DIGITS / "digits_tiny.tosa", target)
    one_by_one = np.concatenate([session.run(image[None])["scores"] for image in images])
    assert one_by_one.shape == (5, 10)
    assert np.array_equal(session.run({"image": images}, check=True)["scores"], one_by_one)
    assert np.array_equal(session.run(None, {"image": images})[0], one_by_one)


def test_samples_of_two_inputs_are_equally_many():
    session, a = two_inputs(), np.arange(12, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(session.run({"a": a, "b": 2 * a})["y"], 3 * a)
    with pytest.raises(tosaic.InputError, match="it holds 3 samples"):
        session.run({"a": a, "b": a[:1]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, {"image": 0, "x": 1}), "the model has no input 'x'; it has 'image'"),
        ((["score"], {"image": 0}), "the model has no output 'score'; it has 'scores'"),
        (
            ("scores", {"image": 0}),
            "with two arguments the first is a list of outputs' names, or None for all of them",
        ),
        (({1, 2},), "inputs are a mapping of arrays by name, or an array, not set"),
    ],
)
def test_what_is_refused(session, images, arguments, message):
    filled = [{k: images[:1] for k in each} if isinstance(each, dict) else each for each in arguments]
    with pytest.raises(tosaic.InputError) as raised:
        session.run(*filled)
    assert str(raised.value) == message


def test_an_array_alone_is_not_enough_for_two_inputs():
    with pytest.raises(tosaic.InputError, match="the inputs are 'a', 'b': give a mapping"):
        two_inputs().run(np.zeros((1, 4), np.int32))


def test_a_check_that_there_is_not(session, images):
    with pytest.raises(tosaic.InputError, match="there is no check 'onnx'; use True or 'golden', 'source'"):
        session.run(images[:1], check="onnx")


def test_a_function_is_a_network_to_compare_with(images):
    """The integers' own golden, as a function of reals: equal; twice as much: a mismatch."""
    own = tosaic.Session(DIGITS / "digits_tiny.tosa", "golden")
    source, result = own.inputs[0].encoding, own.outputs[0].encoding

    def network(sample, factor=1):
        return {"scores": factor * result.dequantize(own.run(source.quantize(sample["image"]))["scores"])}

    pixels = source.dequantize(images[:1])
    session = tosaic.Session(DIGITS / "digits_tiny.tosa", "emulator", source=network)
    session.run(pixels, check="source")
    (figures,) = session.stats["source"]["outputs"]
    assert (figures["sqnr_db"], figures["largest_steps"], figures["elements"]) == ("exact", 0, 10)
    assert session.stats["bit_exact"] is None
    session.run(images, check=("golden", "source"))
    assert (session.stats["bit_exact"], session.stats["source"]["samples"]) == (True, 5)
    session = tosaic.Session(
        DIGITS / "digits_tiny.tosa", "emulator", source=lambda sample: network(sample, 2)
    )
    with pytest.raises(
        tosaic.MismatchError, match="SQNR 6.0 dB.* wanted are 20.0 dB, the least where nothing was"
    ):
        session.run(pixels, check="source")


def test_names_that_were_meant():
    with pytest.raises(tosaic.InputError, match="no target 'emulater'; did you mean emulator. .*virtual://"):
        tosaic.Session(DIGITS / "digits_tiny.tosa", "emulater")
    with pytest.raises(tosaic.InputError, match="no transport 'serail'; did you mean serial. "):
        tosaic.Session(DIGITS / "digits_tiny.tosa", "serail:///dev/ttyUSB1")
    for text, field in (
        ("base,row=8", "rows"),
        ("base,columms=8", "columns"),
        ("base,am_byte=8", "am_bytes"),
    ):
        with pytest.raises(tosaic.InputError, match=f"; did you mean {field}. its fields are rows, "):
            tosaic.Session(DIGITS / "digits_tiny.tosa", "emulator", text)
    with pytest.raises(tosaic.InputError, match="no virtual board 'ulx3s-85'; did you mean ulx3s-85f. "):
        tosaic.Session(DIGITS / "digits_tiny.tosa", "virtual://ulx3s-85")


def test_help_and_dir_tell_what_is_public():
    text = pydoc.render_doc(tosaic.Session)
    assert all(f"{name}:" in text for name in ("target", "config", "batch", "compress", "source", "shapes"))
    assert not [name for name in dir(tosaic) if name.startswith("_") and name != "__version__"]
    assert {"Session", "from_torch", "quantize", "nnr"} <= set(dir(tosaic))
    assert not {"Any", "TYPE_CHECKING", "importlib"} & set(dir(tosaic))
