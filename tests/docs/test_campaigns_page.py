"""docs/records/campaigns.md is what bench/campaigns_page.py makes of the record."""

import argparse
import importlib.util
import json
import pathlib
import sys

import campaign_log
import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("campaigns_page", ROOT / "bench" / "campaigns_page.py")
campaigns_page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(campaigns_page)


def test_the_page_is_of_the_record():
    assert (ROOT / "docs" / "records" / "campaigns.md").read_text() == campaigns_page.page(
        campaigns_page.read()
    )


def test_every_campaign_of_the_record_has_a_row_and_a_command():
    named = {line["campaign"] for line in campaigns_page.read()}
    assert named <= campaigns_page.CAMPAIGNS.keys()
    for name, (command, *_) in campaigns_page.CAMPAIGNS.items():
        assert command.startswith(f"python bench/{name}.py ") and (ROOT / "bench" / f"{name}.py").exists()


def test_a_run_adds_its_line(tmp_path, monkeypatch):
    record = tmp_path / "record.jsonl"
    monkeypatch.setattr(sys, "argv", ["x", "--seed", "3", "--log", str(record), "--minutes", "1"])
    parser = argparse.ArgumentParser()
    campaign_log.add_options(parser)
    assert parser.parse_args(["--log", str(record)]).log == record
    campaign_log.append(record, "nnr_fuzz", 20, 0, 61.4)
    campaign_log.append(None, "nnr_fuzz", 20, 0, 61.4)
    (line,) = map(json.loads, record.read_text().splitlines())
    told = {name: line[name] for name in ("campaign", "command", "cases", "wrong", "seconds")}
    command = "python bench/nnr_fuzz.py --seed 3 --minutes 1"
    assert told == {"campaign": "nnr_fuzz", "command": command, "cases": 20, "wrong": 0, "seconds": 61}


@pytest.mark.parametrize("wrong, shown", [(None, "–"), (2, "2")])
def test_what_was_not_counted_is_a_dash(wrong, shown):
    line = dict(
        campaign="onnx_fuzz", command="c", cases=1000, wrong=wrong, seconds=7200, commit="a", date="d"
    )
    page = campaigns_page.page([line])
    assert f"| `onnx_fuzz` | 1 | 1,000 | 2.00 | {wrong or 0} |" in page
    assert page.endswith(f"| d | a | `c` | 1,000 | 7,200 | {shown} |\n")
