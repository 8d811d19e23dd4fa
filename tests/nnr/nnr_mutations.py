"""Damaged NNR data: samples of every kind, mutations of them, and what a decoder may do with the result.

Whatever the bytes are, a decoder ends in values or in NnrError. A CABAC payload that is accepted is the one stream of
what came out of it: encoding that again gives the same bytes.
"""

import functools
import pathlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from failed_case import Case
from fuzz_runner import Tally, judged
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers import nnr_tosa
from tosaic.compiler.importers.nnef import nnr_carriage
from tosaic.compiler.ir import DType, Graph, Tensor
from tosaic.nnr import (
    NnrError,
    decode,
    decode_tensor,
    encode,
    encode_codebook_tensor,
    encode_float_tensor,
    encode_raw_tensor,
    encode_tensor,
    onnx_carriage,
    quantize_dependent,
    quantize_uniform,
    read_bitstream,
    write_unit,
    write_units,
)
from tosaic.nnr import levels as coded
from tosaic.nnr.encoder import Settings
from tosaic.nnr.memory import default_limit_bytes
from tosaic.nnr.units import (
    NNR_QCB,
    NNR_QSU,
    AggregateType,
    AggregateUnit,
    Compression,
    DataUnit,
    LayerParameterSet,
    ModelParameterSet,
    QuantizationMap,
    QuantizationUnit,
    SkippedUnit,
    SparsificationPoint,
    StartUnit,
    StorageFormat,
    TopologyUnit,
    Unit,
)

Attempt = Callable[[bytes], bool]
"""Decodes; True when the input was accepted. Raises NnrError, or AssertionError when the result is impossible."""
_HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = (str(_HERE.parent / "fuzzing"), str(_HERE))
EDGES = bytes([0, 1, 2, 5, 0x40, 0x7F, 0x80, 0x81, 0xFE, 0xFF])


@dataclass(frozen=True)
class Sample:
    """Legal data of one kind."""

    kind: str
    data: bytes
    attempt: Attempt


def run_mutations(
    count: int, seed: int, samples: Sequence[Sample] | None = None, *, traced: bool = False
) -> Tally:
    """Mutate samples `count` times and decode; whatever is neither accepted nor refused is listed in `wrong`, and if
    `traced` what takes more memory than the decoder's rule."""
    rng = np.random.default_rng(seed)
    corpus = list(samples or make_samples(seed))
    tally = Tally()
    for number in range(count):
        chosen = int(rng.integers(len(corpus)))
        sample = corpus[chosen]
        data = mutated(sample.data, rng, corpus)
        before = len(tally.wrong)
        tally.attempt(
            sample.kind,
            f"{number}: {data.hex()[:400]}",
            functools.partial(_decoded, sample, data),
            NnrError,
            default_limit_bytes(len(data)) if traced else None,
        )
        settings = {"seed": seed, "sample": chosen, "traced": traced}
        tally.note(before, Case("nnr_mutations:judge", FOLDERS, data, settings), sample.data)
    return tally


def judge(data: bytes, settings: dict[str, Any]) -> str:
    """What is wrong with one damaged stream: it is decoded as the sample that it was made of."""
    sample = _corpus(settings["seed"])[settings["sample"]]
    allowed = default_limit_bytes(len(data)) if settings["traced"] else None
    return judged(functools.partial(_decoded, sample, data), NnrError, allowed)


@functools.cache
def _corpus(seed: int) -> list[Sample]:
    return make_samples(seed)


def _decoded(sample: Sample, data: bytes) -> None:
    if not sample.attempt(data):
        raise NnrError("a part of it is refused")


def mutated(data: bytes, rng: np.random.Generator, corpus: Sequence[Sample]) -> bytes:
    """`data` with one to four changes: bits, bytes, pieces cut, doubled, inserted, or taken from another sample."""
    result = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        size = len(result)
        at = int(rng.integers(size)) if size else 0
        length = int(rng.integers(1, 9))
        change = int(rng.integers(9))
        if change == 0 and size:
            result[at] ^= 1 << int(rng.integers(8))
        elif change == 1 and size:
            result[at] = int(rng.integers(256))
        elif change == 2 and size:
            result[at] = EDGES[int(rng.integers(len(EDGES)))]
        elif change == 3:
            del result[at:]
        elif change == 4:
            del result[at : at + length]
        elif change == 5:
            result[at:at] = result[at : at + length]
        elif change == 6:
            result[at:at] = rng.bytes(length)
        elif change == 7:
            other = corpus[int(rng.integers(len(corpus)))].data
            start = int(rng.integers(len(other) + 1))
            result[at : at + length] = other[start : start + length]
        elif size:
            # A size or count that is off by a little.
            result[at] = (result[at] + int(rng.integers(-2, 3))) & 255
    return bytes(result)


def make_samples(seed: int) -> list[Sample]:
    """Payloads of every type, bitstreams of every unit, and both carriages."""
    rng = np.random.default_rng(seed)
    samples = [payload_sample(rng) for _ in range(60)]
    samples += [unit_sample(rng, unit) for unit in some_units(rng) for _ in range(2)]
    samples += [Sample("bitstream", some_bitstream(rng), decode_all) for _ in range(20)]
    samples += carriage_samples(rng)
    for sample in samples:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A tensor may stand behind a parameter set it was not coded for, or in a block scan.
            assert sample.attempt(sample.data) or sample.kind in ("unit", "bitstream"), sample
    return samples


def some_levels(rng: np.random.Generator) -> np.ndarray:
    """Levels of a random spread and share of zeros."""
    count = int(rng.choice([0, 1, 2, 7, 40, 300]))
    values = rng.laplace(0, 2.0 ** rng.uniform(-1, 30), count).clip(-(2**30), 2**30)
    values[rng.random(count) < rng.choice([0, 0.5, 0.95])] = 0
    return values


def payload_sample(rng: np.random.Generator) -> Sample:
    """A payload of a random type, unary length and quantization."""
    values, length = some_levels(rng), int(rng.choice([0, 1, 2, 10, 11, 255]))
    kind = str(rng.choice(["int32", "float32", "cb_float32", "raw_float32"]))
    dq = bool(rng.integers(2)) and kind in ("int32", "float32")
    levels = quantize_dependent(values, 0) if dq else quantize_uniform(values, 0)
    count = levels.size
    if kind == "raw_float32":
        return Sample(
            kind,
            encode_raw_tensor(values.astype(np.float32)),
            lambda data: decode_tensor(data, (count,), payload_type=kind) is not None,
        )
    if kind == "cb_float32":
        levels = np.abs(levels) % 50

        def code(again: coded.DecodedLevels) -> bytes:
            return encode_codebook_tensor(again.levels, cabac_unary_length=length)

    elif kind == "float32":

        def code(again: coded.DecodedLevels) -> bytes:
            return encode_float_tensor(again.levels, again.qp, cabac_unary_length=length, dq=again.dq_flag)

    else:

        def code(again: coded.DecodedLevels) -> bytes:
            return encode_tensor(again.levels, cabac_unary_length=length, dq=again.dq_flag)

    book = rng.normal(size=50)

    def attempt(data: bytes) -> bool:
        again = coded.decode(
            data, count, length, qp_bits=8 * (kind == "float32"), has_dq_flag=kind != "cb_float32"
        )
        assert code(again) == data, "the payload is not the one of its levels"
        found = decode_tensor(
            data, (count,), payload_type=kind, cabac_unary_length=length, codebook=book if book.size else None
        )
        assert found.shape == (count,)
        return True

    return Sample(kind, code(coded.DecodedLevels(levels, -9, dq, np.empty(0, np.int64))), attempt)


def some_data_unit(rng: np.random.Generator) -> DataUnit:
    """A tensor of 6 elements of a random payload type."""
    levels = rng.integers(-20, 20, (2, 3))
    shape = [(2, 3), (6,), (1, 2, 1, 3), None][int(rng.integers(4))]
    names = [("a",), ("weights/filter",), ("a", "b", "c")][int(rng.integers(3))]
    kind = int(rng.integers(4))
    if kind == 0:
        return DataUnit(0, names, encode_tensor(levels, cabac_unary_length=1), shape, 1)
    if kind == 1:
        return DataUnit(1, names, encode_float_tensor(levels, -9), shape, decompressed_data_format=1)
    if kind == 2:
        book = tuple(np.arange(40, dtype=np.float32).tolist())
        payload = encode_codebook_tensor(levels + 20, codebook_zero_offset=20)
        return DataUnit(2, names, payload, shape, None, book, 20)
    return DataUnit(3, names, encode_raw_tensor(rng.normal(size=6).astype(np.float32)), shape)


def some_units(rng: np.random.Generator) -> list[Unit]:
    """One unit of every type and of most options."""
    points = (SparsificationPoint(0.5, 0.25, 0.125, (1.0, 2.0)), SparsificationPoint(1.0, 0.5, 0.75))
    tensors = [some_data_unit(rng) for _ in range(4)]
    graph = b"version 1.0; graph g( x ) -> ( y ) { x = external(shape=[1,4]); y = relu(x); }"
    return [
        ModelParameterSet(True, NNR_QSU | NNR_QCB, 7, -4096, points),
        ModelParameterSet(ctu_partition_flag=True, max_ctu_dim_flag=2),
        LayerParameterSet(0, NNR_QSU | NNR_QCB, 9, QuantizationMap(((7, 0.5), (255, -1.0)), 8, True), points),
        LayerParameterSet(1, NNR_QCB, 0, QuantizationMap(((70000, 0.5),), 32, False)),
        TopologyUnit(StorageFormat.NNEF, graph, Compression.DFL),
        TopologyUnit(StorageFormat.NNEF, graph),
        TopologyUnit(StorageFormat.ONNX, small_onnx().SerializeToString(), Compression.DFL),
        QuantizationUnit(StorageFormat.NNEF, b'"x": linear();'),
        QuantizationUnit(StorageFormat.ONNX, b"\x00\x01", Compression.DFL),
        *tensors,
        AggregateUnit((tensors[0], tensors[1], ModelParameterSet()), entry_points=True),
        AggregateUnit((AggregateUnit((tensors[2], StartUnit()), entry_points=True), tensors[3])),
        AggregateUnit((tensors[0], tensors[1]), AggregateType.XYZ_1, True, (4, 31), (0, 1)),
        SkippedUnit(99, b"reserved"),
    ]


def decode_all(data: bytes) -> bool:
    """Read a bitstream and decode its tensors; a damaged tensor does not stop the others."""
    refused = 0
    for tensor in read_bitstream(data).tensors:
        try:
            tensor.decode((6,) if tensor.unit.tensor_dimensions is None else None)
        except NnrError:
            refused += 1
    return not refused


def unit_sample(rng: np.random.Generator, unit: Unit) -> Sample:
    """One unit whose frame stays whole: its size is written anew after the mutation."""
    framed = write_unit(
        unit, part_bytes=int(rng.choice([4, 1 << 20])) if isinstance(unit, DataUnit) else None
    )
    if int.from_bytes(framed[:2], "big") != len(framed):
        # Parts of one unit: nothing to write anew.
        return Sample("parts", write_unit(StartUnit()) + framed, decode_all)

    def attempt(data: bytes) -> bool:
        return decode_all(write_unit(StartUnit()) + (len(data) + 2).to_bytes(2, "big") + data)

    return Sample("unit", framed[2:], attempt)


def some_bitstream(rng: np.random.Generator) -> bytes:
    """Start, parameter set and a random choice of other units."""
    units = some_units(rng)
    chosen = [units[i] for i in sorted(rng.choice(len(units), 6, replace=False))]
    topologies = [unit for unit in chosen if isinstance(unit, TopologyUnit | QuantizationUnit)]
    plain = [unit for unit in chosen if not isinstance(unit, TopologyUnit | QuantizationUnit)]
    kept = {type(unit): unit for unit in topologies}
    return write_units([StartUnit(), ModelParameterSet(bool(kept)), *kept.values(), *plain])


def small_onnx() -> onnx.ModelProto:
    """A product with two initializers."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [
            numpy_helper.from_array(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), "w"),
            numpy_helper.from_array(np.arange(-4, 4, dtype=np.int8), "q"),
        ],
    )
    return helper.make_model(graph)


def small_tosa() -> Graph:
    """An output that is a constant: what the carriage does to a graph does not depend on its operators."""
    weights = np.arange(64, dtype=np.int8).reshape(8, 8)
    return Graph("main", [], ["w"], {"w": Tensor("w", (8, 8), DType.INT8, weights)}, [])


def carriage_samples(rng: np.random.Generator) -> list[Sample]:
    """Annexes A and B: `.dat` files, units inside ONNX tensors, ONNX models in bitstreams."""
    values = rng.normal(size=(3, 4)).astype(np.float32)

    def read_dat(data: bytes) -> bool:
        return nnr_carriage.read_dat(data, "w") is not None

    carried = onnx_carriage.carry(small_onnx(), Settings("uniform"))
    tensor = next(each for each in carried.graph.initializer if each.name == "w")

    def uncarry(data: bytes) -> bool:
        tensor.raw_data = data
        return onnx_carriage.uncarry(carried) is not None

    def decode_onnx(data: bytes) -> bool:
        return onnx_carriage.decode_onnx(data) is not None

    def decode_tosa(data: bytes) -> bool:
        return nnr_tosa.carried_graph(read_bitstream(data)) is not None

    return [
        Sample("tosa model", nnr_tosa.encode_tosa(small_tosa(), Settings(), "{}"), decode_tosa),
        Sample("arrays", encode({"w": values, "q": np.arange(9)}), lambda data: decode(data) is not None),
        Sample("dat", nnr_carriage.write_dat(values), read_dat),
        Sample("dat", nnr_carriage.write_carried("w", values, Settings("uniform")), read_dat),
        Sample("dat", nnr_carriage.write_carried("w", values, Settings())[128:], read_dat),
        Sample("onnx tensor", bytes(tensor.raw_data), uncarry),
        Sample("onnx model", onnx_carriage.encode_onnx(small_onnx(), Settings("dependent")), decode_onnx),
        Sample("onnx model", onnx_carriage.encode_onnx(small_onnx(), Settings("codebook", 1)), decode_onnx),
    ]
