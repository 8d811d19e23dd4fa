"""What NumPy has no function for: loops whose end depends on values, and fixed-point scaling. Both are plain NumPy on
ndarrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.ir.tensors import Operator
from tosaic.compiler.numpy_in.forms import BOOL, NARROW, Form
from tosaic.compiler.numpy_in.intervals import INT32, Interval, of_type
from tosaic.compiler.numpy_in.recording import Recorder, refuse
from tosaic.compiler.numpy_in.tracer import TracedArray, flat, input_array, known, lift, recorder_of
from tosaic.errors import InputError

_MOST_SHIFT = 62


def rescale(x: Any, multiplier: int, shift: int, dtype: Any = np.int8, zero_point: int = 0) -> Any:
    """clip(round(x * multiplier / 2**shift) + zero_point) to the limits of `dtype`; halves are rounded up.

    The multiplier is an integer of 32 bits, the shift 1 to 62. Without a clip that is `(x * multiplier +
    (1 << (shift - 1))) >> shift` in 64 bits, one operator of the accelerator. InputError for other numbers.
    """
    kind = np.dtype(dtype)
    if not isinstance(x, TracedArray):
        x = np.asarray(x)
    if x.dtype.kind not in "iub" or kind.kind not in "iu" or kind.itemsize > 4:
        raise InputError(
            f"tosaic.rescale is from integers to integers of at most 32 bits, not {x.dtype} to {kind}"
        )
    if int(multiplier) not in INT32 or not 1 <= shift <= _MOST_SHIFT:
        raise InputError(f"tosaic.rescale takes a multiplier of 32 bits and a shift of 1 to {_MOST_SHIFT}")
    factor, half, limits = int(multiplier), 1 << (int(shift) - 1), of_type(kind)
    if not isinstance(x, TracedArray):
        scaled = [
            min(max(((int(v) * factor + half) >> shift) + zero_point, limits.low), limits.high)
            for v in x.flat
        ]
        return np.array(scaled, kind).reshape(x.shape)
    ends = [(v * factor + half) >> shift for v in (x.interval.low, x.interval.high)]
    interval = Interval(min(ends), max(ends))
    moved = Interval(zero_point, zero_point) + interval
    if not (INT32.holds(interval) and INT32.holds(moved) and INT32.holds(x.interval)):
        refuse(f"tosaic.rescale of {x!r} gives {moved}, more than 32 bits: a larger shift, or np.clip before")
    name = x.recorder.multiply(x.wide, x.recorder.number(factor), int(shift))
    if zero_point:
        name = x.recorder.elementwise("ADD", name, x.recorder.number(zero_point))
    wide = TracedArray(x.recorder, x.shape, np.int64, moved, forms={Form.WIDE: name})
    return np.clip(wide, limits.low, limits.high).astype(kind)


# --- loops


def while_loop(cond: Callable[..., Any], body: Callable[..., Any], state: Sequence[Any]) -> tuple[Any, ...]:
    """`while cond(*state): state = body(*state)`; the last state, a tuple.

    Traced, it is TOSA's WHILE_LOOP: the values keep their shapes and types, and what the functions read from outside
    becomes a further value that does not change. TraceError for values that change shape or type.
    """
    values = tuple(state)
    if known(*flat(values)):
        probes = [each for each in flat(values) if isinstance(each, TracedArray)]
        if not probes:
            while cond(*values):
                values = _state_of(body(*values), len(values))
            return values
    recorder = recorder_of(*values).root.active
    arrays = [lift(recorder, each) for each in values]
    return _TracedLoop(recorder, cond, body).run(arrays)


def _state_of(result: Any, count: int) -> tuple[Any, ...]:
    found = tuple(result) if isinstance(result, list | tuple) else (result,)
    if len(found) != count:
        refuse(f"a loop's body gives {len(found)} values for a state of {count}: return one for each")
    return found


class _TracedLoop:
    """A WHILE_LOOP and the graphs of its two branches."""

    def __init__(self, recorder: Recorder, cond: Callable[..., Any], body: Callable[..., Any]) -> None:
        self.recorder, self.cond, self.body = recorder, cond, body

    def run(self, arrays: Sequence[TracedArray]) -> tuple[TracedArray, ...]:
        for each in arrays:
            if each.itemsize == 8:
                refuse(
                    f"a loop's value is {each.dtype}: give it a type of at most 32 bits (astype(np.int32))"
                )
        captured = self._captured(arrays)
        everything = [*arrays, *captured]
        self.recorder.root.loops += 1
        number = self.recorder.root.loops
        prefix = (
            "" if self.recorder.root.build.graph.name == self.recorder.root.name else self.recorder.root.name
        )
        names = [self._branch(what, f"{prefix}{what}{number}", arrays, captured) for what in ("cond", "body")]
        kinds = [_kind(each) for each in everything]
        results = [
            self.recorder.build.declare(each.shape or (1,), kind)
            for each, kind in zip(everything, kinds, strict=True)
        ]
        inputs = [each.tensor(each.port_form) for each in everything]
        attributes = {"cond_graph": names[0], "body_graph": names[1]}
        loop = Operator("WHILE_LOOP", inputs, results, attributes, f"{prefix}while{number}")
        self.recorder.build.operators.append(loop)
        return tuple(
            TracedArray(self.recorder, each.shape, each.dtype, forms={each.port_form: name})
            for each, name in zip(arrays, results, strict=False)
        )

    def _captured(self, arrays: Sequence[TracedArray]) -> list[TracedArray]:
        """What the branches read from outside, told by tracing them once for nothing."""
        found: dict[int, TracedArray] = {}
        for what in ("cond", "body"):
            recorder = Recorder(f"trial_{what}", self.recorder)
            self._called(recorder, what, self._inputs(recorder, arrays))
            found |= {key: outer for key, (outer, _) in recorder.captured.items()}
        return list(found.values())

    def _inputs(self, recorder: Recorder, arrays: Sequence[TracedArray]) -> list[TracedArray]:
        name = recorder.name
        return [input_array(recorder, f"{name}_in{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]

    def _called(self, recorder: Recorder, what: str, inputs: Sequence[TracedArray]) -> list[TracedArray]:
        root, around = recorder.root, recorder.root.active
        root.active = recorder
        try:
            result = (self.cond if what == "cond" else self.body)(*inputs)
        finally:
            root.active = around
        outputs = [result] if what == "cond" else _state_of(result, len(inputs))
        return [lift(recorder, each) for each in outputs]

    def _branch(
        self, what: str, name: str, arrays: Sequence[TracedArray], captured: Sequence[TracedArray]
    ) -> str:
        recorder = Recorder(name, self.recorder)
        inputs = self._inputs(recorder, arrays)
        for i, outer in enumerate(captured):
            inner = input_array(recorder, f"{name}_outer{i}", outer.shape, outer.dtype, outer.interval)
            inner.fixed = (
                "a loop's branch writes to an array from outside: pass it as one of the loop's values"
            )
            recorder.captured[id(outer)] = (outer, inner)
        outputs = self._called(recorder, what, inputs)
        if what == "cond":
            self._add_output(recorder, _condition(outputs[0]))
        else:
            for i, (before, after) in enumerate(zip(arrays, outputs, strict=True)):
                if (before.shape, before.dtype) != (after.shape, after.dtype):
                    refuse(
                        f"value {i} of a loop changes from {before.dtype}{list(before.shape)} to "
                        f"{after.dtype}{list(after.shape)}: convert it (astype, np.broadcast_to) in the body"
                    )
                self._add_output(recorder, after)
            for _, inner in list(recorder.captured.values())[: len(captured)]:
                self._add_output(recorder, inner)
        graph, outermost = recorder.build.graph, self.recorder.root.build.graph
        graph.subgraphs = outermost.subgraphs
        outermost.subgraphs[name] = graph
        return name

    def _add_output(self, recorder: Recorder, array: TracedArray) -> None:
        name = array.wide if array.port_form is Form.WIDE else array.tensor(array.port_form)
        recorder.build.output(recorder.own_result(name))


def _condition(array: TracedArray) -> TracedArray:
    if array.size != 1:
        refuse("a loop's condition has more than one element: use .any() or .all()")
    truth: Any = array if array.dtype == BOOL else array != 0
    return truth.reshape(1) if truth.shape != (1,) else truth


def _kind(a: TracedArray) -> DType:
    return DType.BOOL if a.dtype == BOOL else NARROW.get(a.dtype, DType.INT32)
