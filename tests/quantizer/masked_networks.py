"""Networks with masks in the forms that models write them in, as ONNX models, and samples for them."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.ir import Graph

TOKENS, WIDTH = 6, 8
LEAST = float(np.finfo(np.float32).min)
FORMS: dict[str, Callable[["Masked"], str]] = {}
"""Builders of the scores of an attention with a mask in them, by name."""

NETWORKS: dict[str, Callable[["Masked"], str]] = {}
"""Builders of an output of another kind of network with a mask, by name."""

_TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}


class Masked:
    """Writes an attention over `x`, whose scores are `scores`; masks are 1 where a token counts."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(4)
        self.nodes, self.constants, self.inputs = [], {}, {}
        self.x = self.input("x", "f", (1, TOKENS, WIDTH))
        self.scores = self.attended(self.x)

    def input(self, name: str, kind: str, shape: tuple[int, ...]) -> str:
        self.inputs[name] = (kind, shape)
        return name

    def __call__(self, op: str, *inputs: "str | float | np.ndarray", **attributes) -> str:
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [name], name=name, **attributes))
        return name

    def constant(self, value) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(value)
        self.constants[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return name

    def attended(self, x: str) -> str:
        queries, keys = (self("MatMul", x, 0.5 * self.random.standard_normal((WIDTH, WIDTH))) for _ in "qk")
        return self("MatMul", queries, self("Transpose", keys, perm=[0, 2, 1]))

    def weighted(self, scores: str, x: str) -> str:
        return self("MatMul", self("Softmax", scores, axis=-1), x)

    def mask(self, kind: str = "i", name: str = "m", shape: tuple[int, ...] = (1, 1, TOKENS)) -> str:
        return self.input(name, kind, shape)

    def real(self, mask: str) -> str:
        return self("Cast", mask, to=TensorProto.FLOAT)

    def inverted(self, mask: str) -> str:
        """1 - mask, a float."""
        return self("Sub", 1.0, self.real(mask))

    def graph(self, output: str) -> Graph:
        made = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [output], ["y"])],
            "masked",
            [
                helper.make_tensor_value_info(name, _TYPES[kind], shape)
                for name, (kind, shape) in self.inputs.items()
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        return import_onnx(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def form(function: Callable[[Masked], str]) -> Callable[[Masked], str]:
    """Registers a form: a function from a network to the scores behind the mask."""
    FORMS[function.__name__] = function
    return function


def whole(function: Callable[[Masked], str]) -> Callable[[Masked], str]:
    """Registers a whole network."""
    NETWORKS[function.__name__] = function
    return function


def network(name: str) -> Graph:
    """An attention with the mask of a form, or another network."""
    net = Masked()
    if name in NETWORKS:
        return net.graph(NETWORKS[name](net))
    return net.graph(net.weighted(FORMS[name](net), net.x))


def masked_samples(
    graph: Graph, count: int = 12, hidden: float = -1e9, whole: bool = False
) -> dict[str, np.ndarray]:
    """Normal numbers, and masks of which the first token is kept; additive masks (`bias`) are 0 or `hidden`.

    `whole`: the first token is hidden as often as others, and one sample masks all.
    """
    random = np.random.default_rng(5)
    arrays = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        shape = (count, *tensor.shape)
        if name.startswith("x"):
            arrays[name] = random.standard_normal(shape).astype(np.float32)
            continue
        kept = random.random(shape) < 0.6
        kept[0 if whole else slice(None), ..., 0 if not whole else slice(None)] = not whole
        arrays[name] = np.where(kept, np.float32(0), np.float32(hidden)) if name.startswith("bias") else kept
        arrays[name] = arrays[name].astype(tensor.dtype.numpy)
    return arrays


def _product(factor: float, kind: str = "i") -> Callable[[Masked], str]:
    return lambda net: net("Add", net.scores, net("Mul", net.inverted(net.mask(kind)), factor))


for _factor in (LEAST, -1e30, -1e9, -65504.0, -1e4, -1000.0):
    for _kind in "ibf":
        FORMS[f"(1 - {_kind}) * {_factor:g}"] = _product(_factor, _kind)


@form
def less_one_times(net):
    return net("Add", net.scores, net("Mul", net("Sub", net.real(net.mask()), 1.0), 1e9))


@form
def times_less_the_same(net):
    return net("Add", net.scores, net("Sub", net("Mul", net.real(net.mask()), 1e9), 1e9))


@form
def divided_by_the_smallest(net):
    return net("Add", net.scores, net("Div", net("Sub", net.real(net.mask()), 1.0), 1e-9))


@form
def scores_less_a_product(net):
    return net("Sub", net.scores, net("Mul", net.inverted(net.mask()), 1e30))


@form
def scores_times_the_mask(net):
    mask = net.real(net.mask())
    kept = net("Mul", net.scores, mask)
    return net("Sub", kept, net("Mul", net("Sub", 1.0, mask), 1e4))


@form
def integers_as_factors(net):
    hidden = net("Mul", net("Sub", np.array(1), net.mask()), np.array(-10000))
    return net("Add", net.scores, net.real(hidden))


@form
def either_of_two(net):
    hidden = net("Max", net.inverted(net.mask()), net.inverted(net.mask(name="m2")))
    return net("Add", net.scores, net("Mul", hidden, LEAST))


@form
def both_of_two(net):
    kept = net("Min", net.real(net.mask()), net.real(net.mask(name="m2")))
    return net("Add", net.scores, net("Mul", net("Sub", 1.0, kept), LEAST))


@form
def product_of_two(net):
    kept = net("Mul", net.real(net.mask()), net.real(net.mask(name="m2", shape=(1, TOKENS, TOKENS))))
    return net("Add", net.scores, net("Mul", net("Sub", 1.0, kept), -1e9))


@form
def lesser_of_two_products(net):
    masks = [net("Mul", net.inverted(net.mask(name=name)), LEAST) for name in ("m", "m2")]
    return net("Add", net.scores, net("Min", *masks))


@form
def inverted_mask_filled(net):
    hidden = net.inverted(net.mask())
    filled = net("Where", net("Cast", hidden, to=TensorProto.BOOL), LEAST, hidden)
    return net("Add", net.scores, filled)


@form
def added_input(net):
    return net("Add", net.scores, net.input("bias", "f", (1, 1, TOKENS)))


@form
def added_input_expanded(net):
    bias = net.input("bias", "f", (1, TOKENS))
    wide = net("Expand", net("Unsqueeze", bias, np.array([1])), np.array([1, TOKENS, TOKENS]))
    return net("Add", net.scores, wide)


@form
def product_expanded(net):
    wide = net("Expand", net.mask(shape=(1, 1, TOKENS)), np.array([1, TOKENS, TOKENS]))
    return net("Add", net.scores, net("Mul", net.inverted(wide), LEAST))


@form
def scores_chosen(net):
    return net("Where", net.mask("b"), net.scores, -np.inf)


@form
def scores_filled(net):
    return net("Where", net("Not", net.mask("b")), LEAST, net.scores)


@form
def choice_of_two_numbers(net):
    return net("Add", net.scores, net("Where", net.mask("b"), 0.0, -np.inf))


@form
def choice_by_comparison(net):
    return net("Add", net.scores, net("Where", net("Equal", net.real(net.mask()), 1.0), 0.0, LEAST))


@form
def logarithm(net):
    return net("Add", net.scores, net("Log", net.real(net.mask())))


def _causal(value: float) -> np.ndarray:
    return np.triu(np.full((1, TOKENS, TOKENS), value, np.float32), 1)


@form
def causal_and_padding(net):
    padding = net("Mul", net.inverted(net.mask()), LEAST)
    return net("Add", net.scores, net("Add", padding, _causal(LEAST)))


@form
def causal_then_padding(net):
    later = net("Add", net.scores, _causal(-np.inf))
    return net("Add", later, net("Mul", net.inverted(net.mask()), -1e9))


# --- other networks


@whole
def two_layers_of_one_mask(net):
    bias = net("Mul", net.inverted(net.mask()), LEAST)
    x = net("Add", net.x, net.weighted(net("Add", net.scores, bias), net.x))
    return net.weighted(net("Add", net.attended(x), bias), x)


@whole
def mask_read_by_a_pooling_too(net):
    kept = net.real(net.mask())
    y = net.weighted(net("Add", net.scores, net("Mul", net("Sub", 1.0, kept), LEAST)), net.x)
    rows = net("MatMul", kept, y)
    return net("Div", rows, net("ReduceSum", kept, np.array([2])))


@whole
def largest_of_those_kept(net):
    shown = net("Transpose", net.x, perm=[0, 2, 1])
    return net("ReduceMax", net("Where", net.mask("b"), shown, -1e9), axes=[2], keepdims=0)


@whole
def largest_by_a_product(net):
    shown = net("Transpose", net.x, perm=[0, 2, 1])
    hidden = net("Mul", net.inverted(net.mask()), -1e9)
    return net("ReduceMax", net("Add", shown, hidden), axes=[2], keepdims=0)


@whole
def least_of_those_kept(net):
    shown = net("Transpose", net.x, perm=[0, 2, 1])
    hidden = net("Mul", net.inverted(net.mask()), 1e9)
    return net("ReduceMin", net("Add", shown, hidden), axes=[2], keepdims=0)


@whole
def gates(net):
    return net("Sigmoid", net("Add", net.scores, net("Mul", net.inverted(net.mask()), -1e9)))


@whole
def pointed_at(net):
    """The place with the largest score, as a one-hot row."""
    hidden = net("Add", net.scores, net("Mul", net.inverted(net.mask()), LEAST))
    best = net("ReduceMax", hidden, axes=[2])
    return net.weighted(net("Mul", 30.0, net("Sub", hidden, best)), net.x)


# --- whole numbers that are compared


def _chosen(net: Masked, condition: str) -> str:
    return net("Where", condition, net.x, -5.0)


def _tokens(net: Masked, name: str = "m", kind: str = "i") -> str:
    return net.real(net.mask(kind, name, (1, TOKENS, 1)))


_COMPARISONS: dict[str, Callable[[Masked], str]] = {
    "m == 1": lambda net: net("Equal", _tokens(net), 1.0),
    "m == 0": lambda net: net("Equal", _tokens(net), 0.0),
    "1 - m == 0": lambda net: net("Equal", net("Sub", 1.0, _tokens(net)), 0.0),
    "bool(1 - m)": lambda net: net("Cast", net("Sub", 1.0, _tokens(net)), to=TensorProto.BOOL),
    "m + m2 == 2": lambda net: net("Equal", net("Add", _tokens(net), _tokens(net, "m2")), 2.0),
    "m * m2 == 1": lambda net: net("Equal", net("Mul", _tokens(net), _tokens(net, "m2")), 1.0),
    "m == m2": lambda net: net("Equal", _tokens(net), _tokens(net, "m2")),
    "m > 0.5": lambda net: net("Greater", _tokens(net), 0.5),
    "m >= 1": lambda net: net("GreaterOrEqual", _tokens(net), 1.0),
    "1 <= m": lambda net: net("LessOrEqual", 1.0, _tokens(net)),
    "3 m - 3 < 0": lambda net: net("Less", net("Sub", net("Mul", _tokens(net), 3.0), 3.0), 0.0),
    "|m - 1| == 0": lambda net: net("Equal", net("Abs", net("Sub", _tokens(net), 1.0)), 0.0),
    "sum == 2": lambda net: net(
        "Equal", net("ReduceSum", net.real(net.mask(shape=(1, TOKENS, 4))), np.array([2])), 2.0
    ),
    "max(m, m2) == 1": lambda net: net("Equal", net("Max", _tokens(net), _tokens(net, "m2")), 1.0),
    "bool 1 - m == 0": lambda net: net("Equal", net("Sub", 1.0, _tokens(net, kind="b")), 0.0),
    "float m == 1": lambda net: net("Equal", net.mask("f", "m", (1, TOKENS, 1)), 1.0),
    "float 1 - m == 0": lambda net: net("Equal", net("Sub", 1.0, net.mask("f", "m", (1, TOKENS, 1))), 0.0),
}
NETWORKS |= {
    name: (lambda net, condition=condition: _chosen(net, condition(net)))
    for name, condition in _COMPARISONS.items()
}
