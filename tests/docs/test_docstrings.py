"""Docstrings say what a thing is or does: few begin in the middle of a sentence, as "Of the layer."."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = (
    "bench",
    "boards",
    "compiler",
    "driver",
    "examples",
    "hw",
    "integrations",
    "nnr",
    "sim",
    "tests",
    "tosaic",
)
CUT_OFF = re.compile(r'^\s*r?"""((?:Of|By|From|Most|Beside|Behind|Beyond) .*)', re.M)
MOST = 60


def test_few_docstrings_lack_a_noun_and_a_verb():
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents)
        for line in CUT_OFF.findall(path.read_text())
    ]
    assert len(found) <= MOST, "\n".join(found)
