"""The least and the largest value that a tensor may have, as the operators before it tell: where sums of int32 cannot
wrap, bounds of what follows join the micro-operation that adds."""

from collections.abc import Callable

from tosaic.compiler.ir import ByOperator, DType, Graph, Operator
from tosaic.compiler.machine_numbers import BOUNDS_STEPS

Bounds = tuple[int, int]
_Rule = Callable[["KnownBounds", Operator, int], Bounds | None]
_RULES = ByOperator[_Rule]()


class KnownBounds:
    """The bounds of a graph's tensors."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._producers = {name: op for op in graph.operators for name in op.outputs}
        self._known: dict[str, Bounds | None] = {}

    def __call__(self, name: str, depth: int = BOUNDS_STEPS) -> Bounds | None:
        """The bounds of a tensor; None where nothing but its type is known."""
        if name not in self._known:
            tensor, op = self.graph.tensors[name], self._producers.get(name)
            found = None
            if tensor.data is not None and tensor.data.size:
                found = int(tensor.data.min()), int(tensor.data.max())
            elif op is not None and op.op in _RULES and depth:
                found = _RULES[op.op](self, op, depth - 1)
            if found is not None and not tensor.dtype.min <= found[0] <= found[1] <= tensor.dtype.max:
                found = None
            self._known[name] = found
        return self._known[name]

    def operand(self, op: Operator, position: int, depth: int) -> Bounds | None:
        """The bounds of an operand; those of its type if that has few bits."""
        name = op.inputs[position]
        dtype = self.graph.tensors[name].dtype
        known = self(name, depth)
        return (dtype.min, dtype.max) if known is None and dtype in (DType.INT8, DType.INT16) else known

    def constant(self, op: Operator, operand: str) -> int | None:
        """The one value of a constant operand."""
        name = self.graph.operand(op, operand)
        data = None if name is None else self.graph.tensors[name].data
        return int(data.reshape(-1)[0]) if data is not None and data.size == 1 else None


@_RULES.of("REDUCE_MAX", "REDUCE_MIN", "RESHAPE")
def _same(known: KnownBounds, op: Operator, depth: int) -> Bounds | None:
    return known.operand(op, 0, depth)


@_RULES.of("ADD", "SUB")
def _sum(known: KnownBounds, op: Operator, depth: int) -> Bounds | None:
    first, second = known.operand(op, 0, depth), known.operand(op, 1, depth)
    if first is None or second is None:
        return None
    low, high = second if op.op == "ADD" else (-second[1], -second[0])
    return first[0] + low, first[1] + high


@_RULES.of("RESCALE")
def _scaled(known: KnownBounds, op: Operator, depth: int) -> Bounds | None:
    values = [known.constant(op, name) for name in ("multiplier", "shift", "input_zp", "output_zp")]
    source = known.operand(op, 0, depth)
    unsigned = op.attributes.get("input_unsigned") or op.attributes.get("output_unsigned")
    if source is None or unsigned or any(value is None for value in values):
        return None
    multiplier, shift, input_zp, output_zp = (value or 0 for value in values)
    target = known.graph.tensors[op.outputs[0]].dtype
    # Rounding moves a result by one at most.
    ends = [((end - input_zp) * multiplier >> shift) + output_zp for end in source]
    low, high = ends[0] - 1, ends[1] + 2
    return (low, high) if target is DType.INT32 else (max(low, target.min), min(high, target.max))
