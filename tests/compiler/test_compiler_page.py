"""docs/compiler.md shows what the compiler's own tools print."""

import pathlib
import re
import subprocess
import sys

from shared_files import SHARED, present
from tensor_walk import MODEL, ROOT

from tosaic.compiler.explain import explain
from tosaic.compiler.ir import read_tosa
from tosaic.hw.config_text import get_config

KWS = SHARED / "models/kws_dscnn/model.tosa"
PAGE = (ROOT / "docs" / "compiler.md").read_text()


def test_the_network_is_shown_as_explain_prints_it() -> None:
    """Lines in the order of the text; `...` stands for what is left out, whole lines or the end of one."""
    text = list(explain(read_tosa(MODEL), get_config("base")))
    shown = [
        line for block in re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()
    ]
    assert len(shown) > 70
    position = 0
    for line in shown:
        if line != "...":
            wanted = line.removesuffix("...").rstrip()
            assert any(found.startswith(wanted) for found in text[position:]), line
            position += next(i for i, found in enumerate(text[position:]) if found.startswith(wanted)) + 1


def walk(*model: pathlib.Path) -> tuple[dict[str, int], str]:
    """The files that a tensor passes, each with the number of others that enter it; and the last line.

    The trace runs in a process of its own: it would not visit what other tests have cached."""
    script = pathlib.Path(__file__).with_name("tensor_walk.py")
    printed = subprocess.run(
        [sys.executable, script, *model], capture_output=True, text=True, check=True
    ).stdout
    *visited, _, figures = printed.splitlines()
    return {line.split()[0]: int(line.split()[1]) for line in visited}, figures


def shown() -> dict[str, int]:
    """The same, as the page has it."""
    section = PAGE[PAGE.index("## The walk of a tensor") :]
    return {name: int(count) for name, count in re.findall(r"^\d+\. `([^`]+)` \((\d+)\)", section, re.M)}


def test_the_walk_is_the_one_that_a_trace_finds() -> None:
    visited, figures = walk()
    assert list(shown()) == list(visited)
    assert "80 to 150 files" in PAGE
    assert 80 <= int(figures.split()[-3]) <= 150


def test_few_files_enter_a_file_on_the_way() -> None:
    visited, _ = walk(present(KWS))
    assert max(visited.values()) <= 5
    assert {name: visited[name] for name in shown()} == shown()
