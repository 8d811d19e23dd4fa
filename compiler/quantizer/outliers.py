"""Outliers: a few channels between two layers that alone set the scales of all others get convolutions of their own.

Transformers have units behind a GELU that are nearly always silent and sometimes huge, with one huge weight behind
them. Eight bits for all channels then have few steps left for the others, and the row of that weight has none. So

    y = W f(V x + b) + c    becomes    y = (W' f(V' x + b') + c) + U f(T x + t)

where T has the rows of V that belong to the outliers, U the columns of W, and V', b', W' zeros there.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Trait, operators_with
from tosaic.compiler.ir.building import FoldingBuilder, add_constant, remove_dead
from tosaic.compiler.quantizer.calibration import Channels, Statistics
from tosaic.compiler.quantizer.functions import RENAMES

_FOLLOWED = operators_with(Trait.ELEMENTWISE) | RENAMES
_MOST_CHANNELS = 4
"""Outliers of a tensor; of one with no more than twice as many channels none is apart."""
_LEAST_PRODUCTS = 256
"""Multiplications of each element behind, and for each in front: of fewer, the layers more would cost too much."""
_GAIN = 10 ** (6 / 10)
"""The least gain in a convolution's noise that is worth layers of its own: 6 dB."""
_STEP = 10 ** (0.5 / 10)
"""The least gain that is worth one channel more: 0.5 dB."""
_WEIGHT_LEVELS = 127
_WIDE_LEVELS = float(DType.INT16.max)
"""Steps of 16 bits, with room for as much again."""


def part_outliers(graph: Graph, statistics: Statistics, activations: DType = DType.INT8) -> frozenset[str]:
    """Takes outliers out of what convolutions read, in place.

    Returns the tensors that hold them, which should have 16 bits: that costs nothing, and 8 would be felt. `statistics`
    must hold channels; they are those of the graph before.
    """
    apart, levels = set[str](), float(activations.max - activations.min)
    for op in list(graph.operators):
        chain = _ElementwisePath.behind(graph, op) if op.op == "CONV2D" else None
        channels = _outliers(graph, statistics, op, levels) if chain is not None else []
        if chain is not None and channels:
            apart.add(_part(graph, op, chain, channels))
    if apart:
        remove_dead(graph)
    return frozenset(apart)


@dataclass(frozen=True)
class _ElementwisePath:
    """The operators from convolutions' results to what another reads, each channel for itself."""

    sources: list[Operator]
    between: list[Operator]

    @classmethod
    def behind(cls, graph: Graph, reader: Operator) -> "_ElementwisePath | None":
        """None where something else reads a tensor of the chain, or where channels are not those of convolutions with
        constant weights."""
        if not _is_constant(graph, reader) or _products(graph, reader)[0] < _LEAST_PRODUCTS:
            return None
        index, name = graph.index(), reader.inputs[0]
        channels, found, sources = graph.tensors[name].shape[-1], set[int](), dict[int, Operator]()
        pending, inside = [name], {id(reader)}
        while pending:
            name = pending.pop()
            op = index.producer(name)
            if op is None or name in graph.outputs or graph.tensors[name].shape[-1:] != (channels,):
                return None
            if op.op == "CONV2D" and _is_constant(graph, op) and _products(graph, op)[1] >= _LEAST_PRODUCTS:
                sources[id(op)] = op
            elif op.op in _FOLLOWED:
                if id(op) not in found:
                    found.add(id(op))
                    pending += [each for each in op.inputs if graph.tensors[each].data is None]
            else:
                return None
        inside |= found
        between = [op for op in graph.operators if id(op) in found]
        made = [each for op in (*between, *sources.values()) for each in op.outputs]
        if any(id(op) not in inside for each in made for op in index.consumers(each)):
            return None
        return cls(list(sources.values()), between) if between else None


def _is_constant(graph: Graph, op: Operator) -> bool:
    return all(graph.tensors[name].data is not None for name in op.inputs[1:3])


def _products(graph: Graph, op: Operator) -> tuple[int, int]:
    """How often an element of the operand is multiplied, and how many products a result sums up."""
    outputs, *taps = graph.tensors[op.inputs[1]].shape
    return outputs * taps[0] * taps[1], int(np.prod(taps))


def _outliers(graph: Graph, statistics: Statistics, op: Operator, levels: float) -> list[int]:
    """The channels without which a convolution's noise falls most; none where that is too little."""
    weight, seen = graph.tensors[op.inputs[1]].data, statistics.channels.get((op.inputs[0], (3,)))
    if weight is None or seen is None or weight.shape[-1] <= 2 * _MOST_CHANNELS:
        return []
    rows = weight.reshape(len(weight), -1, weight.shape[-1]).astype(np.float64)
    first = _noise(seen, rows, np.arange(rows.shape[-1]), levels)
    best, least = list[int](), first / _GAIN
    orders = [np.argsort(-sizes, kind="stable") for sizes in (seen.largest, np.abs(rows).max((0, 1)))]
    # Without all candidates there is least noise.
    most = np.unique(np.concatenate([order[:_MOST_CHANNELS] for order in orders]))
    if _noise(seen, rows, np.delete(np.arange(rows.shape[-1]), most), levels) >= least:
        return []
    for counts in itertools.product(range(_MOST_CHANNELS + 1), repeat=2):
        apart = np.unique(
            np.concatenate([order[:count] for order, count in zip(orders, counts, strict=True)])
        )
        if not 0 < len(apart) <= _MOST_CHANNELS:
            continue
        inside = np.delete(np.arange(rows.shape[-1]), apart)
        parts = ((inside, levels), (apart, _WIDE_LEVELS))
        found = sum(_noise(seen, rows, *part) for part in parts) * _STEP ** len(apart)
        if found < least:
            best, least = apart.tolist(), found
    return best


def _noise(seen: Channels, rows: np.ndarray, channels: np.ndarray, levels: float) -> float:
    """Expected noise of a convolution of some channels, by the rounding of its input and of its weights."""
    part = rows[..., channels]
    step = (max(seen.high[channels].max(), 0.0) - min(seen.low[channels].min(), 0.0)) / levels
    weight_steps = np.abs(part).max((1, 2)) / _WEIGHT_LEVELS
    # The largest weight of a row is exact: it is all there is of a row of one channel.
    weights = (
        (weight_steps**2).sum() * part.shape[1] * seen.power[channels].sum() if len(channels) > 1 else 0.0
    )
    return float(step**2 * (part**2).sum() + weights) / 12


def _part(graph: Graph, reader: Operator, chain: _ElementwisePath, channels: list[int]) -> str:
    """Repeats the chain for some channels, and takes these out of it. Returns what it ends in."""
    build = GraphBuilder.replacing(graph, reader)
    new, result, count = FoldingBuilder(build), reader.outputs[0], len(channels)
    whole = graph.tensors[reader.inputs[0]].shape[-1]
    parts: dict[str, str] = {}
    for source in chain.sources:
        weight, bias = (new.data(name) for name in source.inputs[1:3])
        assert weight is not None and bias is not None
        bias = np.broadcast_to(bias, len(weight))
        dtype = new.dtype(source.inputs[1])
        own = [new.constant(each[channels], dtype) for each in (weight, bias)]
        operands = [source.inputs[0], *own, *source.inputs[3:]]
        parts[source.outputs[0]] = new.op("CONV2D", *operands, dtype=dtype, **source.attributes)
        for place, each in enumerate((weight, bias), 1):
            silent = each.copy()
            silent[channels] = 0
            source.inputs[place] = add_constant(graph, f"{source.inputs[place]}/rest", silent, dtype)
    for op in chain.between:
        operands = [parts.get(name) or _picked(new, name, channels, whole) for name in op.inputs]
        shape = (*new.shape(op.outputs[0])[:-1], count)
        name = op.outputs[0]
        if op.op == "RESHAPE":
            parts[name] = new.reshape(operands[0], shape)
        else:
            parts[name] = new.op(op.op, *operands, dtype=new.dtype(name), **op.attributes)
    weight, bias = (new.data(name) for name in reader.inputs[1:3])
    assert weight is not None and bias is not None
    dtype, rest = new.dtype(result), weight.copy()
    rest[..., channels] = 0
    terms = []
    for x, kernel, offset in (
        (reader.inputs[0], rest, bias),
        (parts[reader.inputs[0]], weight[..., channels], np.zeros_like(bias)),
    ):
        operands = [x, *(new.constant(each, new.dtype(reader.inputs[1])) for each in (kernel, offset))]
        terms.append(new.op("CONV2D", *operands, *reader.inputs[3:], dtype=dtype, **reader.attributes))
    new.op("ADD", *terms, output=result)
    place = graph.operators.index(reader)
    graph.operators[place : place + 1] = build.operators
    return parts[reader.inputs[0]]


def _picked(new: FoldingBuilder, name: str, channels: list[int], whole: int) -> str:
    """The elements of a constant that belong to the channels."""
    data = new.data(name)
    if data is None or data.shape[-1:] != (whole,):
        return name
    return new.constant(data[..., channels], new.dtype(name))
