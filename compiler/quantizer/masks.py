"""Masks: numbers that stand for minus infinity before a softmax, made as large as they need to be and no larger.

A tensor has limits where all that lies outside of them is as good as the nearer end: exp is 0 there, a sigmoid flat,
the largest of a row another element. Limits are found from the readers back to the sources. Constants, factors, inputs
and results that go far beyond theirs would take int32's resolution from the scores that count.
"""

import math

import numpy as np

from tosaic.compiler.ir import OPERATORS, Graph, Operator, Tensor, Trait, data_inputs, operators_with
from tosaic.compiler.ir.building import add_constant, drop_identities, fresh_name, remove_dead
from tosaic.compiler.quantizer.calibration import HUGE, Statistics
from tosaic.compiler.quantizer.functions import PASSED_ON, is_real, less_its_maximum
from tosaic.compiler.quantizer.plan import MOVES
from tosaic.compiler.quantizer.whole_numbers import whole_numbers

_DEPTH = 24.0
"""exp(-24) is 2^-34 of the largest term."""
_SURELY_MASKS = 5000.0
"""What a model computes by other ways than a product with a constant is taken for a mask from here on."""
_FINEST_PART = 2.0**-10
"""Share of the largest factor below which a factor that is not 0 masks by a part only."""
_ABSORBS = 2.0**24
"""A float32 that is larger by this factor is all that is left of a sum."""
_SLACK = 8.0
"""Scores this much larger than those seen are still compared as they are."""

Limits = tuple[float, float]
_NONE: Limits = (-math.inf, math.inf)
_UNREAD: Limits = (math.inf, -math.inf)
_SAME = frozenset({"SELECT", *operators_with(Trait.BOUNDS), *PASSED_ON, *MOVES})
"""Operands have the limits of the result."""
_SUMS = frozenset(op for op in operators_with(Trait.ELEMENTWISE | Trait.LINEAR) if OPERATORS[op].degree == 1)
_PASSING = _SAME | _SUMS
"""Results are as large as the operands."""


def soften_masks(graph: Graph, statistics: Statistics) -> bool:
    """Makes masks of a canonical float graph smaller where nothing can tell; False if there are none.

    `statistics` are of the graph as it is; after a change they say nothing of the masks.
    """
    _factor_out(graph)
    return _Softening(graph, statistics).soften()


def drop_nan_tests(graph: Graph, statistics: Statistics) -> None:
    """Chooses at once what a test for NaN chooses where calibration saw none, in place: no integer is NaN.

    PyTorch tests the shares behind a mask, which are NaN where it hides a whole row; softened masks hide none.
    """
    index = graph.index()
    for op in graph.operators:
        test, place = (index.producer(op.inputs[0]), 1) if op.op == "SELECT" else (None, 1)
        if test is not None and test.op == "LOGICAL_NOT":
            test, place = index.producer(test.inputs[0]), 2
        if test is None or test.op != "EQUAL" or test.inputs[0] != test.inputs[1]:
            continue
        chosen = op.inputs[place]
        same = graph.tensors[chosen].shape == graph.tensors[op.outputs[0]].shape
        if same and test.inputs[0] not in statistics.infinite:
            op.op, op.inputs = "IDENTITY", [chosen]
    drop_identities(graph)
    remove_dead(graph)


def masking_inputs(graph: Graph) -> set[str]:
    """The float inputs of a graph whose numbers may be minus infinity: they are added to what a softmax reads."""
    ranges = _Ranges(graph, Statistics())
    return {
        name
        for name in graph.inputs
        if is_real(graph, name) and -math.inf < ranges.limits[name][0] < math.inf
    }


def _factor_out(graph: Graph) -> None:
    """Writes x * c + d with huge constants as (x + d / c) * c: of 1 * 1e9 - 1e9 nothing may be left."""
    for op in graph.operators:
        if op.op not in ("ADD", "SUB"):
            continue
        for place, name in enumerate(op.inputs):
            summand, product = _huge_number(graph, op.inputs[1 - place]), graph.producer(name)
            if summand is None or product is None or product.op != "MUL" or name in graph.outputs:
                continue
            factors = [_huge_number(graph, each) for each in product.inputs[:2]]
            at = 0 if factors[1] is None else 1
            factor, x = factors[at], product.inputs[1 - at]
            if factor is None or len(graph.consumers(name)) > 1:
                continue
            if graph.tensors[x].shape == graph.tensors[name].shape == graph.tensors[op.outputs[0]].shape:
                _exchange(graph, op, product, at, place, summand / factor)


def _exchange(graph: Graph, op: Operator, product: Operator, at: int, place: int, summand: float) -> None:
    """The product takes the sum's place, and the sum the product's."""
    inner, x, factor = product.outputs[0], product.inputs[1 - at], product.inputs[at]
    rank, dtype = len(graph.tensors[x].shape), graph.tensors[x].dtype
    number = add_constant(graph, f"{inner}/summand", np.full((1,) * rank, summand), dtype)
    operands = [x, number] if place == 0 else [number, x]
    shift = product.inputs[2:]
    product.op, product.inputs = op.op, operands
    op.op, op.inputs = "MUL", [inner, factor, *shift]


def _huge_number(graph: Graph, name: str) -> float | None:
    data = graph.tensors[name].data
    huge = data is not None and data.size == 1 and abs(float(data.reshape(-1)[0])) > HUGE
    return float(data.reshape(-1)[0]) if huge and data is not None else None


class _Ranges:
    """What is known of the tensors of a graph before it is changed."""

    def __init__(self, graph: Graph, statistics: Statistics) -> None:
        self.graph, self.statistics = graph, statistics
        self.whole = whole_numbers(graph, statistics)
        self.producers = {name: op for op in graph.operators for name in op.outputs}
        self._ordinary: dict[str, Limits] = {}
        self.limits: dict[str, Limits] = dict.fromkeys(graph.outputs, _NONE)
        self.edges: dict[tuple[int, int], Limits] = {}
        """Limits of an operand, by operator and place."""
        for op in reversed(graph.operators):
            result = self._hull([self.limits.get(name, _UNREAD) for name in op.outputs])
            for place, name in enumerate(op.inputs):
                if is_real(graph, name):
                    edge = result if result == _UNREAD else self._edge(op, place, result)
                    self.edges[id(op), place] = edge
                    self.limits[name] = self._hull([self.limits.get(name, _UNREAD), edge])
        for name in graph.inputs:
            self.limits.setdefault(name, _UNREAD)

    def seen(self, name: str) -> Limits:
        """The least and the largest element; infinite ones count."""
        data = self.graph.tensors[name].data
        if data is not None:
            return (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)
        low, high = self.statistics.range_seen(name)
        return (-math.inf, high) if name in self.statistics.infinite else (low, high)

    def ordinary(self, name: str) -> Limits:
        """The range of the elements that are no masks."""
        if name not in self._ordinary:
            self._ordinary[name] = self._find_ordinary(name)
        return self._ordinary[name]

    # --- inside ---------------------------------------------------------------------------------------------

    @staticmethod
    def _hull(parts: list[Limits]) -> Limits:
        return min(low for low, _ in parts), max(high for _, high in parts)

    def _edge(self, op: Operator, place: int, result: Limits) -> Limits:
        """The limits of an operand whose result has limits."""
        (low, high), name = result, op.inputs[place]
        if op.op in ("EXP", "SIGMOID", "TANH"):
            return (self.ordinary(name)[1] - _DEPTH, math.inf) if op.op == "EXP" else (-_DEPTH, _DEPTH)
        if less_its_maximum(op, self.producers.get):
            return self.ordinary(op.inputs[0])[0] - _DEPTH, math.inf
        if op.op in ("REDUCE_MAX", "REDUCE_MIN", "ARGMAX"):
            return self._chosen(op, name, result)
        if op.op in ("ADD", "SUB"):
            a, b = (self._ends(each) for each in op.inputs)
            if op.op == "SUB":
                return (low + b[0], high + b[1]) if place == 0 else (a[0] - high, a[1] - low)
            other = b if place == 0 else a
            return low - other[1], high - other[0]
        if op.op == "NEGATE":
            return -high, -low
        if op.op == "MUL":
            return self._divided(result, self.graph.tensors[op.inputs[1 - place]].data)
        if op.op == "CUSTOM":
            # An encoding that the model brings: what lies beyond its ends saturates.
            return self.seen(op.outputs[0])
        return result if op.op in _SAME else _NONE

    def _chosen(self, op: Operator, name: str, result: Limits) -> Limits:
        """The extremes of rows: masked elements are none, unless a whole row is masked and leaves the model so."""
        (low, high), (least, largest) = self.ordinary(name), self.seen(op.outputs[0])
        room = max(high - low, 1.0)
        if op.op == "REDUCE_MIN":
            return result[0], result[1] if result[1] < math.inf or largest > high else high + room
        masked_rows = op.op == "REDUCE_MAX" and least < low
        return result[0] if result[0] > -math.inf or masked_rows else low - room, result[1]

    @staticmethod
    def _divided(limits: Limits, factors: np.ndarray | None) -> Limits:
        """Limits of what is multiplied by constants of one sign."""
        if factors is None or not factors.size or not (np.all(factors > 0) or np.all(factors < 0)):
            return _NONE
        ends = [limit / float(factor) for limit in limits for factor in (factors.min(), factors.max())]
        return min(ends), max(ends)

    def _ends(self, name: str) -> Limits:
        """The ordinary range, without an end on a side where masks are."""
        (low, high), (least, largest) = self.ordinary(name), self.seen(name)
        return (-math.inf if least < low else low), (math.inf if largest > high else high)

    def _find_ordinary(self, name: str) -> Limits:
        graph, op = self.graph, self.producers.get(name)
        data = graph.tensors[name].data
        if data is not None:
            kept = data[np.abs(data) <= HUGE]
            return (float(kept.min()), float(kept.max())) if kept.size else (0.0, 0.0)
        if op is not None and op.op in ("ADD", "SUB", "SELECT", "MAXIMUM", "MINIMUM", "CONCAT", *MOVES):
            places = [each for each in data_inputs(op) if is_real(graph, each)]
            parts = [self.ordinary(each) for each in places]
            if op.op == "ADD":
                return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
            if op.op == "SUB":
                return parts[0][0] - parts[1][1], parts[0][1] - parts[1][0]
            return self._hull(parts)
        (low, high), product = self.seen(name), self._constant_product(op)
        most = HUGE if product is not None and product in self.whole else _SURELY_MASKS
        return (low, high) if max(-low, high) <= most else self.statistics.ordinary_range(name)

    def _constant_product(self, op: Operator | None) -> str | None:
        """What an operator multiplies by a constant."""
        if op is None or op.op != "MUL":
            return None
        computed = [name for name in op.inputs[:2] if self.graph.tensors[name].data is None]
        return computed[0] if len(computed) == 1 else None


class _Softening(_Ranges):
    """Walks from the inputs on: what the first operator that makes a mask makes smaller stays small behind it."""

    def __init__(self, graph: Graph, statistics: Statistics) -> None:
        super().__init__(graph, statistics)
        self.rough: set[str] = set()
        """Tensors that are as large as before."""
        self.operators: list[Operator] = []
        self.changed = False

    def soften(self) -> bool:
        """Whether there was anything to soften."""
        graph, bounded = self.graph, dict[str, str]()
        for name in graph.inputs:
            self._bound(name, bounded)
        for op in graph.operators:
            mask = self._absorbing(op)
            high = None if mask is None else self.ordinary(op.inputs[1 - mask])[1]
            self._soften_constants(op)
            smooth = self._passes(op) and self.rough.isdisjoint(op.inputs + op.outputs)
            op.inputs = [bounded.get(name, name) for name in op.inputs]
            if mask is not None and high is not None and smooth:
                self._take_lesser(op, mask, high)
            self.operators.append(op)
            for name in op.outputs if not smooth else ():
                self._bound(name, bounded)
        graph.operators = self.operators
        return self.changed

    def _soften_constants(self, op: Operator) -> None:
        for place, name in enumerate(data_inputs(op)):
            data, tensor = self.graph.tensors[name].data, self.graph.tensors[name]
            if data is None or not is_real(self.graph, name) or not np.any(np.abs(data) > HUGE):
                continue
            low, high = _NONE
            if op.op == "MUL":
                low, high = self._factor_limits(op)
            elif op.op in _PASSING:
                low, high = self.edges[id(op), place]
            softer = np.where(data < -HUGE, np.maximum(data, low), data)
            softer = np.where(data > HUGE, np.minimum(softer, high), softer)
            if np.any(softer != data):
                op.inputs[place] = add_constant(self.graph, f"{name}/mask", softer, tensor.dtype)
                self.changed = True
            if np.any(np.abs(softer) > _SURELY_MASKS):
                self.rough.add(op.outputs[0])

    def _factor_limits(self, op: Operator) -> Limits:
        """Constant factors need be no larger than what brings the least of the other factors, 0 apart, to a limit."""
        result, other = op.outputs[0], self._constant_product(op)
        if other is None:
            return _NONE
        (low, high), (least, largest) = self.limits[result], self.seen(result)
        most = max(-low if least < -HUGE else 0.0, high if largest > HUGE else 0.0)
        if other not in self.whole:
            most /= _FINEST_PART * (max(map(abs, self.seen(other))) or 1.0)
        return (-most, most) if most > 0 else _NONE

    def _bound(self, name: str, bounded: dict[str, str]) -> None:
        """Adds a CLAMP to its limits behind a tensor with masks; without limits it stays rough."""
        if not is_real(self.graph, name):
            return
        (low, high), (least, largest) = self.limits.get(name, _NONE), self.seen(name)
        below, above = least < -_SURELY_MASKS, largest > _SURELY_MASKS
        if (below and low == -math.inf) or (above and high == math.inf):
            self.rough.add(name)
        elif (below and least < low) or (above and largest > high):
            most = float(np.finfo(np.float32).max)
            bounds = {"min_val": low if below else -most, "max_val": high if above else most}
            tensor, producer = self.graph.tensors[name], self.producers.get(name)
            made = fresh_name(self.graph, f"{name}/mask")
            self.graph.tensors[made] = Tensor(made, tensor.shape, tensor.dtype)
            label = producer.name if producer is not None else f"{name}/CLAMP"
            self.operators.append(Operator("CLAMP", [name], [made], bounds, label))
            self.rough.discard(name)
            bounded[name], self.changed = made, True

    def _passes(self, op: Operator) -> bool:
        """Whether results are masks only where operands are."""
        if op.op == "CAST" and not is_real(self.graph, op.inputs[0]):
            return False
        return op.op in (*_PASSING, "REDUCE_MAX", "REDUCE_MIN") or self._constant_product(op) is not None

    # --- rows that are masked as a whole

    def _absorbing(self, op: Operator) -> int | None:
        """Which operand of a sum is a mask that leaves nothing of the scores, where samples mask whole rows."""
        places = {"ADD": (0, 1), "SUB": (1,)}.get(op.op, ())
        if not places or not self._has_masked_rows(op.outputs[0]):
            return None
        for place in places:
            name, least = op.inputs[place], _ABSORBS * max(map(abs, self.ordinary(op.inputs[1 - place])))
            data = self.graph.tensors[name].data
            plain = self.ordinary(name) if data is not None else self.statistics.ordinary_range(name)
            low, high = self.seen(name)
            if plain == (0.0, 0.0) and (low < -least if op.op == "ADD" else high > least):
                return place
        return None

    def _has_masked_rows(self, name: str) -> bool:
        for op in self.graph.operators:
            if name in op.inputs and op.op in ("RESHAPE", "TRANSPOSE", "IDENTITY"):
                return self._has_masked_rows(op.outputs[0])
            if op.op == "REDUCE_MAX" and name in op.inputs:
                return self.seen(op.outputs[0])[0] < -_SURELY_MASKS
        return False

    def _take_lesser(self, op: Operator, mask: int, high: float) -> None:
        """Makes a sum with a mask the lesser of both: what is masked alike is then equal. Scores go up to `high`."""
        name = op.inputs[mask]
        tensor = self.graph.tensors[name]
        line = np.full((1,) * len(tensor.shape), high + _SLACK)
        room = add_constant(self.graph, f"{name}/room", line, tensor.dtype)
        made = fresh_name(self.graph, f"{name}/level")
        self.graph.tensors[made] = Tensor(made, tensor.shape, tensor.dtype)
        self.operators.append(Operator(op.op, [room, name], [made], {}, op.name))
        op.op, op.inputs[mask], self.changed = "MINIMUM", made, True
