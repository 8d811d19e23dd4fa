"""docs/records/boards.md has the rows of bench/boards.csv; a row is made again when what was built has changed."""

import dataclasses
import importlib.util
import pathlib
import re

import pytest

from tosaic.boards.catalogue import BOARDS
from tosaic.boards.ecp5.plans_85k import lean_on_85k, small_on_85k, wide_on_85k
from tosaic.boards.ecpix5 import WIDE
from tosaic.boards.flow import Built
from tosaic.boards.project import Project
from tosaic.boards.report import Usage
from tosaic.hw.config_text import get_config

ROOT = pathlib.Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("board_rows", ROOT / "bench/board_rows.py")
assert _SPEC is not None and _SPEC.loader is not None
rows = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(rows)


def test_the_page_has_the_records():
    text = (ROOT / "docs/records/boards.md").read_text()
    assert rows.page_with(text, rows.read_rows(ROOT / "bench/boards.csv")) == text


def test_every_board_is_built_and_every_design_is_one():
    assert {re.split("[+/]", design)[0] for design in rows.DESIGNS} == set(BOARDS)
    for design in rows.DESIGNS:
        board = rows.board_of(design)
        assert get_config(board.config).name == board.config
    assert rows.board_of("ulx3s-85f").floorplan == lean_on_85k()
    assert rows.board_of("ulx3s-85f/small").floorplan == small_on_85k()
    leaner = rows.board_of(f"ulx3s-85f+block_ram/small,{rows.LEANER}")
    assert (leaner.floorplan, leaner.memory_bytes) == (lean_on_85k(69e6), 80 << 10)
    assert rows.board_of("ecpix5-85f").floorplan == lean_on_85k()
    assert rows.board_of(f"ecpix5-85f/base,{WIDE}").floorplan == wide_on_85k()
    assert rows.board_of("ulx3s-85f/nano").floorplan is None
    assert rows.board_of("ulx3s-85f") is BOARDS["ulx3s-85f"]


def test_the_commands_of_the_page_are_built_in_the_nightly():
    """Each board's recipe is a design of `make boards`, part by part, but for boots and clocks of the line."""
    page = (ROOT / "docs/boards.md").read_text()
    recipes = set(re.findall(r"^(?:\d\. `)?tosaic build ([\w-]+) -o out/", page, re.MULTILINE))
    assert recipes == set(BOARDS) - {"ulx3s-45f", "ecpix5-85f", "arty-a7-35t", "kv260"}
    assert recipes <= set(rows.DESIGNS)
    for other in re.findall(r"For ECPIX-5 replace `ulx3s-85f` by `([\w-]+)`", page):
        assert other in rows.DESIGNS


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_the_list_of_boards_tells_what_was_routed(board):
    """The record's frequency and day. Every open board's own configuration has been routed; no other one has."""
    row = rows.read_rows(ROOT / "bench/boards.csv").get(board.name)
    assert (board.routed is not None) == bool(row and row.fmax_mhz) == (board.family in rows._TOOLS)
    if board.routed:
        assert board.routed.mhz == round(float(row.fmax_mhz), 1)


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """A function builds(*ARGUMENTS) that runs the command on a board whose Verilog is `builds.text`; it gives the exit
    code. `builds.count`: designs that were built."""
    records, page = tmp_path / "boards.csv", tmp_path / "boards.md"
    rows.write_rows({}, records)
    page.write_text(f"before\n{rows.BEGIN}\n{rows.END}\nafter\n")

    def run(*arguments):
        files = ["--records", str(records), "--page", str(page), "-o", str(tmp_path / "out")]
        monkeypatch.setattr("sys.argv", ["board_rows.py", *arguments, *files])
        return rows.main()

    def built(project, folder, cache, progress, seed):
        run.count += 1
        return Built(run.usage, folder / "top.bit", fits=True)

    run.page = page
    run.text, run.count, run.usage = "module top; endmodule", 0, Usage(100, 50, 3, 36, 62.5e6, 4.0)
    monkeypatch.setattr(rows, "make_project", lambda board: Project(board, "top", {"top": run.text}, {}))
    monkeypatch.setattr(rows, "build_project", built)
    monkeypatch.setattr(rows, "check_tools", lambda family: None)
    return run


def test_a_design_is_built_again_when_it_has_changed(builds):
    assert (builds("ulx3s-45f"), builds.count) == (0, 1)
    page = builds.page.read_text()
    assert "| `ulx3s-45f`, the whole board, `nano` | LFE5U-45F-6BG381C | 100 (0 %) |" in page
    assert "**62.5 MHz, slack 4.00 ns at 50 MHz**, seed 1 |" in page
    assert page.startswith("before\n") and page.endswith("\nafter\n")

    assert (builds("ulx3s-45f"), builds.count) == (0, 1)
    assert (builds("ulx3s-45f", "--seed", "2"), builds.count) == (0, 2)
    builds.text = "module top; wire changed; endmodule"
    assert (builds("ulx3s-45f", "--stale"), builds.count) == (0, 2)
    assert (builds("ulx3s-45f", "--seed", "2"), builds.count) == (0, 3)


def test_a_slow_board_is_told(builds):
    builds.usage = dataclasses.replace(builds.usage, fmax_hz=40e6, slack_ns=-5.0)
    assert builds("ulx3s-45f") == 1
    assert "slack -5.00 ns at 50 MHz**, seed 1; too slow |" in builds.page.read_text()
