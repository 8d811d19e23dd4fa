"""tests/explained: what `tosaic compile --explain` says of a dozen graphs up to the plan, as texts for a reviewer.

The instructions are left out: other tests run them, and tests/cycles.csv has their cycles.

    python bench/explained.py     # writes them again: look at the difference
"""

import itertools
import pathlib
import sys

from cliff_cases import FAMILIES, random_case

from tosaic.compiler.explain import explain
from tosaic.compiler.ir import Graph, read_tosa
from tosaic.hw.config_text import get_config

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests/explained"
SEEDS = dict.fromkeys(FAMILIES, 1)
CONFIG = "base"


def names() -> list[str]:
    """A graph of each family of layers, and a network."""
    return [*SEEDS, "digits"]


def text(name: str) -> str:
    """What is said of a graph, until its work is emitted."""
    lines = explain(_graph(name), get_config(CONFIG))
    return "\n".join(itertools.takewhile(lambda line: not line.startswith("5 emit"), lines)).strip() + "\n"


def kept(name: str) -> str:
    """What the repository keeps of it."""
    return (FOLDER / f"{name}.txt").read_text()


def _graph(name: str) -> Graph:
    if name == "digits":
        return read_tosa((ROOT / "examples/digits/digits.tosa").read_bytes())
    return random_case(name, SEEDS[name]).graph


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in names():
        (FOLDER / f"{each}.txt").write_text(text(each))
    sys.exit(0)
