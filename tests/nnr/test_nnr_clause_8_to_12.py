"""The checklist of the NNR text, clauses 8 to 12: encoder methods and entropy coding. Names give clause and line."""

import numpy as np
import onnx
import pytest
from nnr_examples import PARAMETERS, START
from nnr_text_decoder import STATE_TRANSITION, TextDecoder, decode_int32
from onnx import TensorProto, helper, numpy_helper

from tosaic.hw.nnr_tables import RLPS, TRANSITION
from tosaic.nnr import (
    NnrError,
    cabac_decode,
    decode_tensor,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_tensor,
    jit,
    quantize_codebook,
    quantize_dependent,
    quantize_uniform,
    read_bitstream,
    write_unit,
)
from tosaic.nnr import levels as coded
from tosaic.nnr.cabac_tables import GREATER, MIDDLE, SIG, SIGN, context_count, tables
from tosaic.nnr.encoder import Settings, encode_model
from tosaic.nnr.onnx_carriage import decode_onnx, encode_onnx
from tosaic.nnr.onnx_low_rank import factor_layers
from tosaic.nnr.reduce import kernel_of, low_rank, matrix_of, sparsify, threshold_for
from tosaic.nnr.units import DataUnit, ModelParameterSet

RNG = np.random.default_rng(17)
WEIGHTS = RNG.laplace(0, 1, 3000).astype(np.float32)
UNARY_LENGTHS = [0, 1, 2, 9, 10, 11, 64, 255]


def some_levels(count: int, dq: bool = False, seed: int = 0) -> np.ndarray:
    """Levels with zeros, runs and a few large values; reachable ones for dependent quantization."""
    rng = np.random.default_rng(seed)
    values = rng.laplace(0, 3, count) * np.where(rng.random(count) < 0.02, 1e6, 1)
    values[rng.random(count) < 0.4] = 0
    return quantize_dependent(values, 0) if dq else quantize_uniform(values, 0)


def product(weights: np.ndarray) -> onnx.ModelProto:
    rows, columns = weights.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "fc")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, columns])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_clause_8_1_line_78_sparsification_by_threshold() -> None:
    """The codec's part of the method: weights below the threshold are set to zero. Training is not."""
    assert sparsify(np.array([-128, 3, -2, 0, 5], np.int8), 3).tolist() == [-128, 3, 0, 0, 5]
    for share in (0.0, 0.3, 0.8, 1.0):
        pruned = sparsify(WEIGHTS, threshold_for(WEIGHTS, share))
        assert np.count_nonzero(pruned == 0) == int(np.ceil(share * WEIGHTS.size))
        kept = pruned != 0
        assert np.array_equal(pruned[kept], WEIGHTS[kept])


def test_clause_8_2_line_79_sparsification_has_no_syntax() -> None:
    """Rsize, Osize and dimensions are not in the bitstream (E-49): a sparse model is a regular one, plus a flag."""
    tensors = {"w": WEIGHTS.reshape(30, 100)}
    pruned = {"w": sparsify(tensors["w"], threshold_for(WEIGHTS, 0.9))}
    data = encode_model(tensors, Settings(sparsity=0.9))
    kinds = [type(placed.unit).__name__ for placed in read_bitstream(data).units]
    assert kinds == ["StartUnit", "ModelParameterSet", "DataUnit"]
    assert np.array_equal(read_bitstream(data).tensors[0].decode(), pruned["w"])
    parameters = read_bitstream(data).units[1].unit
    assert isinstance(parameters, ModelParameterSet)
    assert parameters.sparsification == ()
    plain = read_bitstream(encode_model(pruned, Settings())).units[1].unit
    assert isinstance(plain, ModelParameterSet)
    assert plain.sparsification is None


def test_clause_9_1_line_80_low_rank_and_reshaping_modes() -> None:
    kernel = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    shapes = {1: (60, 2), 2: (30, 4), 3: (24, 5), 4: (5, 24)}
    for mode, shape in shapes.items():
        matrix = matrix_of(kernel, mode)
        assert matrix.shape == shape
        assert np.array_equal(kernel_of(matrix, kernel.shape, mode), kernel)
    assert np.array_equal(matrix_of(kernel, 3)[:, 2], kernel[:, :, :, 2].reshape(-1))
    exact = np.outer([1.0, 2.0, 3.0], [4.0, 5.0]) + np.outer([1.0, 0.0, -1.0], [5.0, -4.0])
    left, right = low_rank(exact, 2)
    assert (left.shape, right.shape) == ((3, 2), (2, 2))
    assert np.abs(left @ right - exact).max() < 1e-5


def test_clause_9_2_line_81_factors_have_no_syntax() -> None:
    """Rank and factors are not signalled (E-49): the factored network is a regular model, and travels as one."""
    weights = np.outer(WEIGHTS[:20], WEIGHTS[20:50]).astype(np.float32)
    factored, names = factor_layers(product(weights), 0.9999)
    assert names == ["w"]
    data = encode_onnx(factored, Settings())
    assert [t.unit.tensor_dimensions for t in read_bitstream(data).tensors] == [(20, 1), (1, 30)]
    back = decode_onnx(data)
    left, right = (numpy_helper.to_array(tensor) for tensor in back.graph.initializer)
    assert np.abs(left @ right - weights).max() < 1e-5 * np.abs(weights).max()


@pytest.mark.parametrize("qp", [-13, -8, -3, 0])
def test_clause_10_1_line_82_uniform_quantization(qp: int) -> None:
    """Nearest multiples of the step, dq_flag 0."""
    step = (4 + qp % 4) * 2.0 ** (qp // 4 - 2)
    levels = quantize_uniform(WEIGHTS, qp)
    payload = encode_float_tensor(levels, qp)
    assert TextDecoder(payload).uae(9) & 1 == 0
    found = decode_tensor(payload, WEIGHTS.shape, payload_type="float32")
    assert np.abs(found - WEIGHTS).max() <= step / 2 * (1 + 1e-6)
    assert np.array_equal(found, (levels * step).astype(np.float32))


@pytest.mark.parametrize("size", [1, 2, 16, 300])
def test_clause_10_1_line_83_codebook_method(size: int) -> None:
    """Indices of the tensor's shape and a list of float32 values."""
    weights = WEIGHTS.reshape(30, 100)
    indices, book, offset = quantize_codebook(weights, size)
    assert (indices.shape, book.dtype) == (weights.shape, np.float32)
    assert book.size <= size
    payload = encode_codebook_tensor(indices, codebook_zero_offset=offset)
    found = decode_tensor(
        payload, weights.shape, payload_type="cb_float32", codebook=book, codebook_zero_offset=offset
    )
    nearest = book[np.abs(weights[..., None] - book).argmin(-1)]
    assert np.abs(np.abs(found - weights) - np.abs(nearest - weights)).max() < 1e-6


def test_clause_10_1_3_line_84_dependent_quantization() -> None:
    """8 states; at equal bytes the error is smaller than that of uniform quantization."""
    uniform, dependent = quantize_uniform(WEIGHTS, -4), quantize_dependent(WEIGHTS, -9)
    sizes = [
        len(encode_float_tensor(uniform, -4)),
        len(encode_float_tensor(dependent, -9, dq=True)),
    ]
    errors = [np.mean((uniform * 0.5 - WEIGHTS) ** 2), np.mean((dependent * (7 * 2.0**-5) - WEIGHTS) ** 2)]
    assert sizes[1] < 1.12 * sizes[0]
    assert errors[1] < 0.65 * errors[0]
    state = 0
    for value in dependent.tolist():
        if value:
            assert (value ^ state) & 1 == 0
        level = (value + (state & 1) * ((value > 0) - (value < 0))) // 2
        state = STATE_TRANSITION[state][level & 1]


def test_clause_10_2_line_85_required_metadata() -> None:
    """qp_density in NNR_MPS, qp and dq_flag in the payload, codebook and its offset in the unit's header."""
    found = read_bitstream(encode_model({"w": WEIGHTS}, Settings("dependent")))
    parameters = found.units[1].unit
    assert isinstance(parameters, ModelParameterSet)
    assert (parameters.qp_density, parameters.quantization_method_flags) == (2, 1)
    decoder = TextDecoder(found.tensors[0].unit.payload)
    step = (4 + (qp := decoder.iae(8)) % 4) * 2.0 ** (qp // 4 - 2)
    assert step <= np.abs(WEIGHTS).max() / 127 < 1.26 * step
    assert decoder.uae(1) == 1
    unit = read_bitstream(encode_model({"w": WEIGHTS}, Settings("codebook", codebook_size=8))).tensors[0].unit
    assert len(unit.codebook) == 8
    assert abs(unit.codebook[unit.codebook_zero_offset]) == min(map(abs, unit.codebook))


def test_clause_11_1_1_line_86_binarization() -> None:
    """The number of abs_level_greater_x flags is cabac_unary_length (E-05); every level has one code (E-06)."""
    for length in (0, 1, 3, 10):
        for size in range(1, 80):
            payload = encode_tensor(np.array([size]), cabac_unary_length=length)
            decoder = TextDecoder(payload)
            decoder.uae(1)
            assert decoder.quant_tensor(1, length, 0) == [size]
            unary = sum(element == "abs_level_greater_x" for element, _ in decoder.contexts)
            assert unary == min(size, length)
            prefix = sum(element == "abs_level_greater_x2" for element, _ in decoder.contexts)
            assert prefix == ((size - length).bit_length() if size > length else 0)


@pytest.mark.parametrize("dq", [False, True])
def test_clause_11_1_2_1_line_87_termination(dq: bool) -> None:
    """terminating_one_bit, the stop bit, zeros up to the byte; nothing missing, nothing behind (E-08)."""
    for seed in range(20):
        levels = some_levels(37, dq, seed)
        payload = encode_tensor(levels, dq=dq)
        decoder = TextDecoder(payload)
        decoder.quant_tensor(37, 10, decoder.uae(1))
        decoder.finish()
        for wrong in (
            payload[:-1],
            payload + b"\0",
            payload + b"\x80",
            payload[:-1] + bytes([payload[-1] ^ 1]),
        ):
            with pytest.raises(NnrError):
                decode_tensor(wrong, (37,))
        stop = payload[-1] & -payload[-1]
        with pytest.raises(NnrError, match="stop bit 0|terminating_one_bit 0|truncated"):
            decode_tensor(payload[:-1] + bytes([payload[-1] ^ stop]), (37,))


@pytest.mark.parametrize("density", range(8))
def test_clause_11_1_2_2_line_88_quant_param(density: int) -> None:
    """iae(6 + qpDensity)."""
    bits = 6 + density
    for qp in (-(1 << (bits - 1)), -1, 0, (1 << (bits - 1)) - 1):
        payload = encode_float_tensor(np.array([1, 0]), qp, qp_density=density)
        assert TextDecoder(payload).iae(bits) == qp
        assert coded.decode(payload, 2, 10, qp_bits=bits).qp == qp
    for qp in (-(1 << (bits - 1)) - 1, 1 << (bits - 1)):
        with pytest.raises(NnrError, match=rf"qp {qp} does not fit iae\({bits}\)"):
            encode_float_tensor(np.array([1]), qp, qp_density=density)


def test_clause_11_1_2_3_line_89_dq_flag() -> None:
    """uae(1): a bypass bin in front of INT32 levels and behind qp; none with a codebook."""
    levels = some_levels(50, dq=True)
    for dq in (False, True):
        decoder = TextDecoder(encode_tensor(levels, dq=dq))
        assert decoder.uae(1) == dq
        assert decoder.contexts == {}
        assert coded.decode(encode_tensor(levels, dq=dq), 50, 10).dq_flag is dq
    assert (
        coded.decode(encode_codebook_tensor(levels), 50, 10, has_dq_flag=False).levels.tolist()
        == levels.tolist()
    )


@pytest.mark.parametrize("dq", [False, True])
@pytest.mark.parametrize("length", UNARY_LENGTHS)
def test_clause_11_1_2_4_line_90_quant_tensor(length: int, dq: bool) -> None:
    """Raster order; the state starts at 0 and moves on zeros too (E-15); the neighbour is the one before (E-13)."""
    levels = some_levels(600, dq, length)
    payload = encode_tensor(levels.reshape(20, 5, 6), cabac_unary_length=length, dq=dq)
    found_dq, found = decode_int32(payload, 600, length)
    assert (found_dq, found.tolist()) == (int(dq), levels.tolist())
    assert decode_tensor(payload, (600,), cabac_unary_length=length).tolist() == levels.tolist()


@pytest.mark.parametrize("length", UNARY_LENGTHS)
def test_clause_11_1_2_5_line_91_int_param(length: int) -> None:
    """Every size of level around each change of code, up to int32's ends; -2**31 where the prefix allows it."""
    edges = {0, 1, 2**31 - 1, 2**31 - 2, *(length + d for d in (-1, 0, 1, 2)), *(1 << k for k in range(31))}
    sizes = sorted(edge for edge in edges if 0 <= edge < 2**31)
    levels = np.array([sign * size for size in sizes for sign in (1, -1)])
    if length:
        levels = np.append(levels, -(2**31))
    payload = encode_tensor(levels, cabac_unary_length=length)
    assert decode_int32(payload, levels.size, length)[1].tolist() == levels.tolist()
    assert decode_tensor(payload, levels.shape, cabac_unary_length=length).tolist() == levels.tolist()


def test_clause_11_2_2_2_line_92_context_initialization() -> None:
    """Both states 0, once per payload (E-12): equal tensors have equal payloads, wherever they stand."""
    unit = DataUnit(0, ("a",), encode_tensor(some_levels(200)), (200,))
    found = read_bitstream(START + PARAMETERS + write_unit(unit) * 3).tensors
    assert all(tensor.decode().tolist() == some_levels(200).tolist() for tensor in found)
    # The first bin of a context: p = 0, MPS 1 (E-01), LPS width of the row of 510.
    decoder = TextDecoder(encode_tensor(np.array([1])))
    decoder.uae(1)
    assert decoder.decision("sig_flag", 0) == 1
    assert decoder.contexts["sig_flag", 0] == [TRANSITION[16] >> 5, TRANSITION[16] >> 4]


def test_clause_11_2_2_3_line_93_engine_initialization() -> None:
    """Range 510, offset read_bits(9); 510 and 511 are forbidden; fewer than 9 bits are too few."""
    for start, value in ((b"\xff\x00", 510), (b"\xff\x80", 511)):
        with pytest.raises(NnrError, match=f"starts with ivlOffset {value}"):
            decode_tensor(start + bytes(8), (1,))
    for short in (b"", b"\x7f"):
        with pytest.raises(NnrError, match="truncated: the arithmetic decoder starts with 9 bits"):
            decode_tensor(short, (0,))


def test_clause_11_2_3_line_94_fixed_length_binarization() -> None:
    """Every syntax element is one bin; only iae and uae are strings of bypass bins (E-22)."""
    decoder = TextDecoder(encode_tensor(np.array([-40]), cabac_unary_length=2))
    bins = [decoder.uae(1), decoder.decision("sig_flag", 0), decoder.decision("sign_flag", 0)]
    bins += [decoder.decision("abs_level_greater_x", 2 * j + 1) for j in range(2)]
    bins += [decoder.decision("abs_level_greater_x2", j) for j in range(6)]
    # 40 = 1 + 2 flags + (2**5 - 1) + 6.
    assert bins == [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]
    assert decoder.uae(5) == 6
    decoder.finish()


def test_clause_11_2_4_2_line_95_context_increments() -> None:
    """sig 0..23 by state and neighbour, sign 0..2, greater_x 2j + sign, greater_x2 j (E-11)."""
    decoder = TextDecoder(encode_tensor(some_levels(4000, dq=True), dq=True))
    decoder.quant_tensor(4000, 10, decoder.uae(1))
    used = {name: {i for element, i in decoder.contexts if element == name} for name, _ in decoder.contexts}
    assert used["sig_flag"] == set(range(24))
    assert used["sign_flag"] == {0, 1, 2}
    assert used["abs_level_greater_x"] <= set(range(20))
    assert used["abs_level_greater_x2"] <= set(range(31))
    assert (SIG, SIGN, GREATER, context_count(10)) == (0, 24, 27, 24 + 3 + 20 + 31)
    plain = TextDecoder(encode_tensor(some_levels(4000)))
    plain.quant_tensor(4000, 10, plain.uae(1))
    assert {i for element, i in plain.contexts if element == "sig_flag"} == {0, 1, 2}


def test_clause_11_2_4_3_2_line_96_decode_decision() -> None:
    """The table as printed; the column is abs(p >> 7), arithmetic shift first (E-02): p = -1 and +1 differ."""
    rows = np.array(RLPS).reshape(8, 32)
    assert rows[:, 0].tolist() == [128, 142, 156, 171, 185, 199, 213, 228]
    assert rows[:, 31].tolist() == [2, 2, 2, 3, 3, 3, 3, 4]
    assert int(rows.sum()) == 11348
    assert (np.diff(rows, axis=1) <= 0).all()
    assert (abs(-1 >> 7), abs(1 >> 7)) == (1, 0)
    # Long runs drive a context to its ends and back.
    for levels in (np.zeros(3000, int), np.ones(3000, int), np.tile([0] * 400 + [1] * 400, 4)):
        payload = encode_tensor(levels)
        assert decode_int32(payload, levels.size, 10)[1].tolist() == levels.tolist()
        assert decode_tensor(payload, levels.shape).tolist() == levels.tolist()


def test_clause_11_2_4_3_2_2_line_97_state_transition() -> None:
    """Shifts 5 and 4 (E-03), each state by its own old value (E-04); they stay within 8 and 12 bits."""
    assert TRANSITION[:8] == (2512, 2288, 2064, 1840, 1616, 1392, 1168, 944)
    assert TRANSITION[8:16] == (720, 560, 464, 368, 272, 208, 144, 80)
    assert TRANSITION[16:] == (64,) * 15 + (0,)
    reached: set[tuple[int, int]] = set()
    for bins in ([1] * 300 + [0] * 600 + [1] * 600, np.random.default_rng(1).integers(0, 2, 5000).tolist()):
        states = [0, 0]
        for value in bins:
            sign = 2 * value - 1
            states = [
                states[0] + sign * (TRANSITION[16 + (sign * states[0] >> 3)] >> 5),
                states[1] + sign * (TRANSITION[16 + (sign * states[1] >> 7)] >> 4),
            ]
            reached.add((states[0], states[1]))
    assert max(abs(s) for s, _ in reached) <= 121
    assert max(abs(s) for _, s in reached) <= 1923
    # The codec's own step, bin by bin, on streams that draw a context to both ends.
    both = jit.ints((0, 0, MIDDLE))
    noise = np.random.default_rng(2).bytes(2000)
    data = jit.octets(bytes(40) + b"\x7f" * 400 + noise, 2500)
    interval, offset, position, values = 510, 0, 9, []
    while position < 8 * 2400:
        before = (int(both[0]), int(both[1]))
        value, interval, offset, position = cabac_decode.decode_decision(
            data, both, tables(), 0, interval, offset, position
        )
        sign = 2 * value - 1
        assert (both[0], both[1]) == (
            before[0] + sign * (TRANSITION[16 + (sign * before[0] >> 3)] >> 5),
            before[1] + sign * (TRANSITION[16 + (sign * before[1] >> 7)] >> 4),
        )
        values.append(value)
    assert set(values) == {0, 1}
    assert len(values) > 2000


def test_clause_11_2_4_3_3_line_98_renormalisation() -> None:
    """One bit at a time until the range is 256 or more; positions are those of a reader of single bits."""
    levels = some_levels(300)
    payload = encode_tensor(levels)
    positions = coded.decode(payload, 300, 10, with_positions=True).positions
    decoder = TextDecoder(payload)
    decoder.uae(1)
    previous = 0
    for value, position in zip(levels.tolist(), positions.tolist(), strict=True):
        assert decoder.int_param(previous, 10, 0) == value
        assert decoder.read == position
        assert 256 <= decoder.range <= 510
        previous = value


def test_clause_11_2_4_3_4_line_99_decode_bypass() -> None:
    """One bit of the stream per bin, whatever the range."""
    levels = np.array([2**30 + 12345, -(2**29), 2**31 - 1])
    payload = encode_tensor(levels, cabac_unary_length=1)
    decoder = TextDecoder(payload)
    for count in (1, 0):
        before = decoder.read
        decoder.uae(count)
        assert decoder.read == before + count
    assert decoder.quant_tensor(3, 1, 0) == levels.tolist()
    assert decode_tensor(payload, (3,), cabac_unary_length=1).tolist() == levels.tolist()


def test_clause_11_2_4_3_5_line_100_decode_terminate() -> None:
    """range -= 2, no renormalization on 1: the payload ends with the bit read last."""
    for seed in range(40):
        levels = some_levels(seed, seed=seed)
        payload = encode_tensor(levels)
        decoder = TextDecoder(payload)
        decoder.quant_tensor(seed, 10, decoder.uae(1))
        before = decoder.read
        decoder.finish()
        assert decoder.read == before
        assert (decoder.read + 7) // 8 == len(payload)
        with pytest.raises(NnrError):
            decode_tensor(payload, (seed + 1,))


def test_clause_11_2_4_3_5_line_100_the_threshold_of_decode_terminate() -> None:
    """terminating_one_bit is 1 from ivlCurrRange - 2 on. Two offsets are there, and the stop bit, a 1, is the last
    of them: the code that is 2 lower is the nearest with it, and its offset is one or two below the threshold."""
    for seed in range(20):
        levels = some_levels(seed, seed=seed)
        payload = encode_tensor(levels)
        code = int.from_bytes(payload, "big")
        stop = code & -code
        lower = (code - 2 * stop).to_bytes(len(payload), "big")
        with pytest.raises(NnrError, match="has terminating_one_bit 0 at bit"):
            decode_tensor(lower, levels.shape)


def test_clause_11_2_4_3_line_101_stale_note() -> None:
    """64 states and 4 ranges are another standard's (E-23): here 8 ranges of 32 columns, two states per context."""
    assert (len(RLPS), len(TRANSITION)) == (8 * 32, 32)
    assert len(TextDecoder(encode_tensor(np.array([1]))).contexts) == 0


@pytest.mark.parametrize("method", ["uniform", "dependent", "codebook"])
def test_clause_12_line_102_usage(method: str) -> None:
    """The clause is empty; this is a pipeline of the methods: low rank, sparsity, quantization, entropy coding."""
    weights = (np.outer(WEIGHTS[:40], WEIGHTS[40:80]) + 0.01 * WEIGHTS[:1600].reshape(40, 40)).astype(
        np.float32
    )
    factored, _ = factor_layers(product(weights), 0.999)
    data = encode_onnx(factored, Settings(method, 2, codebook_size=64, sparsity=0.1))
    tensors = [numpy_helper.to_array(tensor) for tensor in decode_onnx(data).graph.initializer]
    error = np.linalg.norm(np.linalg.multi_dot(tensors) - weights) / np.linalg.norm(weights)
    assert error < 0.15
    assert len(data) < weights.nbytes / 4
