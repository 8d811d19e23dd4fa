"""Which inputs and outputs of a graph are integers without sign.

TOSA has no such types: an int8 or int16 tensor holds the bits, and the RESCALE that reads or writes it says so.
"""

from collections.abc import Callable

from .graph import Graph, Operator
from .operators import Trait, operators_with

_MOVES = operators_with(Trait.MOVES)


def unsigned_ports(graph: Graph) -> frozenset[str]:
    """The inputs that are only read, and the outputs that are written, as integers without sign."""
    index = graph.index()

    def reads(op: Operator, name: str) -> bool:
        if op.op == "RESCALE":
            return bool(op.attributes.get("input_unsigned"))
        return op.op in _MOVES and op.inputs[0] == name and is_read(op.outputs[0])

    def is_read(name: str) -> bool:
        readers = index.consumers(name)
        return bool(readers) and all(reads(op, name) for op in readers)

    def is_written(name: str) -> bool:
        op = index.producer(name)
        if op is None or op.op == "RESCALE":
            return op is not None and bool(op.attributes.get("output_unsigned"))
        return op.op in _MOVES and is_written(op.inputs[0])

    def those(names: list[str], rule: Callable[[str], bool]) -> list[str]:
        return [name for name in names if graph.tensors[name].dtype.bits <= 16 and rule(name)]

    return frozenset([*those(graph.inputs, is_read), *those(graph.outputs, is_written)])
