"""Without the folder `shared` a test that needs it is skipped with one line that names the way to get it."""

import os
import pathlib
import re
import subprocess
import sys

from shared_files import ABSENT

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLUGIN = "plugins/shared_files.py"


def test_one_place_knows_where_the_folder_is():
    """No test builds the path itself: TOSAIC_SHARED, which the line names, then works for all."""
    named = re.compile(r"""["'/]shared(?:["'/])|TOSAIC_SHARED""")
    paths = [path for path in (ROOT / "tests").rglob("*.py") if path.name != pathlib.Path(__file__).name]
    own = [path for path in paths if named.search(path.read_text())]
    assert [str(path.relative_to(ROOT / "tests")) for path in own] == [PLUGIN]
    assert "**The folder `shared`.**" in (ROOT / "docs/testing.md").read_text()


def test_what_is_not_there_is_told_in_one_line(tmp_path):
    """A list of files, one file, and a mark on a whole file of tests."""
    tests = [
        "tests/golden/test_golden_models.py",
        "tests/nnr/test_nnr_checklist.py",
        "tests/ir/test_newer_files.py",
        "tests/cli/test_cli_shared_cases.py",
    ]
    environment = os.environ | {"TOSAIC_SHARED": str(tmp_path / "nothing")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rs", "-p", "no:cacheprovider", *tests]
    chosen = ("-k", "tensor or inputs or softmax or checklists or case or files")
    done = subprocess.run(
        [*command, *chosen], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    skipped = re.findall(r"^SKIPPED \[\d+\] (\S+):\d+: (.*)$", done.stdout, re.M)
    assert {reason for _, reason in skipped} == {ABSENT}
    files = {file for file, _ in skipped}
    assert {tests[0], f"tests/{PLUGIN}", tests[2], tests[3]} <= files
