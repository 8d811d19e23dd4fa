"""Which channels of an earlier tensor the elements of a later one come from."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.quantizer.functions import is_real

_PER_CHANNEL = ("MAX_POOL2D", "AVG_POOL2D", "PAD")


@dataclass(frozen=True)
class ChannelOrigin:
    """`labels` has the shape of the traced tensor: for each element its channel (last axis) in tensor `source`."""

    source: str
    labels: np.ndarray


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
            source = op.inputs[1] if op.op == "MATMUL" else op.inputs[0]
            if self.readers[source] != 1 or not is_real(self.graph, source):
                break
            chain.append(op)
            name = source
        found = []
        while True:
            source = (
                (chain[-1].inputs[1] if chain[-1].op == "MATMUL" else chain[-1].inputs[0])
                if chain
                else tensor
            )
            labels = self._labels(source, chain[::-1])
            if labels is not None:
                found.append(ChannelOrigin(source, labels))
            if not chain:
                return found
            chain.pop()

    def _commutes(self, op: Operator) -> bool:
        if op.op == "PAD":
            value = self.graph.tensors[op.inputs[2]].data
            return value is not None and not value.any()
        return op.op in ("RESHAPE", "TRANSPOSE", "MATMUL", *_PER_CHANNEL)

    def _labels(self, source: str, chain: list[Operator]) -> np.ndarray | None:
        shape = self.graph.tensors[source].shape
        labels = np.broadcast_to(np.arange(shape[-1]), shape)
        for op in chain:
            shape = self.graph.tensors[op.outputs[0]].shape
            if op.op == "TRANSPOSE":
                labels = labels.transpose(op.attributes["perms"])
            elif op.op == "RESHAPE":
                labels = labels.reshape(shape)
            elif op.op == "MATMUL":
                if np.any(labels != labels[:, :1]):
                    return None
                labels = np.broadcast_to(labels[:, :1], shape)
            else:
                line = labels[(0,) * (labels.ndim - 1)]
                # A PAD may add channels.
                if np.any(labels != line) or line.size != shape[-1]:
                    return None
                labels = np.broadcast_to(line, shape)
        return labels
