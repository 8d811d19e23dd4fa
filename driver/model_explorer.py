"""A compiled network as files of Model Explorer: its operators in the layers that they became, and cycles over them.

The formats are those of Model Explorer's graph_builder.py and node_data_builder.py: a graph has nodes with edges and
attributes; an overlay ("node data") has a value for each node, by the name of its output tensor.
"""

import collections
import enum
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.explain import ExplainedLayer, planned
from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.tile.work import LayerWork, Step
from tosaic.driver.replacing import replacing
from tosaic.driver.session import Session
from tosaic.hw.config import Config

Json = dict[str, Any]
_GRADIENT = ((0.0, "#ffffff"), (1.0, "#d9603f"))
"""Colours from the fewest cycles to the most."""


def overlay_of(path: pathlib.Path) -> pathlib.Path:
    """The file of the overlay beside that of the graph."""
    return path.with_name(f"{path.stem}.cycles.json")


def write_graph(path: pathlib.Path, graph: Graph, config: Config, speed: MemorySpeed) -> None:
    """Writes the graph as the compiler plans it, and beside it the cycles of each layer, as the emulator counts them
    on zeros. Raises what compiling raises."""
    prepared, layers = planned(graph, config, speed)
    cycles = _cycles(graph, config, speed)
    graphs = [
        _graph(part, [each for each in layers if each.graph == part.name], cycles, config)
        for part in prepared.walk()
    ]
    results = {
        layer.step.info.output: {"value": cycles[layer.step.info.name]}
        for layer in layers
        if layer.step.info.name in cycles
    }
    gradient = [{"stop": stop, "bgColor": colour} for stop, colour in _GRADIENT]
    overlay = {each["id"]: {"name": "cycles", "results": results, "gradient": gradient} for each in graphs}
    for file, content in ((path, {"label": graph.name, "graphs": graphs}), (overlay_of(path), overlay)):
        with replacing(file) as scratch:
            scratch.write_text(json.dumps(content, indent=1) + "\n")


def _cycles(graph: Graph, config: Config, speed: MemorySpeed) -> Mapping[str, int]:
    """Cycles by layer; of one that runs several times their sum."""
    found: collections.Counter[str] = collections.Counter()
    with Session(
        graph,
        "emulator",
        config,
        memory_bandwidth=speed.bandwidth_bytes,
        memory_latency=speed.latency_cycles,
    ) as session:
        session.run({each.name: np.zeros(each.shape, each.numpy) for each in session.inputs})
        for layer in session.stats["layers"]:
            found[layer["name"]] += layer["cycles"]
    return found


def _namespace(step: Step) -> str:
    """The group of a layer's operators; a slash would begin another one."""
    return f"layer {step.number}: {step.info.name} ({step.info.op})".replace("/", "∕")


def _facts(layer: ExplainedLayer, cycles: Mapping[str, int], config: Config) -> dict[str, str]:
    """What the side panel says of a layer."""
    info = layer.step.info
    own, facts = cycles.get(info.name), {"MACs": f"{info.macs:,}"}
    if own:
        facts = {
            "cycles": f"{own:,}",
            **facts,
            "utilization": f"{info.macs / own / config.macs_per_cycle:.0%}",
        }
    return {**facts, "plan": "\n".join(line.strip() for line in layer.lines)}


def _graph(graph: Graph, layers: Sequence[ExplainedLayer], cycles: Mapping[str, int], config: Config) -> Json:
    """One graph, or a branch of an operator."""
    spaces = {
        operator.outputs[0]: _namespace(layer.step)
        for layer in layers
        if isinstance(layer.step.work, LayerWork)
        for operator in layer.step.work.layer.operators
    }
    sources = {name: (f"in:{name}", 0) for name in graph.inputs}
    nodes = [_terminal(f"in:{name}", "input", graph, name) for name in graph.inputs]
    for operator in graph.operators:
        node = f"op:{operator.outputs[0]}"
        sources |= {name: (node, place) for place, name in enumerate(operator.outputs)}
        nodes.append(_node(node, operator, graph, sources, spaces.get(operator.outputs[0], "")))
    for place, name in enumerate(graph.outputs):
        end = _terminal(f"out:{place}", "output", graph, name)
        nodes.append({**end, "incomingEdges": _edges([name], sources), "outputsMetadata": []})
    groups = {_namespace(layer.step): _facts(layer, cycles, config) for layer in layers}
    shown = {*spaces.values()}
    return {
        "id": graph.name,
        "nodes": nodes,
        "groupNodeAttributes": {name: facts for name, facts in groups.items() if name in shown},
    }


def _node(
    node: str, operator: Operator, graph: Graph, sources: Mapping[str, tuple[str, int]], namespace: str
) -> Json:
    constants = [
        {"key": f"operand {place}", "value": f"constant {_shown(graph, name)}"}
        for place, name in enumerate(operator.inputs)
        if graph.const(name) is not None
    ]
    attributes = [{"key": name, "value": _value(value)} for name, value in operator.attributes.items()]
    return {
        "id": node,
        "label": operator.op,
        "namespace": namespace,
        "subgraphIds": [str(each) for each in operator.attributes.values() if str(each) in graph.subgraphs],
        "attrs": attributes + constants,
        "incomingEdges": _edges(operator.inputs, sources),
        "outputsMetadata": [_tensor(str(place), graph, name) for place, name in enumerate(operator.outputs)],
    }


def _terminal(node: str, label: str, graph: Graph, name: str) -> Json:
    """An input or output."""
    outputs = [_tensor("0", graph, name)]
    return {"id": node, "label": f"{label} {name}", "namespace": "", "outputsMetadata": outputs}


def _edges(names: Sequence[str], sources: Mapping[str, tuple[str, int]]) -> list[Json]:
    """Edges from whoever writes the tensors; constants have none."""
    return [
        {"sourceNodeId": node, "sourceNodeOutputId": str(output), "targetNodeInputId": str(place)}
        for place, name in enumerate(names)
        if name in sources
        for node, output in [sources[name]]
    ]


def _tensor(place: str, graph: Graph, name: str) -> Json:
    pairs = {"tensor_name": name, "tensor_shape": _shown(graph, name)}
    return {"id": place, "attrs": [{"key": key, "value": value} for key, value in pairs.items()]}


def _value(value: object) -> str:
    return value.name if isinstance(value, enum.Enum) else str(value)


def _shown(graph: Graph, name: str) -> str:
    tensor = graph.tensors[name]
    return f"{tensor.dtype.name.lower()}[{','.join(map(str, tensor.shape))}]"
