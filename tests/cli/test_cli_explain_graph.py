"""`tosaic compile --explain-graph`: files that Model Explorer shows (version 0.1.34 was seen to)."""

import json

import numpy as np
from control_graphs import Control, finished, plus

from tosaic.compiler.ir import DType, read_tosa, write_tosa


def written(tosaic, here, model, *options):
    done = tosaic("compile", model, "--explain-graph", "my graph.json", *options)
    assert (done.code, done.err) == (0, ""), done.err
    assert done.out == "next: model-explorer 'my graph.json' '--node_data_paths=my graph.cycles.json'\n"
    read = (json.loads((here / name).read_text()) for name in ("my graph.json", "my graph.cycles.json"))
    return tuple(read)


def test_operators_are_in_the_layers_that_they_became(tosaic, here):
    collection, overlay = written(tosaic, here, "tiny.tosa", "--config", "nano")
    (graph,) = collection["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"])
    edges = [(edge["sourceNodeId"], node) for node in nodes for edge in nodes[node].get("incomingEdges", ())]
    assert {source for source, _ in edges} <= nodes.keys()
    model = read_tosa(here / "tiny.tosa")
    assert len(edges) >= len(model.operators)
    inside = [node for node in graph["nodes"] if node["namespace"]]
    assert [node["label"] for node in inside][:3] == ["CONV2D", "RESCALE", "CLAMP"]
    assert {node["namespace"] for node in inside} == graph["groupNodeAttributes"].keys()
    named = {
        pair["value"]
        for node in graph["nodes"]
        for output in node["outputsMetadata"]
        for pair in output["attrs"]
        if pair["key"] == "tensor_name"
    }
    assert {*model.inputs, *model.outputs} <= named and overlay[graph["id"]]["results"].keys() <= named


def test_cycles_of_layers_are_those_of_a_run(tosaic, here):
    collection, overlay = written(tosaic, here, "tiny.tosa", "--config", "nano", "--memory-bandwidth", "2")
    run = ("run", "tiny.tosa", "--random", "1", "--config", "nano", "--memory-bandwidth", "2")
    assert tosaic(*run, "--on", "emulator", "--stats", "s.json").code == 0
    layers = json.loads((here / "s.json").read_text())["layers"]
    (graph,) = collection["graphs"]
    results = overlay[graph["id"]]["results"]
    assert [each["value"] for each in results.values()] == [layer["cycles"] for layer in layers]
    said = [facts["cycles"] for facts in graph["groupNodeAttributes"].values()]
    assert said == [f"{layer['cycles']:,}" for layer in layers]
    assert "array: " in next(iter(graph["groupNodeAttributes"].values()))["plan"]


def test_a_loop_and_what_is_in_it_are_graphs_of_their_own(tosaic, here):
    """On zeros it makes no turn: its layers have a plan, and no cycles."""
    build = Control("net/work")
    x, turns = build.input("x", (1, 8), DType.INT32), build.input("turns", (1,), DType.INT32)
    write_tosa(finished(build, build.counted(turns, [x], plus(1))), "loop.tosa")
    collection, _ = written(tosaic, here, "loop.tosa")
    main, *parts = collection["graphs"]
    (loop,) = [node for node in main["nodes"] if node["label"] == "WHILE_LOOP"]
    assert loop["subgraphIds"] == [part["id"] for part in parts] and len(parts) == 2
    assert ["GREATER" in str(part["nodes"]) for part in parts] == [True, False]
    assert [[*part["groupNodeAttributes"]] for part in parts] == [
        ["layer 0: greater_0 (GREATER)"],
        ["layer 1: sub_0 (SUB)", "layer 2: add_0 (ADD)"],
    ]
    facts = [each for part in parts for each in part["groupNodeAttributes"].values()]
    assert ["cycles" in each for each in facts] == [True, False, False] and "plan" in facts[2]


def test_several_cores_and_the_text_beside_it(tosaic, here):
    done = tosaic(
        "compile", "tiny.tosa", "--config", "base,cores=2", "--explain", "--explain-graph", "g.json"
    )
    assert done.code == 0, done.err
    assert "2 fuse: layers and their micro-programs" in done.out
    results = next(iter(json.loads((here / "g.cycles.json").read_text()).values()))["results"]
    assert np.all([each["value"] > 0 for each in results.values()]) and results


def test_what_is_refused(tosaic, here):
    done = tosaic("compile", "tiny.tosa", "--explain-graph", "g.html")
    assert (done.code, done.err) == (
        1,
        "tosaic: error: g.html: cannot be written: this verb writes .json files, not .html; name it g.json\n",
    )
    assert tosaic("compile", "tiny.tosa", "--explain-graph", "g.json", "-O2").code == 2
    done = tosaic("compile", "tiny.tosa")
    assert done.code == 2 and "--explain-graph" in done.err
