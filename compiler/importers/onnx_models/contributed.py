"""Operators of other domains that say what operators of the default one do.

ONNX Runtime's quantized operators (com.microsoft), as its static quantizer writes them in the QOperator format: each is
what the QDQ format says of the same operator: DequantizeLinear of its operands, the float operator, QuantizeLinear of
its result. So is QLinearConv and QLinearMatMul in such a model: each integer tensor then stands
between a pair, and becomes the same integers as in the QDQ format.

QuantizeLinear and DequantizeLinear of that domain, which had 16 bits first, are those of the default domain.

FusedConv and FusedGemm, which its optimizer writes: a convolution or product, a sum and an activation. Scaler
(ai.onnx.ml), which converters of scikit-learn write: a difference and a product.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.importers.onnx_models.opsets import DEFAULT_DOMAINS
from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.errors import ModelError, UnsupportedError

DOMAIN = "com.microsoft"


def expand_contributed(model: Any) -> None:
    """Rewrites the graph of a ModelProto in place, if it holds any of these operators.

    ModelError or UnsupportedError for an operator that contradicts itself or needs a newer opset.
    """
    if not any((node.domain, node.op_type) in _FORMS for node in model.graph.node):
        return
    rewriting = _NodeRewriting(model)
    nodes = []
    for node in model.graph.node:
        form = _FORMS.get((node.domain, node.op_type)) or rewriting.form(node)
        if form is None:
            rewriting.learn(node)
            nodes.append(node)
            continue
        try:
            rewriting.begin(node)
            form(rewriting)
        except (
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:  # attributes of other types, too
            reason = " ".join(str(error).split())[:200]
            raise ModelError(
                f"{node.op_type} {node.name!r}: its inputs do not fit the operator ({reason})"
            ) from None
        nodes += rewriting.nodes
    del model.graph.node[:]
    model.graph.node.extend(nodes)


class _NodeRewriting:
    """One node at a time: `nodes` takes its place."""

    def __init__(self, model: Any) -> None:
        self.onnx, self.graph = load_onnx_package(), model.graph
        self.opset = next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 0)
        self.tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self.count = 0
        # Scale and zero point of integer tensors, as names.
        self.encodings: dict[str, list[str]] = {}

    def form(self, node: Any) -> "Callable[[_NodeRewriting], None] | None":
        """How a node of the default domain is rewritten; None if it stays."""
        if node.domain not in DEFAULT_DOMAINS:
            return None
        if node.op_type in _WITH_THEM:
            return _WITH_THEM[node.op_type]
        moved = node.op_type in _MOVES and node.input and node.input[0] in self.encodings
        return _moved if moved else None

    def learn(self, node: Any) -> None:
        """Notes what a QuantizeLinear that stays says of its result."""
        if node.op_type == "QuantizeLinear" and node.output:
            self.encodings[node.output[0]] = [name for name in node.input[1:] if name]

    def begin(self, node: Any) -> None:
        self.node = node
        self.nodes: list[Any] = []
        self.attributes = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
        self.label = f"{node.op_type} {node.name or node.output[0]!r}"

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{self.node.output[0]}/{stem}_{self.count}"

    def has(self, index: int) -> bool:
        return index < len(self.node.input) and bool(self.node.input[index])

    def known(self, index: int) -> np.ndarray:
        """An operand that is an initializer."""
        name = self.node.input[index]
        if name not in self.tensors:
            raise UnsupportedError(
                f"{self.label}: its scale {name!r} is computed at run time; make it an initializer"
            )
        return self.onnx.numpy_helper.to_array(self.tensors[name])

    def constant(self, values: np.ndarray, stem: str) -> str:
        name = self.name(stem)
        self.graph.initializer.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def add(self, op: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        result = output or self.name(op.lower())
        kept = {name: value for name, value in attributes.items() if value is not None}
        label = f"{self.node.name}/{op}" if self.node.name else ""
        same = sum(each.op_type == op for each in self.nodes)
        label += f"_{same}" if label and same else ""
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [result], label, **kept))
        return result

    def real(self, first: int, axis: int = 0) -> str:
        """Operand `first` in reals; its scale and zero point follow it. `axis` counts where there are many scales."""
        inputs = [self.node.input[first], self.node.input[first + 1]]
        if self.has(first + 2):
            inputs.append(self.node.input[first + 2])
        many = inputs[1] in self.tensors and self.known(first + 1).size > 1
        if many and self.opset < 13:
            raise UnsupportedError(
                f"{self.label}: scales for each channel need opset 13; this is {self.opset}"
            )
        return self.add("DequantizeLinear", inputs, axis=axis if many else None)

    def bias(self, index: int, source: int, weights: int, factor: float = 1.0) -> str:
        """An int32 bias in reals: its scale is the product of those of source and weights."""
        scale = np.atleast_1d(self.known(source) * self.known(weights) * np.float32(factor)).astype(
            np.float32
        )
        whole = scale.reshape(()) if scale.size == 1 else scale
        if scale.size > 1 and self.opset < 13:
            raise UnsupportedError(
                f"{self.label}: scales for each channel need opset 13; this is {self.opset}"
            )
        inputs = [self.node.input[index], self.constant(whole, "bias_scale")]
        return self.add("DequantizeLinear", inputs, axis=0 if scale.size > 1 else None)

    def quantize(self, real: str, scale: int) -> None:
        """The node's result: `real` by the scale at index `scale` and the zero point behind it."""
        encoding = [self.node.input[scale]]
        if self.has(scale + 1):
            encoding.append(self.node.input[scale + 1])
        self.encode(real, encoding, self.node.output[0])

    def encode(self, real: str, encoding: list[str], output: str) -> None:
        self.add("QuantizeLinear", [real, *encoding], output)
        self.encodings[output] = encoding

    def activate(self, real: str, kind: str, parameters: dict[str, float]) -> None:
        """The node's result: `real` through an activation by its name, if there is one."""
        if kind and kind not in _ACTIVATIONS:
            raise UnsupportedError(
                f"{self.label}: its activation {kind!r} is not known; take the model before this optimization"
            )
        named = {name: parameters[name] for name in _ACTIVATIONS.get(kind, ()) if name in parameters}
        if kind == "Clip" and self.opset >= 11:
            ends = [self.constant(np.array(value, np.float32), "end") for value in named.values()]
            self.add(kind, [real, *ends], self.node.output[0])
        else:
            self.add(kind or "Identity", [real], self.node.output[0], **named)

    def refuse_channels_last(self) -> None:
        if self.attributes.get("channels_last", 0):
            raise UnsupportedError(
                f"{self.label}: channels_last is not imported; quantize the model without it"
            )


def _elementwise(op: str) -> Callable[[_NodeRewriting], None]:
    def form(r: _NodeRewriting) -> None:
        r.quantize(r.add(op, [r.real(0), r.real(3)]), 6)

    return form


def _unary(op: str, *attributes: str) -> Callable[[_NodeRewriting], None]:
    def form(r: _NodeRewriting) -> None:
        r.quantize(r.add(op, [r.real(0)], **{name: r.attributes.get(name) for name in attributes}), 3)

    return form


def _pool(op: str) -> Callable[[_NodeRewriting], None]:
    def form(r: _NodeRewriting) -> None:
        r.refuse_channels_last()
        kept = {name: value for name, value in r.attributes.items() if name != "channels_last"}
        r.quantize(r.add(op, [r.real(0)], **kept), 3)

    return form


def _softmax(r: _NodeRewriting) -> None:
    if int(r.attributes.get("opset", 13)) < 13:
        raise UnsupportedError(
            f"{r.label}: the softmax of opset 12 joins axes; convert the model to opset 13"
        )
    r.quantize(r.add("Softmax", [r.real(0)], axis=r.attributes.get("axis", -1)), 3)


def _concat(r: _NodeRewriting) -> None:
    parts = [r.real(index) for index in range(2, len(r.node.input), 3)]
    r.quantize(r.add("Concat", parts, axis=r.attributes["axis"]), 0)


def _reduce_mean(r: _NodeRewriting) -> None:
    axes, keep = r.attributes.get("axes"), r.attributes.get("keepdims", 1)
    if r.opset < 18:
        real = r.add("ReduceMean", [r.real(0)], axes=axes, keepdims=keep)
    else:
        more = [] if axes is None else [r.constant(np.array(axes, np.int64), "axes")]
        real = r.add("ReduceMean", [r.real(0), *more], keepdims=keep)
    r.quantize(real, 3)


def _where(r: _NodeRewriting) -> None:
    r.quantize(r.add("Where", [r.node.input[0], r.real(1), r.real(4)]), 7)


def _gemm(r: _NodeRewriting) -> None:
    alpha, turned = float(r.attributes.get("alpha", 1.0)), int(r.attributes.get("transB", 0))
    operands = [r.real(0), r.real(3, axis=0 if turned else 1)]
    if r.has(6):
        operands.append(r.bias(6, 1, 4, alpha))
    whole = not r.has(7)
    real = r.add(
        "Gemm",
        operands,
        r.node.output[0] if whole else None,
        alpha=alpha,
        transA=int(r.attributes.get("transA", 0)),
        transB=turned,
    )
    if not whole:
        r.quantize(real, 7)


def _convolution(r: _NodeRewriting) -> None:
    operands = [r.real(0), r.real(3)]
    if r.has(8):
        operands.append(r.bias(8, 1, 4))
    r.quantize(r.add("Conv", operands, **r.attributes), 6)


def _product(r: _NodeRewriting) -> None:
    r.quantize(r.add("MatMul", [r.real(0), r.real(3, axis=1)]), 6)


def _moved(r: _NodeRewriting) -> None:
    """An operator of integers that moves, compares or mixes them: in reals, by the encoding of its operand."""
    encoding = r.encodings[r.node.input[0]]
    inputs = [r.add("DequantizeLinear", [r.node.input[0], *encoding]), *r.node.input[1:]]
    if r.node.op_type == "Pad" and r.has(2):
        inputs[2] = r.add("DequantizeLinear", [r.node.input[2], *encoding])
    outputs = [r.name("real") if name else "" for name in r.node.output]
    r.nodes.append(r.onnx.helper.make_node(r.node.op_type, inputs, outputs, r.node.name, **r.attributes))
    for real, output in zip(outputs, r.node.output, strict=True):
        if output:
            r.encode(real, encoding, output)


def _default(r: _NodeRewriting) -> None:
    """QuantizeLinear or DequantizeLinear: without `axis` one scale for the tensor."""
    many = "axis" in r.attributes and r.opset >= 13
    r.add(r.node.op_type, list(r.node.input), r.node.output[0], axis=r.attributes["axis"] if many else None)
    r.learn(r.node)


_MOVES = frozenset(
    """DepthToSpace Expand Flatten Gather Identity MaxPool Pad ReduceMax ReduceMin Reshape Resize Slice SpaceToDepth
    Split Squeeze Tile Transpose Unsqueeze Upsample""".split()
)
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "HardSwish": (),
    "Softplus": (),
    "Softsign": (),
    "Elu": ("alpha",),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Clip": ("min", "max"),
}
"""What FusedConv and FusedGemm may have behind them, with the names of their parameters, in FusedConv's order."""
_FUSED = ("activation", "activation_params")


def _fused_convolution(r: _NodeRewriting) -> None:
    kept = {name: value for name, value in r.attributes.items() if name not in _FUSED}
    operands = list(r.node.input[:3])
    real = r.add("Conv", operands if r.has(2) else operands[:2], **kept)
    if r.has(3):
        real = r.add("Add", [real, r.node.input[3]])
    values = [float(value) for value in r.attributes.get("activation_params", ())]
    kind = r.attributes.get("activation", b"").decode()
    r.activate(real, kind, dict(zip(_ACTIVATIONS.get(kind, ()), values, strict=False)))


def _fused_gemm(r: _NodeRewriting) -> None:
    own = {name: value for name, value in r.attributes.items() if not name.startswith("activation")}
    given = {
        name.removeprefix("activation_"): float(value)
        for name, value in r.attributes.items()
        if name.startswith("activation_")
    }
    real = r.add("Gemm", list(r.node.input), **own)
    r.activate(real, r.attributes.get("activation", b"").decode(), given)


def _scaler(r: _NodeRewriting) -> None:
    """(x - offset) * scale, in floats; a list has an entry for each column, or one for all."""
    real = r.add("Cast", [r.node.input[0]], to=r.onnx.TensorProto.FLOAT)
    offset, scale = (np.array(r.attributes[name], np.float32) for name in ("offset", "scale"))
    real = r.add("Sub", [real, r.constant(offset, "offset")])
    r.add("Mul", [real, r.constant(scale, "scale")], r.node.output[0])


_FORMS: dict[tuple[str, str], Callable[[_NodeRewriting], None]] = {
    ("ai.onnx.ml", "Scaler"): _scaler,
    (DOMAIN, "DequantizeLinear"): _default,
    (DOMAIN, "FusedConv"): _fused_convolution,
    (DOMAIN, "FusedGemm"): _fused_gemm,
    (DOMAIN, "QGemm"): _gemm,
    (DOMAIN, "QLinearAdd"): _elementwise("Add"),
    (DOMAIN, "QLinearAveragePool"): _pool("AveragePool"),
    (DOMAIN, "QLinearConcat"): _concat,
    (DOMAIN, "QLinearGlobalAveragePool"): _pool("GlobalAveragePool"),
    (DOMAIN, "QLinearLeakyRelu"): _unary("LeakyRelu", "alpha"),
    (DOMAIN, "QLinearMul"): _elementwise("Mul"),
    (DOMAIN, "QLinearReduceMean"): _reduce_mean,
    (DOMAIN, "QLinearSigmoid"): _unary("Sigmoid"),
    (DOMAIN, "QLinearSoftmax"): _softmax,
    (DOMAIN, "QLinearWhere"): _where,
    (DOMAIN, "QuantizeLinear"): _default,
}
_WITH_THEM = {"QLinearConv": _convolution, "QLinearMatMul": _product}
"""Operators of the default domain that are rewritten beside them."""
