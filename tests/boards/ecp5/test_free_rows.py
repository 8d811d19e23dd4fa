"""Rows without logic: every place of them is taken, by LUTs that have no wire."""

from tosaic.boards.ecp5.free_rows import keep_free
from tosaic.boards.ecp5.plans_85k import wide_on_85k


def test_each_place_of_the_rows_is_taken_once():
    design = {"modules": {"top": {"cells": {"own": {"type": "LUT4"}}}}}
    assert keep_free(design, "top", (3, 9), range(4, 6)) == 2 * 2 * 8
    cells = design["modules"]["top"]["cells"]
    assert cells.pop("own") == {"type": "LUT4"}
    sites = [cell["attributes"]["BEL"] for cell in cells.values()]
    assert len(set(sites)) == len(sites) == 32
    assert {site.partition("/")[2] for site in sites if site.startswith("X4/Y9/")} == {
        f"Y9/SLICE{letter}.K{place}" for letter in "ABCD" for place in (0, 1)
    }
    assert {site.rpartition("/")[0] for site in sites} == {"X4/Y3", "X5/Y3", "X4/Y9", "X5/Y9"}
    assert all(cell["type"] == "LUT4" and not cell["connections"] for cell in cells.values())


def test_the_wide_design_leaves_rows_between_those_of_blocks():
    plan = wide_on_85k()
    assert plan.free_rows[:3] == (3, 6, 9) and plan.free_rows[-1] == 93
    blocks = {int(site.split("/")[1].removeprefix("Y")) for rule in plan.rules for site in rule.sites}
    assert not blocks & set(plan.free_rows)
    assert (plan.free_columns[0], plan.free_columns[-1]) == (4, 121)
