"""Jobs: what a record is of, the file of records, processes that die, time limits."""

import io
import pathlib
import sys
import tarfile

import job_works
import pytest

from tosaic.driver.jobs import (
    Done,
    Job,
    JobFunction,
    LocalProcesses,
    Record,
    RecordFile,
    ThisProcess,
    place_of,
    run_jobs,
)
from tosaic.driver.jobs.content import key_of, pack, unpack
from tosaic.errors import InputError

HERE = pathlib.Path(__file__).parent


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "net.txt"
    path.write_text("weights")
    return path


def jobs_of(
    function: str, model: pathlib.Path | None = None, count: int = 4, **settings: object
) -> list[Job]:
    work = JobFunction(f"job_works:{function}")
    return [Job(work, model, "nano", seed=seed, settings=settings) for seed in range(count)]


def lines(records: list[Record]) -> list[str]:
    return [record.line(times=False) for record in records]


# --- what a record is of


def test_the_key_is_of_the_content(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    job = Job(JobFunction("job_works:square"), model, "base")
    key = key_of(job)
    other = tmp_path / "other.txt"
    other.write_text("weights")

    def of(**changes: object) -> str:
        return key_of(Job(**{**vars(job), **changes}))

    assert len(key) == 32
    assert of(model=other) == key and of(config="base,rows=16") == key and of(title="a title") == key
    different = [
        of(work=JobFunction("job_works:fail")),
        of(config="base,rows=8"),
        of(target="golden"),
        of(seed=1),
        of(settings={"a": 1}),
        of(files=(model,)),
        of(work=JobFunction("job_works:square", (HERE,))),
    ]
    model.write_text("other weights")
    assert len({key, *different, key_of(job)}) == 9


def test_what_cannot_be_a_job(model: pathlib.Path) -> None:
    with pytest.raises(InputError, match="the settings of job 'net.txt' must be values that JSON has: "):
        key_of(Job(JobFunction("a:b"), model, settings={"path": model}))
    with pytest.raises(InputError, match="no configuration is called 'huge'"):
        key_of(Job(JobFunction("a:b"), model, "huge"))
    with pytest.raises(InputError, match="nothing.tosa: cannot be read: No such file or directory"):
        key_of(Job(JobFunction("a:b"), pathlib.Path("nothing.tosa")))


def test_archives_are_of_content_only(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "model"
    (folder / "part").mkdir(parents=True)
    (folder / "part" / "x").write_bytes(b"12")
    first = pack([folder])
    (folder / "part" / "x").write_bytes(b"12")
    assert pack([folder]) == first
    unpack(first, tmp_path / "there")
    assert (tmp_path / "there" / "model" / "part" / "x").read_bytes() == b"12"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("../outside", tarfile.REGTYPE), ("/tmp/outside", tarfile.REGTYPE), ("link", tarfile.SYMTYPE)],
)
def test_archives_stay_in_their_folder(name: str, kind: bytes, tmp_path: pathlib.Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(InputError, match="no file below its folder"):
        unpack(buffer.getvalue(), tmp_path / "there")
    assert not list(tmp_path.iterdir())


def test_an_archive_needs_no_filter_of_tarfile(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2, which Debian 12 has, knows none: all work on a cluster failed there."""
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    monkeypatch.delattr(tarfile.TarFile, "extractall")
    (tmp_path / "file").write_bytes(b"12")
    unpack(pack([tmp_path / "file"]), tmp_path / "there")
    assert (tmp_path / "there" / "file").read_bytes() == b"12"


# --- the same wherever it was done


def test_processes_give_the_records_of_this_one(model: pathlib.Path) -> None:
    jobs, seen = jobs_of("square", model), []
    here = run_jobs(jobs, ThisProcess(), progress=lambda *told: seen.append(told))
    assert seen == [("net.txt", done, 4) for done in (1, 2, 3, 4)]
    assert [record.result for record in here] == [
        {"square": seed**2, "model": "weights", "config": "nano"} for seed in range(4)
    ]
    assert here[0].seconds.keys() == {"all", "nothing"}
    assert lines(run_jobs(jobs, LocalProcesses(2))) == lines(here)


def test_a_failure_is_told_without_places(model: pathlib.Path) -> None:
    (here,) = run_jobs(jobs_of("fail", model, 1), ThisProcess())
    assert (here.result, here.failure) == (None, "InputError: net.txt: is never right")


def test_a_killed_process_loses_and_wrongs_nothing(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    jobs = jobs_of("killed", model, folder=str(marks), times=2)
    killed = run_jobs(jobs, LocalProcesses(2))
    assert len(list(marks.iterdir())) == 2
    assert lines(killed) == lines(run_jobs(jobs, ThisProcess()))


def test_a_job_that_kills_its_processes_fails_alone(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    records = run_jobs(jobs_of("killed", model, 2, folder=str(marks), times=9), LocalProcesses(1))
    assert [record.failure for record in records] == [
        "3 processes that ran it died, the last one died of signal 9",
        None,
    ]


def test_the_time_limit(model: pathlib.Path) -> None:
    jobs = [*jobs_of("slow", model, 1), *jobs_of("square", model, 1)]
    records = run_jobs(jobs, place_of(1, limit_seconds=0.2))
    assert [record.failure for record in records] == ["not finished after 0.2 s", None]


# --- the file of records


def test_a_second_run_goes_on(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path, jobs = tmp_path / "r.jsonl", jobs_of("square", model)
    whole = run_jobs(jobs, ThisProcess(), RecordFile(tmp_path / "whole.jsonl"))
    run_jobs(jobs[2:3], ThisProcess(), RecordFile(path))
    with path.open("a") as file:  # Killed while it wrote the next line.
        file.write(whole[0].line()[:40])
    done: list[Job] = []

    class Counting(ThisProcess):
        def run(self, tasks):
            done.extend(job for _, job in tasks)
            return super().run(tasks)

    assert lines(run_jobs(jobs, Counting(), RecordFile(path))) == lines(whole)
    assert done == [jobs[0], jobs[1], jobs[3]]
    kept = [Record.of_line(line) for line in path.read_text().splitlines()]
    assert lines(kept) == lines(whole)


def test_a_failure_is_done_again(model: pathlib.Path, tmp_path: pathlib.Path, monkeypatch) -> None:
    path, jobs = tmp_path / "r.jsonl", jobs_of("square", model, 1)
    with monkeypatch.context() as patched:
        patched.setattr(job_works, "square", job_works.fail)
        assert run_jobs(jobs, ThisProcess(), RecordFile(path))[0].failure is not None
    assert run_jobs(jobs, ThisProcess(), RecordFile(path))[0].failure is None
    assert len(path.read_text().splitlines()) == 1


def test_what_is_no_file_of_records(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("{}\n")
    with pytest.raises(InputError, match="r.jsonl: line 1 is no record of a job"), RecordFile(path).opened():
        pass
    with pytest.raises(InputError, match="no/r.jsonl: records cannot be kept there: No such file"):
        run_jobs([], ThisProcess(), RecordFile(tmp_path / "no" / "r.jsonl"))


def test_two_runs_do_not_share_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.jsonl"
    with RecordFile(path).opened(), pytest.raises(InputError, match="another run writes its records there"):
        run_jobs([], ThisProcess(), RecordFile(path))


def test_works_of_a_folder_that_is_not_installed(tmp_path: pathlib.Path, monkeypatch) -> None:
    (tmp_path / "own_work.py").write_text(
        "from tosaic.driver.jobs import Done\n\ndef twice(job):\n    return Done(2 * job.seed)\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    (record,) = run_jobs([Job(JobFunction("own_work:twice", (tmp_path,)), seed=21)], ThisProcess())
    assert (record.result, record.job["title"]) == (42, "twice")


def test_results_are_values_of_json() -> None:
    assert Done((1, 2)).seconds == {}
    (record,) = run_jobs(jobs_of("square", None, 1), ThisProcess())
    assert record == Record.of_line(record.line())
