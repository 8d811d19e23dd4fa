"""Streams of the published editions: made by nncodec 2.1.3 (published_streams.json), read here."""

import json
import pathlib
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from tosaic import nnr
from tosaic.cli.app import app
from tosaic.nnr import NnrError, NnrWarning, levels
from tosaic.nnr.bits import BitReader
from tosaic.nnr.cabac_tables import ENTRIES_OF_CONTEXT, MIDDLE, draft_contexts
from tosaic.nnr.published_payload import PARAMETERS, decode_published
from tosaic.nnr.published_reader import exp_golomb
from tosaic.nnr.published_writer import published
from tosaic.nnr.units import PublishedDataUnit

STREAMS = json.loads((pathlib.Path(__file__).parent / "published_streams.json").read_text())
# NNR_STR, NNR_MPS and NNR_TPL, which are the same in every file, and the unit of float32[2, 3] of zeros, called `ab`.
FRONT = bytes.fromhex("00040201 0008068100400080 00060e000000".replace(" ", ""))
ZEROS = bytes.fromhex("00141609616200d041c120a0c2a080dfb4400414")
WRITTEN = (
    "00040201000806810040008000060e000000001b16097700d041c120e100e080f74e8000"
    "2420821c2c24f1d340001416016900d0c18706078d0033c1180b29e6bc"
)
TYPE_BYTE, NODE_BYTE, TYPES_BYTE, SCAN_BYTE = 3, 7, 9, 12


def values_of(stream: dict) -> np.ndarray:
    return np.array(stream["values"], stream["dtype"]).reshape(stream["shape"])


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream["name"])
def test_streams_of_the_public_codec_are_decoded(stream: dict) -> None:
    """One and four dimensions, skipped rows (of a width that moves the quantizer's state), every parameter id."""
    expected = values_of(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nnr.decode(bytes.fromhex(stream["stream"]))
    assert list(found) == ["w"]
    assert found["w"].dtype == expected.dtype
    assert np.array_equal(found["w"], expected)


def test_the_units_of_a_stream() -> None:
    found = nnr.read_bitstream(FRONT + ZEROS)
    assert [(placed.offset_bytes, placed.size_bytes) for placed in found.units] == [
        (0, 4),
        (4, 8),
        (12, 6),
        (18, 20),
    ]
    assert found.topology is None
    (tensor,) = found.tensors
    unit = tensor.unit
    assert isinstance(unit, PublishedDataUnit)
    assert (unit.ref_ids, unit.tensor_dimensions, unit.cabac_unary_length, unit.dq_flag) == (
        ("ab",),
        (2, 3),
        11,
        True,
    )
    assert (tensor.qp_density, tensor.quantization_parameter) == (2, 0)
    assert tensor.decode().tolist() == [[0, 0, 0], [0, 0, 0]]
    # Both rows are skipped; the step is that of the codec's default.
    assert decode_published(unit.payload, (2, 3), cabac_unary_length=11, dq_flag=True, qp_bits=8)[1] == -32


@pytest.mark.parametrize(
    ("byte", "value", "element"),
    [
        (TYPE_BYTE, 0x11, "nnr_compressed_data_unit_payload_type is 2"),
        (TYPE_BYTE, 0x0D, "nnr_multiple_topology_elements_present_flag is 1"),
        (TYPE_BYTE, 0x0B, "nnr_decompressed_data_format_present_flag is 1"),
        (TYPE_BYTE, 0x08, "input_parameters_present_flag is 0"),
        (NODE_BYTE, 0x50, "node_id_present_flag is 0"),
        (NODE_BYTE + 1, 0x43, "the six bits behind parameter_id is 33"),
        (TYPES_BYTE, 0xE1, "compressed_parameter_types is 8"),
        (SCAN_BYTE + 1, 0xA4, "first_tensor_dimension_shift and scan_order is 36"),
    ],
)
def test_what_is_not_established_is_refused_by_name(byte: int, value: int, element: str) -> None:
    unit = bytearray(ZEROS)
    unit[byte] = value
    with pytest.raises(
        NnrError, match=f"{element}, whose meaning in the published editions is not established"
    ):
        nnr.read_bitstream(FRONT + bytes(unit))


def test_parameter_sets_of_other_tools_are_refused_by_name() -> None:
    front = bytearray(FRONT)
    front[8] = 0x0C
    with pytest.raises(NnrError, match="mps_parent_signalling_enabled_flag is 1, whose meaning"):
        nnr.read_bitstream(bytes(front) + ZEROS)
    with pytest.raises(NnrError, match="there is no NNR_MPS before it"):
        nnr.read_bitstream(FRONT[:4] + ZEROS)
    with pytest.raises(NnrError, match="nnr_unit_size 20; 3 to 19 are possible"):
        nnr.read_bitstream(FRONT + ZEROS[:-1])
    with pytest.warns(NnrWarning, match="NNR_QNT, published edition"):
        assert nnr.decode(FRONT + bytes.fromhex("00041200") + ZEROS)["ab"].shape == (2, 3)


def test_skipped_rows_do_not_take_memory_beyond_the_limit() -> None:
    """A row that is skipped takes almost no bits, so the payload's length bounds nothing."""
    unit = nnr.read_bitstream(FRONT + ZEROS).tensors[0].unit
    with pytest.raises(
        NnrError, match="holds 200000000 values, which take 762 MiB; the memory limit is 64 MiB"
    ):
        decode_published(unit.payload, (2, 100_000_000), cabac_unary_length=11, dq_flag=True, qp_bits=8)
    rows = decode_published(unit.payload, (2, 1_000_000), cabac_unary_length=11, dq_flag=True, qp_bits=8)[0]
    assert not rows.any()
    assert rows.size == 2_000_000


def test_mutated_streams_end_in_named_errors() -> None:
    rng = np.random.default_rng(19)
    refused = 0
    for _ in range(600):
        stream = bytearray.fromhex(STREAMS[rng.integers(len(STREAMS))]["stream"])
        for _ in range(rng.integers(1, 4)):
            stream[rng.integers(3, len(stream))] = rng.integers(256)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NnrWarning)
            try:
                nnr.decode(bytes(stream[: rng.integers(4, 3 * len(stream))]))
            except NnrError:
                refused += 1
    assert refused > 400


def test_what_is_written_is_read_and_is_what_the_public_codec_read() -> None:
    """nncodec 2.1.3 decoded this stream to these values, and 1,000 random ones (bench/nnr_interchange.py)."""
    values = np.arange(-6, 6, dtype=np.float32).reshape(3, 4) / 2
    draft = nnr.encode(
        {"w": values, "i": np.array([5, -70000, 0], np.int32)},
        nnr.Settings("dependent", 4, relative_step=0.1),
    )
    stream = published(nnr.read_bitstream(draft))
    assert stream.hex() == WRITTEN
    found, expected = nnr.decode(stream), nnr.decode(draft)
    assert list(found) == ["w", "i"]
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name


def test_what_has_no_published_form_is_refused() -> None:
    weights = np.ones((2, 2), np.float32)
    for settings in (nnr.Settings(), nnr.Settings("codebook")):
        with pytest.raises(NnrError, match="'w' is kept without loss or has a codebook"):
            published(nnr.read_bitstream(nnr.encode({"w": weights}, settings)))
    with pytest.raises(NnrError, match=r"'w' of \[\] has no form"):
        published(nnr.read_bitstream(nnr.encode({"w": np.array(3, np.int32)})))


def test_long_units_and_many_tensors() -> None:
    """Sizes of more than 15 bits, parameter ids of more than 5."""
    rng = np.random.default_rng(4)
    tensors = {f"t{number}": np.array([number], np.int32) for number in range(40)}
    tensors["long"] = rng.integers(-(2**30), 2**30, (3, 4000), np.int32)
    stream = published(nnr.read_bitstream(nnr.encode(tensors)))
    found = nnr.decode(stream)
    assert all(np.array_equal(found[name], values) for name, values in tensors.items())
    assert nnr.read_bitstream(stream).units[-1].size_bytes > 1 << 15


def test_the_command_writes_published_streams(tmp_path: pathlib.Path) -> None:
    source, output = tmp_path / "x.npz", tmp_path / "x.nnc"
    np.savez(source, w=np.array([[1, -2], [3, 4]], np.int32))
    run = CliRunner().invoke(app, ["nnr", "encode", str(source), "-o", str(output)])
    assert run.exit_code == 0, run.output
    assert output.read_bytes()[:3] == bytes.fromhex("000402")
    assert nnr.decode(output.read_bytes())["w"].tolist() == [[1, -2], [3, 4]]
    refused = CliRunner().invoke(app, ["nnr", "encode", str(tmp_path / "x.onnx"), "-o", str(output)])
    assert refused.exit_code != 0


def test_exp_golomb_codes() -> None:
    """ue(1) and ue(7): 2 is 0100 in order 1, 300 is 01 1010 1100 in order 7."""
    reader = BitReader(bytes([0b01000110, 0b10110010]), 0, 2, "here")
    assert [exp_golomb(reader, 1, "a"), exp_golomb(reader, 7, "b"), exp_golomb(reader, 1, "c")] == [2, 300, 0]
    with pytest.raises(NnrError, match="more than 32 zeros in front"):
        exp_golomb(BitReader(bytes(9), 0, 9, "here"), 1, "a")


def test_the_first_parameters_are_those_of_the_draft() -> None:
    assert PARAMETERS[0] == (0, 0, 0)
    assert list(draft_contexts(1))[:ENTRIES_OF_CONTEXT] == [0, 0, MIDDLE]
    assert levels.ZEROS_CYCLE == 4


def test_the_command_reads_published_streams(tmp_path: pathlib.Path) -> None:
    source, output = tmp_path / "x.nnc", tmp_path / "x.npz"
    source.write_bytes(bytes.fromhex(STREAMS[0]["stream"]))
    run = CliRunner().invoke(app, ["nnr", "decode", str(source), "-o", str(output)])
    assert run.exit_code == 0, run.output
    assert np.array_equal(np.load(output)["w"], values_of(STREAMS[0]))
    listed = CliRunner().invoke(app, ["nnr", "inspect", str(source)])
    assert listed.exit_code == 0, listed.output
    assert "NNR_TPL, skipped" in listed.output
    assert "qp_density 2, quantization_parameter 0" in listed.output
