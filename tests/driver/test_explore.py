"""`tosaic explore`: the space, the front, the search by grid and by Optuna, the area model, the page."""

import dataclasses
import itertools
import pathlib

import numpy as np
import pytest
from browser import colours_of

import tosaic.examples
from tosaic.boards.area import PARTS, WHOLE, LutFabric, error_told, errors, estimate, fits, samples
from tosaic.boards.report import Usage
from tosaic.driver.explore import (
    Exploration,
    Goal,
    Point,
    Question,
    Told,
    best_of,
    draw_grid,
    explore,
    front_of,
    verilog_command,
    write_page,
)
from tosaic.driver.jobs import LocalProcesses, RecordFile, ThisProcess
from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import get_config, variant

DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits" / "digits_tiny.tosa"
PART = PARTS["ecp5-45f"]


def question(**changes: object) -> Question:
    asked = Question(
        models=(DIGITS,),
        base="nano,columns=4",
        fixed=("columns", "am_bytes", "wm_bytes"),
        bandwidths=(2, 4),
        points=6,
        area=lambda config: estimate(config, LutFabric.ECP5),
        fits=lambda area: fits(area, PART),
    )
    return dataclasses.replace(asked, **changes)


def told(found: Exploration) -> list[tuple[str, int, int]]:
    return [(each.config.name, each.bandwidth, each.cycles[str(DIGITS)]) for each in found.points]


def point(lut: int, cycles: int, bandwidth: int = 4) -> Point:
    return Point(CONFIGS["nano"], bandwidth, Usage(lut, 1, 1, 1), {"net": cycles})


# --- area


@pytest.mark.parametrize("fabric", LutFabric)
def test_the_area_model_is_near_whole_syntheses(fabric: LutFabric) -> None:
    """It is within 10 % of syntheses that no fit has seen; the text has the same figures."""
    found = errors(fabric)
    assert found and all(abs(error) < 0.10 for error in found)
    assert f"{max(found):+.1%}" in error_told(fabric)


@pytest.mark.parametrize("name", ["nano", "small", "base"])
def test_multipliers_are_computed(name: str) -> None:
    config = CONFIGS[name]
    assert estimate(config, LutFabric.XC7).dsp == config.rows * config.columns + 7 * config.columns


def test_area_grows_with_what_is_there() -> None:
    lut = {
        name: estimate(get_config(name), LutFabric.XC7).lut
        for name in ("nano", "small", "small,rows=4", "small,cabac_engines=0", "base")
    }
    assert lut["nano"] < lut["small,rows=4"] < lut["small"] < lut["base"]
    assert lut["small,cabac_engines=0"] < lut["small"]
    assert {each.unit for each in samples()} > {"am", "array", "vector", WHOLE}


def test_protected_data_cost_what_was_synthesised() -> None:
    """ECP5: the CRC of LOAD's beats of 4 and of 8 bytes, and a machine with parity: LUTs, and a block for weights'."""
    luts = {name: estimate(get_config(name), LutFabric.ECP5).lut for name in ("nano", "small")}
    assert estimate(get_config("nano,load_crc=1"), LutFabric.ECP5).lut == luts["nano"] + 384
    assert estimate(get_config("small,load_crc=1"), LutFabric.ECP5).lut == luts["small"] + 602
    plain, parity = (estimate(get_config(name), LutFabric.ECP5) for name in ("nano", "nano,memory_parity=1"))
    assert parity.lut == plain.lut + 493
    assert parity.ram_kbit == plain.ram_kbit + 18


@pytest.mark.parametrize("fabric", LutFabric)
@pytest.mark.parametrize("name", ["nano", "base"])
def test_cores_are_as_many_machines_and_a_little_more(name: str, fabric: LutFabric) -> None:
    """What is between them is a few hundredths; multipliers and memories are exactly as many."""
    one, two, four = (estimate(variant(CONFIGS[name], {"cores": n}), fabric) for n in (1, 2, 4))
    assert (two.dsp, four.dsp) == (2 * one.dsp, 4 * one.dsp)
    for several, cores in ((two, 2), (four, 4)):
        assert 0.95 < several.lut / (cores * one.lut) < 1.1
        assert 0.95 < several.ram_kbit / (cores * one.ram_kbit) < 1.15
    wide = estimate(variant(CONFIGS[name], {"cores": 4, "bus_words": 2}), fabric)
    assert four.lut < wide.lut < 1.1 * four.lut


# --- front


def test_the_front_is_what_nothing_beats() -> None:
    best, small, wide = point(10, 10), point(5, 20), point(5, 15, 8)
    assert front_of([point(11, 10), best, point(10, 11), small, wide, point(10, 10)]) == [wide, small, best]
    points = [best, small, point(2, 21)]
    assert best_of(points, Goal.LATENCY) == best
    assert best_of(points, Goal.THROUGHPUT) == point(2, 21)
    assert best_of(points, Goal.AREA) == small, "21 cycles are more than twice 10"
    assert best_of([], Goal.AREA) is None


# --- search


def test_the_grid_has_each_machine_once() -> None:
    machines = list(itertools.islice(draw_grid("base", (), 1), 500))
    assert len({each.hash for each in machines}) == 500
    assert [each.name for each in draw_grid("nano", ("rows", "columns"), 1)] != [
        each.name for each in draw_grid("nano", ("rows", "columns"), 2)
    ]


def test_points_are_those_of_the_emulator_and_kept(tmp_path: pathlib.Path) -> None:
    kept = tmp_path / "r.jsonl"
    found = explore(question(), ThisProcess(), RecordFile(kept))
    session = tosaic.Session(DIGITS, "emulator", found.points[0].config, memory_bandwidth=2)
    session.run({each.name: np.zeros(each.shape, each.numpy) for each in session.inputs})
    assert found.points[0].cycles == {str(DIGITS): session.stats["cycles"]}
    lines = kept.read_text().splitlines()
    assert len(found.points) >= 6 and len(lines) == len(found.points)
    again = explore(question(), LocalProcesses(1), RecordFile(kept))
    assert told(again) == told(found)
    assert kept.read_text().splitlines() == lines


def test_what_does_not_fit_is_not_compiled() -> None:
    found = explore(question(fits=lambda area: False, base="nano,rows=2", points=1), ThisProcess())
    assert (found.points, found.too_large) == ([], 216)


def test_optuna_proposes_the_same_machines_again() -> None:
    first, second = (explore(question(optuna=True, points=3), ThisProcess()) for _ in range(2))
    assert told(first) == told(second) and len(first.points) >= 3


# --- page and command


def test_the_page_has_the_front_and_the_commands(tmp_path: pathlib.Path) -> None:
    found = explore(question(), ThisProcess())
    path, best = tmp_path / "front.html", best_of(found.points, Goal.LATENCY)
    write_page(path, found, Told("Machines for digits", {"part": PART.name}, best))
    text = path.read_text()
    assert text.count("<circle") == len(found.points) + 2, "one for each point and bandwidth"
    assert all(verilog_command(each) in text for each in front_of(found.points))
    assert "http" not in text and text.count('class="best"') == 1


def test_a_browser_draws_the_front(tmp_path: pathlib.Path) -> None:
    points = [point(10, 100), point(40, 30), point(20, 20, 8)]
    found, path = Exploration(points), tmp_path / "front.html"
    write_page(path, found, Told("Machines", {}, best_of(points, Goal.LATENCY)))
    drawn = colours_of(path, tmp_path)
    # Dots let the panel shine through; those of the legend do not.
    assert len(drawn) > 20 and {(0xC8, 0x55, 0x3D), (0xD9, 0xA4, 0x41)} <= drawn
