"""Random forms of ONNX Runtime's own operators, with inputs; it judges them itself, without optimizations."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.sim.golden import evaluate

KINDS = {
    "float32": TensorProto.FLOAT,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}
HELD = {"int64": lambda x: x.astype(np.int32), "uint8": lambda x: x.view(np.int8)}
WHOLE = slice(None)


@dataclass
class Case:
    """One node. Inputs in order, None where one is left out; those in `constants` are initializers."""

    op: str
    inputs: dict[str, np.ndarray | None]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    domain: str = "com.microsoft"
    opset: int = 24
    valid: dict[str, Any] = field(default_factory=dict)
    """What of an output is defined, where not all of it is."""

    def model(self) -> Any:
        given = {name: value for name, value in self.inputs.items() if value is not None}
        names = [name if value is not None else "" for name, value in self.inputs.items()]
        while not names[-1]:
            names.pop()
        node = helper.make_node(self.op, names, self.outputs, self.op, domain=self.domain, **self.attributes)
        graph = helper.make_graph(
            [node],
            "case",
            [
                helper.make_tensor_value_info(name, KINDS[value.dtype.name], value.shape)
                for name, value in given.items()
                if name not in self.constants
            ],
            [helper.make_tensor_value_info(name, self._kind(name), None) for name in self.outputs if name],
            [numpy_helper.from_array(given[name], name) for name in self.constants if name in given],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _kind(self, output: str) -> int:
        if output == "mask_index":
            return TensorProto.INT32
        if self.domain == "com.microsoft":
            return TensorProto.FLOAT
        first = next(value for value in self.inputs.values() if value is not None)
        return KINDS[first.dtype.name]

    def feeds(self) -> dict[str, np.ndarray]:
        return {n: v for n, v in self.inputs.items() if v is not None and n not in self.constants}


def judged(case: Case) -> dict[str, float]:
    """Returns, for each output, the largest difference from ONNX Runtime, as a part of the output's range."""
    made, feeds = case.model(), case.feeds()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [name for name in case.outputs if name]
    wanted = dict(zip(names, session.run(None, feeds), strict=True))
    held = {n: HELD.get(v.dtype.name, lambda each: each)(v) for n, v in feeds.items()}
    got = evaluate(import_onnx(made), held)
    result = {}
    for name in names:
        if wanted[name].dtype == np.uint8:
            got[name] = got[name].view(np.uint8)
        assert got[name].shape == wanted[name].shape, (name, got[name].shape, wanted[name].shape)
        parts = case.valid.get(name, WHOLE)
        chosen = [each[parts].astype(np.float64) for each in (got[name], wanted[name])]
        span = max(float(np.ptp(chosen[1])), float(np.abs(chosen[1]).max()), 1e-6)
        result[name] = float(np.abs(chosen[0] - chosen[1]).max()) / span
    return result


Form = Callable[[np.random.Generator], Case]
FORMS: dict[str, Form] = {}


def form(function: Form) -> Form:
    """Registers a maker of cases under its name."""
    FORMS[function.__name__] = function
    return function


class Dice:
    """Shorter words for random choices."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random

    def reals(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(np.float32)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def maybe(self) -> bool:
        return bool(self.random.integers(2))

    def whole(self, low: int, high: int, *shape: int, kind: Any = np.int32) -> Any:
        return self.random.integers(low, high, shape).astype(kind)


# --- layers -------------------------------------------------------------------------------------------------------


@form
def activations(random: np.random.Generator) -> Case:
    d = Dice(random)
    op = d.pick("Gelu", "BiasGelu", "FastGelu", "QuickGelu")
    shape = d.pick((3, 8), (2, 3, 8), (1, 2, 2, 8))
    inputs: dict[str, Any] = {"x": d.reals(*shape) * 3}
    if op == "BiasGelu" or (op == "FastGelu" and d.maybe()):
        inputs["bias"] = d.reals(8)
    attributes = {"alpha": d.pick(1.702, 1.0, 0.7)} if op == "QuickGelu" and d.maybe() else {}
    return Case(op, inputs, ["y"], attributes, d.pick((), ("bias",)))


@form
def skip_norms(random: np.random.Generator) -> Case:
    d = Dice(random)
    simple = d.maybe()
    shape = d.pick((2, 3, 8), (5, 8), (1, 4, 8))
    skip = d.pick(shape, (1, *shape[1:]) if len(shape) == 3 else shape, shape[-2:])
    inputs: dict[str, Any] = {"input": d.reals(*shape), "skip": d.reals(*skip), "gamma": d.reals(8)}
    if not simple:
        inputs["beta"] = d.reals(8) if d.maybe() else None
    inputs["bias"] = d.reals(8) if d.maybe() else None
    outputs = ["y", "", "", "sum"] if d.maybe() else ["y"]
    op = "SkipSimplifiedLayerNormalization" if simple else "SkipLayerNormalization"
    attributes = {"epsilon": d.pick(1e-5, 1e-3)} if d.maybe() else {}
    return Case(op, inputs, outputs, attributes, d.pick((), ("gamma", "beta", "bias")))


@form
def norms_of_the_default_domain(random: np.random.Generator) -> Case:
    d = Dice(random)
    simple, axis = d.maybe(), d.pick(-1, 1, 2)
    shape = (2, 3, 4)
    part = shape[axis:]
    inputs: dict[str, Any] = {"x": d.reals(*shape), "scale": d.reals(*part)}
    if simple:
        return Case(
            "SimplifiedLayerNormalization", inputs, ["y", "inverse"], {"axis": axis}, ("scale",), "", 17
        )
    if d.maybe():
        inputs["bias"] = d.reals(*part)
    opset = d.pick(11, 13, 16, 17)
    return Case("LayerNormalization", inputs, ["y", "mean", "inverse"], {"axis": axis}, ("scale",), "", opset)


@form
def embedding(random: np.random.Generator) -> Case:
    d = Dice(random)
    batch, length, size, segments = d.pick(1, 2), 5, 8, d.maybe()
    inputs = {
        "ids": d.whole(0, 11, batch, length),
        "segments": d.whole(0, 2, batch, length) if segments else None,
        "words": d.reals(11, size),
        "places": d.reals(9, size),
        "kinds": d.reals(2, size) if segments else None,
        "gamma": d.reals(size),
        "beta": d.reals(size),
        "mask": d.whole(0, 2, batch, length) if d.maybe() else None,
        "positions": d.whole(0, 9, d.pick(1, batch), length) if d.maybe() else None,
    }
    outputs = d.pick(["y", "mask_index"], ["y", "mask_index", "embedding_sum"])
    return Case("EmbedLayerNormalization", inputs, outputs, {}, ("words", "places", "kinds", "gamma", "beta"))


@form
def products(random: np.random.Generator) -> Case:
    d = Dice(random)
    rank = d.pick(2, 3, 4)
    batch, inputs, attributes = (2, 3)[: rank - 2], {}, {}
    for side, shape in (("A", (3, 5)), ("B", (5, 4))):
        x = d.reals(*batch, *shape)
        if d.maybe():
            attributes[f"trans{side}"] = 1
            x = x.swapaxes(-1, -2)
        if rank > 2 and d.maybe():
            attributes[f"transBatch{side}"] = 1
            x = np.moveaxis(x, -2, 0)
        inputs[side] = np.ascontiguousarray(x)
    if d.maybe():
        attributes["alpha"] = 0.37
    return Case("FusedMatMul", inputs, ["y"], attributes, d.pick((), ("B",)))


@form
def gemm(random: np.random.Generator) -> Case:
    d = Dice(random)
    kind = d.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Elu", "Softplus", "Softsign")
    a, b = d.maybe(), d.maybe()
    inputs = {
        "A": d.reals(5, 3) if a else d.reals(3, 5),
        "B": d.reals(4, 5) if b else d.reals(5, 4),
        "C": d.reals(*d.pick((4,), (3, 1), (3, 4))) if d.maybe() else None,
    }
    attributes: dict[str, Any] = {"transA": int(a), "transB": int(b), "alpha": 0.8, "beta": 1.3}
    attributes["activation"] = kind
    numbers = {"LeakyRelu": 1, "Elu": 1, "HardSigmoid": 2}.get(kind, 0)
    attributes |= dict(zip(("activation_alpha", "activation_beta"), (0.3, 0.45)[:numbers], strict=False))
    return Case("FusedGemm", inputs, ["y"], attributes, d.pick((), ("B", "C")))


@form
def convolution(random: np.random.Generator) -> Case:
    d = Dice(random)
    kind = d.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip", "HardSwish")
    numbers = {"LeakyRelu": [0.2], "HardSigmoid": [0.3, 0.4], "Clip": [-0.5, 0.8]}.get(kind)
    inputs = {
        "x": d.reals(1, 2, 5, 5),
        "w": d.reals(4, 2, 3, 3),
        "b": d.reals(4) if d.maybe() else None,
        "z": d.reals(1, 4, 5, 5) if d.maybe() else None,
    }
    attributes = {"activation": kind, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    if numbers:
        attributes["activation_params"] = numbers
    return Case("FusedConv", inputs, ["y"], attributes, ("w", "b"))


# --- weights ------------------------------------------------------------------------------------------------------


@form
def blocked_product(random: np.random.Generator) -> Case:
    d = Dice(random)
    bits, block = d.pick(4, 4, 8), d.pick(16, 32, 64, 128, 256)
    depth, width = d.pick(block, 2 * block, block + 7, block // 2 + 8, 3 * block - 1), d.pick(1, 5, 16)
    blocks = -(-depth // block)
    zero = d.pick("packed", "float", "absent")
    packed_width = -(-blocks * bits // 8)
    flat = d.maybe()
    scales = random.uniform(0.002, 0.02, (width, blocks)).astype(np.float32)
    points = None
    if zero == "packed":
        points = d.whole(0, 256, width, packed_width, kind=np.uint8)
    elif zero == "float" and bits == 4:  # ONNX Runtime has no other
        points = random.uniform(0, 1 << bits, (width, blocks)).astype(np.float32)
    if flat:
        scales = scales.reshape(-1)
    inputs = {
        "A": d.reals(*d.pick((1,), (3,), (2, 3)), depth),
        "B": d.whole(0, 256, width, blocks, block * bits // 8, kind=np.uint8),
        "scales": scales,
        "zero_points": points,
        "g_idx": None,
        "bias": d.reals(width) if d.maybe() else None,
    }
    attributes = {"K": depth, "N": width, "bits": bits, "block_size": block}
    return Case("MatMulNBits", inputs, ["y"], attributes, ("B", "scales", "zero_points", "bias"))


@form
def blocked_rows(random: np.random.Generator) -> Case:
    d = Dice(random)
    bits, block = d.pick(4, 8), d.pick(16, 32)
    rows_, size = 9, d.pick(block, 2 * block)
    shape = (rows_, size * bits // 8)
    blocks = size // block
    inputs = {
        "data": d.whole(0, 256, *shape, kind=np.uint8),
        "indices": d.whole(0, rows_, *d.pick((4,), (2, 3)), kind=d.pick(np.int32, np.int64)),
        "scales": random.uniform(0.01, 0.1, (rows_, blocks)).astype(np.float32),
        "zero_points": d.whole(0, 256, rows_, -(-blocks * bits // 8), kind=np.uint8) if d.maybe() else None,
    }
    attributes = {"bits": bits, "block_size": block, "quantize_axis": 1, "gather_axis": 0}
    return Case("GatherBlockQuantized", inputs, ["y"], attributes, ("data", "scales", "zero_points"))


# --- attention ----------------------------------------------------------------------------------------------------


@form
def rotary(random: np.random.Generator) -> Case:
    d = Dice(random)
    batch, heads, length, size = d.pick(1, 2), d.pick(1, 3), d.pick(1, 4), d.pick(4, 8)
    partial = size == 8 and d.maybe()
    half = size // 4 if partial else size // 2
    four = d.maybe()
    shape = (batch, heads, length, size) if four else (batch, length, heads * size)
    positions = d.pick(d.whole(0, 8, 1, kind=np.int64), d.whole(0, 12, batch, length, kind=np.int64))
    attributes: dict[str, Any] = {"interleaved": d.pick(0, 1)}
    if partial:
        attributes |= {"rotary_embedding_dim": 2 * half, "num_heads": heads}
    elif d.maybe():
        attributes["num_heads"] = heads if d.maybe() else 0
    inputs = {
        "x": d.reals(*shape),
        "positions": positions,
        "cos": d.reals(12, half),
        "sin": d.reals(12, half),
    }
    return Case(
        "RotaryEmbedding", inputs, ["y"], attributes, d.pick(("cos", "sin"), ("cos", "sin", "positions"), ())
    )


def _mask(d: Dice, batch: int, queries: int, keys: int, starts: bool) -> np.ndarray | None:
    kind = d.pick("none", "lengths", "keys", "pairs", *(["starts"] if starts else []))
    if kind == "lengths":
        return d.whole(1, keys + 1, batch)
    if kind == "starts":
        return np.concatenate([d.whole(keys - 1, keys + 1, batch), d.whole(0, 2, batch)]).astype(np.int32)
    if kind == "none":
        return None
    mask = d.whole(0, 2, batch, keys) if kind == "keys" else d.whole(0, 2, batch, queries, keys)
    mask[..., 0] = 1  # of scores less 10000, float32 keeps few digits
    return mask


def _attention_attributes(d: Dice, heads: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {"num_heads": heads}
    if d.maybe():
        attributes["scale"] = d.pick(0.3, 1.0)
    if d.maybe():
        attributes["mask_filter_value"] = -500.0
    return attributes


@form
def packed_attention(random: np.random.Generator) -> Case:
    """Attention of com.microsoft."""
    d = Dice(random)
    batch, heads, length, size, past = d.pick(1, 2), 2, d.pick(1, 4), 4, d.pick(0, 0, 3)
    hidden = heads * size
    values = hidden if past else d.pick(hidden, 2 * hidden)
    attributes = _attention_attributes(d, heads)
    if values != hidden or d.maybe():
        attributes["qkv_hidden_sizes"] = [hidden, hidden, values]
    attributes["unidirectional"] = d.pick(0, 1)
    inputs = {
        "x": d.reals(batch, length, 6),
        "w": d.reals(6, 2 * hidden + values),
        "b": d.reals(2 * hidden + values) if d.maybe() else None,
        "mask": _mask(d, batch, length, length + past, True),
        "past": d.reals(2, batch, heads, past, size) if past else None,
        "bias": d.reals(d.pick(1, batch), d.pick(1, heads), length, length)
        if not past and d.maybe()
        else None,
    }
    if attributes["unidirectional"] and inputs["mask"] is not None:
        del inputs["mask"]  # a causal row that attends nothing is not defined
        inputs = (
            {k: inputs[k] for k in ("x", "w", "b")}
            | {"mask": None}
            | {k: inputs[k] for k in ("past", "bias")}
        )
    return Case(
        "Attention",
        inputs,
        ["y", "present"] if past or (values == hidden and d.maybe()) else ["y"],
        attributes,
        ("w", "b"),
    )


@form
def multi_head_attention(random: np.random.Generator) -> Case:
    d = Dice(random)
    batch, heads, length, size, past = d.pick(1, 2), 2, d.pick(1, 4), d.pick(4, 6), d.pick(0, 0, 3)
    cross = not past and d.maybe()
    new = 5 if cross else length
    value_size = size if past else d.pick(size, 3)
    cached = cross and d.maybe()
    if cached:
        value_size = size
        key, value = d.reals(batch, heads, new, size), d.reals(batch, heads, new, size)
    else:
        key, value = d.reals(batch, new, heads * size), d.reals(batch, new, heads * value_size)
    attributes = _attention_attributes(d, heads)
    causal = not cross and d.maybe()
    if causal:
        attributes["unidirectional"] = 1
    inputs = {
        "q": d.reals(batch, length, heads * size),
        "k": key,
        "v": value,
        "b": d.reals(heads * (2 * size + value_size)) if d.maybe() and not cached else None,
        "mask": None if causal else _mask(d, batch, length, new + past, False),
        "bias": d.reals(d.pick(1, batch), d.pick(1, heads), length, new + past) if d.maybe() else None,
        "past_k": d.reals(batch, heads, past, size) if past else None,
        "past_v": d.reals(batch, heads, past, size) if past else None,
    }
    outputs = ["y", "present_k", "present_v", "qk"] if past and not causal else ["y"]
    if causal and past:
        outputs = ["y", "present_k", "present_v"]
    return Case("MultiHeadAttention", inputs, outputs, attributes, d.pick((), ("b",)))


@form
def group_query_attention(random: np.random.Generator) -> Case:
    """Prompts, steps with a cache that grows or that is as long as it will be, and sequences of several lengths."""
    d = Dice(random)
    batch, groups, size = d.pick(1, 2), d.pick(1, 2), d.pick(16, 32)
    heads = groups * d.pick(1, 2, 3)
    stage = d.pick("prompt", "prompt in a buffer", "step", "step in a buffer", "chunk")
    old = d.pick(3, 6)
    length = {"step": 1, "step in a buffer": 1, "chunk": 3}.get(stage, d.pick(2, 5))
    if stage == "chunk":
        batch = 1
    total = length if "prompt" in stage else old + length
    capacity = {"prompt": 0, "step": old, "chunk": d.pick(old, old + 6)}.get(stage, 12)
    last = np.full(batch, total - 1, np.int32)
    if batch > 1 and d.maybe():
        last[1:] = d.whole(length - 1 if "step" in stage else 0, total, batch - 1)
    packed = d.maybe()
    rotary_ = d.maybe()
    half = d.pick(size // 2, 8) if rotary_ else 0
    attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups}
    for name, value in (
        ("scale", 0.4),
        ("softcap", 1.5),
        ("local_window_size", d.pick(1, 3)),
    ):
        if d.random.integers(3) == 0:
            attributes[name] = value
    if rotary_:
        attributes |= {"do_rotary": 1, "rotary_interleaved": d.pick(0, 1)}
    sink = d.reals(heads) if d.random.integers(4) == 0 else None
    if sink is None and d.random.integers(4) == 0:
        attributes["smooth_softmax"] = 1
    if "local_window_size" not in attributes and d.random.integers(4) == 0:
        attributes["causal"] = 0
    width = (heads + 2 * groups) * size if packed else heads * size
    cache = (batch, groups, capacity, size)
    inputs = {
        "q": d.reals(batch, length, width),
        "k": None if packed else d.reals(batch, length, groups * size),
        "v": None if packed else d.reals(batch, length, groups * size),
        "past_k": d.reals(*cache) if capacity else None,
        "past_v": d.reals(*cache) if capacity else None,
        "last": last,
        "total": np.array(total, np.int32),
        "cos": d.reals(16, half) if rotary_ else None,
        "sin": d.reals(16, half) if rotary_ else None,
        "positions": d.whole(0, 9, batch, length, kind=np.int64) if rotary_ and d.maybe() else None,
        "bias": d.reals(d.pick(1, batch), d.pick(1, heads), length, total)
        if d.random.integers(3) == 0
        else None,
        "sink": sink,
    }
    shortest = int(last.min()) + 1
    valid = {name: np.s_[:, :, :shortest] for name in ("present_k", "present_v")}
    if "prompt" in stage:
        valid["y"] = np.s_[:, :shortest]
    constants = ("total", "cos", "sin", *d.pick((), ("last",)))
    return Case(
        "GroupQueryAttention", inputs, ["y", "present_k", "present_v"], attributes, constants, valid=valid
    )


# --- the default domain -------------------------------------------------------------------------------------------


@form
def tensor_scatter(random: np.random.Generator) -> Case:
    d = Dice(random)
    batch, size = d.pick(1, 2, 3), 6
    shape, axis = d.pick(
        ((batch, 2, size, 4), -2),
        ((batch, size, 4), 1),
        ((batch, 2, 3, size), 3),
        ((batch, size), 1),
        ((batch, size, 2, 2), -3),
    )
    count = d.pick(1, 2, size)
    circular = d.maybe()
    added = list(shape)
    added[axis] = count
    first = d.whole(0, size if circular else size - count + 1, batch, kind=np.int64)
    if d.maybe():
        first[:] = first[0]
    kind = d.pick("float32", "float32", "int32", "uint8", "bool", "int64")
    made = [
        d.reals(*s) if kind == "float32" else d.whole(0, 2 if kind == "bool" else 100, *s, kind=kind)
        for s in (shape, added)
    ]
    inputs = {"cache": made[0], "new": made[1], "first": None if d.random.integers(5) == 0 else first}
    attributes: dict[str, Any] = {"axis": axis} if axis != -2 or d.maybe() else {}
    if circular or d.maybe():
        attributes["mode"] = "circular" if circular else "linear"
    return Case("TensorScatter", inputs, ["y"], attributes, d.pick((), ("first",)), "", 24)
