"""Programs with compressed weights: what is stored how, and the same numbers as without."""

import dataclasses

import numpy as np
import pytest
from compressed_graphs import SparseLayers, sparse_network
from control_graphs import Control
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.compiler.machine_numbers import CODED_GROUP_BYTES
from tosaic.compiler.place.compression import Method, WeightCoder
from tosaic.compiler.program import Program
from tosaic.errors import InputError, ModelError, UnsupportedError
from tosaic.hw.cabac_timing import decode_cycles
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.nnr import decode_tensor
from tosaic.sim.program import decode_program

STREAM = Method.NNR_STREAM.value
pytestmark = pytest.mark.filterwarnings("ignore:each run decodes weights:UserWarning")


def engines(name: str, count: int):
    return dataclasses.replace(get_config(name), cabac_engines=count)


def instructions(program: Program, opcode: Opcode):
    code = program.image[program.program_address :][: program.program_bytes]
    return [instruction for instruction in decode_program(code) if instruction.opcode == opcode]


@pytest.mark.parametrize("name, count", [("small", 1), ("small", 4), ("base", 1), ("base", 2), ("large", 4)])
def test_the_same_numbers_as_golden(name, count):
    config, graph = engines(name, count), sparse_network()
    program = compile_graph(graph, config, compress=STREAM)
    assert any(weights.coded for weights in program.weights)
    assert_equal_to_golden(graph, config, check_hazards=True, compress=STREAM)


def test_programs_without_compression_have_no_trace_of_it():
    program = compile_graph(sparse_network(), get_config("base"))
    assert not any(weights.coded for weights in program.weights)
    assert all(weights.stored_bytes == weights.bytes for weights in program.weights)
    assert not instructions(program, Opcode.LOAD_DECODE) and not instructions(program, Opcode.LOAD_TENSOR)


def test_each_tensor_is_stored_as_is_smaller():
    """Random bytes do not compress, zeros do; a few weights cost less than the instructions to decode them."""
    build = SparseLayers(5)
    x = build.input("x", (1, 4, 4, 32), DType.INT8)
    y = build.rescale(LayerBuilder.conv(build, x, 64, (3, 3)), DType.INT8)
    dense = build.constant(build.random.integers(-128, 128, (64, 1, 1, 64)), DType.INT8)
    bias = build.constant(np.zeros(64, np.int32), DType.INT32)
    zero = build.zero_point(DType.INT8)
    y = build.add(
        "CONV2D",
        [y, dense, bias, zero, zero],
        pad=[0, 0, 0, 0],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type=DType.INT32,
        local_bound=False,
    )
    build.output(build.rescale(y, DType.INT8))
    plain = compile_graph(build.graph, get_config("base"))
    program = compile_graph(build.graph, get_config("base"), compress=STREAM)
    assert [weights.coded for weights in program.weights] == [True, False]
    assert program.weights[1].name == dense
    assert program.weights[0].stored_bytes < program.weights[0].bytes // 2
    assert program.weights[1].stored_bytes == program.weights[1].bytes == 64 * 64
    assert len(program.image) < len(plain.image)
    assert {go.tensor for go in instructions(program, Opcode.LOAD_TENSOR)} == {0}
    assert_equal_to_golden(build.graph, "base", compress=STREAM)


def test_blocks_are_nnr_payloads_of_the_packed_weights():
    """What lies in the image decodes, by the codec alone, to what the uncompressed program has there."""
    graph, config = sparse_network(), get_config("base")
    plain, program = compile_graph(graph, config), compile_graph(graph, config, compress=STREAM)
    loads = [go for go in instructions(plain, Opcode.LOAD_GO) if go.space == 1]
    raw = b"".join(plain.image[go.memory_address :][: go.row_bytes] for go in loads)
    found = b""
    streams = instructions(program, Opcode.LOAD_STREAMS)
    decodes = instructions(program, Opcode.LOAD_DECODE)
    for lengths, go in zip(streams, decodes, strict=True):
        payload = program.image[go.memory_address :][: lengths.length_0]
        found += decode_tensor(payload, (go.weights,), cabac_unary_length=1).astype(np.int8).tobytes()
    found_raw = [go for go in instructions(program, Opcode.LOAD_GO) if go.space == 1]
    found += b"".join(program.image[go.memory_address :][: go.row_bytes] for go in found_raw)
    assert sorted(found) == sorted(raw)


def test_weights_of_a_loop_are_decoded_in_every_turn():
    build = Control()
    turns, x = build.input("turns", (), DType.INT32), build.input("x", (1, 3, 3, 16), DType.INT8)

    def body(inner, state):
        layers = SparseLayers(8)
        layers.graph = inner.graph
        return [layers.rescale(layers.conv(state[0], 16, (3, 3), pad=(1, 1, 1, 1)), DType.INT8)]

    for output in build.counted(turns, [x], body):
        build.output(output)
    values = {
        "turns": np.int32(3).reshape(()),
        "x": np.random.default_rng(1).integers(-128, 128, (1, 3, 3, 16)),
    }
    values["x"] = values["x"].astype(np.int8)
    assert_equal_to_golden(build.graph, "small", values, compress=STREAM)


def test_big_tensors_are_split_into_streams_and_small_ones_are_not():
    coder = WeightCoder(engines("base", 4), Method.NNR_STREAM)
    rng = np.random.default_rng(2)
    values = np.where(rng.random(20000) < 0.7, 0, rng.integers(-20, 20, 20000)).astype(np.int8)
    for count, streams in ((20000, [4, 4]), (2048, [4]), (2000, [2]), (1000, [1]), (300, [1])):
        blocks = coder.code(values[:count], 16).blocks
        assert [len(block.lengths) for block in blocks] == streams
        assert sum(block.weights for block in blocks) == count


@pytest.mark.parametrize("largest", [1, 3, 20])
def test_cycles_of_a_block_are_those_of_the_decoder(largest):
    """The block has a flag in front, and no dependent quantization."""
    rng = np.random.default_rng(4)
    values = np.where(rng.random(304) < 0.7, 0, rng.integers(-largest, largest + 1, 304)).astype(np.int8)
    (block,) = WeightCoder(engines("base", 1), Method.NNR_STREAM).code(values, 16).blocks
    assert block.cycles == decode_cycles(values, 1, 16, dependent=False, header_bins=1)


@pytest.mark.parametrize(
    "zeros, streams", [(240, None), (244, 1), (332, 1), (336, 2), (432, 2), (436, 4), (2048, 4)]
)
def test_a_block_has_as_many_streams_as_make_it_smaller(zeros, streams):
    """Some of 2,048 random weights are zero: the more zeros, the less it matters that each stream has an end of its
    own."""
    rng = np.random.default_rng(3)
    values = rng.integers(-128, 128, 2048).astype(np.int8)
    values[rng.permutation(2048)[:zeros]] = 0
    coded = WeightCoder(engines("base", 4), Method.NNR_STREAM).code(values, 2048)
    assert (coded and [len(block.lengths) for block in coded.blocks]) == (streams and [streams])


def test_what_only_one_stream_makes_smaller_has_one_stream():
    """Four streams cost four ends and a tag word."""
    rng = np.random.default_rng(3)
    values = rng.integers(-128, 128, 4096)
    for share in range(60, 700, 20):
        values[rng.integers(0, 4096, 60)] = 0
        coded = WeightCoder(engines("base", 4), Method.NNR_STREAM).code(values.astype(np.int8), 4096)
        if coded is not None and len(coded.blocks[0].lengths) < 4:
            return
        assert coded is None, share
    raise AssertionError("there is no such share of zeros")


def test_groups_are_whole_blobs_within_the_limit():
    coder = WeightCoder(get_config("base"))
    for blob_bytes in (16, 144, 4608, CODED_GROUP_BYTES, 3 * CODED_GROUP_BYTES):
        group = coder.group_bytes(blob_bytes)
        assert group % blob_bytes == 0 and (group <= CODED_GROUP_BYTES or group == blob_bytes)


def test_a_configuration_without_a_decoder_is_refused():
    with pytest.raises(UnsupportedError, match="^configuration 'nano' has no decoder for compressed weights"):
        compile_graph(sparse_network(), get_config("nano"), compress=STREAM)


def test_an_unknown_method_is_refused():
    with pytest.raises(
        InputError, match="^weights cannot be compressed by 'zip'; there is nnr, nnr-stream, fast$"
    ):
        compile_graph(sparse_network(), get_config("base"), compress="zip")


def test_the_program_file_keeps_the_list_of_weights():
    program = compile_graph(sparse_network(), get_config("small"), compress=STREAM)
    assert Program.load(program.to_bytes()).weights == program.weights


def test_a_file_without_the_list_is_an_error():
    raw = compile_graph(sparse_network(), get_config("small")).to_bytes()
    with pytest.raises(ModelError):
        Program.load(raw.replace(b'"weights"', b'"weighed"'))
