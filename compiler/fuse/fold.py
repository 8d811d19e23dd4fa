"""Constants that become immediate operands."""

import numpy as np

from tosaic.compiler.ir import Graph

_SOON = 256


def constant_scalar(graph: Graph, name: str) -> int | None:
    """The value of a constant integer tensor whose elements are all equal; None for any other tensor."""
    data = graph.tensors[name].data
    if data is None or data.size == 0:
        return None
    flat = data.reshape(-1)
    # Most tensors differ soon.
    if any(not (part == flat[0]).all() for part in (flat[:_SOON], flat[_SOON:])):
        return None
    value = int(np.asarray(data).reshape(-1)[0])
    return value if -(1 << 31) <= value < 1 << 31 else None
