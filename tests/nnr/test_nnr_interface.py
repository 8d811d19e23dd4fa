"""`decode_tensor` and `encode_tensor`: every parameter, its limits, and what they take for arrays and bytes."""

import inspect

import numpy as np
import pytest

from tosaic.nnr import (
    NnrError,
    NnrWarning,
    decode_tensor,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
)

LEVELS = np.array([[3, 0, -1], [0, 0, 200]])
PAYLOAD = encode_tensor(LEVELS)


def test_the_signatures() -> None:
    """Parameters after the first ones are keywords, with the values that the text infers."""
    decode, encode = inspect.signature(decode_tensor), inspect.signature(encode_tensor)
    assert {name: p.default for name, p in decode.parameters.items() if p.kind is p.KEYWORD_ONLY} == {
        "payload_type": "int32",
        "cabac_unary_length": 10,
        "qp_density": 2,
        "quantization_parameter": 0,
        "codebook": None,
        "codebook_zero_offset": 0,
        "limit_bytes": None,
    }
    assert {name: p.default for name, p in encode.parameters.items() if p.kind is p.KEYWORD_ONLY} == {
        "cabac_unary_length": 10,
        "dq": False,
    }


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda p: np.frombuffer(p, np.uint8)])
def test_payloads_of_every_kind_of_bytes(kind) -> None:
    found = decode_tensor(kind(PAYLOAD), (2, 3))
    assert (found.dtype, found.tolist()) == (np.int32, LEVELS.tolist())
    assert isinstance(encode_tensor(LEVELS), bytes)


@pytest.mark.parametrize("shape", [(2, 3), [2, 3], np.array([2, 3]), (np.int64(2), np.uint8(3))])
def test_shapes_of_every_kind(shape) -> None:
    assert decode_tensor(PAYLOAD, shape).tolist() == LEVELS.tolist()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4"])
def test_levels_of_every_integer_type(dtype: str) -> None:
    levels = np.array([1, 0, 120, 7], dtype)
    assert decode_tensor(encode_tensor(levels), (4,)).tolist() == [1, 0, 120, 7]
    assert encode_tensor(levels) == encode_tensor([1, 0, 120, 7])


def test_levels_in_any_memory_order() -> None:
    turned = np.asfortranarray(np.arange(24).reshape(2, 3, 4))
    assert encode_tensor(turned) == encode_tensor(np.arange(24))
    assert encode_tensor(turned[:, ::-1, ::2]) == encode_tensor(turned[:, ::-1, ::2].copy())


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 65535), (0, 2**40)])
@pytest.mark.parametrize("kind", ["int32", "float32", "cb_float32", "raw_float32"])
def test_empty_tensors(shape: tuple[int, ...], kind: str) -> None:
    empty = np.zeros(0, int)
    payload = {
        "int32": encode_tensor(empty),
        "float32": encode_float_tensor(empty, -5),
        "cb_float32": encode_codebook_tensor(empty),
        "raw_float32": b"",
    }[kind]
    found = decode_tensor(payload, shape, payload_type=kind, codebook=[])
    assert (found.shape, found.dtype) == (shape, np.int32 if kind == "int32" else np.float32)
    assert encode_tensor([]) == encode_tensor(empty)


@pytest.mark.parametrize("kind", ["int32", "float32", "cb_float32", "raw_float32"])
def test_scalars(kind: str) -> None:
    one = np.array(1)
    payload = {
        "int32": encode_tensor(one),
        "float32": encode_float_tensor(one, 0),
        "cb_float32": encode_codebook_tensor(one),
        "raw_float32": encode_raw_tensor(one),
    }[kind]
    found = decode_tensor(payload, (), payload_type=kind, codebook=[9.0, 1.0])
    assert (found.shape, float(found)) == ((), 1.0)


@pytest.mark.parametrize("shape", [(2**40,), (65535,) * 8, (2**62, 2**62), (1 << 33, 1)])
@pytest.mark.parametrize("kind", ["int32", "float32", "cb_float32", "raw_float32"])
def test_huge_shapes_cost_nothing(shape: tuple[int, ...], kind: str) -> None:
    with pytest.raises(NnrError, match="too short for|must have"):
        decode_tensor(PAYLOAD, shape, payload_type=kind, codebook=[0.0])


@pytest.mark.parametrize("kind", ["int32", "float32", "cb_float32", "raw_float32"])
@pytest.mark.parametrize("shape", [(1,) * 65, (1,) * 255, (65535,) * 10 + (0,), (0, 2**70)])
def test_shapes_that_numpy_does_not_have(shape: tuple[int, ...], kind: str) -> None:
    """The syntax allows 255 dimensions; NumPy has 64, and no sizes beside a 0 that no memory holds."""
    values = np.zeros(int(0 not in shape), int)
    payload = {
        "int32": lambda: encode_tensor(values),
        "float32": lambda: encode_float_tensor(values, 0),
        "cb_float32": lambda: encode_codebook_tensor(values),
        "raw_float32": lambda: encode_raw_tensor(values),
    }[kind]()
    with pytest.raises(NnrError, match=f"{len(shape)} tensor_dimensions are more than NumPy can shape"):
        decode_tensor(payload, shape, payload_type=kind, codebook=[0.0])


def test_a_count_that_lies_is_found_at_the_end_of_the_payload() -> None:
    """As many levels as the bound allows: memory that is never written is never taken."""
    payload = encode_tensor(np.zeros(400_000, int)) + bytes(3000)
    with pytest.raises(NnrError):
        decode_tensor(payload, (128 * 8 * len(payload),))


@pytest.mark.parametrize("length", [0, 1, 10, 254, 255])
def test_unary_lengths(length: int) -> None:
    payload = encode_tensor(LEVELS, cabac_unary_length=length)
    assert decode_tensor(payload, (2, 3), cabac_unary_length=length).tolist() == LEVELS.tolist()


@pytest.mark.parametrize(
    ("qp", "parameter"),
    [(0, 0), (-128, 0), (127, 0), (-100, -4096 + 28), (9, -40), (0, 100), (4000, 4095 - 20)],
)
def test_negative_and_positive_quantization_parameters(qp: int, parameter: int) -> None:
    """The sum of the decoded qp and quantization_parameter is what counts."""
    coded_qp = qp if parameter == 0 else max(-128, min(127, qp))
    payload = encode_float_tensor(np.array([1, -2, 0]), coded_qp)
    total = coded_qp + parameter
    with np.errstate(over="ignore", under="ignore"):
        step = np.ldexp(float(4 + total % 4), total // 4 - 2)
        exact = np.array([step, -2 * step, 0.0])
        expected = exact.astype(np.float32)
    if np.array_equal(expected, exact) and 0 < step < np.inf:
        found = decode_tensor(payload, (3,), payload_type="float32", quantization_parameter=parameter)
    else:
        with pytest.warns(NnrWarning, match="rounded to float32"):
            found = decode_tensor(payload, (3,), payload_type="float32", quantization_parameter=parameter)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)


def test_codebooks_of_every_kind() -> None:
    payload = encode_codebook_tensor(np.array([2, 0, 1]), codebook_zero_offset=1)
    for book in (
        [0.1, 0.0, -7],
        (0.1, 0.0, -7.0),
        np.array([0.1, 0.0, -7.0]),
        np.array([0.1, 0, -7], np.float32),
    ):
        found = decode_tensor(payload, (3,), payload_type="cb_float32", codebook=book, codebook_zero_offset=1)
        assert found.tolist() == [-7.0, float(np.float32(0.1)), 0.0]
    many = np.arange(65535, dtype=np.float32)
    far = encode_codebook_tensor(np.array([0, 65534, 255]), codebook_zero_offset=255)
    found = decode_tensor(far, (3,), payload_type="cb_float32", codebook=many, codebook_zero_offset=255)
    assert found.tolist() == [0.0, 65534.0, 255.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"payload_type": "int8"}, "'int8' is not one of int32, float32, cb_float32, raw_float32"),
        ({"cabac_unary_length": 256}, "cabac_unary_length must be 0..255, not 256"),
        ({"cabac_unary_length": -1}, "cabac_unary_length must be 0..255, not -1"),
        ({"payload_type": "float32", "qp_density": 8}, "qp_density must be 0..7, not 8"),
        ({"payload_type": "float32", "qp_density": -1}, "qp_density must be 0..7, not -1"),
        ({"payload_type": "float32", "quantization_parameter": 4096}, "-4096..4095, not 4096"),
        ({"payload_type": "float32", "quantization_parameter": -4097}, "-4096..4095, not -4097"),
        ({"payload_type": "cb_float32"}, "needs its codebook"),
        ({"payload_type": "cb_float32", "codebook": [0.0], "codebook_zero_offset": 256}, "0..255, not 256"),
        ({"payload_type": "cb_float32", "codebook": [0.0], "codebook_zero_offset": -1}, "0..255, not -1"),
        ({"payload_type": "cb_float32", "codebook": np.zeros(65536)}, "0..65535, not 65536"),
    ],
)
def test_parameters_outside_their_syntax_elements(arguments: dict, message: str) -> None:
    with pytest.raises(NnrError, match=message):
        decode_tensor(PAYLOAD, (2, 3), **arguments)


def test_values_that_are_no_levels() -> None:
    for values in (np.array([0.5]), np.array([1 + 0j]), np.array([True]), np.array(["a"])):
        with pytest.raises(NnrError, match="must be integers"):
            encode_tensor(values)
    for level in (2**31, -(2**31) - 1, 2**63):
        with pytest.raises(NnrError, match="must fit int32"):
            encode_tensor(np.array([level]))
    with pytest.raises(NnrError, match="cannot reach"):
        encode_tensor(np.array([1]), dq=True)
    assert decode_tensor(encode_tensor(np.array([-(2**31)]), dq=True), (1,)).tolist() == [-(2**31)]
