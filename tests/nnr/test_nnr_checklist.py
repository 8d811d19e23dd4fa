"""Every line of the checklist of the NNR text has a test of its own, named by its clause, and a line of the page."""

import csv
import pathlib
import re

from shared_files import SHARED, present

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "records" / "nnr_checklist.md"
CHECKLIST = SHARED / "specs" / "nnr-wd2-checklist.csv"

# The clause of every line, from line 1; "5*4" stands for four lines of clause 5.
CLAUSES = """
all 4*3 5*4 5.1 5.2 5.2.1 5.2.2*2 5.2.3 5.2.4 5.2.x 6.2 6.3*8 6.4 7.1.1 7.1.2 7.3.1 7.3.2 7.3.3 7.3.4 7.3.4.1 7.3.4.2
7.3.4.3 7.3.4.4 7.3.4.5 7.3.4.6*8 7.3.4.7*3 7.3.5 7.3.5.1 7.3.5.2*5 7.3.5.3*4 7.3.5.4 7.3.5.5 7.3.5.6 7.3.5.7 7.3.6
7.4.2.2 7.4.2.3*3 7.4.2.3.4*2 7.4.2.3.5 7.4.2.3.6 7.4.2.3.7 7.4.2.4.2*3 7.4.2.4.3 8.1 8.2 9.1 9.2 10.1*2 10.1.3 10.2
11.1.1 11.1.2.1 11.1.2.2 11.1.2.3 11.1.2.4 11.1.2.5 11.2.2.2 11.2.2.3 11.2.3 11.2.4.2 11.2.4.3.2 11.2.4.3.2.2 11.2.4.3.3
11.2.4.3.4 11.2.4.3.5 11.2.4.3 12 A.3*3 A.4*2 B.3*2 B.4*3
"""


def clauses() -> list[str]:
    found = []
    for word in CLAUSES.split():
        clause, _, count = word.partition("*")
        found += [clause] * int(count or 1)
    return found


def line_tests() -> dict[int, list[tuple[str, str]]]:
    """Line to its tests: file and name."""
    found: dict[int, list[tuple[str, str]]] = {}
    for path in sorted(HERE.glob("test_nnr_clause_*.py")):
        for name in re.findall(r"^def (test_clause_\w+)", path.read_text(), re.MULTILINE):
            line = int(re.fullmatch(r"test_clause_\w+?_line_(\d+)_\w+", name).group(1))
            found.setdefault(line, []).append((path.name, name))
    return found


def test_every_line_has_a_test_named_by_its_clause() -> None:
    lines = line_tests()
    assert sorted(lines) == list(range(1, 113))
    for number, clause in enumerate(clauses(), 1):
        prefix = f"test_clause_{clause.lower().replace('.', '_')}_line_{number}_"
        for _, name in lines[number]:
            assert name.startswith(prefix), f"line {number} is of clause {clause}"


def test_the_page_lists_them() -> None:
    rows = re.findall(r"^\| (\d+) \| (\S+) \| [^|]+ \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    lines = line_tests()
    assert [(int(number), clause, test) for number, clause, test in rows] == [
        (number, clause, lines[number][0][1]) for number, clause in enumerate(clauses(), 1)
    ]


def test_the_clauses_are_the_checklists() -> None:
    with open(present(CHECKLIST), newline="") as file:
        found = [row[0].strip("()") for row in csv.reader(file)][1:]
    assert clauses() == found
