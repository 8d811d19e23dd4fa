"""Cross-layer equalization: channels of very different ranges are brought closer, their weights make up for it.

int8 activations have one scale for all channels. Where that costs more than it saves, each channel is divided by a
factor, as early as it can be, and the weights that read it are multiplied by the factor. The float graph's meaning
stays.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Tensor
from tosaic.compiler.ir.building import add_constant, fresh_name
from tosaic.compiler.ir.tensors import name_after
from tosaic.compiler.quantizer.calibration import Channels, Statistics
from tosaic.compiler.quantizer.canonical import MACS, PRODUCTS
from tosaic.compiler.quantizer.channels import ChannelOrigin, Tracing
from tosaic.compiler.quantizer.functions import RENAMES, is_real
from tosaic.compiler.quantizer.groups import has_groups
from tosaic.compiler.quantizer.plan import REORDERING, WIDE_MARGIN
from tosaic.compiler.quantizer.streams import divide_stream, multiply_inputs, reading, streams

EVEN = "/even"
"""What the name of an evened out tensor ends in."""
_EXPONENTS = (0.25, 0.5, 0.75, 1.0)
_GAIN = 10 ** (1.5 / 10)
"""The least gain in an operand's noise that is worth other scales: 1.5 dB."""
_DEAR_GAIN = 10 ** (6 / 10)
"""The least gain that is worth a layer more: 6 dB (see `_is_free`)."""
_MANY_PRODUCTS = 256
"""Where each element is multiplied this often, a layer more to prepare it takes a quarter of the products' time."""
_LARGE = 4096
"""Elements of a tensor that a layer of its own takes a thousand cycles for."""
_FEW = 64
"""The noise of a convolution with that many times fewer results than another of the same tensor does not count."""
_FLOOR = 2.0**-14
_WEIGHT_LEVELS = 127
_INT8_LEVELS = 255.0
_STEPS_OF_NOISE = 12.0
"""Rounding to steps has a mean square of one squared step by this."""
_MUCH_LOST = 0.01
"""A share of the results' power that new samples may lose: less is not told from the chance of which were left out."""
_UNBOUNDED = 1e30
"""The largest number of a float type is no bound."""


def equalize(
    graph: Graph,
    statistics: Statistics,
    activations: DType = DType.INT8,
    kept: frozenset[str] = frozenset(),
) -> bool:
    """Changes a canonical float graph in place where it pays; False if it does nowhere. Tensors `kept` stay.

    `statistics` must hold channels (`wanted_channels`); they are those of the graph before.
    """
    levels = float(activations.max - activations.min)
    changed, tied = _equalize_streams(graph, statistics, levels, kept)
    done: set[str] = set()
    for op in list(graph.operators):
        if op.op in MACS and op.inputs[0] not in done | tied:
            done.add(op.inputs[0])
            readers = [other for other in graph.consumers(op.inputs[0]) if other.op in MACS]
            changed |= _equalize_input(graph, statistics, op.inputs[0], readers, levels, kept)
        elif op.op == "MATMUL":
            changed |= _equalize_product(graph, statistics, op, levels, kept)
    return changed


# --- streams ----------------------------------------------------------------------------------------------------


def _equalize_streams(
    graph: Graph, statistics: Statistics, levels: float, kept: frozenset[str]
) -> tuple[bool, set[str]]:
    """What blocks add to and read: all tensors of a stream get the same factors, which cost nothing.

    Whether any did, and the tensors of such streams that stay as they are: divided for some of their readers only, they
    would be in memory twice, as int16 for the others, and a layer would make the one of the other. 20 dB of a depthwise
    convolution's noise, by `_noise`, were not worth that: the networks' SQNR was no better."""
    changed, tied = False, set[str]()
    for stream in streams(graph):
        read = [
            _Read.of(graph, statistics, name, readers, stream.labels[name])
            for name, readers in reading(graph, stream.labels)
        ]
        parts = [part for part in read if part is not None]
        forks = [name for name, readers in reading(graph, stream.labels) if _forks(graph, name, readers)]
        if not forks or len(parts) < len(read) or kept & stream.labels.keys():
            continue
        tied.update(forks)
        factors = _stream_factors(parts, stream.free, levels)
        if factors is not None:
            divide_stream(graph, stream, factors, statistics)
            changed = True
    return changed, tied


def _forks(graph: Graph, name: str, readers: Sequence[Operator]) -> bool:
    """Whether a tensor of its own for convolutions that read it would take a layer, and that much beside their time."""
    weights = [graph.tensors[op.inputs[1]].data for op in readers]
    products = sum(weight.size for weight in weights if weight is not None) / graph.tensors[name].shape[-1]
    large = math.prod(graph.tensors[name].shape) >= _LARGE
    return large and products < _MANY_PRODUCTS and not _is_free(graph, name, readers)


@dataclass(frozen=True)
class _Read:
    """A tensor that convolutions read: what was seen of it, their weights, and the classes of its channels."""

    seen: Channels
    folds: list[Channels]
    readers: Sequence[Operator]
    weights: list[np.ndarray]
    labels: np.ndarray

    @classmethod
    def of(
        cls, graph: Graph, statistics: Statistics, name: str, readers: Sequence[Operator], labels: np.ndarray
    ) -> "_Read | None":
        """Returns None where nothing is known of the tensor, where it is 0, and where weights in groups read it,
        which factors would take off their grid."""
        key = name, (len(graph.tensors[name].shape) - 1,)
        seen = statistics.channels.get(key)
        if seen is None or not seen.largest.any() or any(has_groups(graph, op) for op in readers):
            return None
        readers = _counted(graph, readers)
        weights = [graph.tensors[op.inputs[1]].data for op in readers]
        by_channel = [
            _by_channel(op, data) for op, data in zip(readers, weights, strict=True) if data is not None
        ]
        return cls(seen, statistics.parts(key), readers, by_channel, labels)

    def noise(self, factors: np.ndarray, square: np.ndarray, unseen: np.ndarray | float) -> float:
        """Returns the noise of the results of all readers, for the factors of the classes, by squared steps of the
        rounding and what unseen samples lose: little of that says nothing, since the range is that of all samples."""
        line = factors[self.labels]

        def of(squared_steps: np.ndarray) -> float:
            return sum(
                _noise(self.seen, weight, op.op == "DEPTHWISE_CONV2D", line, squared_steps)
                for weight, op in zip(self.weights, self.readers, strict=True)
            )

        rounding = of(square)
        whole = of(square + _STEPS_OF_NOISE * unseen / line**2)
        return whole if whole - rounding > _MUCH_LOST else rounding

    def strength(self, count: int) -> np.ndarray:
        """How large the weights of each class are, beside the largest of the same convolution."""
        found = np.zeros(count)
        for weight in self.weights:
            strongest = np.abs(weight).max((0, 1))
            found = np.maximum(found, _pooled(strongest / (strongest.max() or 1.0), self.labels, count))
        return found


def _stream_factors(parts: Sequence[_Read], free: np.ndarray, levels: float) -> np.ndarray | None:
    """Factors for the classes with the least noise of all that read the stream; None unless it falls by `_GAIN`."""
    count = len(free)
    strength = np.max([part.strength(count) for part in parts], axis=0)

    def even(seen: Sequence[np.ndarray], exponent: float, middle: bool) -> np.ndarray:
        """Factors by the largest magnitudes that each part has seen."""
        shares = [
            _pooled(each / (each.max() or 1.0), part.labels, count)
            for each, part in zip(seen, parts, strict=True)
        ]
        if middle:
            largest = np.exp(np.mean(np.log(_floored(np.array(shares))), axis=0))
        else:
            largest = np.max(shares, axis=0)
        factors = _floored(largest) ** exponent / _floored(strength) ** (1 - exponent)
        return np.where(free, _rounded(factors), 1.0)

    def noise(factors: np.ndarray, unseen: Sequence[np.ndarray | float]) -> float:
        return sum(
            part.noise(factors, _squared_steps(part.seen, factors[part.labels], levels), lost)
            for part, lost in zip(parts, unseen, strict=True)
        )

    # Parts that were not seen together have no samples to leave out.
    folds = min(len(part.folds) for part in parts)
    best, least = None, noise(np.ones(count), [0.0] * len(parts)) / _GAIN
    for middle, exponent in itertools.product((False, True), _EXPONENTS):
        unseen: list[np.ndarray | float] = [0.0] * len(parts)
        for place in range(folds if folds > 1 else 0):
            others = [_without(part.folds, place) for part in parts]
            factors = even([each.largest for each in others], exponent, middle)
            for index, part in enumerate(parts):
                lost = _lost(part.folds[place], others[index], factors[part.labels], levels)
                unseen[index] = unseen[index] + lost / folds
        factors = even([part.seen.largest for part in parts], exponent, middle)
        found = noise(factors, unseen)
        if found < least:
            best, least = factors, found
    return best


def _without(folds: Sequence[Channels], place: int) -> Channels:
    """What all parts of the samples but one show."""
    return functools.reduce(Channels.joined, [*folds[:place], *folds[place + 1 :]])


def _lost(unseen: Channels, seen: Channels, factors: np.ndarray, levels: float) -> np.ndarray:
    """The mean square, by channel, of what samples lose that were not seen when the range was chosen: factors bring
    channels near its ends that are silent in one sample and speak in the next, and these saturate."""
    room = WIDE_MARGIN if levels > _INT8_LEVELS else 1.0
    high, low = room * float((seen.high / factors).max()), room * float((seen.low / factors).min())
    beyond = np.maximum(unseen.high / factors - max(high, 0.0), min(low, 0.0) - unseen.low / factors)
    largest = np.maximum(unseen.largest / factors, np.finfo(np.float64).tiny)
    # As if all of a channel's power were in elements of its largest magnitude.
    return unseen.power * (np.maximum(beyond, 0.0) / largest) ** 2


# --- what convolutions read -------------------------------------------------------------------------------------


def _equalize_input(
    graph: Graph,
    statistics: Statistics,
    tensor: str,
    readers: Sequence[Operator],
    levels: float,
    kept: frozenset[str],
) -> bool:
    rank = len(graph.tensors[tensor].shape)
    seen = statistics.channels.get((tensor, (rank - 1,)))
    weights = [graph.tensors[op.inputs[1]].data for op in readers]
    if seen is None or any(weight is None for weight in weights) or not seen.largest.any():
        return False
    if any(has_groups(graph, op) for op in readers):
        return False
    counted = _counted(graph, readers)
    by_channel = [
        _by_channel(op, weight) for op in counted if (weight := graph.tensors[op.inputs[1]].data) is not None
    ]
    for origin in Tracing(graph).origins(tensor):
        labels = origin.labels[(0,) * (rank - 1)]
        if origin.source in kept:
            return False
        if np.any(origin.labels != labels) or not _may_scale(graph, origin.source, readers):
            continue
        products = sum(weight.size for weight in weights if weight is not None) / len(labels)
        parts = {op.op for op in graph.operators if origin.source in op.outputs} & {"CONCAT", "SLICE"}
        free = _is_free(graph, origin.source, readers)
        gain = _GAIN if free or (products >= _MANY_PRODUCTS and not parts) else _DEAR_GAIN
        limits = _Limits(levels, gain, _upper_bound(graph, origin.source), free)
        passed = _Passed.on_the_way(statistics, seen, origin, labels)
        read = _Read(seen, statistics.parts((tensor, (rank - 1,))), counted, by_channel, labels)
        factors = _best_factors(read, limits, passed)
        if factors is None:
            return False
        _divide(
            graph,
            origin.source,
            factors,
            readers if origin.source == tensor else graph.consumers(origin.source),
        )
        for op in readers:
            multiply_inputs(graph, op, factors[labels])
        return True
    return False


def _counted(graph: Graph, readers: Sequence[Operator]) -> Sequence[Operator]:
    """The convolutions whose noise counts: not those of a few outliers beside that of all other channels."""
    sizes = [math.prod(graph.tensors[op.outputs[0]].shape) for op in readers]
    return [op for op, size in zip(readers, sizes, strict=True) if size * _FEW >= max(sizes)]


def _by_channel(op: Operator, weight: np.ndarray) -> np.ndarray:
    """Weights as [output channel, tap, input channel]; of a depthwise one [multiplier, tap, channel]."""
    wide = weight.astype(np.float64)
    if op.op == "DEPTHWISE_CONV2D":
        return wide.reshape(-1, *wide.shape[2:]).transpose(2, 0, 1)
    return wide.reshape(wide.shape[0], -1, wide.shape[-1])


@dataclass(frozen=True)
class _Limits:
    """What factors must achieve and observe."""

    levels: float
    """Steps of an activation."""
    gain: float
    """The factor by which the noise must fall."""
    bound: float
    """What all channels are cut off at; infinite if nothing is."""
    is_free: bool
    """Whether the factors cost no layer."""


@dataclass(frozen=True)
class _Passed:
    """What a MATMUL between an origin and its readers holds of the channels: its rounding goes on to the readers."""

    seen: Channels
    labels: np.ndarray
    gains: np.ndarray
    """The share of its rounding that is left in each of the readers' channels: that of what was seen."""

    @classmethod
    def on_the_way(
        cls, statistics: Statistics, seen: Channels, origin: ChannelOrigin, labels: np.ndarray
    ) -> list["_Passed"]:
        """`labels` are those of the channels `seen` that readers get."""
        found = []
        for name, own in origin.passed.items():
            values = statistics.channels.get((name, (0, 2)))
            if values is None:
                continue
            count = np.bincount(own.reshape(-1), minlength=labels.max() + 1)
            power = np.bincount(own.reshape(-1), values.power.reshape(-1), len(count)) / np.maximum(count, 1)
            gains = seen.power / np.where(power[labels] > 0, power[labels], np.inf)
            found.append(cls(values, own, gains))
        return found

    def squared_steps(self, factors: np.ndarray, levels: float) -> np.ndarray:
        """Returns the squared steps of its rounding as readers get it, by their channels."""
        return _step(self.seen, factors[self.labels], levels) ** 2 * self.gains


def _upper_bound(graph: Graph, tensor: str) -> float:
    """What a CLAMP cuts a tensor off at."""
    op = graph.producer(tensor)
    while op is not None and op.op in RENAMES:
        op = graph.producer(op.inputs[0])
    found = float(op.attributes["max_val"]) if op is not None and op.op == "CLAMP" else math.inf
    return found if 0 < found < _UNBOUNDED else math.inf


def _is_free(graph: Graph, source: str, readers: Sequence[Operator]) -> bool:
    """Whether a division by channel joins the one that scales a convolution's sums: a layer scales by channel once.

    Not behind a curve or a sum, and not for a tensor that others read as it is.
    """
    if source in graph.outputs:
        return False
    index, name = graph.index(), source
    leading = [op for op in index.consumers(source) if op.op not in MACS or op not in readers]
    if len(leading) > 1 or (leading and len(index.consumers(source)) > 1):
        return False
    while (op := index.producer(name)) is not None:
        if op.op in PRODUCTS:
            return True
        if op.op == "CLAMP" and op.attributes["min_val"] != 0:
            return False
        if op.op not in ("CLAMP", "RESHAPE", "IDENTITY") or len(index.consumers(op.inputs[0])) > 1:
            return False
        name = op.inputs[0]
    return False


def _best_factors(read: _Read, limits: _Limits, passed: Sequence[_Passed]) -> np.ndarray | None:
    """Factors for the origin's channels with the least noise; None unless it falls by the wanted gain."""
    seen, labels = read.seen, read.labels
    count = int(labels.max()) + 1
    largest, strength = _pooled(seen.largest, labels, count), read.strength(count)

    def even(sizes: np.ndarray, exponent: float) -> np.ndarray:
        factors = _rounded(_floored(sizes) ** exponent / _floored(strength) ** (1 - exponent))
        # Behind the division all channels saturate at one number: none of them below its bound.
        return np.maximum(factors, factors.max() * np.minimum(largest / limits.bound, 1.0))

    def noise(factors: np.ndarray, unseen: np.ndarray | float) -> float:
        square = _squared_steps(seen, factors[labels], limits.levels, limits.is_free)
        for part in passed:
            square = square + part.squared_steps(factors, limits.levels)
        return read.noise(factors, square, unseen)

    best, least = None, noise(np.ones(count), 0.0) / limits.gain
    held = [_pooled(part.seen.largest.reshape(-1), part.labels.reshape(-1), count) for part in passed]
    for exponent, sizes in itertools.product(_EXPONENTS, (largest, *held)):
        unseen: np.ndarray | float = 0.0
        for place in range(len(read.folds) if len(read.folds) > 1 else 0):
            others = _without(read.folds, place)
            own = _pooled(others.largest, labels, count) if sizes is largest else sizes
            lost = _lost(read.folds[place], others, even(own, exponent)[labels], limits.levels)
            unseen = unseen + lost / len(read.folds)
        factors = even(sizes, exponent)
        found = noise(factors, unseen)
        if found < least:
            best, least = factors, found
    return best


def _step(seen: Channels, factors: np.ndarray, levels: float) -> float:
    """Returns the step of an activation whose channels are divided by factors."""
    high, low = float((seen.high / factors).max()), float((seen.low / factors).min())
    return (max(high, 0.0) - min(low, 0.0)) / levels


def _squared_steps(seen: Channels, factors: np.ndarray, levels: float, each: bool = False) -> np.ndarray:
    """What an activation's rounding costs its channels, as squares of the steps of a noise that is even.

    Of an element it is the lesser of its square and the square of the step: what is rounded to 0 loses no more than
    there is. With `each` every channel counts as if its elements were larger than a step."""
    step = _step(seen, factors, levels)
    if each:
        return np.full(seen.power.shape, step * step)
    return np.minimum(step * step, step * _STEPS_OF_NOISE**0.5 * seen.size / factors)


def _noise(
    seen: Channels, weight: np.ndarray, depthwise: bool, factors: np.ndarray, square: np.ndarray
) -> float:
    """Expected noise of a convolution's results over their power, by the rounding of its input, of squared steps
    `square` by channel, and of its weights."""
    scaled = weight * factors
    power = seen.power / factors**2
    if depthwise:
        # Each channel counts for itself: what reads them may amplify any.
        rounding = square / _STEPS_OF_NOISE * (scaled * scaled).sum((0, 1))
        signal = (scaled * scaled).sum((0, 1)) * power
        alive = signal > _FLOOR * signal.max()
        return float((rounding[alive] / signal[alive]).mean()) if alive.any() else 0.0
    weight_step = np.abs(scaled).max((1, 2)) / _WEIGHT_LEVELS
    noise = (square / _STEPS_OF_NOISE * (scaled * scaled).sum((0, 1))).sum()
    noise += float((weight_step * weight_step).sum()) / 12 * weight.shape[1] * power.sum()
    signal = ((scaled * scaled).sum((0, 1)) * power).sum()
    return float(noise / signal) if signal > 0 else 0.0


# --- products of two activations --------------------------------------------------------------------------------


def _equalize_product(
    graph: Graph, statistics: Statistics, op: Operator, levels: float, kept: frozenset[str]
) -> bool:
    """The columns of A and the rows of B: the one divided, the other multiplied."""
    a, b = op.inputs[:2]
    seen_a, seen_b = statistics.channels.get((a, (0, 2))), statistics.channels.get((b, (0, 1)))
    if (
        seen_a is None
        or seen_b is None
        or graph.tensors[a].data is not None
        or graph.tensors[b].data is not None
    ):
        return False
    if not seen_a.largest.any() or not seen_b.largest.any():
        return False
    for origin_a in Tracing(graph).origins(a):
        for origin_b in Tracing(graph).origins(b):
            if a == b or not all(_may_scale(graph, origin.source, [op]) for origin in (origin_a, origin_b)):
                continue
            pairs = _pairs(origin_a, origin_b)
            if pairs is None or kept & {origin_a.source, origin_b.source}:
                continue
            labels_a, labels_b, classes = pairs
            factors = product_factors(seen_a, seen_b, classes, levels)
            if factors is None:
                return False
            sides = ((origin_a, labels_a, factors), (origin_b, labels_b, 1 / factors))
            for origin, labels, values in sides:
                line = np.ones(graph.tensors[origin.source].shape[-1])
                line[labels.reshape(-1)] = values[classes].reshape(-1)
                whole = origin.source in (a, b)
                _divide(graph, origin.source, line, [op] if whole else graph.consumers(origin.source))
            return True
    return False


def _pairs(a: ChannelOrigin, b: ChannelOrigin) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Labels [N, C] of A's columns and of B's rows, and the class of each: what one channel couples is one class."""
    labels_a, labels_b = a.labels[:, 0, :], b.labels[:, :, 0]
    if np.any(a.labels != labels_a[:, None]) or np.any(b.labels != labels_b[..., None]):
        return None
    coupled = np.unique(np.stack([labels_a.reshape(-1), labels_b.reshape(-1)]), axis=1)
    if len(set(coupled[0])) != coupled.shape[1] or len(set(coupled[1])) != coupled.shape[1]:
        return None
    numbers = {int(label): index for index, label in enumerate(coupled[0])}
    classes = np.array([numbers[int(label)] for label in labels_a.reshape(-1)]).reshape(labels_a.shape)
    return labels_a, labels_b, classes


def product_factors(a: Channels, b: Channels, classes: np.ndarray, levels: float) -> np.ndarray | None:
    """Factors by class that divide the channels of `a` and multiply those of `b`; None if too little noise goes."""
    flat, count = classes.reshape(-1), int(classes.max()) + 1
    largest_a = _floored(_pooled(a.largest.reshape(-1), flat, count))
    largest_b = _floored(_pooled(b.largest.reshape(-1), flat, count))
    factors = _rounded(np.sqrt(largest_a / largest_b))

    def noise(values: np.ndarray) -> float:
        spread = values[classes]
        step_a, step_b = _step(a, spread, levels), _step(b, 1 / spread, levels)
        return float(step_a**2 * (b.power * spread**2).sum() + step_b**2 * (a.power / spread**2).sum())

    return factors if noise(factors) * _GAIN < noise(np.ones(count)) else None


# --- changes ----------------------------------------------------------------------------------------------------


def _pooled(values: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    pooled = np.zeros(count)
    np.maximum.at(pooled, labels, values)
    return pooled


def _floored(values: np.ndarray) -> np.ndarray:
    """Positive values: channels that are next to nothing are treated as small ones."""
    return np.maximum(values, (values.max() or 1.0) * _FLOOR)


def _rounded(factors: np.ndarray) -> np.ndarray:
    """Quarters of octaves around 1."""
    logarithm = np.log2(factors)
    return 2.0 ** (np.rint((logarithm - np.median(logarithm)) * 4) / 4)


def _may_scale(graph: Graph, source: str, readers: Sequence[Operator]) -> bool:
    """Whether a tensor can be held with other factors: no input, and no other convolution holds it as it is."""
    if source in graph.inputs or graph.tensors[source].data is not None:
        return False
    pending = [source]
    while pending:
        for op in graph.consumers(pending.pop()):
            if (op.op in MACS or op.op == "MATMUL") and not any(op is reader for reader in readers):
                # On the way to the readers a MATMUL may lie, whose B this is.
                if op.op != "MATMUL" or pending or len(graph.consumers(source)) != 1:
                    return False
                pending.append(op.outputs[0])
            elif op.op in REORDERING and is_real(graph, op.outputs[0]):
                pending.append(op.outputs[0])
    return True


def _divide(graph: Graph, source: str, factors: np.ndarray, readers: Sequence[Operator]) -> None:
    """Inserts a MUL by 1 / factors between a tensor and those of its readers that lead to the weights."""
    tensor = graph.tensors[source]
    even = fresh_name(graph, f"{source}{EVEN}")
    graph.tensors[even] = Tensor(even, tensor.shape, tensor.dtype)
    shape = (1,) * (len(tensor.shape) - 1) + (tensor.shape[-1],)
    line = np.ones(tensor.shape[-1])
    line[: len(factors)] = factors
    constant = add_constant(graph, f"{source}/factors", (1 / line).reshape(shape), tensor.dtype)
    shift = add_constant(graph, f"{source}/shift", np.array([0]), DType.INT8)
    position = 1 + max((i for i, op in enumerate(graph.operators) if source in op.outputs), default=-1)
    maker = graph.producer(source)
    for op in readers:
        op.inputs = [even if name == source else name for name in op.inputs]
    multiply = Operator("MUL", [source, constant, shift], [even], {}, f"even/MUL_{len(graph.operators)}")
    name_after(maker.source if maker is not None and maker.source else source, [multiply])
    graph.operators.insert(position, multiply)
