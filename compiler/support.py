"""Which operators of a graph run on an accelerator, found by compiling each one by itself."""

import dataclasses

from tosaic.compiler.ir import Graph, Operator, validate
from tosaic.compiler.ir.errors import UnsupportedError
from tosaic.hw.config import Config

from .build import compile_graph
from .normalise import normalise


@dataclasses.dataclass(frozen=True)
class Support:
    """The verdict on one operator; `reason` says how it runs, or why it does not."""

    operator: Operator
    runs: bool
    reason: str


_FREE = ("RESHAPE", "IDENTITY")


def check_support(graph: Graph, config: Config) -> list[Support]:
    """A verdict per operator, in graph order. Raises ModelError when the graph is illegal."""
    validate(graph)
    folded = normalise(graph)
    left = {operator.name for operator in folded.operators}
    verdicts = []
    for operator in graph.operators:
        if operator.name not in left:
            verdicts.append(
                Support(operator, True, "folded: all operands are constants, or nothing reads it")
            )
        elif operator.op in _FREE:
            verdicts.append(Support(operator, True, "renames a tensor, moves nothing"))
        else:
            try:
                compile_graph(_alone(folded, operator), config, optimize=False)
            except UnsupportedError as error:
                verdicts.append(Support(operator, False, str(error)))
            else:
                verdicts.append(Support(operator, True, "runs on the accelerator"))
    return verdicts


def _alone(graph: Graph, operator: Operator) -> Graph:
    """A graph with this operator only; what it reads is a graph input, unless constant."""
    names = dict.fromkeys([*operator.inputs, *operator.outputs])
    return Graph(
        operator.name,
        [name for name in dict.fromkeys(operator.inputs) if graph.tensors[name].data is None],
        list(operator.outputs),
        {name: graph.tensors[name] for name in names},
        [operator],
        graph.version,
        graph.subgraphs,
    )
