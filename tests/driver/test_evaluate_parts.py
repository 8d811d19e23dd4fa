"""An evaluation in parts: the figures of one process, on processes and on a cluster whose worker is killed."""

import pathlib
from collections.abc import Iterator

import distributed
import numpy as np
import pytest

import tosaic
from tosaic.compiler.ir import DType, GraphBuilder, write_tosa
from tosaic.driver.evaluate.evaluation import CHUNK_SAMPLES
from tosaic.driver.evaluate.parts import Files, evaluate_in_parts
from tosaic.driver.jobs import DaskCluster, LocalProcesses, RecordFile, ThisProcess
from tosaic.errors import InputError

SAMPLES = 200


@pytest.fixture
def files(tmp_path: pathlib.Path) -> Files:
    """A network in integers, samples with labels, and another network in the part of its float model."""
    random = np.random.default_rng(3)
    paths = []
    for name in ("net.tosa", "float.tosa"):
        b = GraphBuilder(name)
        x = b.input("x", (1, 1, 8), DType.INT8)
        weights = b.constant(random.integers(-9, 9, (1, 8, 5)), DType.INT8)
        zero = b.constant([0], DType.INT8)
        b.output(b.add("MATMUL", [x, weights, zero, zero]))
        (tmp_path / name).write_bytes(write_tosa(b.finish()))
        paths.append(tmp_path / name)
    data = tmp_path / "data.npz"
    np.savez(
        data,
        x=random.integers(-128, 128, (SAMPLES, 1, 8), dtype=np.int8),
        labels=random.integers(0, 5, SAMPLES),
    )
    return paths[0], data, paths[1]


@pytest.fixture(scope="module")
def cluster() -> Iterator[distributed.LocalCluster]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as found:
        yield found


def figures(found: tosaic.Evaluation) -> dict:
    told = found.as_json()
    del told["seconds"], told["model"]
    return told


def test_parts_make_the_whole(files: Files) -> None:
    with np.load(files[1]) as arrays:
        whole = tosaic.evaluate(files[0], dict(arrays), against=files[2], target=["emulator", "golden"])
    assert len({each.agreement for each in whole.outputs}) == 1 and whole.float_accuracy
    for place in (ThisProcess(), LocalProcesses(2)):
        found = evaluate_in_parts(files, ["emulator", "golden"], place)
        assert figures(found) == figures(whole)
        assert list(found.seconds) == ["float", "emulator", "golden"]


def test_a_second_run_does_nothing_again(files: Files, tmp_path: pathlib.Path) -> None:
    kept = tmp_path / "records.jsonl"
    first = evaluate_in_parts((*files[:2], None), ["emulator"], ThisProcess(), RecordFile(kept))
    lines = kept.read_text()
    assert lines.count("\n") == -(-SAMPLES // CHUNK_SAMPLES)
    again = evaluate_in_parts((*files[:2], None), ["emulator"], _Nowhere(), RecordFile(kept))
    assert figures(again) == figures(first) and kept.read_text() == lines
    kept.write_text("".join(lines.splitlines(keepends=True)[:2]))
    assert figures(
        evaluate_in_parts((*files[:2], None), ["emulator"], ThisProcess(), RecordFile(kept))
    ) == figures(first)


class _Nowhere:
    def run(self, tasks: object) -> object:
        raise AssertionError("nothing is left to do")


def test_a_worker_that_is_killed_changes_nothing(files: Files, cluster: distributed.LocalCluster) -> None:
    told: list[str] = []

    def kill_one(what: str, done: int, total: int) -> None:
        if not told:
            next(iter(cluster.workers.values())).process.process.kill()
        told.append(what)

    found = evaluate_in_parts(files, ["emulator"], DaskCluster(cluster.scheduler_address), progress=kill_one)
    assert figures(found) == figures(evaluate_in_parts(files, ["emulator"], ThisProcess()))
    assert len(told) == -(-SAMPLES // CHUNK_SAMPLES)


@pytest.mark.nightly
def test_data_that_does_not_fit_is_told_once(files: Files, tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "wrong.npz", x=np.zeros((3, 7), np.int8))
    with pytest.raises(InputError, match=r"shape \[3, 7\]; wanted is"):
        evaluate_in_parts((files[0], tmp_path / "wrong.npz", None), ["emulator"], _Nowhere())
    (tmp_path / "other").mkdir()
    twin = tmp_path / "other" / "net.tosa"
    twin.write_bytes(files[0].read_bytes())
    with pytest.raises(InputError, match="two of the files are called net.tosa"):
        evaluate_in_parts((files[0], files[1], twin), ["emulator"], _Nowhere())
