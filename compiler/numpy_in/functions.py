"""From a function to its graph: it is run twice on traced arrays, and must do the same both times."""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.ir import Declared, Graph, State
from tosaic.compiler.numpy_in import (  # noqa: F401  (importing them registers their rules)
    array_methods,
    calls,
    composed,
    control,
    conversion,
    counting,
    division,
    indexing,
    moves,
    products,
    reductions,
    ufuncs,
    writing,
)
from tosaic.compiler.numpy_in.forms import BOOL, MAX_RANK, Form
from tosaic.compiler.numpy_in.intervals import INT32, Interval, of_type
from tosaic.compiler.numpy_in.namespace import Replacer
from tosaic.compiler.numpy_in.recording import Recorder
from tosaic.compiler.numpy_in.tracer import TracedArray, input_array, lift
from tosaic.errors import InputError, TraceError

ARGUMENTS = frozenset(np.dtype(t) for t in ("bool", "i1", "u1", "i2", "u2", "i4", "u4"))
_SPELLED = re.compile(r"(bool|u?int(?:8|16|32|64))(?:\[([\d, ]*)\])?")

Spec = Any
"""An argument's shape and type: `((240, 320, 3), np.uint8)`, "uint8[240,320,3]", an array of that kind, or a type."""
Ranges = Mapping[str, tuple[int, int]]
"""By argument: the least and the greatest value that it has."""


@dataclasses.dataclass(frozen=True)
class TracedArgument:
    """What a function is traced for."""

    shape: tuple[int, ...]
    dtype: np.dtype
    initial: np.ndarray | None = None
    """The array that stood for it: of a state what it starts as."""

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclasses.dataclass(frozen=True)
class Traced:
    """A graph, and how a function gives its results."""

    graph: Graph
    kind: type
    """dict, tuple, list or a subclass of these; another type: one array alone."""

    def packed(self, outputs: Mapping[str, np.ndarray]) -> Any:
        """Outputs by name as the function gives its results."""
        arrays = [outputs[name] for name in self.graph.run_outputs]
        if issubclass(self.kind, dict):
            return dict(zip(self.graph.run_outputs, arrays, strict=True))
        if hasattr(self.kind, "_make"):
            return self.kind._make(arrays)
        return self.kind(arrays) if issubclass(self.kind, list | tuple) else arrays[0]


def argument_of(name: str, spec: Spec) -> TracedArgument:
    """What a spec says. InputError for what is none, for a type that no tensor has, and for an empty shape."""
    try:
        found = _argument(spec)
    except (TypeError, ValueError):
        raise InputError(
            f"{name}={spec!r} is no shape and type: write {name}=((240, 320, 3), np.uint8) or "
            f'{name}="uint8[240,320,3]"'
        ) from None
    if found.dtype not in ARGUMENTS:
        raise InputError(
            f"argument {name!r} is {found.dtype}: the accelerator takes bool, and integers of 8 to 32 bits; convert it"
        )
    if len(found.shape) > MAX_RANK or 0 in found.shape:
        raise InputError(
            f"argument {name!r} has shape {list(found.shape)}: TOSA has 1 to {MAX_RANK} axes, with elements"
        )
    return found


def _argument(spec: Spec) -> TracedArgument:
    if isinstance(spec, TracedArgument):
        return spec
    if isinstance(spec, np.ndarray | np.generic):
        return TracedArgument(spec.shape, spec.dtype, np.asarray(spec))
    if isinstance(spec, str):
        match = _SPELLED.fullmatch(spec.strip())
        if match is None:
            raise ValueError(spec)
        sizes = [size for size in (match[2] or "").split(",") if size.strip()]
        return TracedArgument(tuple(map(int, sizes)), np.dtype(match[1]))
    if isinstance(spec, tuple | list) and len(spec) == 2:
        shape = (spec[0],) if isinstance(spec[0], int | np.integer) else spec[0]
        return TracedArgument(tuple(int(size) for size in shape), np.dtype(spec[1]))
    if spec is None:
        raise ValueError(spec)
    return TracedArgument((), np.dtype(spec))


def trace(
    function: Callable[..., Any],
    /,
    ranges: Ranges | None = None,
    states: Sequence[str] = (),
    **specs: Spec,
) -> Graph:
    """The TOSA graph that computes what a NumPy function computes, integer for integer.

    function: plain NumPy on integers and booleans; it is run twice, on arrays whose values are not known.
    ranges: for an argument the least and the greatest value that it will have, which prove more; every run checks it.
    states: arguments that a run leaves for the next one: the function returns their new values last, in this order.
        An array for a state's spec is what it starts as; else it starts as zeros.
    specs: shape and type of each argument: `x=((240, 320, 3), np.uint8)`, `x="uint8[240,320,3]"`, or an array.

    The outputs are y0, y1, ... or the keys of a dict. Raises TraceError, with the line in the function, for what cannot
    be traced; NumPy's own error where NumPy would raise it; InputError for wrong specs.
    """
    return trace_function(function, specs, ranges, states).graph


def trace_function(
    function: Callable[..., Any],
    specs: Mapping[str, Spec],
    ranges: Ranges | None = None,
    states: Sequence[str] = (),
) -> Traced:
    """As `trace`, with how the function gives its results."""
    states = (states,) if isinstance(states, str) else tuple(states)
    arguments = {name: argument_of(name, spec) for name, spec in specs.items()}
    plain = inspect.unwrap(function)
    for name in states:
        if name not in arguments:
            raise InputError(
                f"state {name!r} is no argument with a spec: there is {', '.join(arguments) or 'none'}"
            )
    limits = {name: _limits(name, each, ranges or {}) for name, each in arguments.items()}
    for name in (ranges or {}).keys() - arguments.keys():
        raise InputError(
            f"ranges has {name!r}, which is no argument: there is {', '.join(arguments) or 'none'}"
        )
    first, second = (_Tracing(plain, arguments, limits, states).run() for _ in range(2))
    found = difference(first.graph, second.graph)
    if found:
        place = _place(plain)
        name = getattr(plain, "__name__", "the function")
        raise TraceError(
            f"{place}{name} is not the same when it is traced again ({found}): it reads what changes, such as a "
            "random number, a clock or a variable that it writes; make that an argument"
        )
    return first


def _limits(name: str, argument: TracedArgument, ranges: Ranges) -> Interval:
    """What an argument's values lie in; InputError for a range that is none."""
    whole = of_type(argument.dtype)
    if name not in ranges:
        return whole
    try:
        low, high = (int(each) for each in ranges[name])
    except (TypeError, ValueError):
        low, high = 1, 0
    if not low <= high or not whole.holds(Interval(low, high)):
        raise InputError(
            f"ranges of {name!r}: {ranges[name]!r} is no pair of a least and a greatest value in {whole}"
        )
    return Interval(low, high)


class _Tracing:
    """One run of the function."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, TracedArgument],
        limits: Mapping[str, Interval],
        states: Sequence[str],
    ) -> None:
        self.function, self.arguments, self.limits, self.states = function, arguments, limits, states
        self.recorder = Recorder(getattr(function, "__name__", "function").strip("<>"))

    def run(self) -> Traced:
        given = {name: self._input(name) for name in self.arguments}
        placed, named = _called_with(self.function, given)
        result = Replacer(self.recorder).function(self.function)(*placed, **named)
        kind = type(result)
        results = self._parted(result)
        graph = self.recorder.build.graph
        names = {}
        for name, item in results.items():
            names[name] = self._output(name, item)
        _rename(graph, names)
        for name in self.states:
            self._add_state(name)
        left = [name for name in graph.outputs if name not in {s.output for s in graph.states.values()}]
        if self.states and not issubclass(kind, dict) and len(left) == 1:
            kind = np.ndarray
        for part in graph.walk():
            drop_unread(part)
        reached = _reached(graph)
        for name in graph.subgraphs.keys() - reached:
            del graph.subgraphs[name]
        self.recorder.build.finish()
        return Traced(graph, kind)

    def _input(self, name: str) -> TracedArray:
        argument, limits = self.arguments[name], self.limits[name]
        array = input_array(self.recorder, name, argument.shape, argument.dtype, limits)
        array.fixed = (
            f"argument {name!r} is written to: NumPy would change the caller's array; begin with x = x.copy()"
        )
        spelled = Declared(str(argument.dtype), argument.shape, limits.low, limits.high)
        self.recorder.build.graph.declared[name] = spelled
        return array

    def _parted(self, result: Any) -> dict[str, Any]:
        """Results by the names of the outputs; the new values of states are called after these."""
        if isinstance(result, dict):
            missing = [name for name in self.states if name not in result]
            if missing:
                raise InputError(
                    f"the function's dict has no new value of state {missing[0]!r}: add it by this name"
                )
            return {_next(str(k)) if k in self.states else str(k): v for k, v in result.items()}
        items = list(result) if isinstance(result, list | tuple) else [result]
        count = len(items) - len(self.states)
        if count < 1 or any(each is None for each in items):
            wanted = (
                f"its results, then the new values of {', '.join(self.states)}" if self.states else "an array"
            )
            raise InputError(
                f"the function gives {len(items) if result is not None else 'nothing'}: return {wanted}"
            )
        return {f"y{i}": each for i, each in enumerate(items[:count])} | {
            _next(name): each for name, each in zip(self.states, items[count:], strict=True)
        }

    def _output(self, name: str, item: Any) -> str:
        """The tensor of a result, which becomes an output."""
        array = lift(self.recorder, item)
        told = f"{_place(self.function)}result {name} is {array.dtype}{list(array.shape)}"
        if 0 in array.shape or (array.value is not None and array.dtype.kind not in "iub"):
            raise TraceError(
                f"{told}: an output of the accelerator has elements, of integers or booleans; leave it out or convert "
                "it (astype)"
            )
        if array.value is None and array.itemsize == 8 and not INT32.holds(array.interval):
            raise TraceError(
                f"{told} in {array.interval}: an output of the accelerator has 32 bits; .astype(np.int32) wraps, >> "
                "and np.clip narrow"
            )
        form = array.port_form
        tensor = self.recorder.own_result(array.wide if form is Form.WIDE else array.tensor(form))
        self.recorder.build.output(tensor)
        interval = array.interval
        declared = Declared(str(array.dtype), array.shape, interval.low, interval.high)
        self.recorder.build.graph.declared[name] = declared
        return tensor

    def _add_state(self, name: str) -> None:
        graph, argument = self.recorder.build.graph, self.arguments[name]
        after = graph.declared[_next(name)]
        if (after.dtype, after.shape) != (str(argument.dtype), argument.shape):
            raise InputError(
                f"state {name!r} is {argument}, its new value {after.dtype}{list(after.shape)}: convert it (astype)"
            )
        limits = self.limits[name]
        initial = np.zeros(argument.shape, argument.dtype) if argument.initial is None else argument.initial
        if not limits.holds(Interval(after.low, after.high)) or (
            initial.size and not limits.holds(Interval(int(initial.min()), int(initial.max())))
        ):
            raise InputError(
                f"state {name!r} is not proved to stay in {limits}: its new value may be {after.low}..{after.high}; "
                "np.clip it in the function"
            )
        held = graph.tensors[name]
        bits = initial.reshape(held.shape)
        graph.states[name] = State(
            _next(name), bits.copy() if bits.dtype == BOOL else bits.view(held.dtype.numpy)
        )


def _place(function: Callable[..., Any]) -> str:
    """ "file.py:12: " of the line where a function begins."""
    code = getattr(function, "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}: " if code else ""


def _next(state: str) -> str:
    return f"{state}_next"


def _called_with(function: Callable[..., Any], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by their places and by their names; specs whose names are no parameters' are taken in order."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return list(given.values()), {}
    named = [name for name in given if name in parameters]
    if not named:
        places = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        needed = [p.name for p in places if p.default is p.empty]
        endless = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
        if len(given) < len(needed) or (len(given) > len(places) and not endless):
            raise InputError(_wrong_arguments(given, list(parameters)))
        return list(given.values()), {}
    endless = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    needed = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if any(name not in given for name in needed) or (len(named) < len(given) and not endless):
        raise InputError(_wrong_arguments(given, list(parameters)))
    placed = [given[n] for n, p in parameters.items() if p.kind is p.POSITIONAL_ONLY and n in given]
    only = {n for n, p in parameters.items() if p.kind is p.POSITIONAL_ONLY}
    return placed, {name: value for name, value in given.items() if name not in only}


def _wrong_arguments(given: Mapping[str, Any], parameters: Sequence[str]) -> str:
    first = parameters[0] if parameters else "x"
    return (
        f"the function's arguments are {', '.join(parameters) or 'none'}; there are shapes and types of "
        f"{', '.join(given) or 'none'}: give one for each, as {first}=((240, 320, 3), np.uint8)"
    )


def _rename(graph: Graph, names: Mapping[str, str]) -> None:
    """Outputs get their names; another tensor of such a name, which is no port, gets a longer one."""
    wanted = {tensor: name for name, tensor in names.items()}
    for name in names:
        if name in graph.inputs:
            raise InputError(
                f"a result and an argument are both called {name!r}: call the argument otherwise"
            )
        if name in graph.tensors and name not in wanted:
            wanted[name] = f"{name}_inside"
    for op in graph.operators:
        op.inputs = [wanted.get(each, each) for each in op.inputs]
        op.outputs = [wanted.get(each, each) for each in op.outputs]
    graph.outputs = [wanted.get(each, each) for each in graph.outputs]
    for tensor in graph.tensors.values():
        tensor.name = wanted.get(tensor.name, tensor.name)
    graph.tensors = {tensor.name: tensor for tensor in graph.tensors.values()}


def drop_unread(graph: Graph) -> None:
    """Removes operators and constants that no output depends on: forms of an array that nothing needed."""
    needed, live = {*graph.inputs, *graph.outputs}, []
    for operator in reversed(graph.operators):
        if needed.intersection(operator.outputs):
            live.append(operator)
            needed.update((*operator.inputs, *operator.outputs))
    graph.operators = live[::-1]
    graph.tensors = {name: tensor for name, tensor in graph.tensors.items() if name in needed}


def _reached(graph: Graph) -> set[str]:
    """The subgraphs that operators run, from the outermost graph on."""
    found: set[str] = set()
    pending = [graph]
    while pending:
        for operator in pending.pop().operators:
            for key in ("cond_graph", "body_graph"):
                name = operator.attributes.get(key)
                if name is not None and name not in found:
                    found.add(name)
                    pending.append(graph.subgraphs[name])
    return found


def difference(first: Graph, second: Graph) -> str:
    """In which two graphs differ; "" where they are equal."""
    for one, other in zip(first.walk(), second.walk(), strict=False):
        for a, b in zip(one.operators, other.operators, strict=False):
            if (a.op, a.inputs, a.outputs, a.attributes) != (b.op, b.inputs, b.outputs, b.attributes):
                return f"{a.op} is {b.op}" if a.op != b.op else f"{a} has other operands"
        if len(one.operators) != len(other.operators):
            return f"{len(one.operators)} operators are {len(other.operators)}"
        for name, tensor in one.tensors.items():
            data, again = tensor.data, other.tensors[name].data if name in other.tensors else None
            if (data is None) != (again is None) or (data is not None and not np.array_equal(data, again)):
                return f"constant {name} has other values"
    equal = (first.declared, first.outputs) == (second.declared, second.outputs)
    return "" if equal and len(first.subgraphs) == len(second.subgraphs) else "other results"
