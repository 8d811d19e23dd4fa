"""The zoo's list, its samples and what it calls worse; `make zoo` runs the networks themselves."""

import dataclasses
import pathlib
import runpy
import sys

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph, Tensor
from tosaic.driver.digests import CODE_SUFFIXES
from tosaic.driver.jobs import Job, JobFunction
from tosaic.driver.jobs.content import pack, unpack

ZOO = pathlib.Path(__file__).parents[2] / "bench" / "zoo"


@pytest.fixture
def zoo(monkeypatch):
    """A function from a module's name to the module of bench/zoo."""
    monkeypatch.syspath_prepend(str(ZOO))
    names = ("catalogue", "framework", "measuring", "page", "samples", "signals")
    yield __import__
    for name in names:
        sys.modules.pop(name, None)


def test_the_list_is_pinned_and_fed(zoo):
    networks = zoo("catalogue").networks()
    makers = zoo("samples").MAKERS
    assert len({each.name for each in networks}) == len(networks) >= 30
    assert all("==" in each.wheel and each.licence and each.samples in makers for each in networks)
    on_sim = [each for each in networks if each.target == "sim"]
    assert len(on_sim) * 6 >= len(networks)


def test_held_out_samples_are_others(zoo):
    samples, signals = zoo("samples"), zoo("signals")
    graph = Graph("g", ["x"], [], {"x": Tensor("x", (1, 8, 8, 3), DType.FP32)})

    def made(half, seed):
        source = signals.Source(half, np.random.default_rng(seed))
        task = samples.Task(graph, 3, source, run=lambda inputs: {}, folder=pathlib.Path())
        return samples.make("photographs_0_1", task)

    assert [each["x"].shape for each in made(0, 1)] == [(1, 8, 8, 3)] * 3
    assert np.array_equal(made(0, 1)[0]["x"], made(0, 1)[0]["x"])
    assert not np.array_equal(made(0, 1)[0]["x"], made(1, 1)[0]["x"])


def test_what_is_worse(zoo):
    measuring, page = zoo("measuring"), zoo("page")
    old = measuring.Record(
        "net", golden_error=1e-6, sqnr_db=30.0, cycles=1000, program_bytes=500, bit_exact=True
    )

    def after(**changes):
        return page.worse({"net": old}, {"net": dataclasses.replace(old, **changes)})

    assert after() == after(cycles=1020, sqnr_db=29.6) == after(cycles=500, sqnr_db=40.0, seconds=9.0) == []
    assert after(failure="run: MismatchError") == ["net fails: run: MismatchError"]
    assert after(golden_error=2e-4) == ["net: error 2.0e-04, 1.0e-06 before"]
    assert after(sqnr_db=29.0) == ["net: SQNR 29.0 dB, 30.0 before"]
    assert after(cycles=1100) == ["net: 1,100 cycles, 1,000 before"]
    assert after(program_bytes=600) == ["net: 600 program bytes, 500 before"]


def test_a_row_of_unknown_code_does_not_take_the_place_of_one_that_names_its_commit(zoo):
    measuring = zoo("measuring")
    dated = runpy.run_path(str(ZOO / "__main__.py"), run_name="zoo")["dated"]
    old, new, unknown = (measuring.Record("net", commit=commit) for commit in ("1a", "2b", None))
    assert dated({"net": new}, {"net": old}) == {"net": new}
    assert dated({"net": unknown}, {"net": old}) == {}
    assert dated({"net": unknown}, {}) == {"net": unknown}


def test_the_page_counts_what_it_lists(zoo):
    catalogue, measuring, page = zoo("catalogue"), zoo("measuring"), zoo("page")
    network = catalogue.networks()[0]
    record = measuring.Record(network.name, golden_error=2e-7, sqnr_db=37.8, cycles=340, bit_exact=True)
    text = page.page([network], {network.name: record})
    assert "1 networks: 1 import and match" in text
    assert f"| {network.name} | 2e-07 | 37.8 |  |  |  |  | 340 |" in text


def test_a_record_does_not_tell_where_it_was_made(zoo, tmp_path):
    """No times, and no commit: a cluster's worker has no working tree."""
    measuring = zoo("measuring")
    network = zoo("catalogue").network("sine")
    file = tmp_path / "files" / network.wheel / network.file
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no network")
    settings = {**dataclasses.asdict(network), "folder": str(tmp_path), "large_ones": False}
    found = measuring.measure_job(Job(JobFunction("measuring:measure_job"), settings=settings)).result
    assert found["name"] == "sine" and found["failure"].startswith("import: ")
    assert not {"commit", "seconds"} & found.keys()


def test_the_code_goes_to_a_worker_with_the_list_it_reads(zoo, tmp_path, monkeypatch):
    """Makers of samples look up other networks: rows failed on a cluster's workers, which had no list."""
    here = [each.name for each in zoo("catalogue").networks()]
    sys.modules.pop("catalogue")
    unpack(pack([ZOO], CODE_SUFFIXES), tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / ZOO.name))
    there = zoo("catalogue")
    assert pathlib.Path(there.__file__).is_relative_to(tmp_path)
    assert [each.name for each in there.networks()] == here
