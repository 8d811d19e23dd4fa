"""One small graph for each operation of NNEF, from which docs/nnef_operations.md is made, and what limits it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NnefExample:
    """The assignments behind `x`; the last one invokes the operation."""

    body: str
    shape: str = "[1,4,8,8]"
    data: str = "scalar"

    def text(self) -> str:
        """The document."""
        target = self.body.rsplit("; ", 1)[-1].split("=")[0]
        names = ", ".join(name.strip(" []") for name in target.split(","))
        return (
            f"version 1.0;\ngraph example( x ) -> ( {names} )\n{{\n"
            f"    x = external<{self.data}>(shape = {self.shape});\n    {self.body};\n}}\n"
        )


_FILTER = "f = constant(shape = [6,4,3,3], value = [0.5]); "
_CHANNELS = "v = constant(shape = [1,4], value = [0.5]); "
_PLANES = "p = constant(shape = [4,1,3,3], value = [0.5]); q = constant(shape = [4,4,1,1], value = [0.5]); "
_WINDOW = "size = [1,1,3,3], stride = [1,1,2,2]"
_INDEX = f"i = argmax_pool(x, {_WINDOW}); "
_REGIONS = (
    "m = max_reduce(x, axes = [0,2,3]); r = reshape(m, shape = [1,4]); "
    "i = constant<integer>(shape = [1,1], value = [0]); y = {}(x, r, i, output_size = [2,2]{})"
)


def _examples() -> dict[str, NnefExample]:
    found = {
        "external": NnefExample("y = copy(x)"),
        "constant": NnefExample("c = constant(shape = [1,4], value = [0.5]); y = add(x, c)"),
        "variable": NnefExample("v = variable(shape = [1,4], label = 'v'); y = add(x, v)"),
        "update": NnefExample("v = variable(shape = [1,4], label = 'v'); y = update(v, x)", "[1,4]"),
        "not": NnefExample("y = not(x)", data="logical"),
        "and": NnefExample("y = and(x, x)", data="logical"),
        "or": NnefExample("y = or(x, x)", data="logical"),
        "select": NnefExample("c = gt(x, 0.0); y = select(c, x, 1.0)"),
        "clamp": NnefExample("y = clamp(x, 0.0, 6.0)"),
        "pow": NnefExample("y = pow(x, 1.5)"),
        "conv": NnefExample(_FILTER + "y = conv(x, f)"),
        "deconv": NnefExample(
            "f = constant(shape = [4,6,3,3], value = [0.5]); y = deconv(x, f, stride = [2,2])"
        ),
        "box": NnefExample(f"y = box(x, {_WINDOW})"),
        "debox": NnefExample(f"y = debox(x, {_WINDOW})"),
        "argmax_pool": NnefExample(f"y = argmax_pool(x, {_WINDOW})"),
        "sample": NnefExample(f"{_INDEX}y = sample(x, i, {_WINDOW})"),
        "desample": NnefExample(
            f"{_INDEX}m = max_pool(x, {_WINDOW}); y = desample(m, i, {_WINDOW}, output_shape = [1,4,8,8])"
        ),
        "nearest_downsample": NnefExample("y = nearest_downsample(x, factor = [2,2])"),
        "area_downsample": NnefExample("y = area_downsample(x, factor = [2,2])"),
        "nearest_upsample": NnefExample("y = nearest_upsample(x, factor = [2,2])"),
        "multilinear_upsample": NnefExample("y = multilinear_upsample(x, factor = [2,2])"),
        "reshape": NnefExample("y = reshape(x, shape = [1,-1])"),
        "squeeze": NnefExample("y = squeeze(x, axes = [0])"),
        "unsqueeze": NnefExample("y = unsqueeze(x, axes = [0])"),
        "transpose": NnefExample("y = transpose(x, axes = [0,2,3,1])"),
        "split": NnefExample("[y, z] = split(x, axis = 1, ratios = [1,1])"),
        "concat": NnefExample("y = concat([x, x], axis = 1)"),
        "stack": NnefExample("y = stack([x, x], axis = 1)"),
        "unstack": NnefExample("[y, z] = unstack(x, axis = 0)", "[2,4]"),
        "slice": NnefExample("y = slice(x, axes = [1], begin = [1], end = [3])"),
        "matmul": NnefExample("y = matmul(x, x)"),
        "prelu": NnefExample(_CHANNELS + "y = prelu(x, v)"),
        "leaky_relu": NnefExample("y = leaky_relu(x, alpha = 0.1)"),
        "linear": NnefExample("f = constant(shape = [3,8], value = [0.5]); y = linear(x, f, 0.5)", "[4,8]"),
        "separable_conv": NnefExample(_PLANES + "y = separable_conv(x, p, q)"),
        "separable_deconv": NnefExample(_PLANES + "y = separable_deconv(x, p, q, stride = [2,2])"),
        "max_pool_with_index": NnefExample(f"y, z = max_pool_with_index(x, {_WINDOW})"),
        "local_response_normalization": NnefExample("y = local_response_normalization(x, size = [1,5])"),
        "batch_normalization": NnefExample(
            _CHANNELS + "y = batch_normalization(x, v, v, v, v, epsilon = 0.001)"
        ),
        "linear_quantize": NnefExample("y = linear_quantize(x, -1.0, 1.0, bits = 8)"),
        "logarithmic_quantize": NnefExample("y = logarithmic_quantize(x, 1.0, bits = 8)"),
        "copy_n": NnefExample("[y, z] = copy_n(x, times = 2)"),
        "add_n": NnefExample("y = add_n([x, x, x])"),
        "moments": NnefExample("y, z = moments(x, axes = [2,3])"),
    }
    for name in "copy neg rcp exp log abs sign floor ceil round".split():
        found[name] = NnefExample(f"y = {name}(x)")
    for name in "sqr sqrt rsqr rsqrt log2 sigmoid relu elu tanh softmax softplus".split():
        found[name] = NnefExample(f"y = {name}(x)")
    for name in "add sub mul div lt gt le ge eq ne min max".split():
        found[name] = NnefExample(f"y = {name}(x, x)")
    for name in "sum max min argmax argmin mean".split():
        found[f"{name}_reduce"] = NnefExample(f"y = {name}_reduce(x, axes = [2,3])")
    for name in "max_pool avg_pool rms_pool".split():
        found[name] = NnefExample(f"y = {name}(x, {_WINDOW}, border = 'ignore')")
    for name in "mean variance contrast".split():
        found[f"local_{name}_normalization"] = NnefExample(
            f"y = local_{name}_normalization(x, size = [1,1,3,3])"
        )
    for name in "l1_normalization l2_normalization".split():
        found[name] = NnefExample(f"y = {name}(x, axes = [1])")
    for name in "avg_roi_pool max_roi_pool roi_resample".split():
        found[name] = NnefExample(_REGIONS.format(name, ""))
    for name in "avg_roi_align max_roi_align".split():
        found[name] = NnefExample(_REGIONS.format(name, ", sampling_rate = [2,2]"))
    return found


EXAMPLES = _examples()

_IGNORED = "border 'ignore': every window has an element inside"
_REFLECTED = "'reflect' not wider than the input"
LIMITS = {
    "external": "no strings",
    "constant": "no strings; integers of 32 bits",
    "variable": "no strings; integers of 32 bits",
    "update": "a variable becomes an input and an output",
    "div": "by the reciprocal: an ulp may differ",
    "conv": f"up to 3 spatial dimensions; {_REFLECTED}",
    "deconv": f"up to 3 spatial dimensions; {_REFLECTED}",
    "box": f"{_IGNORED}; {_REFLECTED}",
    "avg_pool": f"{_IGNORED}; {_REFLECTED}",
    "max_pool": f"{_IGNORED}; {_REFLECTED}",
    "rms_pool": f"{_IGNORED}; {_REFLECTED}",
    "argmax_pool": f"no integers; {_IGNORED}",
    "max_pool_with_index": _IGNORED,
    "sample": "indices inside the window",
    "multilinear_upsample": _REFLECTED,
    "avg_roi_pool": "regions that are not empty",
    "max_roi_pool": "regions that are not empty",
}
"""What is refused beside strings, and ranks above TOSA's six, or left to the user."""
