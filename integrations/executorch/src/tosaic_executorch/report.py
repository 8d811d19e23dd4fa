"""Where each node of a lowered program runs."""

import dataclasses
from typing import Any

from tosaic.compiler.importers.torch_models.tosa_backend import layer_of, operator_of, shape_of
from tosaic_executorch.backend import TosaicBackend
from tosaic_executorch.partitioner import BORDER, computes

NPU, HOST = "NPU", "host"


@dataclasses.dataclass(frozen=True)
class NodePlace:
    """A node and where it runs."""

    name: str
    operator: str
    shape: str
    """Type and shape of its result."""
    layer: str
    """The module's layer that it comes from; empty where that is unknown."""
    place: str
    """NPU or host."""
    part: int | None = None
    """The number of the delegated part, from 0; None on the host."""
    reason: str = ""
    """Why it is on the host, as far as ExecuTorch's partitioner says."""

    @property
    def is_border(self) -> bool:
        """Whether it only turns reals into integers or back, on the host."""
        return self.place == HOST and self.operator in BORDER


@dataclasses.dataclass(frozen=True)
class Report:
    """Every node of a program; as text a line for each on the host, and a summary."""

    nodes: list[NodePlace]

    @property
    def on_npu(self) -> list[NodePlace]:
        """The nodes in delegated parts."""
        return [node for node in self.nodes if node.place == NPU]

    @property
    def on_host(self) -> list[NodePlace]:
        """The nodes that compute on the host, without those at the border of a part."""
        return [node for node in self.nodes if node.place == HOST and not node.is_border]

    @property
    def parts(self) -> int:
        """How many parts were delegated."""
        return len({node.part for node in self.on_npu})

    def __str__(self) -> str:
        border = sum(node.is_border for node in self.nodes)
        npu = f"{len(self.on_npu)} nodes on the NPU in {self.parts} part{'s' * (self.parts != 1)}"
        lines = [
            f"{npu}, {len(self.on_host)} on the host, and {border} on the host that quantize or dequantize"
        ]
        for node in self.on_host:
            why = f": {node.reason}" if node.reason else ""
            layer = f" of layer {node.layer!r}" if node.layer else ""
            lines.append(f"host: {node.operator} {node.name!r} {node.shape}{layer}{why}")
        return "\n".join(lines)


def report(edge: Any, reasons: dict[str, str] | None = None) -> Report:
    """The report of what `to_edge_transform_and_lower` gave; `reasons` are those of its partitioner."""
    program = edge.exported_program()
    nodes: list[NodePlace] = []
    parts = 0
    for node in program.graph.nodes:
        if not computes(node):
            continue
        if "executorch_call_delegate" not in str(node.target):
            nodes.append(_placed(node, HOST, None, (reasons or {}).get(node.name, "")))
            continue
        lowered = getattr(program.graph_module, node.args[0].target)
        if lowered.backend_id != TosaicBackend.__name__:
            nodes.append(_placed(node, HOST, None, f"delegated to {lowered.backend_id}"))
            continue
        inside = lowered.original_module.graph.nodes
        nodes += [_placed(each, NPU, parts) for each in inside if computes(each)]
        parts += 1
    return Report(nodes)


def _placed(node: Any, place: str, part: int | None, reason: str = "") -> NodePlace:
    return NodePlace(node.name, operator_of(node), shape_of(node), layer_of(node), place, part, reason)
