"""The record of campaigns: a line of JSON for each run, of which `docs/records/campaigns.md` is made."""

import argparse
import datetime
import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def add_options(parser: argparse.ArgumentParser) -> None:
    """--failures, where folders of failures go, and --log, the record to add to."""
    parser.add_argument(
        "--failures", type=pathlib.Path, default=pathlib.Path("build/failures"), help="a folder for each"
    )
    parser.add_argument(
        "--log", type=pathlib.Path, help="add this run to a record (docs/records/campaigns.jsonl)"
    )


def append(path: pathlib.Path | None, campaign: str, cases: int, wrong: int, seconds: float) -> None:
    """One line, of the commit and the day; nothing without a path."""
    if path is None:
        return
    command = ["python", f"bench/{campaign}.py", *_without_log(sys.argv[1:])]
    line = {
        "campaign": campaign,
        "command": shlex.join(command),
        "cases": cases,
        "wrong": wrong,
        "seconds": round(seconds),
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _without_log(arguments: list[str]) -> list[str]:
    if "--log" not in arguments:
        return arguments
    at = arguments.index("--log")
    return arguments[:at] + arguments[at + 2 :]


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
