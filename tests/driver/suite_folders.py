"""Test folders as the conformance generator lays them out, made here."""

import json
import pathlib

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder, write_tosa


def negation(shape: tuple[int, ...] = (1, 4)) -> Graph:
    """y = -x on int8."""
    build = GraphBuilder("negation")
    x = build.input("x", shape, DType.INT8)
    zero = build.constant([0], DType.INT8)
    build.output(build.add("NEGATE", [x, zero, zero], output="y"))
    return build.finish()


def make_folder(
    root: pathlib.Path,
    name: str,
    graph: Graph,
    inputs: dict[str, np.ndarray],
    expected: dict[str, np.ndarray] | None = None,
    *,
    operator: str = "NEGATE",
    negative: bool = False,
    mode: str = "EXACT",
    unsigned: bool = False,
    extensions: tuple[str, ...] = (),
) -> pathlib.Path:
    """Writes a test's folder and returns it; `expected` are its baked outputs."""
    folder = root / operator.lower() / name
    folder.mkdir(parents=True)
    write_tosa(graph, folder / "test.tosa")
    for tensor, value in inputs.items():
        np.save(folder / f"{tensor}.npy", value)
    for tensor, value in (expected or {}).items():
        np.save(folder / f"Conformance-{tensor}.npy", value)
    compliance = {"mode": mode, "rescale_inexact_info": {"unsigned_data": unsigned}}
    text = {
        "tosa_file": "test.tosa",
        "ifm_name": list(inputs),
        "ifm_file": [f"{tensor}.npy" for tensor in inputs],
        "ofm_name": list(graph.outputs),
        "ofm_file": [f"{tensor}.npy" for tensor in graph.outputs],
        "expected_failure": negative,
        "meta": {} if negative else {"compliance": {"tensors": {o: compliance for o in graph.outputs}}},
        "test_requirements": {
            "profiles_supported": ["tosa-pro-int"],
            "bounds_file_required": mode == "RESCALE_INEXACT",
            "extensions_required": list(extensions),
        },
        "test_details": {"operator": operator},
    }
    (folder / "desc.json").write_text(json.dumps(text))
    return folder
