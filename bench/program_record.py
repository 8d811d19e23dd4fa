"""Records what programs compute and how many cycles they take, and compares two records.

    python bench/program_record.py --models ../shared/models --graphs 500 -o after.json [--against before.json] [--same]

A record has, for every network of the folder and the digits networks (`base`), and for random graphs (three
configurations and three ways to compile in turn), the digest of the program, that of all outputs on the emulator, the
predicted cycles and the digest of all else that the cycle model tells. With `--against` it prints every program whose
outputs differ or whose cycles rose by more than 0.1 %, and exits with 1 if there is one. With `--same` it prints
every program that differs in anything: for changes that shall make compiler or emulator faster and nothing else.
"""

import argparse
import hashlib
import json
import pathlib
import random
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "random_graphs"))

from random_growth import random_graph  # noqa: E402 (the path comes first)

from tosaic.compiler.build import compile_graph  # noqa: E402
from tosaic.compiler.ir import Graph, read_tosa  # noqa: E402
from tosaic.driver.session import Session  # noqa: E402
from tosaic.errors import Error  # noqa: E402
from tosaic.hw.config_text import get_config  # noqa: E402

CONFIGS = ("base", "small", "nano")
MODES: tuple[dict[str, bool], ...] = ({}, {"optimize": False}, {"keep_layers": True}, {})
ALLOWED_RISE = 0.001


def measure(graph: Graph, feeds: dict[str, np.ndarray], config: str, **options: bool) -> dict:
    """One row of a record: cycles and the digest of the outputs, or why it does not run."""
    try:
        program = compile_graph(graph, get_config(config), **options)
        session = Session(program, "emulator")
        outputs = session.run(feeds)
    except Error as error:
        return {"error": type(error).__name__}
    result = session.result
    assert result is not None
    return {
        "cycles": result.cycles,
        "outputs": _digest(b"".join(outputs[name].tobytes() for name in sorted(outputs))),
        "program": _digest(bytes(program.image)),
        "timing": _digest(repr((result.counters, result.slices, result.marks, result.macs)).encode()),
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def measure_file(path: pathlib.Path, seed: int) -> dict:
    try:
        graph = read_tosa(path)
    except Error as error:
        return {"error": type(error).__name__}
    generator = np.random.default_rng(seed)
    tensors = [graph.tensors[name] for name in graph.inputs]
    feeds = {t.name: generator.integers(-100, 100, t.shape).astype(t.dtype.numpy) for t in tensors}
    return measure(graph, feeds, "base")


def record(models: pathlib.Path | None, graphs: int, seed: int) -> dict[str, dict]:
    rows = {}
    files = sorted((ROOT / "examples" / "digits").glob("*.tosa"))
    files += sorted(models.glob("*/model.tosa")) if models else []
    for path in files:
        name = path.parent.name if path.stem == "model" else path.stem
        rows[name] = measure_file(path, seed)
        print(name, rows[name], flush=True)
    for number in range(graphs):
        own_seed = seed * 1_000_000 + number
        g = random_graph(random.Random(own_seed).randint)
        config, mode = CONFIGS[number % len(CONFIGS)], MODES[number % len(MODES)]
        rows[f"random {number}"] = measure(g.graph, g.feeds(own_seed), config, **mode)
    return rows


def worse(before: dict[str, dict], after: dict[str, dict]) -> list[str]:
    """A line for each program that computes something else or takes longer than before."""
    lines = []
    for name, old in before.items():
        new = after.get(name)
        if new is None:
            continue
        if "cycles" not in old:
            if "cycles" not in new and new != old:
                lines.append(f"{name}: {old} became {new}")
        elif "cycles" not in new or new["outputs"] != old["outputs"]:
            lines.append(f"{name}: {old} became {new}")
        elif new["cycles"] > old["cycles"] * (1 + ALLOWED_RISE):
            lines.append(f"{name}: {old['cycles']} cycles became {new['cycles']}")
    return lines


def different(before: dict[str, dict], after: dict[str, dict]) -> list[str]:
    """A line for each program that differs in anything."""
    pairs = ((name, old, after.get(name)) for name, old in before.items())
    return [f"{name}: {old} became {new}" for name, old, new in pairs if new is not None and new != old]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=pathlib.Path, default=None)
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--against", type=pathlib.Path, default=None)
    parser.add_argument("--same", action="store_true", help="nothing may differ from --against")
    chosen = parser.parse_args()
    rows = record(chosen.models, chosen.graphs, chosen.seed)
    chosen.output.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{len(rows)} programs, {sum('cycles' in row for row in rows.values())} ran")
    if chosen.against is None:
        return 0
    before = json.loads(chosen.against.read_text())
    lines = (different if chosen.same else worse)(before, rows)
    print("\n".join(lines))
    faster = [n for n, r in before.items() if r.get("cycles", 0) > rows.get(n, r).get("cycles", 0) > 0]
    print(f"{len(lines)} {'different' if chosen.same else 'worse'}, {len(faster)} faster")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
