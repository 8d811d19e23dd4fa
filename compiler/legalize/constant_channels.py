"""Channels that are the same number wherever they are in an image, whatever the network's inputs are."""

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator

Channels = np.ndarray
"""int64 [C] masked array: the numbers; masked where a channel is not constant."""

_DOUBLE_ROUND_SHIFT = 31


def constant_channels(graph: Graph) -> dict[str, Channels]:
    """Returns which channels are constant, for tensors of the outermost graph whose last axis is channels."""
    known: dict[str, Channels] = {}
    for operator in graph.operators:
        found = _result(graph, operator, known)
        if found is not None and not np.ma.getmaskarray(found).all():
            known[operator.outputs[0]] = found
    return known


def padded(operator: Operator) -> bool:
    """Whether a convolution's windows reach beyond the image."""
    return any(operator.attributes["pad"])


def absorbed(graph: Graph, operator: Operator, source: Channels | None) -> np.ndarray:
    """bool [C]: input channels of a CONV2D or DEPTHWISE_CONV2D that add the same number everywhere: those constant ones
    that no padding interrupts, or whose number is the zero point, which padding counts as."""
    channels = graph.tensors[operator.inputs[0]].shape[-1]
    if source is None:
        return np.zeros(channels, bool)
    constant = ~np.ma.getmaskarray(source)
    if padded(operator):
        constant &= np.ma.getdata(source) == _zero_point(graph, operator, "input_zp")
    return constant


def _zero_point(graph: Graph, operator: Operator, name: str) -> int:
    return int(graph.operand_value(operator, name).reshape(-1)[0])


def weights_of(graph: Graph, operator: Operator) -> tuple[np.ndarray, np.ndarray] | None:
    """(weights minus their zero point, biases) int64 of a convolution; None unless both are constants."""
    names = [graph.operand(operator, name) for name in ("weight", "bias", "input_zp", "weight_zp")]
    if any(name is None or graph.const(name) is None for name in names):
        return None
    weights, bias = (graph.operand_value(operator, name) for name in ("weight", "bias"))
    if not (np.issubdtype(weights.dtype, np.integer) and np.issubdtype(bias.dtype, np.integer)):
        return None
    centred = weights.astype(np.int64) - _zero_point(graph, operator, "weight_zp")
    channels = graph.tensors[operator.outputs[0]].shape[-1]
    return centred, np.broadcast_to(bias.astype(np.int64), channels)


def added(graph: Graph, operator: Operator, source: Channels | None) -> np.ndarray | None:
    """int64: what each input channel of a CONV2D that is absorbed adds to each output, [OC, IC]; 0 for the others."""
    found = weights_of(graph, operator)
    if found is None:
        return None
    sums = found[0].sum(axis=(1, 2))
    taken = absorbed(graph, operator, source)
    if source is None or not taken.any():
        return np.zeros_like(sums)
    numbers = np.where(taken, np.ma.getdata(source) - _zero_point(graph, operator, "input_zp"), 0)
    return sums * numbers


def _result(graph: Graph, operator: Operator, known: dict[str, Channels]) -> Channels | None:
    source = known.get(operator.inputs[0]) if operator.inputs else None
    match operator.op:
        case "CONV2D":
            return _convolution(graph, operator, source)
        case "DEPTHWISE_CONV2D":
            return _depthwise(graph, operator, source)
        case _ if source is None:
            return None
        case "RESCALE":
            return _rescale(graph, operator, source)
        case "CLAMP":
            low, high = operator.attributes["min_val"], operator.attributes["max_val"]
            return np.ma.array(np.clip(np.ma.getdata(source), low, high), mask=np.ma.getmaskarray(source))
        case "MAX_POOL2D" | "IDENTITY":
            return source
        case "RESHAPE" if graph.tensors[operator.outputs[0]].shape[-1:] == source.shape:
            return source
    return None


def _convolution(graph: Graph, operator: Operator, source: Channels | None) -> Channels | None:
    found = weights_of(graph, operator)
    if found is None:
        return None
    weights, bias = found
    dead = ~weights.any(axis=(1, 2))
    numbers = added(graph, operator, source)
    assert numbers is not None
    constant = (dead | absorbed(graph, operator, source)).all(axis=1)
    return np.ma.array(bias + numbers.sum(axis=1), mask=~constant)


def _depthwise(graph: Graph, operator: Operator, source: Channels | None) -> Channels | None:
    found = weights_of(graph, operator)
    if found is None:
        return None
    weights, bias = found
    sums = weights.sum(axis=(0, 1))  # [C, M]
    constant = ~weights.any(axis=(0, 1))
    numbers = np.zeros_like(sums)
    if source is not None:
        taken = absorbed(graph, operator, source)
        constant |= taken[:, None]
        level = np.where(taken, np.ma.getdata(source) - _zero_point(graph, operator, "input_zp"), 0)
        numbers = sums * level[:, None]
    return np.ma.array(bias + numbers.reshape(-1), mask=~constant.reshape(-1))


def _rescale(graph: Graph, operator: Operator, source: Channels) -> Channels | None:
    """RESCALE as TOSA's apply_scale_32 has it (clause 2.10.2); other forms are not followed."""
    attributes, target = operator.attributes, graph.tensors[operator.outputs[0]].dtype
    names = ("multiplier", "shift", "input_zp", "output_zp")
    operands = [graph.operand(operator, name) for name in names]
    plain = attributes["scale32"] and not attributes["input_unsigned"] and not attributes["output_unsigned"]
    rounding = attributes["rounding_mode"]
    constants = all(name is not None and graph.const(name) is not None for name in operands)
    if not plain or not constants or rounding not in ("SINGLE_ROUND", "DOUBLE_ROUND"):
        return None
    multiplier, shift, input_zp, output_zp = (
        graph.operand_value(operator, name).astype(np.int64) for name in names
    )
    multiplier, shift = (np.broadcast_to(value, source.shape) for value in (multiplier, shift))
    numbers = []
    for value, factor, places in zip(np.ma.getdata(source), multiplier, shift, strict=True):
        # Python's integers: what is masked may be any number.
        value = int(value) - int(input_zp[0])
        rounded = int(value) * int(factor) + (1 << int(places) - 1)
        if rounding == "DOUBLE_ROUND" and places > _DOUBLE_ROUND_SHIFT:
            rounded += 1 << 30 if value >= 0 else -(1 << 30)
        result = (rounded >> int(places)) + int(output_zp[0])
        numbers.append(min(max(result, target.min), target.max))
    return np.ma.array(np.array(numbers, np.int64), mask=np.ma.getmaskarray(source))


def fits(values: np.ndarray, dtype: DType) -> np.ndarray:
    """bool: values that the type holds."""
    return (values >= dtype.min) & (values <= dtype.max)
