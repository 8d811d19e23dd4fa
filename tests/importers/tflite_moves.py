"""Random cases of operators that move elements, pick them, or compute reals, beside those of `tflite_operators`."""

from typing import Any

import numpy as np
from tflite_operator_cases import Case, Make, Tensor, encoding, shape_of

MOVES: dict[str, tuple[Make, tuple[str, ...]]] = {}
"""Makers of random cases by name, and the types that they are made for."""
_ALL = ("int8", "float32")


def move(name: str, *dtypes: str) -> Any:
    """Registers a maker."""

    def register(make: Make) -> Make:
        MOVES[name] = (make, dtypes or _ALL)
        return make

    return register


def _like(random: np.random.Generator, dtype: str) -> dict[str, Any]:
    return encoding(random, dtype) if dtype in ("int8", "uint8", "int16") else {}


def _numbers(values: Any) -> Tensor:
    data = np.asarray(values, np.int32)
    return Tensor(data.shape, "int32", data=data)


def _one(
    kind: str, options: str, fields: dict[str, Any], shape: list[int], dtype: str, same: Any, *more: Any
) -> Case:
    return Case(kind, options, fields, [Tensor(shape, dtype, **same), *more], [Tensor([1], dtype, **same)])


@move("RESHAPE")
def _reshape(random: np.random.Generator, dtype: str) -> Case:
    return _one(
        "RESHAPE",
        "ReshapeOptions",
        {"newShape": [4, -1]},
        [2, 3, 4],
        dtype,
        _like(random, dtype),
        _numbers([4, -1]),
    )


@move("SQUEEZE")
def _squeeze(random: np.random.Generator, dtype: str) -> Case:
    dims = [[], [0], [-2], [0, 2]][int(random.integers(0, 4))]
    return _one("SQUEEZE", "SqueezeOptions", {"squeezeDims": dims}, [1, 3, 1, 4], dtype, _like(random, dtype))


@move("EXPAND_DIMS")
def _expand(random: np.random.Generator, dtype: str) -> Case:
    axis = int(random.integers(-4, 4))
    return _one(
        "EXPAND_DIMS", "ExpandDimsOptions", {}, [2, 3, 4], dtype, _like(random, dtype), _numbers(axis)
    )


@move("TRANSPOSE")
def _transpose(random: np.random.Generator, dtype: str) -> Case:
    order = random.permutation(4)
    return _one(
        "TRANSPOSE", "TransposeOptions", {}, shape_of(random, 4), dtype, _like(random, dtype), _numbers(order)
    )


@move("CONCATENATION")
def _concatenation(random: np.random.Generator, dtype: str) -> Case:
    shape, axis, same = shape_of(random, 3), int(random.integers(-3, 3)), _like(random, dtype)
    parts = [list(shape) for _ in range(3)]
    for part in parts:
        part[axis] = int(random.integers(1, 4))
    ins = [Tensor(part, dtype, **same) for part in parts]
    return Case("CONCATENATION", "ConcatenationOptions", {"axis": axis}, ins, [Tensor([1], dtype, **same)])


@move("PACK")
def _pack(random: np.random.Generator, dtype: str) -> Case:
    shape, same = shape_of(random, 3), _like(random, dtype)
    ins = [Tensor(shape, dtype, **same) for _ in range(3)]
    fields = {"axis": int(random.integers(-4, 4)), "valuesCount": 3}
    return Case("PACK", "PackOptions", fields, ins, [Tensor([1], dtype, **same)])


@move("UNPACK")
def _unpack(random: np.random.Generator, dtype: str) -> Case:
    same, axis = _like(random, dtype), int(random.integers(0, 3))
    shape = [2, 2, 2]
    shape[axis] = 3
    outs = [Tensor([1], dtype, **same) for _ in range(3)]
    return Case("UNPACK", "UnpackOptions", {"axis": axis, "num": 3}, [Tensor(shape, dtype, **same)], outs)


@move("SPLIT")
def _split(random: np.random.Generator, dtype: str) -> Case:
    same, axis = _like(random, dtype), int(random.integers(-3, 3))
    shape = [2, 3, 4]
    shape[axis] = 6
    outs = [Tensor([1], dtype, **same) for _ in range(3)]
    return Case(
        "SPLIT", "SplitOptions", {"numSplits": 3}, [_numbers(axis), Tensor(shape, dtype, **same)], outs
    )


@move("SPLIT_V")
def _split_v(random: np.random.Generator, dtype: str) -> Case:
    same, axis = _like(random, dtype), int(random.integers(0, 3))
    shape = [2, 3, 4]
    shape[axis] = 7
    sizes = [[2, 4, 1], [2, -1, 4]][int(random.integers(0, 2))]
    outs = [Tensor([1], dtype, **same) for _ in range(3)]
    ins = [Tensor(shape, dtype, **same), _numbers(sizes), _numbers(axis)]
    return Case("SPLIT_V", "SplitVOptions", {"numSplits": 3}, ins, outs)


@move("SLICE")
def _slice(random: np.random.Generator, dtype: str) -> Case:
    last = int(random.integers(1, 4))
    more = _numbers([1, 0, 2]), _numbers([2, -1, last])
    made = _one("SLICE", "SliceOptions", {}, [4, 3, 6], dtype, _like(random, dtype), *more)
    made.outputs[0].shape = [2, 3, last]
    return made


@move("STRIDED_SLICE")
def _strided_slice(random: np.random.Generator, dtype: str) -> Case:
    begins, ends, steps = [], [], []
    for size in (6, 5, 7):
        step = int(random.choice([1, 2, 3, -1, -2]))
        low, high = sorted(int(n) for n in random.choice(size + 1, 2, replace=False))
        begins.append(low if step > 0 else high - 1)
        ends.append(high if step > 0 else (low - 1 if low else -size - 1))
        steps.append(step)
    shrink = int(random.integers(0, 8))
    for axis in range(3):
        if shrink >> axis & 1:
            steps[axis], ends[axis] = 1, begins[axis] + 1
    fields = {
        "beginMask": int(random.integers(0, 8)) & ~shrink,
        "endMask": int(random.integers(0, 8)),
        "shrinkAxisMask": shrink,
    }
    more = _numbers(begins), _numbers(ends), _numbers(steps)
    return _one("STRIDED_SLICE", "StridedSliceOptions", fields, [6, 5, 7], dtype, _like(random, dtype), *more)


@move("PAD", "int8", "uint8", "float32")
def _pad(random: np.random.Generator, dtype: str) -> Case:
    pads = random.integers(0, 3, (3, 2))
    return _one("PAD", "PadOptions", {}, shape_of(random, 3), dtype, _like(random, dtype), _numbers(pads))


@move("PADV2")
def _pad_v2(random: np.random.Generator, dtype: str) -> Case:
    same, pads = _like(random, dtype), random.integers(0, 3, (3, 2))
    value = Tensor([1], dtype, **same, data=[int(random.integers(-100, 100))])
    return _one("PADV2", "PadV2Options", {}, shape_of(random, 3), dtype, same, _numbers(pads), value)


@move("MIRROR_PAD")
def _mirror_pad(random: np.random.Generator, dtype: str) -> Case:
    fields, pads = {"mode": int(random.integers(0, 2))}, random.integers(0, 3, (3, 2))
    return _one(
        "MIRROR_PAD", "MirrorPadOptions", fields, [3, 4, 5], dtype, _like(random, dtype), _numbers(pads)
    )


@move("PAD of another encoding", "int8", "uint8")
def _pad_encoded(random: np.random.Generator, dtype: str) -> Case:
    """The kernel moves the integers as they are, and pads with the result's zero point."""
    made = _pad(random, dtype)
    made.outputs = [Tensor([1], dtype, **encoding(random, dtype))]
    return made


@move("PAD of plain integers", "uint8")
def _pad_plain(random: np.random.Generator, dtype: str) -> Case:
    return _one("PAD", "PadOptions", {}, [2, 3], dtype, {}, _numbers(random.integers(0, 3, (2, 2))))


@move("CONCATENATION of several encodings", "uint8")
def _concatenation_encoded(random: np.random.Generator, dtype: str) -> Case:
    made = _concatenation(random, dtype)
    for tensor in (*made.inputs[:2], *made.outputs):
        assert tensor is not None
        tensor.scales, tensor.zero_points = encoding(random, dtype).values()
    return made


@move("REVERSE_SEQUENCE", "uint8", "int16", "float32")
def _reverse_sequence(random: np.random.Generator, dtype: str) -> Case:
    time, batch = [(1, 0), (0, 1), (2, 0), (1, 2)][int(random.integers(0, 4))]
    shape = [4, 3, 5]
    lengths = _numbers(random.integers(1, shape[time] + 1, shape[batch]))
    fields = {"seqDim": time, "batchDim": batch}
    return _one(
        "REVERSE_SEQUENCE", "ReverseSequenceOptions", fields, shape, dtype, _like(random, dtype), lengths
    )


@move("DYNAMIC_UPDATE_SLICE", "int8", "int16", "float32")
def _update_slice(random: np.random.Generator, dtype: str) -> Case:
    same, starts = _like(random, dtype), _numbers(random.integers(-1, 5, 3))
    return _one(
        "DYNAMIC_UPDATE_SLICE", "", {}, [4, 3, 5], dtype, same, Tensor([2, 1, 3], dtype, **same), starts
    )


@move("DILATE", "int8", "float32")
def _dilate(random: np.random.Generator, dtype: str) -> Case:
    filling = Tensor([], dtype, data=3)
    return _one("DILATE", "", {}, [3, 4], dtype, {}, _numbers(random.integers(1, 4, 2)), filling)


def _bitwise(kind: str, options: str) -> None:
    @move(kind, "int8", "uint8", "int16", "int32")
    def make(random: np.random.Generator, dtype: str) -> Case:
        return _one(kind, options, {}, [3, 40], dtype, {}, Tensor([3, 40], dtype))


_bitwise("BITWISE_XOR", "BitwiseXorOptions")
_bitwise("RIGHT_SHIFT", "RightShiftOptions")


@move("TILE", "float32", "int32")
def _tile(random: np.random.Generator, dtype: str) -> Case:
    return _one(
        "TILE", "TileOptions", {}, shape_of(random, 3, 4), dtype, {}, _numbers(random.integers(1, 4, 3))
    )


@move("REVERSE_V2", "float32", "int32")
def _reverse(random: np.random.Generator, dtype: str) -> Case:
    return _one(
        "REVERSE_V2", "ReverseV2Options", {}, [3, 4, 5], dtype, {}, _numbers([int(random.integers(0, 3))])
    )


@move("BROADCAST_TO", "float32", "int32")
def _broadcast(random: np.random.Generator, dtype: str) -> Case:
    return _one("BROADCAST_TO", "", {}, [3, 1, 2], dtype, {}, _numbers([2, 3, 4, 2]))


@move("SPACE_TO_DEPTH")
def _space_to_depth(random: np.random.Generator, dtype: str) -> Case:
    fields = {"blockSize": 2}
    return _one("SPACE_TO_DEPTH", "SpaceToDepthOptions", fields, [2, 4, 6, 3], dtype, _like(random, dtype))


@move("DEPTH_TO_SPACE")
def _depth_to_space(random: np.random.Generator, dtype: str) -> Case:
    fields = {"blockSize": 2}
    return _one("DEPTH_TO_SPACE", "DepthToSpaceOptions", fields, [2, 2, 3, 12], dtype, _like(random, dtype))


@move("SPACE_TO_BATCH_ND")
def _space_to_batch(random: np.random.Generator, dtype: str) -> Case:
    more = _numbers([2, 3]), _numbers([[1, 1], [0, 2]])
    return _one(
        "SPACE_TO_BATCH_ND", "SpaceToBatchNDOptions", {}, [2, 4, 7, 3], dtype, _like(random, dtype), *more
    )


@move("BATCH_TO_SPACE_ND")
def _batch_to_space(random: np.random.Generator, dtype: str) -> Case:
    more = _numbers([2, 3]), _numbers([[1, 0], [0, 2]])
    return _one(
        "BATCH_TO_SPACE_ND", "BatchToSpaceNDOptions", {}, [12, 2, 3, 3], dtype, _like(random, dtype), *more
    )


@move("GATHER", "int8", "float32", "bool")
def _gather(random: np.random.Generator, dtype: str) -> Case:
    batched = random.random() < 0.4
    axis = 1 if batched else int(random.integers(0, 3))
    wanted = [3, 2] if batched else [2, 2]
    fields = {"axis": axis, "batchDims": int(batched)}
    return _one(
        "GATHER",
        "GatherOptions",
        fields,
        [3, 4, 5],
        dtype,
        _like(random, dtype),
        _numbers(random.integers(0, 3, wanted)),
    )


@move("GATHER_ND")
def _gather_nd(random: np.random.Generator, dtype: str) -> Case:
    return _one(
        "GATHER_ND",
        "GatherNdOptions",
        {},
        [3, 4, 5],
        dtype,
        _like(random, dtype),
        _numbers(random.integers(0, 3, (2, 3, 2))),
    )


@move("ARG_MAX", "int8", "uint8", "float32")
def _arg_max(random: np.random.Generator, dtype: str) -> Case:
    kind = "ARG_MAX" if random.random() < 0.5 else "ARG_MIN"
    options = "ArgMaxOptions" if kind == "ARG_MAX" else "ArgMinOptions"
    x = Tensor([3, 4, 5], dtype, **_like(random, dtype))
    return Case(
        kind, options, {"outputType": 2}, [x, _numbers(int(random.integers(-3, 3)))], [Tensor([1], "int32")]
    )


@move("SELECT_V2")
def _select(random: np.random.Generator, dtype: str) -> Case:
    same = _like(random, dtype)
    ins = [Tensor([2, 1, 4], "bool"), Tensor([2, 3, 4], dtype, **same), Tensor([2, 3, 4], dtype, **same)]
    return Case("SELECT_V2", "SelectV2Options", {}, ins, [Tensor([1], dtype, **same)])


@move("CAST", "float32")
def _cast(random: np.random.Generator, dtype: str) -> Case:
    wanted = str(random.choice(["int32", "bool", "float32"]))
    fields = {"inDataType": 0, "outDataType": {"int32": 2, "bool": 6, "float32": 0}[wanted]}
    return Case(
        "CAST", "CastOptions", fields, [Tensor([3, 40], "float32")], [Tensor([1], wanted)], spread=4.0
    )


@move("FLOOR_DIV", "int32", "float32")
def _floor_div(random: np.random.Generator, dtype: str) -> Case:
    kind, options = [("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions")][
        int(random.integers(0, 2))
    ]
    divisor = Tensor([3, 20], dtype, data=random.choice([-7, -3, 2, 5, 11], (3, 20)))
    return Case(kind, options, {}, [Tensor([3, 20], dtype), divisor], [Tensor([1], dtype)], spread=30.0)


@move("CUMSUM", "float32", "int32")
def _cumsum(random: np.random.Generator, dtype: str) -> Case:
    fields = {"exclusive": bool(random.random() < 0.5), "reverse": bool(random.random() < 0.5)}
    return _one("CUMSUM", "CumsumOptions", fields, [3, 5, 4], dtype, {}, _numbers(int(random.integers(0, 3))))


@move("TOPK_V2", "float32")
def _top_k(random: np.random.Generator, dtype: str) -> Case:
    ins = [Tensor([3, 9], dtype), _numbers(4)]
    return Case("TOPK_V2", "TopKV2Options", {}, ins, [Tensor([1], dtype), Tensor([1], "int32")])


@move("ONE_HOT", "float32")
def _one_hot(random: np.random.Generator, dtype: str) -> Case:
    indices = _numbers(random.integers(-1, 6, (2, 3)))
    ends = [Tensor([], dtype, data=value) for value in (2.0, -1.0)]
    ins = [indices, _numbers(5), *ends, Tensor([1], dtype)]
    fields = {"axis": int(random.integers(-1, 3))}
    return Case("ONE_HOT", "OneHotOptions", fields, ins[:4], [Tensor([1], dtype)])


@move("SCATTER_ND", "float32", "int8", "uint8")
def _scatter_nd(random: np.random.Generator, dtype: str) -> Case:
    ins = [_numbers(random.integers(0, 3, (4, 1))), Tensor([4, 2], dtype), _numbers([3, 2])]
    return Case("SCATTER_ND", "ScatterNdOptions", {}, ins, [Tensor([1], dtype)])


@move("RESIZE_BILINEAR of reals", "float32")
def _resize(random: np.random.Generator, dtype: str) -> Case:
    align = bool(random.random() < 0.4)
    fields = {"alignCorners": align, "halfPixelCenters": not align and bool(random.random() < 0.6)}
    sizes = _numbers(shape_of(random, 2, 12))
    return _one(
        "RESIZE_BILINEAR", "ResizeBilinearOptions", fields, [2, *shape_of(random, 3, 7)], dtype, {}, sizes
    )


@move("reals", "float32")
def _reals(random: np.random.Generator, dtype: str) -> Case:
    kinds = (
        "SIN COS EXP SQUARE FLOOR CEIL ROUND NEG ABS TANH LOGISTIC HARD_SWISH RELU RELU6 RELU_N1_TO_1 GELU SOFTMAX "
        "LOG_SOFTMAX L2_NORMALIZATION"
    ).split()
    kind = str(random.choice(kinds))
    options = {
        "SOFTMAX": ("SoftmaxOptions", {"beta": 0.7}),
        "GELU": ("GeluOptions", {"approximate": bool(random.random() < 0.5)}),
    }
    options |= {"L2_NORMALIZATION": ("L2NormOptions", {})}
    return Case(
        kind, *options.get(kind, ("", {})), [Tensor([4, 50], dtype)], [Tensor([4, 50], dtype)], spread=3.0
    )


@move("layers of reals", "float32")
def _layers(random: np.random.Generator, dtype: str) -> Case:
    kind = int(random.integers(0, 4))
    w = random.normal(0, 1, (3, 2, 3, 4))
    bias = Tensor([3], dtype, data=random.normal(0, 1, 3))
    fields = {"padding": int(random.integers(0, 2)), "strideH": 2, "strideW": 1, "fusedActivationFunction": 1}
    x, y = Tensor([2, 7, 6, 4], dtype), [Tensor([1], dtype)]
    if kind == 0:
        return Case("CONV_2D", "Conv2DOptions", fields, [x, Tensor(w.shape, dtype, data=w), bias], y)
    if kind == 1:
        fields["depthMultiplier"] = 1
        depthwise = Tensor([1, 3, 2, 4], dtype, data=random.normal(0, 1, (1, 3, 2, 4)))
        four = Tensor([4], dtype, data=random.normal(0, 1, 4))
        return Case("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", fields, [x, depthwise, four], y)
    if kind == 2:
        fields |= {"filterHeight": 3, "filterWidth": 2}
        return Case("AVERAGE_POOL_2D", "Pool2DOptions", fields, [x], y)
    dense = Tensor([5, 4], dtype, data=random.normal(0, 1, (5, 4)))
    return Case("FULLY_CONNECTED", "FullyConnectedOptions", {"keepNumDims": True}, [x, dense, None], y)
