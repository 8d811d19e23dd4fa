"""Invocations of every operation of NNEF, with operands, for the comparison with the text's formulas."""

from dataclasses import dataclass, field

import numpy as np

Operand = tuple[str, list[int], float, float]
"""data-type, shape, and the range of the values (the upper end belongs to it for integers)."""


@dataclass(frozen=True)
class Case:
    """One graph: `operands` are inputs, or all but x are variables."""

    operation: str
    body: str
    operands: dict[str, Operand]
    outputs: tuple[str, ...] = ("y",)
    rest: dict[str, str] = field(default_factory=dict)

    def text(self, baked: bool) -> str:
        """The document; `baked` operands are variables."""
        lines = [
            f"{n} = external<{data}>(shape = {shape});"
            if not baked or n == "x"
            else f"{n} = variable<{data}>(shape = {shape}, label = '{n}');"
            for n, (data, shape, _, _) in self.operands.items()
        ]
        inputs = ", ".join(["x"] if baked else self.operands)
        header = "extension KHR_enable_operator_expressions;\n"
        body = "\n    ".join([*lines, self.body])
        return f"version 1.0;\n{header}graph g( {inputs} ) -> ( {', '.join(self.outputs)} )\n{{\n    {body}\n}}\n"

    def values(self, seed: int = 1) -> dict[str, np.ndarray]:
        """Operands of the right type; scalars are float32 numbers."""
        random = np.random.default_rng(seed)
        found: dict[str, np.ndarray] = {}
        for name, (data, shape, low, high) in self.operands.items():
            if data == "scalar":
                found[name] = random.uniform(low, high, shape).astype(np.float32)
            elif data == "integer":
                found[name] = random.integers(int(low), int(high), shape, endpoint=True)
            else:
                found[name] = random.integers(0, 2, shape).astype(bool)
        return found


def scalar(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    return ("scalar", [*shape], low, high)


def integer(*shape: int, low: int = -5, high: int = 5) -> Operand:
    return ("integer", [*shape], low, high)


def logical(*shape: int) -> Operand:
    return ("logical", [*shape], 0, 1)


X = {"x": scalar(2, 4, 6, 5)}
POSITIVE = {"x": scalar(2, 4, 6, 5, low=0.1, high=3.0)}
WIDE = {"x": scalar(2, 3, 40, low=-100.0, high=100.0)}
BITS = {"x": logical(2, 3, 4), "b": logical(2, 3)}
CASES: list[Case] = []


def case(name: str, body: str, operands: dict[str, Operand] | None = None, **more: Operand) -> None:
    """A case named by its operation; body is the right side of y, or whole assignments."""
    whole = body if "=" in body.split("(")[0] else f"y = {body};"
    targets = whole.rsplit("\n", 1)[-1].split("=")[0]
    outputs = tuple(part.strip(" ([])") for part in targets.split(","))
    CASES.append(Case(name, whole, {**(X if operands is None else operands), **more}, outputs))


# 4.1
case("external", "copy(x)")
case("external", "copy(x)", {"x": integer(3, 2)})
case(
    "constant",
    "c = constant(shape = [1,4], value = [1.5, -2.0, 0.25, 3.0]);\n    y = add(x, c);",
)
case("constant", "c = constant(shape = [2,4,6,5], value = [0.1]);\n    y = add(x, c);")
case(
    "constant",
    "c = constant<integer>(shape = [2,3], value = [7]);\n    y = concat([x, c], axis = 0);",
    {"x": integer(1, 3)},
)
case(
    "constant",
    "c = constant<logical>(shape = [1,2], value = [true, false]);\n    y = and(x, c);",
    {"x": logical(3, 2)},
)
case("variable", "add(x, v)", v=scalar(2, 4))
case("variable", "concat([x, v], axis = 0)", {"x": integer(2, 3)}, v=integer(4, 3))
case("variable", "or(x, v)", {"x": logical(2, 3)}, v=logical(2))
# 4.2.1
for _name in ("copy", "neg", "abs", "sign", "floor", "ceil", "round"):
    case(_name, f"{_name}(x)")
    case(_name, f"{_name}(x)", WIDE)
case("sign", "s = round(x);\n    y = sign(s);")
case(
    "round",
    "h = div(floor(x), 2.0);\n    y = round(h);",
    WIDE,
)
case("not", "not(x)", {"x": logical(2, 3, 4)})
for _name in ("rcp", "log", "sqrt", "rsqr", "rsqrt", "log2"):
    case(_name, f"{_name}(x)", POSITIVE)
case("exp", "exp(x)")
case("sqr", "sqr(x)")
# 4.2.2
for _name in ("add", "sub", "mul", "div", "lt", "gt", "le", "ge", "min", "max"):
    case(_name, f"{_name}(x, v)", v=scalar(2, 4, 6, 5, low=0.5))
    case(_name, f"{_name}(x, v)", v=scalar(1, 4, low=0.5))
    case(_name, f"{_name}(v, x)", POSITIVE, v=scalar(2, 1, 6))
    case(_name, f"{_name}(x, 0.75)")
for _name in ("eq", "ne"):
    case(_name, f"r = round(x);\n    y = {_name}(r, 1.0);")
    case(_name, f"r = round(x);\n    s = round(v);\n    y = {_name}(r, s);", v=scalar(2, 4))
for _name in ("and", "or"):
    case(_name, f"{_name}(x, b)", BITS)
    case(_name, f"{_name}(x, true)", BITS)
case("pow", "pow(x, v)", POSITIVE, v=scalar(2, 4))
case("pow", "pow(2.0, x)")
for _exponent in ("2.0", "3.0", "1.0", "-1.0", "-2.0"):
    case("pow", f"pow(x, {_exponent})", {"x": scalar(3, 4, low=-2.0, high=-0.5)})
for _exponent in ("0.5", "-0.5", "1.7", "-0.75", "0.0"):
    case("pow", f"pow(x, {_exponent})", POSITIVE)
case("add", "add(1.5, 2.5)")
case("add", "s = add(x, v);\n    y = mul(s, 2.0);", {"x": scalar()}, v=scalar(3))
# 4.2.3, 4.2.4
case("select", "c = gt(x, 0.0);\n    y = select(c, x, v);", v=scalar(2, 4))
case("select", "select(x, a, b)", {"x": logical(2, 3, 4)}, a=integer(2), b=integer(2, 1, 4))
case("select", "select(x, true, b)", {"x": logical(2, 3, 4)}, b=logical(2, 1, 4))
case("select", "c = gt(x, 0.0);\n    y = select(c, 1.0, 0.0);")
case("clamp", "clamp(x, -0.5, 0.75)")
case("clamp", "clamp(x, 0.75, -0.5)")
case("clamp", "clamp(x, a, b)", a=scalar(2, 4, low=-1, high=0), b=scalar(2, 1, 6, low=0, high=1))
case("clamp", "clamp(x, a, 0.5)", {"x": scalar(2)}, a=scalar(2, 3, low=-1, high=0))

# 4.3.1
for _attributes in (
    "",
    "stride = [2,2]",
    "padding = [(1,1),(1,1)]",
    "padding = [(0,0),(0,0)], stride = [2,3]",
    "padding = [(2,0),(0,3)], dilation = [2,1]",
    "padding = [(-1,0),(1,-1)]",
    "padding = [(-2,-1),(0,0)], stride = [2,2]",
    "stride = [3,2], dilation = [2,2]",
    "border = 'replicate', padding = [(2,1),(1,3)]",
    "border = 'reflect', padding = [(2,1),(1,3)], stride = [2,1]",
    "border = 'reflect-even', padding = [(2,1),(1,3)], stride = [2,2]",
    "border = 'replicate', stride = [2,2]",
    "border = 'reflect', padding = [(-1,3),(3,-1)]",
    "border = 'replicate', padding = [(-7,9),(8,-6)]",
):
    _more = f", {_attributes}" if _attributes else ""
    case("conv", f"conv(x, f, b{_more})", f=scalar(3, 4, 3, 3), b=scalar(1, 3))
case("conv", "conv(x, f)", f=scalar(3, 4, 1, 1))
case("conv", "conv(x, f, stride = [2,2])", f=scalar(3, 4, 1, 1))
case("conv", "conv(x, f, 0.5)", f=scalar(3, 4, 2, 3))
case("conv", "conv(x, f, b, groups = 2)", f=scalar(6, 2, 3, 3), b=scalar(1, 6, 1, 1))
case("conv", "conv(x, f, b, groups = 0)", f=scalar(4, 1, 3, 3), b=scalar(1, 1))
case("conv", "conv(x, f, groups = 4, stride = [2,1])", f=scalar(8, 1, 3, 2))
case("conv", "conv(x, f, b, stride = [2])", {"x": scalar(2, 3, 9)}, f=scalar(4, 3, 3), b=scalar(1, 4))
case("conv", "conv(x, f, groups = 0)", {"x": scalar(2, 3, 9)}, f=scalar(6, 1, 4))
case("conv", "conv(x, f, stride = [1,2,2])", {"x": scalar(1, 3, 4, 5, 6)}, f=scalar(2, 3, 3, 2, 3))
case("conv", "conv(x, f, groups = 0)", {"x": scalar(1, 3, 4, 5, 6)}, f=scalar(3, 1, 3, 2, 3))
case("conv", "conv(x, f, b)", {"x": scalar(5, 3)}, f=scalar(4, 3), b=scalar(1, 4))
for _attributes in (
    "",
    "stride = [2,2]",
    "stride = [2,2], padding = [(1,1),(1,0)]",
    "stride = [3,3]",
    "padding = [(0,0),(0,0)], stride = [2,3]",
    "padding = [(1,0),(-1,2)], dilation = [2,1], stride = [2,2]",
    "stride = [2,2], output_shape = [2,3,11,10]",
    "stride = [2,2], output_shape = [2,3,12,9]",
    "stride = [4,4]",
    "border = 'replicate', stride = [2,2], padding = [(1,1),(1,1)]",
    "border = 'reflect', stride = [2,2]",
    "border = 'reflect-even', stride = [1,2], dilation = [2,2]",
    "border = 'replicate', stride = [2,1], padding = [(0,0),(-1,-1)]",
):
    _more = f", {_attributes}" if _attributes else ""
    case("deconv", f"deconv(x, f, b{_more})", f=scalar(4, 3, 3, 3), b=scalar(1, 3))
case("deconv", "deconv(x, f, stride = [3,3])", f=scalar(4, 3, 1, 1))
case("deconv", "deconv(x, f, b, groups = 2, stride = [2,2])", f=scalar(4, 3, 3, 3), b=scalar(1, 6))
case("deconv", "deconv(x, f, 1.0, groups = 0)", f=scalar(4, 1, 3, 3))
case("deconv", "deconv(x, f, stride = [2])", {"x": scalar(2, 3, 7)}, f=scalar(3, 4, 4))
case("deconv", "deconv(x, f, stride = [1,2,2])", {"x": scalar(1, 2, 3, 4, 3)}, f=scalar(2, 3, 2, 3, 3))
case("deconv", "deconv(x, f, b)", {"x": scalar(5, 3)}, f=scalar(3, 4), b=scalar(1, 4))

# 4.3.2
WINDOWS = (
    "size = [1,1,3,3]",
    "size = [1,1,2,2], stride = [1,1,2,2], padding = [(0,0),(0,0),(0,0),(0,0)]",
    "size = [1,1,3,2], stride = [1,1,2,1]",
    "size = [1,3]",
    "size = [2,2,2,2]",
    "size = [1,1,2,2], dilation = [1,1,2,3], padding = [(0,0),(0,0),(1,0),(0,2)]",
    "size = [1,1,3,3], padding = [(0,0),(0,0),(-1,0),(2,-1)]",
    "size = [1,1,1,1], stride = [1,2,3,2]",
    "size = [1,3,1,3], stride = [1,2,1,2]",
)
for _border in ("constant", "ignore", "replicate", "reflect", "reflect-even"):
    for _i, _window in enumerate(WINDOWS):
        _x = {"x": scalar(2, 4, 6, 5, low=-2.0, high=-0.5)} if _i % 2 else X
        _tail = f"{_window}, border = '{_border}'"
        for _name in ("box", "avg_pool", "max_pool", "rms_pool"):
            if (_border in ("constant", "ignore") or _i % 3 == 0) and not (
                _border == "reflect" and "2,2,2,2" in _window
            ):
                case(_name, f"{_name}(x, {_tail})", _x)
        if _i % 2 == 0 or _border == "constant":
            case("argmax_pool", f"argmax_pool(x, {_tail})", _x)
        if _i in (0, 2, 5):
            case("max_pool_with_index", f"y, z = max_pool_with_index(x, {_tail});", _x)
    case("box", f"box(x, size = [1,1,2,3], border = '{_border}', normalize = true)")
case("box", "box(x, size = [2,3])", {"x": scalar(5, 6)})
case("box", "box(x, size = [3])", {"x": scalar(7)})
case("max_pool", "max_pool(x, size = [1,1,2,2,2], stride = [1,1,2,1,2])", {"x": scalar(1, 2, 4, 5, 4)})
case("avg_pool", "avg_pool(x, size = [1,1,3], border = 'ignore')", {"x": scalar(2, 3, 8)})
case("argmax_pool", "argmax_pool(x, size = [1,1,2])", {"x": logical(2, 3, 8)})
case(
    "argmax_pool",
    "r = round(x);\n    y = argmax_pool(r, size = [1,1,3,3], padding = [(0,0),(0,0),(0,0),(0,0)]);",
)
for _attributes in (
    "size = [1,1,3,3]",
    "size = [1,1,2,2], stride = [1,1,2,2]",
    "size = [1,1,2,3], stride = [1,1,3,2], normalize = true",
    "size = [1,2,2,2], stride = [1,2,1,2], padding = [(0,0),(0,0),(1,0),(0,1)], normalize = true, border = 'ignore'",
    "size = [1,1,3,3], stride = [1,1,2,2], border = 'replicate'",
    "size = [1,1,3,3], stride = [1,1,2,2], border = 'reflect'",
    "size = [1,1,3,3], stride = [1,1,2,2], border = 'reflect-even', normalize = true",
    "size = [1,1,3,3], stride = [1,1,2,2], output_shape = [2,4,11,10]",
    "size = [1,1,2,2], dilation = [1,1,2,2], padding = [(0,0),(0,0),(0,0),(1,1)]",
):
    case("debox", f"debox(x, {_attributes})")
# 4.3.3
for _attributes in (
    "size = [1,1,2,2], stride = [1,1,2,2]",
    "size = [1,1,3,3]",
    "size = [1,2,2,1], stride = [1,2,1,1]",
):
    for _border in ("constant", "replicate"):
        _windows = f"{_attributes}, border = '{_border}'"
        case(
            "sample",
            f"i = argmax_pool(x, {_windows});\n    y = sample(x, i, {_windows});",
        )
case("sample", "sample(x, i, size = [1,1,2,2])", i=integer(2, 4, 6, 5, low=0, high=3))
case("desample", "desample(x, i, size = [1,1,2,2], stride = [1,1,2,2])", i=integer(2, 4, 6, 5, low=0, high=3))
case("desample", "desample(x, i, size = [1,1,3,3], stride = [1,1,2,2])", i=integer(2, 4, 6, 5, low=0, high=8))
case(
    "desample",
    "desample(x, i, size = [1,2,3,3], padding = [(0,0),(0,1),(1,1),(0,2)])",
    i=integer(2, 4, 6, 5, low=0, high=17),
)
case(
    "desample",
    "desample(x, i, size = [1,1,2,2], stride = [1,1,2,2], output_shape = [2,4,11,10])",
    i=integer(2, 4, 6, 5, low=0, high=3),
)
# 4.3.4
case("nearest_downsample", "nearest_downsample(x, factor = [3,1])")
case("nearest_downsample", "nearest_downsample(x, factor = [2,5])")
case("area_downsample", "area_downsample(x, factor = [3,5])")
case("area_downsample", "area_downsample(x, factor = [4])", {"x": scalar(2, 3, 8)})
case("nearest_upsample", "nearest_upsample(x, factor = [3,2])")
case("nearest_upsample", "nearest_upsample(x, factor = [2,1,3])", {"x": scalar(1, 2, 3, 2, 2)})
for _method in ("symmetric", "asymmetric", "aligned"):
    for _border in ("constant", "replicate", "reflect", "reflect-even"):
        case(
            "multilinear_upsample",
            f"multilinear_upsample(x, factor = [2,3], method = '{_method}', border = '{_border}')",
        )
    case(
        "multilinear_upsample",
        f"multilinear_upsample(x, factor = [4], method = '{_method}')",
        {"x": scalar(2, 3, 5)},
    )
    case(
        "multilinear_upsample",
        f"multilinear_upsample(x, factor = [2,1,3], method = '{_method}')",
        {"x": scalar(1, 2, 1, 3, 2)},
    )

# 4.4
for _name in ("sum_reduce", "max_reduce", "min_reduce", "mean_reduce", "argmax_reduce", "argmin_reduce"):
    for _chosen in ("[1]", "[0,2,3]", "[3,1]", "[0,1,2,3]"):
        case(_name, f"{_name}(x, axes = {_chosen})")
    case(_name, f"r = round(x);\n    y = {_name}(r, axes = [2,3]);")
case("sum_reduce", "sum_reduce(x, axes = [1,2], normalize = true)")
case("sum_reduce", "sum_reduce(x, axes = [])")
# 4.5
case("reshape", "reshape(x, shape = [0,-1])")
case("reshape", "reshape(x, shape = [8,30])")
case("reshape", "reshape(x, shape = [6])", {"x": logical(2, 3)})
case("squeeze", "squeeze(x, axes = [0,2])", {"x": scalar(1, 4, 1, 5)})
case("unsqueeze", "unsqueeze(x, axes = [0,3])", {"x": scalar(2, 4, 5)})
case("unsqueeze", "unsqueeze(x, axes = [4,1])", {"x": integer(2, 4, 5)})
case("transpose", "transpose(x, axes = [0,2,3,1])")
case("transpose", "transpose(x, axes = [1,0])", {"x": integer(2, 4, 5)})
case("split", "[a, b, y] = split(x, axis = 1, ratios = [1,2,1]);")
case("concat", "concat([x, v, x], axis = 2)", v=scalar(2, 4, 3, 5))
case("concat", "concat([x], axis = 0)")
case("stack", "stack([x, v], axis = 1)", v=scalar(2, 4, 6, 5))
case("stack", "stack([x, x], axis = 3)", {"x": integer(2, 4, 5)})
case("unstack", "[a, b, c, y] = unstack(x, axis = 1);")
case("slice", "slice(x, axes = [1,3], begin = [1,-3], end = [3,0])")
case("slice", "slice(x, axes = [2], begin = [-4], end = [-1])", {"x": logical(2, 4, 6)})
# 4.6
ROIS = {"r": ("scalar", [3, 4], 0.0, 5.0)}
for _name in ("avg_roi_pool", "max_roi_pool"):
    case(_name, f"{_name}(x, r, i, output_size = [2,3])", i=integer(3, 1, low=0, high=1), r=scalar(3, 4))
for _method in ("symmetric", "asymmetric", "aligned"):
    case(
        "roi_resample",
        f"roi_resample(x, r, i, output_size = [3,4], method = '{_method}')",
        i=integer(3, 1, low=0, high=1),
        r=scalar(3, 4),
    )
case(
    "avg_roi_align",
    "avg_roi_align(x, r, i, output_size = [2,2], sampling_rate = [2,3])",
    i=integer(3, 1, low=0, high=1),
    r=scalar(3, 4),
)
case(
    "max_roi_align",
    "max_roi_align(x, r, i, output_size = [2,3], sampling_rate = [2,2], resize_method = 'aligned')",
    i=integer(3, 1, low=0, high=1),
    r=scalar(3, 4),
)
# 4.7
case("matmul", "matmul(x, v)", {"x": scalar(5, 6)}, v=scalar(6, 7))
case("matmul", "matmul(x, v, transposeB = true)", v=scalar(2, 1, 7, 5))
case("matmul", "matmul(x, v, transposeA = true)", v=scalar(1, 4, 6, 3))
case(
    "matmul", "matmul(x, v, transposeA = true, transposeB = true)", {"x": scalar(3, 5, 6)}, v=scalar(3, 2, 5)
)
# 4.9.1
for _name in ("sigmoid", "relu", "elu", "tanh", "softplus"):
    case(_name, f"{_name}(x)")
    case(_name, f"{_name}(x)", {"x": scalar(3, 50, low=-30.0, high=30.0)})
case("prelu", "prelu(x, a)", a=scalar(1, 4, low=0.0, high=1.5))
case("leaky_relu", "leaky_relu(x, alpha = 0.1)")
case("leaky_relu", "leaky_relu(x, alpha = 1.5)")
case("softmax", "softmax(x)", {"x": scalar(2, 5, 3, low=-20.0, high=20.0)})
case("softmax", "softmax(x, axes = [1,3])")
case("softmax", "softmax(x, axes = [0])", {"x": scalar(7)})
# 4.9.2
case("linear", "linear(x, f, b)", {"x": scalar(3, 6)}, f=scalar(4, 6), b=scalar(1, 4))
case("linear", "linear(x, f)", {"x": scalar(3, 6)}, f=scalar(4, 6))
case(
    "separable_conv",
    "separable_conv(x, p, q, b, stride = [2,1])",
    p=scalar(4, 1, 3, 3),
    q=scalar(6, 4, 1, 1),
    b=scalar(1, 6),
)
case(
    "separable_conv",
    "separable_conv(x, p, q, border = 'replicate', groups = 2)",
    p=scalar(8, 1, 3, 3),
    q=scalar(6, 4, 1, 1),
)
case(
    "separable_deconv",
    "separable_deconv(x, p, q, b, stride = [2,2])",
    p=scalar(6, 1, 3, 3),
    q=scalar(4, 6, 1, 1),
    b=scalar(1, 6),
)
# 4.9.4
for _size in ("[1,3]", "[1,1,3,3]", "[1,3,1,3]"):
    case(
        "local_response_normalization",
        f"local_response_normalization(x, size = {_size}, alpha = 0.5, beta = 0.75, bias = 2.0)",
    )
    case("local_mean_normalization", f"local_mean_normalization(x, size = {_size})")
    case(
        "local_variance_normalization",
        f"local_variance_normalization(x, size = {_size}, bias = 0.1, epsilon = 0.01)",
    )
    case(
        "local_contrast_normalization",
        f"local_contrast_normalization(x, size = {_size}, bias = 0.1, epsilon = 0.01)",
    )
for _name in ("l1_normalization", "l2_normalization"):
    case(_name, f"{_name}(x, axes = [1])")
    case(_name, f"{_name}(x, axes = [2,3], bias = 0.5, epsilon = 20.0)")
case(
    "batch_normalization",
    "batch_normalization(x, m, v, o, s, epsilon = 0.001)",
    m=scalar(1, 4),
    v=scalar(1, 4, low=0.1),
    o=scalar(1, 4),
    s=scalar(1, 4),
)
case(
    "batch_normalization",
    "batch_normalization(x, m, v, 0.5, 2.0, epsilon = 0.001)",
    m=scalar(1, 4),
    v=scalar(1, 4, low=0.1),
)
# 4.9.5
case("linear_quantize", "linear_quantize(x, -1.0, 1.5, bits = 4)")
case(
    "linear_quantize",
    "linear_quantize(x, a, b, bits = 6)",
    a=scalar(1, 4, low=-2.0, high=-1.0),
    b=scalar(1, 4, low=0.5),
)
case("logarithmic_quantize", "logarithmic_quantize(x, 1.5, bits = 3)")
case("logarithmic_quantize", "logarithmic_quantize(x, 8.0, bits = 4)", {"x": scalar(3, 60, low=-20, high=20)})
case("logarithmic_quantize", "logarithmic_quantize(x, m, bits = 4)", m=scalar(1, 4, low=0.5, high=9.0))
# 4.9.6
case("copy_n", "[a, y] = copy_n(x, times = 2);")
case("add_n", "add_n([x, v, x])", v=scalar(2, 4))
case("add_n", "add_n([x])")
case("moments", "y, z = moments(x, axes = [0,2,3]);")
# 4.8
case("update", "n = add(v, x);\n    y = update(v, n);", {"x": scalar(2, 4)}, v=scalar(2, 4))
