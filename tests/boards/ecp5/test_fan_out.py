"""Drivers of many ends are copied: each end sees the same function of the same registers, from a driver nearby."""

import collections
import copy

import pytest

from tosaic.boards.ecp5.fan_out import copy_drivers

FAR = 100
"""Columns between two groups of blocks."""


def cell(kind: str, inputs: dict[str, int], output: tuple[str, int], site: str | None = None) -> dict:
    ways = dict.fromkeys(inputs, "input") | {output[0]: "output"}
    nets = {port: [net] for port, net in inputs.items()} | {output[0]: [output[1]]}
    return {
        "type": kind,
        "attributes": {"BEL": site} if site else {},
        "port_directions": ways,
        "connections": nets,
        "parameters": {"INIT": kind},
    }


def design_of(ends: int) -> dict:
    """A register enables, through a LUT, `ends` registers beside blocks at two places of a part, in turn; the LUT's
    other input comes from outside."""
    cells = {
        "enabled": cell("TRELLIS_FF", {"DI": 1}, ("Q", 2)),
        "enable": cell("LUT4", {"A": 2, "B": 1}, ("Z", 3)),
    }
    for index in range(ends):
        place = f"X{FAR * (index % 2)}/Y{index // 2}/EBR0"
        cells[f"held_{index}"] = cell("TRELLIS_FF", {"CE": 3, "DI": 1}, ("Q", 4 + 2 * index))
        cells[f"block_{index}"] = cell("DP16KD", {"A": 4 + 2 * index}, ("Q", 5 + 2 * index), place)
    ports = {"in": {"direction": "input", "bits": [1]}}
    return {"modules": {"top": {"cells": cells, "ports": ports}}}


def drivers(design: dict) -> dict[int, str]:
    return {
        net: name
        for name, each in design["modules"]["top"]["cells"].items()
        for port, (net,) in each["connections"].items()
        if each["port_directions"][port] == "output"
    }


def test_each_place_has_a_driver_of_its_own():
    design = design_of(40)
    assert copy_drivers(design, "top", most_ends=20) == 1
    driver, cells = drivers(design), design["modules"]["top"]["cells"]
    of_place = collections.defaultdict(set)
    for index in range(40):
        of_place[index % 2].add(driver[cells[f"held_{index}"]["connections"]["CE"][0]])
    assert sorted(map(len, of_place.values())) == [1, 1] and of_place[0] != of_place[1]


@pytest.mark.parametrize("most_ends", [2, 3, 7, 50])
def test_the_function_stays(most_ends):
    design = design_of(100)
    before = copy.deepcopy(design)
    copy_drivers(design, "top", most_ends)
    driver, cells = drivers(design), design["modules"]["top"]["cells"]
    ends = collections.Counter(
        net
        for each in cells.values()
        for port, (net,) in each["connections"].items()
        if each["port_directions"][port] == "input"
    )
    # The input is a port's, which nobody copies.
    assert max(count for net, count in ends.items() if net != 1) <= most_ends
    for name, each in before["modules"]["top"]["cells"].items():
        assert cells[name]["attributes"] == each["attributes"]
    for index in range(100):
        enable = cells[driver[cells[f"held_{index}"]["connections"]["CE"][0]]]
        assert (enable["type"], enable["parameters"], enable["connections"]["B"]) == (
            "LUT4",
            {"INIT": "LUT4"},
            [1],
        )
        register = cells[driver[enable["connections"]["A"][0]]]
        assert (register["type"], register["connections"]["DI"]) == ("TRELLIS_FF", [1])


def test_what_leaves_the_design_or_drives_few_stays():
    design = design_of(40)
    assert copy_drivers(copy.deepcopy(design), "top", most_ends=40) == 0
    design["modules"]["top"]["ports"]["led"] = {"direction": "output", "bits": [3]}
    assert copy_drivers(design, "top", most_ends=20) == 0


def passing_on(enable: dict[str, int], before: str) -> dict:
    """A register with ends at two places, FAR from each other, takes what a cell of kind `before` has."""
    cells = {
        "before": cell(before, {"DI" if before == "TRELLIS_FF" else "A": 1}, ("Q", 2)),
        "passes": cell("TRELLIS_FF", {"DI": 2, **enable}, ("Q", 3)),
    }
    cells["passes"]["parameters"]["CEMUX"] = "CE" if enable else "1 "
    for index in range(4):
        cells[f"block_{index}"] = cell(
            "DP16KD", {"A": 3}, ("Q", 4 + index), f"X{FAR * (index % 2)}/Y{index // 2}/EBR0"
        )
    return {"modules": {"top": {"cells": cells, "ports": {}}}}


def test_a_register_that_passes_on_what_another_has_is_at_every_place():
    design = passing_on({}, "TRELLIS_FF")
    assert copy_drivers(design, "top", passing_on="pass", most_span=FAR - 1, most_block_span=FAR) == 1
    driver, cells = drivers(design), design["modules"]["top"]["cells"]
    of_block = [driver[cells[f"block_{index}"]["connections"]["A"][0]] for index in range(4)]
    assert of_block[:2] == of_block[2:] and of_block[0] != of_block[1]
    assert [cells[name]["connections"]["DI"] for name in of_block] == [[2]] * 4


@pytest.mark.parametrize(
    ("enable", "before", "prefix", "most_span"),
    [
        ({}, "TRELLIS_FF", "", FAR),
        ({"CE": 1}, "TRELLIS_FF", "", FAR - 1),
        ({}, "LUT4", "", FAR - 1),
        ({}, "TRELLIS_FF", "other", FAR - 1),
        ({}, "TRELLIS_FF", None, FAR - 1),
    ],
    ids=["near", "enabled", "behind logic", "another name", "not asked for"],
)
def test_a_register_of_few_ends_is_one_otherwise(enable, before, prefix, most_span):
    design = passing_on(enable, before)
    assert copy_drivers(design, "top", passing_on=prefix, most_span=most_span, most_block_span=FAR) == 0


@pytest.mark.parametrize("kind", ["LUT4", "TRELLIS_FF"])
def test_what_drives_blocks_alone_is_at_every_place(kind):
    """Whatever it takes, and with an enable: the copies have the same."""
    cells = {"address": cell(kind, {"A": 1, "CE": 2}, ("Z" if kind == "LUT4" else "Q", 3))}
    for index in range(4):
        site = f"X{FAR * (index % 2)}/Y{index // 2}/EBR0"
        cells[f"block_{index}"] = cell("DP16KD", {"A": 3}, ("Q", 4 + index), site)
    design = {"modules": {"top": {"cells": cells, "ports": {}}}}
    assert copy_drivers(copy.deepcopy(design), "top", most_block_span=FAR) == 0
    beside = copy.deepcopy(design)
    beside["modules"]["top"]["cells"]["beside"] = cell("LUT4", {"A": 3}, ("Z", 9))
    assert copy_drivers(beside, "top", most_block_span=FAR - 1) == 0
    assert copy_drivers(design, "top", most_block_span=FAR - 1) == 1
    driver, cells = drivers(design), design["modules"]["top"]["cells"]
    of_block = [driver[cells[f"block_{index}"]["connections"]["A"][0]] for index in range(4)]
    assert of_block[:2] == of_block[2:] and of_block[0] != of_block[1]
    assert [(cells[name]["connections"]["A"], cells[name]["connections"]["CE"]) for name in of_block] == [
        ([1], [2])
    ] * 4


@pytest.mark.parametrize(("prefix", "copies"), [("passes", 3), ("before", 0), ("other", 0)])
def test_each_end_of_a_register_that_is_named_has_its_own(prefix, copies):
    """Wherever they lie, and with the enable of the one that was there."""
    design = passing_on({"CE": 1}, "LUT4")
    assert copy_drivers(design, "top", most_block_span=FAR, for_each_end=(prefix,)) == copies
    driver, cells = drivers(design), design["modules"]["top"]["cells"]
    of_block = {driver[cells[f"block_{index}"]["connections"]["A"][0]] for index in range(4)}
    assert len(of_block) == 1 + copies
    for name in of_block:
        register = cells[name]
        assert (register["type"], register["connections"]["DI"], register["connections"]["CE"]) == (
            "TRELLIS_FF",
            [2],
            [1],
        )
