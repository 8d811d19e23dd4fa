"""The zoo: `python bench/zoo` runs the networks of `networks.toml`, one at a time, and writes docs/zoo.md.

Each network has a process of its own. Records are kept as lines of JSON in build/zoo/records.jsonl, so an interrupted
run goes on where it stopped; a run that is complete is compared with the repository's records
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
from measuring import Record, measure_network
from page import page, read_records, worse

from tosaic.driver.replacing import replacing

KEPT = pathlib.Path(__file__).with_name("records.jsonl")


def main() -> None:
    """Runs what waits, writes the page, compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="networks to run again (default: all that have no record yet)"
    )
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/zoo"))
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path("docs/zoo.md"))
    parser.add_argument("--seconds", type=float, default=900.0, help="time limit of one network")
    parser.add_argument("--large", action="store_true", help="run large networks on the accelerator, too")
    parser.add_argument("--keep", action="store_true", help="make the records the repository's")
    parser.add_argument("--one", metavar="NAME", help="run one network here, and print its record")
    options = parser.parse_args()
    if options.one:
        print(_line(measure_network(network(options.one), options.folder, options.large)))
        return
    running = options.folder / "records.jsonl"
    running.parent.mkdir(parents=True, exist_ok=True)
    for each in _waiting(read_records(running), options):
        record = _apart(each, options)
        with running.open("a") as lines:
            lines.write(_line(record) + "\n")
        print(f"{each.name}: {record.failure or 'done'}, {record.seconds} s", flush=True)
    records = read_records(running)
    with replacing(options.page) as scratch:
        scratch.write_text(page(networks(), records))
    found = worse(read_records(KEPT), records)
    print("\n".join(found) or "no row is worse")
    if options.keep:
        KEPT.write_text(
            "".join(f"{_line(records[each.name])}\n" for each in networks() if each.name in records)
        )
    if not options.names and all(each.name in records for each in networks()):
        running.replace(running.with_name("last.jsonl"))
    sys.exit(1 if found and not options.keep else 0)


def _waiting(records: dict[str, Record], options: argparse.Namespace) -> list[Network]:
    if options.names:
        return [network(name) for name in options.names]
    return [
        each
        for each in networks()
        if each.name not in records or (options.large and records[each.name].partial)
    ]


def _apart(network: Network, options: argparse.Namespace) -> Record:
    """The record of a network that runs in a process of its own."""
    command = [
        sys.executable,
        str(pathlib.Path(__file__).parent),
        "--one",
        network.name,
        "--folder",
        str(options.folder),
    ]
    try:
        done = subprocess.run(
            [*command, *(["--large"] if options.large else [])],
            capture_output=True,
            text=True,
            timeout=options.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Record(network.name, failure=f"more than {options.seconds:.0f} s", seconds=options.seconds)
    try:
        return Record(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Record(network.name, failure=f"exit code {done.returncode}: {last}")


def _line(record: Record) -> str:
    return json.dumps(dataclasses.asdict(record))


main()
