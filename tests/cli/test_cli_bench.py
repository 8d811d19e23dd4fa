"""`tosaic bench`: the table, the CSV, the plot, and the anchors beside them."""

import csv
import xml.etree.ElementTree

import pytest

from tosaic.driver.bench import Row, anchors_of, csv_text, markdown_table, plot_svg


def row(network: str, config: str = "base", macs_per_cycle: int = 256) -> Row:
    return Row(network, config, macs_per_cycle, "sim", 16, 50, 12_501_632, 54_000, 102_400, 16, True)


def test_measures_models(tosaic, here):
    done = tosaic(
        "bench", "tiny.tosa", "--on", "emulator", "--config", "base", "--config", "nano",
        "--memory-bandwidth", "4", "--memory-bandwidth", "2", "--check", "--csv", "b.csv", "--plot", "b.svg",
    )  # fmt: skip
    assert done.code == 0, done.err
    with (here / "b.csv").open() as file:
        lines = list(csv.DictReader(file))
    found = [(line["network"], line["config"], line["memory_bandwidth"]) for line in lines]
    assert found == [("tiny", c, b) for c in ("base", "nano") for b in ("4", "2")]
    assert all(line["bit_exact"] == "1" for line in lines)
    cycles = [int(line["cycles"]) for line in lines]
    assert cycles[0] < cycles[1] and cycles[2] < cycles[3]
    assert f"{int(lines[0]['cycles']):,}" in done.out
    assert "outputs equal golden" in done.out
    xml.etree.ElementTree.parse(here / "b.svg")


def test_bundled_networks(tosaic):
    done = tosaic("bench", "--on", "emulator")
    assert done.code == 0
    assert "digits_tiny" in done.out


def test_golden_has_no_cycles(tosaic):
    done = tosaic("bench", "tiny.tosa", "--on", "golden")
    assert (done.code, done.err) == (1, "tosaic: error: golden has no cycles: measure on sim or emulator\n")


def test_anchors_at_equal_multipliers():
    table = markdown_table([row("ic_resnet8"), row("ic_resnet8", "small", 64)])
    header, _, base, small = table.splitlines()
    titles = [cell.strip() for cell in header.split("|")]
    cells = [cell.strip() for cell in base.split("|")]
    assert cells[titles.index("× Ethos-U55")] == f"{107_151 / 54_000:.2f}"
    assert small.split("|")[titles.index("× Ethos-U55")].strip() == ""


def test_unknown_networks_have_no_anchors():
    assert anchors_of("mine") == {}
    assert "Ethos" not in markdown_table([row("mine")])
    assert "Ethos-U55" not in plot_svg([row("mine")])


@pytest.mark.parametrize("name", ["ic_resnet8", "resnet50"])
def test_every_anchor_says_where_it_is_from(name):
    for anchor in anchors_of(name).values():
        assert anchor.cycles > 0 and len(anchor.source) > 20
    assert "Ethos-U85 cycles" in csv_text([row(name)]).splitlines()[0]


def test_figures_of_a_batch_are_those_of_one_sample(tosaic, here):
    done = tosaic("bench", "tiny.tosa", "--on", "emulator", "--batch", "4", "--check", "--csv", "b.csv")
    assert done.code == 0, done.err
    alone = tosaic("bench", "tiny.tosa", "--on", "emulator", "--csv", "a.csv")
    assert alone.code == 0
    one, four = (next(csv.DictReader((here / name).open())) for name in ("a.csv", "b.csv"))
    assert (one["batch"], four["batch"]) == ("1", "4") and one["macs"] == four["macs"]
    assert int(four["cycles"]) < int(one["cycles"]) and int(four["dram_read_bytes"]) < int(
        one["dram_read_bytes"]
    )
    assert "batch 4" in done.out
