"""ONNX models with weights of four bits in groups, in the ways in which exporters write them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DEPTH, WIDTH = 192, 48
INT32 = np.int32


class GroupedWeights:
    """Random levels 0 to 15 [DEPTH, WIDTH], with scales and zero points [groups, WIDTH]."""

    def __init__(self, size: int, zero_points: bool, seed: int = 5) -> None:
        random = np.random.default_rng(seed)
        count = DEPTH // size
        self.size, self.has_zero_points = size, zero_points
        self.levels = random.integers(0, 16, (DEPTH, WIDTH))
        self.scales = random.uniform(0.005, 0.02, (count, WIDTH)).astype(np.float32)
        self.zeros = random.integers(2, 14, (count, WIDTH)) if zero_points else np.full((count, WIDTH), 8)

    @property
    def reals(self) -> np.ndarray:
        """The matrix [DEPTH, WIDTH]."""
        scales, zeros = (np.repeat(each, self.size, 0) for each in (self.scales, self.zeros))
        return (self.levels - zeros) * scales


def _packed(values: np.ndarray) -> np.ndarray:
    """Bytes of two levels each, along the last axis."""
    pairs = values.reshape(*values.shape[:-1], -1, 2).astype(np.uint8)
    return pairs[..., 0] | pairs[..., 1] << 4


def _model(nodes: list, constants: dict[str, object], kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    tensors = [
        each if isinstance(each, TensorProto) else numpy_helper.from_array(np.asarray(each), name)
        for name, each in constants.items()
    ]
    graph = helper.make_graph(
        nodes,
        "groups",
        [helper.make_tensor_value_info("x", kind, (1, DEPTH))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, WIDTH))],
        tensors,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def matmul_n_bits(weights: GroupedWeights) -> onnx.ModelProto:
    """MatMulNBits of ONNX Runtime."""
    size, count = weights.size, DEPTH // weights.size
    constants = {
        "w": _packed(weights.levels.T.reshape(WIDTH, count, size)),
        "s": weights.scales.T.reshape(-1),
    }
    if weights.has_zero_points:
        zeros = np.pad(weights.zeros.T, ((0, 0), (0, count % 2)))
        constants["z"] = _packed(zeros).reshape(-1)
    node = helper.make_node(
        "MatMulNBits",
        ["x", *constants],
        ["y"],
        domain="com.microsoft",
        K=DEPTH,
        N=WIDTH,
        bits=4,
        block_size=size,
    )
    return _model([node], constants)


def blocked(weights: GroupedWeights) -> onnx.ModelProto:
    """DequantizeLinear of blocks."""
    return _model(*_blocked(weights, "x", "y"))


def _blocked(weights: GroupedWeights, x: str, y: str) -> tuple[list, dict[str, object]]:
    def int4(name: str, values: np.ndarray) -> TensorProto:
        packed = _packed(values.reshape(-1)).tobytes()
        return helper.make_tensor(name, TensorProto.UINT4, values.shape, packed, raw=True)

    constants = {"w": int4("w", weights.levels), "s": weights.scales, "z": int4("z", weights.zeros)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["real"], axis=0, block_size=weights.size),
        helper.make_node("MatMul", [x, "real"], [y]),
    ]
    return nodes, constants


def blocked_between_pairs(weights: GroupedWeights, x_scale: float, y_scale: float) -> onnx.ModelProto:
    """The same in a model whose activations have pairs."""
    nodes, constants = _blocked(weights, "x8", "y32")
    constants |= {"xs": np.float32(x_scale), "ys": np.float32(y_scale), "zp": np.int8(3)}
    pairs = [("x", "xs", "x8"), ("y32", "ys", "y")]
    made = [
        [
            helper.make_node("QuantizeLinear", [source, scale, "zp"], [f"{result}q"]),
            helper.make_node("DequantizeLinear", [f"{result}q", scale, "zp"], [result]),
        ]
        for source, scale, result in pairs
    ]
    return _model([*made[0], *nodes, *made[1]], constants)


def shifted(weights: GroupedWeights) -> onnx.ModelProto:
    """What GPTQ's and AWQ's layers are in ONNX: words of eight levels, which shifts and masks take apart."""
    places = np.arange(8, dtype=np.uint32) * 4

    def words(levels: np.ndarray) -> np.ndarray:
        return (levels.astype(np.uint32) << places[None, :, None]).sum(1, dtype=np.uint32)[:, None]

    constants = {
        "w": words(weights.levels.reshape(-1, 8, WIDTH)),
        "z": words(weights.zeros.T.reshape(-1, 8, len(weights.scales))),
        "s": weights.scales,
        "places": places.reshape(1, 8, 1),
        "mask": np.uint32(15),
        "group": np.arange(DEPTH) // weights.size,
        "depth_first": np.array([DEPTH, WIDTH]),
        "width_first": np.array([WIDTH, -1]),
    }
    nodes = []
    for name, shape in (("w", "depth_first"), ("z", "width_first")):
        nodes += [
            helper.make_node("BitShift", [name, "places"], [f"{name}1"], direction="RIGHT"),
            helper.make_node("BitwiseAnd", [f"{name}1", "mask"], [f"{name}2"]),
            helper.make_node("Reshape", [f"{name}2", shape], [f"{name}3"]),
            helper.make_node("Cast", [f"{name}3"], [f"{name}4"], to=TensorProto.FLOAT),
        ]
    nodes += [
        helper.make_node("Transpose", ["z4"], ["z5"], perm=[1, 0]),
        helper.make_node("Gather", ["z5", "group"], ["zeros"]),
        helper.make_node("Gather", ["s", "group"], ["scales"]),
        helper.make_node("Sub", ["w4", "zeros"], ["whole"]),
        helper.make_node("Mul", ["whole", "scales"], ["real"]),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    return _model(nodes, constants)


EXPORTS = {"MatMulNBits": matmul_n_bits, "DequantizeLinear": blocked, "shifts": shifted}
