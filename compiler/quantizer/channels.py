"""Which channels of an earlier tensor the elements of a later one come from."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Trait, operators_with
from tosaic.compiler.quantizer.functions import is_real

_POOLS = operators_with(Trait.POOLS)


@dataclass(frozen=True)
class ChannelOrigin:
    """`labels` has the shape of the traced tensor: for each element its channel (last axis) in tensor `source`."""

    source: str
    labels: np.ndarray
    passed: dict[str, np.ndarray] = field(default_factory=dict)
    """Of each MATMUL on the way its second operand, and the channel of `source` of each of that's columns [N, W]."""


class Tracing:
    """Follows tensors back through operators that commute with a positive factor for each channel."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = {name: op for op in graph.operators for name in op.outputs}
        self.readers = Counter(name for op in graph.operators for name in op.inputs)
        self.readers.update(graph.outputs)

    def origins(self, tensor: str) -> list[ChannelOrigin]:
        """Returns the tensors from the farthest that alone leads here to the tensor itself."""
        chain: list[Operator] = []
        name = tensor
        while True:
            op = self.producers.get(name)
            if op is None or not self._commutes(op) or (chain and self.readers[name] != 1):
                break
            source = self._source(op)
            if self.readers[source] != 1 or not is_real(self.graph, source):
                break
            chain.append(op)
            name = source
        found = []
        while True:
            source = self._source(chain[-1]) if chain else tensor
            origin = self._origin(source, chain[::-1])
            if origin is not None:
                found.append(origin)
            if not chain:
                return found
            chain.pop()

    def _commutes(self, op: Operator) -> bool:
        if op.op == "PAD":
            value = self.graph.tensors[op.inputs[2]].data
            return value is not None and not value.any()
        return op.op in ("RESHAPE", "TRANSPOSE", "MATMUL", *_POOLS) or self._divides_product(op)

    def _divides_product(self, op: Operator) -> bool:
        """Whether each row of a MATMUL's result is multiplied by a factor, as a softmax in front of it wants."""
        shapes = [self.graph.tensors[name].shape for name in (*op.inputs[:2], *op.outputs)]
        maker = self.producers.get(op.inputs[0]) if op.op == "MUL" else None
        return maker is not None and maker.op == "MATMUL" and shapes[0] == shapes[2] != shapes[1]

    @staticmethod
    def _source(op: Operator) -> str:
        """The operand whose channels the result has."""
        return op.inputs[1] if op.op == "MATMUL" else op.inputs[0]

    def _origin(self, source: str, chain: list[Operator]) -> ChannelOrigin | None:
        shape, passed = self.graph.tensors[source].shape, dict[str, np.ndarray]()
        labels = np.broadcast_to(np.arange(shape[-1]), shape)
        for op in chain:
            shape = self.graph.tensors[op.outputs[0]].shape
            if op.op == "TRANSPOSE":
                labels = labels.transpose(op.attributes["perms"])
            elif op.op == "RESHAPE":
                labels = labels.reshape(shape)
            elif op.op == "MUL":
                pass
            elif op.op == "MATMUL":
                if np.any(labels != labels[:, :1]):
                    return None
                passed[op.inputs[1]] = labels[:, 0]
                labels = np.broadcast_to(labels[:, :1], shape)
            else:
                line = labels[(0,) * (labels.ndim - 1)]
                # A PAD may add channels.
                if np.any(labels != line) or line.size != shape[-1]:
                    return None
                labels = np.broadcast_to(line, shape)
        return ChannelOrigin(source, labels, passed)
