"""TOSA's variables (EXT-VARIABLE) as states of a graph, and back.

A file reads and writes a variable by operators, in their order. A graph has an input for it instead, which carries what
the run before left, and an output that carries what this run leaves (`Graph.states`). If a branch reads or writes one,
all branches get it as an argument and give it back. The operator of a file is VARIABLE_READ or VARIABLE_WRITE; Arm's
tools call both IDENTITY and tell them by the type of their attributes, which is what is written here.
"""

import dataclasses

import numpy as np

from tosaic.compiler.ir.building import fresh_name
from tosaic.compiler.ir.graph import Graph, State
from tosaic.compiler.ir.operators import OPERATORS
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.errors import ModelError, UnsupportedError

READ = "VARIABLE_READ"
WRITE = "VARIABLE_WRITE"
DECLARATION = "VARIABLE"


class Variables:
    """The variables of a file, by their names; every region calls their tensors as it likes."""

    def __init__(self) -> None:
        self._values: dict[str, Tensor] = {}
        """Variables as constants: shape, type and the value to begin with."""
        self._names: dict[tuple[str, str], str] = {}
        """Names by region and tensor."""

    def declare(self, region: str, tensor: Tensor, name: str) -> None:
        """A tensor of a region that stands for the variable `name`; its data are what it begins as."""
        known = self._values.setdefault(name, dataclasses.replace(tensor, name=name))
        assert known.data is not None and tensor.data is not None
        if (known.shape, known.dtype) != (tensor.shape, tensor.dtype) or (known.data != tensor.data).any():
            raise ModelError(f"the variable {name!r} is declared twice, as {known} and as {tensor}")
        self._names[region, tensor.name] = name

    def become_states(self, main: Graph) -> None:
        """Replaces the operators of variables in a graph and its branches; operators are in the order of the file."""
        if not self._values:
            return
        for branch in main.subgraphs.values():
            _declared_away(branch)
        _declared_away(main)
        in_branches = any(_touches(branch) for branch in main.subgraphs.values())
        carried = list(self._values) if in_branches else []
        conditions = _conditions(main)
        for branch in main.subgraphs.values():
            entry = {name: self._argument(branch, name) for name in carried}
            left = self._follow(branch, dict(entry), carried)
            if branch.name not in conditions:
                branch.outputs += [left[name] for name in carried]
            elif left != entry:
                raise UnsupportedError(
                    f"the condition {branch.name!r} of a WHILE_LOOP writes a variable; write it in the loop's body"
                )
        entry = {name: self._argument(main, name) for name in self._values}
        left = self._follow(main, dict(entry), carried)
        for name, value in self._values.items():
            following = left[name]
            if following != f"{name}.next":
                following = self._new(main, name, f"{name}.next")
                main.operators.append(Operator("IDENTITY", [left[name]], [following], {}, following))
            main.outputs.append(following)
            assert value.data is not None
            main.states[entry[name]] = State(following, value.data)

    def _new(self, graph: Graph, variable: str, stem: str) -> str:
        """A tensor for a variable's value."""
        value, name = self._values[variable], fresh_name(graph, stem)
        graph.tensors[name] = Tensor(name, value.shape, value.dtype)
        return name

    def _argument(self, graph: Graph, variable: str) -> str:
        """The input for a variable: of its name, also where a graph that was written read it under that."""
        read = any(op.op == READ and op.outputs == [variable] for op in graph.operators)
        graph.inputs.append(variable if read else self._new(graph, variable, variable))
        return graph.inputs[-1]

    def _follow(self, graph: Graph, current: dict[str, str], carried: list[str]) -> dict[str, str]:
        """Replaces a graph's operators of variables; which tensor each variable is at its end."""
        operators = []
        for op in graph.operators:
            if op.op == READ:
                (place,), (result,) = op.inputs, op.outputs
                self._check(graph, op, place, result)
                value = current[self._variable(graph, op, place)]
                if value != result:
                    operators.append(Operator("IDENTITY", [value], [result], {}, op.name))
                continue
            if op.op == WRITE:
                (value,), (place,) = op.inputs, op.outputs
                self._check(graph, op, place, value)
                current[self._variable(graph, op, place)] = value
                continue
            if carried and any(attribute.kind == "graph" for attribute in OPERATORS[op.op].attributes):
                op.inputs += [current[name] for name in carried]
                results = [self._new(graph, name, name) for name in carried]
                op.outputs += results
                current |= dict(zip(carried, results, strict=True))
            operators.append(op)
        graph.operators = operators
        return current

    def _variable(self, graph: Graph, op: Operator, place: str) -> str:
        name = self._names.get((graph.name, place))
        if name is None:
            raise ModelError(f"{op}: tensor {place!r} is no variable [{op.op}, TOSA 1.0]")
        return name

    def _check(self, graph: Graph, op: Operator, place: str, other: str) -> None:
        value, tensor = self._values[self._variable(graph, op, place)], graph.tensor(other)
        if (value.shape, value.dtype) != (tensor.shape, tensor.dtype):
            raise ModelError(
                f"{op}: the tensor must have the variable's shape and type; found {tensor} and the variable {value} "
                f"[{op.op}, TOSA 1.0]"
            )


def _declared_away(graph: Graph) -> None:
    """Takes out declarations, and finds operators with another number of operands."""
    graph.operators = [op for op in graph.operators if op.op != DECLARATION]
    for op in graph.operators:
        if op.op in (READ, WRITE) and (len(op.inputs), len(op.outputs)) != (1, 1):
            raise ModelError(
                f"{op}: it must have one input and one output, one of them the variable; found {op.inputs} and "
                f"{op.outputs} [{op.op}, TOSA 1.0]"
            )


def _touches(graph: Graph) -> bool:
    return any(op.op in (READ, WRITE) for op in graph.operators)


def _conditions(main: Graph) -> set[str]:
    """The graphs that decide whether a loop goes on."""
    parts = (main, *main.subgraphs.values())
    return {op.attributes["cond_graph"] for part in parts for op in part.operators if op.op == "WHILE_LOOP"}


@dataclasses.dataclass(frozen=True)
class WrittenStates:
    """What a file has of a graph's states."""

    tensors: dict[str, Tensor]
    """The variables, by name; their data are what they begin as."""
    reads: list[Operator]
    """Operators that come before all others."""
    writes: list[Operator]
    """Operators that come after all others."""


def variables_of(graph: Graph) -> WrittenStates:
    """The variables of a graph and the operators that read and write them."""
    tensors, reads, writes = {}, [], []
    for name, state in graph.states.items():
        tensor, place = graph.tensors[name], fresh_name(graph, f"{name}.variable")
        data = np.asarray(state.initial, tensor.dtype.numpy).reshape(tensor.shape)
        tensors[name] = Tensor(place, tensor.shape, tensor.dtype, data)
        reads.append(Operator(READ, [place], [name], {}, f"{name} read"))
        writes.append(Operator(WRITE, [state.output], [place], {}, f"{name} write"))
    return WrittenStates(tensors, reads, writes)
