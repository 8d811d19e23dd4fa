"""Random small networks that bring their encodings and have integer inputs; ONNX Runtime, unoptimized, judges them."""

import pathlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SAMPLES = 4
OPSET = 17
_TYPES = {
    np.dtype(kind): helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    for kind in ("float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool")
}
Feeds = list[dict[str, np.ndarray]]


@dataclass(frozen=True)
class Judged:
    """A model, what it is fed, and what ONNX Runtime makes of it."""

    model: onnx.ModelProto
    feeds: Feeds
    wanted: list[dict[str, np.ndarray]]


def session_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def judged(model: onnx.ModelProto, feeds: Feeds) -> Judged:
    session = session_of(model)
    names = [value.name for value in model.graph.output]
    return Judged(model, feeds, [dict(zip(names, session.run(names, feed), strict=True)) for feed in feeds])


@dataclass
class Net:
    """A network under construction: each node is run at once on all samples, so that scales fit what there is."""

    random: np.random.Generator
    spelled: bool = True
    """Whether scales and zero points come in all spellings."""
    opset: int = OPSET
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, tuple[np.dtype, tuple[int, ...]]] = field(default_factory=dict)
    values: dict[str, list[np.ndarray]] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    """Scales of real tensors that were integers."""

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def input(self, name: str, make: Callable[[], np.ndarray]) -> str:
        self.values[name] = [make() for _ in range(SAMPLES)]
        self.inputs[name] = self.values[name][0].dtype, self.values[name][0].shape
        return name

    def constant(self, value) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        self.values[name] = [self.constants[name]] * SAMPLES
        return name

    def node(self, op: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes) -> str:
        names = [f"{op}_{len(self.nodes)}" + (f"_{index}" if index else "") for index in range(outputs)]
        node = helper.make_node(op, list(inputs), names, name=names[0], domain=domain, **attributes)
        self.nodes.append(node)
        infos = [
            helper.make_tensor_value_info(
                name, _TYPES[self.values[name][0].dtype], self.values[name][0].shape
            )
            for name in dict.fromkeys(filter(None, inputs))
        ]
        graph = helper.make_graph([node], "one", infos, [onnx.ValueInfoProto(name=name) for name in names])
        session = session_of(self._model(graph))
        runs = [
            session.run(names, {i.name: self.values[i.name][sample] for i in infos})
            for sample in range(SAMPLES)
        ]
        for index, name in enumerate(names):
            self.values[name] = [run[index] for run in runs]
        return names[0]

    def _model(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    # --- encodings

    def number(self, value: np.ndarray) -> str:
        """A scale or zero point, spelled in one of many ways."""
        how = self.random.integers(8) if self.spelled else 0
        if how == 1:
            return self.node("Constant", value=numpy_helper.from_array(value))
        if how == 2:
            return self.node("Identity", self.constant(value))
        if how == 3 and value.dtype.kind == "f":
            return self.node("Div", self.constant(np.float32(value * 64)), self.constant(np.float32(64)))
        if how == 3 and value.size == 1:
            return self.node("Cast", self.constant(value.astype(np.int32)), to=_TYPES[value.dtype])
        if how == 4 and value.dtype == np.float32 and value.ndim == 0:
            return self.node("Constant", value_float=float(value))
        return self.constant(value)

    def encoding(self, x: str, kind=None) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero point for the values that a tensor has."""
        low = min(0.0, *(float(value.min()) for value in self.values[x]))
        high = max(0.0, *(float(value.max()) for value in self.values[x]))
        kind = np.dtype(kind or self.pick("int8", "uint8", "int8"))
        info = np.iinfo(kind)
        room = self.pick(1.0, 1.0, 0.9)
        if self.random.random() < 0.3 and kind == np.int8:
            return np.float32(room * max(-low, high, 1e-3) / 127), np.int8(0)
        scale = np.float32(room * max(high - low, 1e-3) / (int(info.max) - int(info.min)))
        return scale, np.clip(np.rint(info.min - low / scale), info.min, info.max).astype(kind)

    def quantized(self, x: str, encoding=None) -> tuple[str, tuple[str, str], str]:
        """Integers of a tensor, the names of its encoding, and the domain of its pair."""
        scale, zero_point = encoding or self.encoding(x)
        domain = "com.microsoft" if self.spelled and self.random.random() < 0.15 else ""
        parameters = self.number(np.float32(scale)), self.number(zero_point)
        return self.node("QuantizeLinear", x, *parameters, domain=domain), parameters, domain

    def pair(self, x: str, encoding=None) -> str:
        q, parameters, domain = self.quantized(x, encoding)
        result = self.node("DequantizeLinear", self.moved(q), *parameters, domain=domain)
        self.scales[result] = float(self.values[parameters[0]][0])
        return result

    def moved(self, q: str) -> str:
        """Integers, now and then moved to and fro."""
        if self.random.random() > 0.25:
            return q
        shape = self.values[q][0].shape
        how = self.pick("Identity", "Reshape", "Transpose", "Flatten", "Slice", "Concat")
        if how == "Identity":
            return self.node("Identity", q)
        if how == "Reshape":
            return self.back(self.node("Reshape", q, self.constant(np.array([-1], np.int64))), shape)
        if how == "Flatten":
            return self.back(self.node("Flatten", q, axis=1), shape)
        if how == "Transpose":
            perm = [0, *self.random.permutation(np.arange(1, len(shape)))]
            turned = self.node("Transpose", q, perm=[int(axis) for axis in perm])
            return self.node("Transpose", turned, perm=[int(axis) for axis in np.argsort(perm)])
        axis = len(shape) - 1
        whole = self.node("Concat", q, q, axis=axis) if how == "Concat" else q
        ends = (self.constant(np.array([value], np.int64)) for value in (0, shape[axis], axis))
        return self.node("Slice", whole, *ends)

    def back(self, x: str, shape: tuple[int, ...]) -> str:
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def weight(self, shape: tuple[int, ...], axis: int, gain: float = 1.0) -> tuple[str, np.ndarray]:
        """A weight in reals, and its scales: of each channel or of all."""
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        fan = int(np.prod(shape)) / shape[axis]
        base = gain / np.sqrt(fan) / 73
        many = self.random.random() < 0.6
        scales = (base * self.random.uniform(0.5, 1.5, shape[axis] if many else ())).astype(np.float32)
        zero = np.zeros(scales.shape, np.int8)
        if not many and self.random.random() < 0.3:
            zero = np.int8(self.random.integers(-20, 20))
        parameters = self.number(scales), self.number(np.asarray(zero))
        more = {"axis": axis} if many else {}
        return self.node("DequantizeLinear", self.constant(values), *parameters, **more), scales

    def model(self, outputs: list[str]) -> Judged:
        infos = [
            helper.make_tensor_value_info(n, _TYPES[dtype], shape)
            for n, (dtype, shape) in self.inputs.items()
        ]
        results = [
            helper.make_tensor_value_info(n, _TYPES[self.values[n][0].dtype], self.values[n][0].shape)
            for n in outputs
        ]
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        model = self._model(helper.make_graph(self.nodes, "random", infos, results, constants))
        feeds = [{name: self.values[name][sample] for name in self.inputs} for sample in range(SAMPLES)]
        return judged(model, feeds)


# --- networks of images -----------------------------------------------------------------------------------------


def _activation(net: Net, x: str) -> str:
    kind = net.pick("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "SiLU", "Clip", "Elu", "Abs", "")
    if kind == "LeakyRelu":
        return net.node(kind, x, alpha=float(net.pick(0.1, 0.01, 0.3)))
    if kind == "SiLU":
        return net.node("Mul", x, net.node("Sigmoid", x))
    if kind == "Clip":
        return net.node(kind, x, net.constant(np.float32(0)), net.constant(np.float32(net.pick(1.0, 6.0))))
    return net.node(kind, x) if kind else x


def _convolution(net: Net, x: str) -> str:
    _, channels, height, _ = net.values[x][0].shape
    kernel = int(net.pick(1, 3)) if height >= 3 else 1
    group = channels if net.random.random() < 0.25 else 1
    filters = channels if group > 1 else int(net.pick(3, 4, 6))
    weight, scales = net.weight((filters, channels // group, kernel, kernel), 0)
    operands = [x, weight]
    if net.random.random() < 0.6:
        unit = (np.float32(net.scales[x]) * np.broadcast_to(scales, (filters,))).astype(np.float32)
        integers = net.random.integers(-2000, 2000, filters).astype(np.int32)
        operands.append(net.node("DequantizeLinear", net.constant(integers), net.constant(unit), axis=0))
    pad = int(net.pick(0, kernel // 2)) if height > kernel else kernel // 2
    return net.node("Conv", *operands, group=group, pads=[pad] * 4, kernel_shape=[kernel, kernel])


def image_network(net: Net) -> Judged:
    """int8 or uint8 pixels, convolutions, activations, pools, sums; a class or an image as integers or reals."""
    kind, shape = (
        np.dtype(net.pick("int8", "uint8")),
        (1, int(net.pick(1, 3, 4)), *(int(net.pick(6, 8)),) * 2),
    )
    info = np.iinfo(kind)
    q = net.input("x", lambda: net.random.integers(info.min, info.max + 1, shape).astype(kind))
    zero_point = kind.type(
        net.pick(info.min, info.max, 0, 3, int(net.random.integers(info.min, info.max + 1)))
    )
    scale = np.float32(net.random.uniform(0.005, 0.05))
    x = net.node("DequantizeLinear", net.moved(q), net.number(scale), net.number(zero_point))
    net.scales[x] = float(scale)
    for _ in range(int(net.random.integers(1, 4))):
        before = x
        x = net.pair(_activation(net, _convolution(net, x)))
        how = net.pick("", "", "add", "mul", "pool", "average", "concat")
        if how in ("add", "mul") and net.values[before][0].shape == net.values[x][0].shape:
            x = net.pair(net.node(how.capitalize(), x, before))
        elif how == "concat" and net.values[before][0].shape[2:] == net.values[x][0].shape[2:]:
            x = net.pair(net.node("Concat", x, before, axis=1))
        elif how in ("pool", "average") and net.values[x][0].shape[2] >= 4:
            op = "MaxPool" if how == "pool" else "AveragePool"
            x = net.pair(net.node(op, x, kernel_shape=[2, 2], strides=[2, 2]))
    if net.random.random() < 0.6:
        if net.random.random() < 0.5:
            x = net.pair(net.node("GlobalAveragePool", x))
        x = net.node("Flatten", x)
        weight, _ = net.weight((int(np.prod(net.values[x][0].shape)), 5), 1)
        x = net.node("MatMul", x, weight)
        if net.random.random() < 0.4:
            x = net.node("Softmax", net.pair(x), axis=-1)
    return _ended(net, x)


def _ended(net: Net, x: str) -> Judged:
    if net.random.random() < 0.5:
        return net.model([net.pair(x)])
    q, _, _ = net.quantized(x)
    return net.model([net.moved(q)])


# --- networks of tokens -----------------------------------------------------------------------------------------


def token_network(net: Net) -> Judged:
    """Token ids and a mask of any type, or an int8 sequence and a mask; norms, products, attention."""
    length, width, words = int(net.pick(4, 6)), int(net.pick(8, 12)), int(net.pick(10, 40))
    if net.random.random() < 0.7:
        kind = net.pick("int64", "int32")
        ids = net.input("ids", lambda: net.random.integers(0, words, (1, length)).astype(kind))
        table = net.constant(net.random.integers(-127, 128, (words, width)).astype(np.int8))
        table = net.node("DequantizeLinear", table, net.number(np.float32(0.02)), net.number(np.int8(0)))
        x = net.node("Gather", table, ids, axis=0)
    else:
        q = net.input("x", lambda: net.random.integers(-128, 128, (1, length, width)).astype(np.int8))
        x = net.node(
            "DequantizeLinear", q, net.number(np.float32(0.02)), net.number(np.int8(net.pick(0, -7)))
        )
    how = net.pick("norm", "silu", "none", "norm")
    if how == "norm":
        lines = (net.random.uniform(0.5, 1.5, width), net.random.standard_normal(width) * 0.3)
        x = net.node("LayerNormalization", x, *(net.constant(line.astype(np.float32)) for line in lines))
    elif how == "silu":
        x = net.node("Mul", x, net.node("Sigmoid", x))
    x = net.pair(x)
    if net.random.random() < 0.75:
        x = _attention(net, x, length, width)
    weight, _ = net.weight((width, 5), 1)
    x = net.node("MatMul", x, weight)
    if net.random.random() < 0.3:
        x = net.node("Tanh", x)
    return _ended(net, x)


def _attention(net: Net, x: str, length: int, width: int) -> str:
    q, k = (net.pair(net.node("MatMul", x, net.weight((width, width), 1)[0])) for _ in "qk")
    scores = net.node("MatMul", q, net.node("Transpose", k, perm=[0, 2, 1]))
    scores = net.node("Mul", scores, net.constant(np.float32(1 / np.sqrt(width))))
    if net.random.random() < 0.8:
        scores = net.pair(scores)
    scores = _masked(net, scores, length)
    weights = net.pair(net.node("Softmax", scores, axis=-1), (np.float32(1 / 256), np.int8(-128)))
    return net.pair(net.node("MatMul", weights, x))


def _masked(net: Net, scores: str, length: int) -> str:
    how = net.pick("where", "where not", "times", "one minus", "")
    if not how:
        return scores
    kind = "bool" if how.startswith("where") else net.pick("int64", "int32", "bool")
    shape = net.pick((1, 1, length), (1, length, length))

    def mask() -> np.ndarray:
        return (net.random.random(shape) < net.pick(0.2, 0.5)).astype(kind)

    m = net.input("mask", mask)
    large = net.constant(np.float32(net.pick(-1e4, -1e9, -65504, -100)))
    if how == "where":
        return net.node("Where", m, large, scores)
    if how == "where not":
        return net.node("Where", net.node("Not", m), scores, large)
    real = net.node("Cast", m, to=TensorProto.FLOAT)
    if how == "one minus":
        real = net.node("Sub", net.constant(np.float32(1)), real)
    return net.node("Add", scores, net.node("Mul", real, large))


# --- quantized operators ----------------------------------------------------------------------------------------


def operator_network(net: Net) -> Judged:
    """QLinearConv and ONNX Runtime's quantized operators, integers from end to end."""
    kind = np.dtype(net.pick("int8", "uint8"))
    info, shape = np.iinfo(kind), (1, int(net.pick(2, 3)), 6, 6)

    def some(scale: float) -> tuple[str, str]:
        zero_point = (
            kind.type(net.random.integers(info.min, info.max + 1))
            if net.random.random() < 0.5
            else kind.type(int(info.min) + 128)
        )
        return net.constant(np.float32(scale)), net.constant(zero_point)

    x = net.input("x", lambda: net.random.integers(info.min, info.max + 1, shape).astype(kind))
    own = some(0.02)
    for _ in range(int(net.random.integers(1, 4))):
        channels, filters = net.values[x][0].shape[1], int(net.pick(2, 4))
        weight = net.constant(net.random.integers(-127, 128, (filters, channels, 3, 3)).astype(np.int8))
        scales = net.random.uniform(0.5, 1.5, filters).astype(np.float32) / np.float32(9 * channels * 12)
        bias = net.constant(net.random.integers(-500, 500, filters).astype(np.int32))
        result = some(0.03)
        zeros = net.constant(np.zeros(filters, np.int8))
        y = net.node(
            "QLinearConv",
            x,
            *own,
            weight,
            net.constant(scales),
            zeros,
            *result,
            bias,
            pads=[1] * 4,
            kernel_shape=[3, 3],
        )
        x, own, before = y, result, (x, own)
        how = net.pick("add", "mul", "sigmoid", "leaky", "pool", "average", "concat", "")
        result = some(0.03)
        if how in ("add", "mul"):
            other = before if net.values[before[0]][0].shape == net.values[x][0].shape else (x, own)
            op = "QLinearAdd" if how == "add" else "QLinearMul"
            x, own = net.node(op, x, *own, other[0], *other[1], *result, domain="com.microsoft"), result
        elif how == "sigmoid":
            result = net.constant(np.float32(1 / 256)), net.constant(kind.type(info.min))
            x, own = net.node("QLinearSigmoid", x, *own, *result, domain="com.microsoft"), result
        elif how == "leaky":
            x = net.node("QLinearLeakyRelu", x, *own, *result, domain="com.microsoft", alpha=0.1)
            own = result
        elif how == "pool":
            x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
        elif how == "average":
            x = net.node(
                "QLinearAveragePool",
                x,
                *own,
                *result,
                domain="com.microsoft",
                kernel_shape=[2, 2],
                strides=[1, 1],
            )
            own = result
        elif how == "concat":
            x = net.node("QLinearConcat", *result, x, *own, x, *own, domain="com.microsoft", axis=1)
            own = result
    if net.random.random() < 0.3:
        x = net.node("DequantizeLinear", x, *own)
    return net.model([x])


# --- quantize_static --------------------------------------------------------------------------------------------


class _Samples:
    def __init__(self, feeds: Feeds) -> None:
        self._feeds = iter(feeds)

    def get_next(self):
        return next(self._feeds, None)


def static_network(net: Net) -> Judged:
    """A float network that `quantize_static` has quantized, without its first QuantizeLinear."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    shape = (1, 3, 8, 8)
    x = net.input("x", lambda: net.random.uniform(-1, 2, shape).astype(np.float32))
    for _ in range(int(net.random.integers(1, 4))):
        before, channels = x, net.values[x][0].shape[1]
        filters = int(net.pick(3, 4))
        weight = net.random.standard_normal((filters, channels, 3, 3)) / np.sqrt(channels * 9)
        bias = net.constant(net.random.standard_normal(filters).astype(np.float32) * np.float32(0.2))
        x = net.node("Conv", x, net.constant(weight.astype(np.float32)), bias, pads=[1] * 4)
        how = net.pick("Relu", "Sigmoid", "LeakyRelu", "HardSwish", "Relu")
        x = net.node(how, x)
        if net.values[x][0].shape == net.values[before][0].shape and net.random.random() < 0.5:
            x = net.node("Add", x, before)
        if net.random.random() < 0.3 and net.values[x][0].shape[2] > 2:
            x = net.node(net.pick("MaxPool", "AveragePool"), x, kernel_shape=[2, 2], strides=[2, 2])
    if net.random.random() < 0.5:
        x = net.node("Flatten", net.node("GlobalAveragePool", x))
        matrix = net.random.standard_normal((net.values[x][0].shape[1], 5)).astype(np.float32)
        x = net.node("MatMul", x, net.constant(matrix))
    else:
        weight = net.random.standard_normal((4, net.values[x][0].shape[1], 1, 1)).astype(np.float32)
        x = net.node("Conv", x, net.constant(weight))
    whole = net.model([x])
    kind = net.pick("QInt8", "QUInt8")
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "quantized.onnx"
        source = pathlib.Path(folder) / "float.onnx"
        onnx.save(whole.model, source)
        quantize_static(
            source,
            target,
            _Samples(whole.feeds),
            quant_format=net.pick(QuantFormat.QDQ, QuantFormat.QOperator),
            activation_type=QuantType[kind],
            weight_type=QuantType.QInt8,
            per_channel=bool(net.random.random() < 0.5),
        )
        return _with_integer_input(onnx.load(target), whole.feeds)


def _with_integer_input(model: onnx.ModelProto, feeds: Feeds) -> Judged:
    graph = model.graph
    (first,) = (node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "x")
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    scale, zero_point = (known[name] for name in first.input[1:3])
    info = np.iinfo(zero_point.dtype)
    graph.node.remove(first)
    for node in graph.node:
        node.input[:] = ["x" if name == first.output[0] else name for name in node.input]
    graph.input[0].type.tensor_type.elem_type = _TYPES[zero_point.dtype]
    integers = [np.clip(np.rint(feed["x"] / scale) + zero_point, info.min, info.max) for feed in feeds]
    return judged(model, [{"x": each.astype(zero_point.dtype)} for each in integers])


FAMILIES = (image_network, token_network, operator_network, static_network)


def network(seed: int) -> Judged:
    """A network of one of the four families."""
    return FAMILIES[seed % len(FAMILIES)](Net(np.random.default_rng(seed)))


# --- what a network leaves open ----------------------------------------------------------------------------------

_TIE = 1e-4
"""Steps that lift a tie."""
_NEAR_TIE = 1 / 25
"""Steps beside a tie within which a curve of 16 bits may fall to either side."""
_DRAWS = 64
_REAL_OPS = {
    "QLinearConv": "Conv",
    "QLinearAdd": "Add",
    "QLinearMul": "Mul",
    "QLinearSigmoid": "Sigmoid",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearAveragePool": "AveragePool",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearConcat": "Concat",
    "QLinearMatMul": "MatMul",
}


def open_range(case: Judged) -> list[dict[str, tuple[np.ndarray, np.ndarray]]]:
    """The least and the largest that ONNX Runtime makes of each output where its QuantizeLinears round a little apart.

    Ties go upwards, as TOSA rounds, in the first of many runs; in the others each element is moved at random by up to a
    25th of a step before it is rounded. That is what the network leaves open: in float32 it is chance to which side
    of a tie a mean of four falls, and one step of a logit is seven of a softmax.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    lifting = _Lifting(model.graph)
    for node in case.model.graph.node:
        lifting.take(node)
    del model.graph.node[:]
    model.graph.node.extend(lifting.nodes)
    plain = onnx.ModelProto()
    plain.CopyFrom(case.model)
    plain.graph.output.extend(onnx.ValueInfoProto(name=name) for name in lifting.lifts.values())
    session, lifted = session_of(plain), session_of(model)
    names, random, found = [value.name for value in case.model.graph.output], np.random.default_rng(1), []
    for feed, wanted in zip(case.feeds, case.wanted, strict=True):
        shapes = [each.shape for each in session.run(list(lifting.lifts.values()), feed)]
        runs = [[wanted[name] for name in names]]
        for draw in range(_DRAWS):
            lifts = {
                name: np.full(shape, _TIE, np.float32)
                if not draw
                else random.uniform(-_NEAR_TIE, _NEAR_TIE, shape).astype(np.float32)
                for name, shape in zip(lifting.lifts, shapes, strict=True)
            }
            runs.append(lifted.run(names, {**feed, **lifts}))
        ends = [(np.min(each, axis=0), np.max(each, axis=0)) for each in zip(*runs, strict=True)]
        found.append(dict(zip(names, ends, strict=True)))
    return found


class _Lifting:
    """Writes QuantizeLinear with a little more, and quantized operators as reals between pairs."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph, self.nodes, self.count = graph, [], 0
        self.lifts: dict[str, str] = {}
        """The results by the inputs that lift them."""

    def add(self, op: str, *inputs: str, output: str = "", **attributes) -> str:
        self.count += 1
        result = output or f"lifted_{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [result], **attributes))
        return result

    def quantize(self, x: str, encoding: list[str], output: str, domain: str = "") -> None:
        lift = f"lift_{output}"
        self.lifts[lift] = output
        self.graph.input.append(helper.make_tensor_value_info(lift, TensorProto.FLOAT, None))
        some = self.add("Mul", encoding[0], lift)
        self.add("QuantizeLinear", self.add("Add", x, some), *encoding, output=output, domain=domain)

    def real(self, inputs: list[str], **attributes) -> str:
        return self.add("DequantizeLinear", *inputs, **attributes)

    def take(self, node: onnx.NodeProto) -> None:
        names, output = list(node.input), node.output[0]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "QuantizeLinear":
            self.quantize(names[0], names[1:], output, node.domain)
        elif node.op_type not in _REAL_OPS:
            self.nodes.append(node)
        elif node.op_type == "QLinearConv":
            operands = [self.real(names[:3]), self.real(names[3:6], axis=0)]
            if len(names) > 8:
                unit = self.add("Mul", names[1], names[4])
                operands.append(self.real([names[8], unit], axis=0))
            self.quantize(self.add("Conv", *operands, **attributes), names[6:8], output)
        elif node.op_type == "QLinearConcat":
            parts = [self.real(names[index : index + 3]) for index in range(2, len(names), 3)]
            self.quantize(self.add("Concat", *parts, **attributes), names[:2], output)
        else:
            parts = [self.real(names[index : index + 3]) for index in range(0, len(names) - 2, 3)]
            attributes.pop("channels_last", None)
            real = self.add(_REAL_OPS[node.op_type], *parts, **attributes)
            self.quantize(real, names[-2:], output)
