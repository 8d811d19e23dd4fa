"""The zoo: `python bench/zoo` runs the networks of `networks.toml` and writes docs/records/zoo.md.

Each network is a job (`tosaic.driver.jobs`). Records are kept as lines of JSON in build/zoo/records.jsonl, so an
interrupted run goes on where it stopped; a run that is complete is compared with the repository's records
(`bench/zoo/records.jsonl`), ends with exit code 1 if one of its rows became worse, and starts anew the next time.
`--keep` makes its records the repository's.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys

from catalogue import Network, network, networks
from measuring import Record
from page import page, read_records, worse

from tosaic.driver import jobs
from tosaic.driver.jobs.content import key_of
from tosaic.driver.replacing import replacing

HERE = pathlib.Path(__file__).parent
KEPT = HERE / "records.jsonl"
WORK = jobs.JobFunction("measuring:measure_job", (HERE.resolve(),))


def main() -> None:
    """Runs what waits, writes the page, compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="networks to run (default: all that have no record yet)")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/zoo"))
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path("docs/records/zoo.md"))
    parser.add_argument("--seconds", type=float, default=900.0, help="time limit of one network")
    parser.add_argument("--large", action="store_true", help="run large networks on the accelerator, too")
    parser.add_argument("--keep", action="store_true", help="make the records the repository's")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="networks at a time")
    parser.add_argument("--cluster", help="address of a Dask scheduler whose workers run them")
    options = parser.parse_args()
    running = options.folder / "records.jsonl"
    running.parent.mkdir(parents=True, exist_ok=True)
    before = read_records(KEPT)
    now = dated(_run(running, options), before)
    found = worse(before, {name: now[name] for name in now if not options.names or name in options.names})
    # Rows that did not run this time are those that the repository keeps.
    records = {**before, **now}
    with replacing(options.page) as scratch:
        scratch.write_text(page(networks(), records))
    print("\n".join(found) or "no row is worse")
    if options.keep:
        KEPT.write_text(
            "".join(f"{_line(records[each.name])}\n" for each in networks() if each.name in records)
        )
    if not options.names and all(each.name in now for each in networks()):
        running.replace(running.with_name("last.jsonl"))
    sys.exit(1 if found and not options.keep else 0)


def dated(found: dict[str, Record], before: dict[str, Record]) -> dict[str, Record]:
    """What was found, without rows of earlier code, of no known commit, for which the repository has one."""
    return {name: record for name, record in found.items() if record.commit or name not in before}


def _run(running: pathlib.Path, options: argparse.Namespace) -> dict[str, Record]:
    """The records by network: of this run, and others that the file has."""
    chosen = [network(name) for name in options.names] or networks()
    kept = jobs.RecordFile(running)
    place = jobs.place_of(options.jobs, options.cluster, options.seconds)
    jobs.run_jobs([_job(each, options) for each in chosen], place, kept, _tell)
    of_this_code, commit = {key_of(_job(each, options)) for each in networks()}, _commit()
    records: dict[str, Record] = {}
    for each in kept.records:
        # What stands first is of this run.
        found = _record(each, commit if each.key in of_this_code else None)
        records.setdefault(found.name, found)
    return records


def _commit() -> str | None:
    """Returns the working tree's commit, short."""
    command = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def _job(network: Network, options: argparse.Namespace) -> jobs.Job:
    settings = {
        **dataclasses.asdict(network),
        "folder": str(options.folder),
        "large_ones": options.large and network.large,
    }
    return jobs.Job(WORK, None, "base", network.target, 0, settings, title=network.name)


def _record(done: jobs.Record, commit: str | None) -> Record:
    seconds = round(done.seconds["all"], 1)
    if done.failure is not None:
        return Record(str(done.job["title"]), failure=done.failure, seconds=seconds, commit=commit)
    return Record(**{**done.result, "seconds": seconds, "commit": commit})


def _tell(name: str, done: int, total: int) -> None:
    print(f"{done} of {total}: {name}", flush=True)


def _line(record: Record) -> str:
    return json.dumps(dataclasses.asdict(record))


if __name__ == "__main__":
    main()
