"""What docs/sign_off.md says of mutants of the RTL: their score by unit, what survived, and what is known besides."""

import collections
import pathlib
import re
import tomllib
from typing import Any

from rtl_netlist import UNITS

SURVIVED, EQUIVALENT, OPEN = "survived", "equivalent", "open"
"""OPEN: it survived the programs that have run, and others, or the solver, have not run yet."""
REASONS = pathlib.Path(__file__).with_name("rtl_mutants_reasons.toml")
SAMPLES = pathlib.Path(__file__).with_name("rtl_mutants_samples.toml")
Record = dict[str, Any]
"""Of a mutant: netlist, unit, module, change, and its name; how it was found and by which program; the programs that it
survived; processor seconds."""


def mutants_page(config: str, records: list[Record], programs: int, cycles: int) -> str:
    """The score of each unit, and what survived. The score counts what is open as not killed."""
    out = [f"## Mutants of `{config}`: {len(records)}, against {programs} programs of {cycles:,} cycles", ""]
    out += [
        "| unit | mutants | results or errors | cycles or counters only | survived | open | no change | score |"
    ]
    out += ["|---|--:|--:|--:|--:|--:|--:|--:|"]
    units = [unit for unit in UNITS if any(record["unit"] == unit for record in records)]
    for unit in (*units, "**all**"):
        own = [record["how"] for record in records if unit in (record["unit"], "**all**")]
        survived, left, same = own.count(SURVIVED), own.count(OPEN), own.count(EQUIVALENT)
        results = sum(how == "memory" or "STATUS" in how or "ERROR" in how for how in own)
        killed, real = len(own) - survived - left - same, max(len(own) - same, 1)
        row = [len(own), results, killed - results, survived, left, same]
        out.append(f"| {unit} | {' | '.join(map(str, row))} | {killed / real:.1%} |")
    out += _with_reasons(records)
    out += _listed(
        records, SURVIVED, "Survivors of all programs, none of which the SAT solver calls no change:"
    )
    out += _listed(
        records,
        OPEN,
        "Open: they survived the programs that have run, and others, or the solver, have not run yet:",
    )
    return "\n".join(out) + "\n"


def _with_reasons(records: list[Record]) -> list[str]:
    """How many of those that no program has shown lie where something else is known, and how many do not."""
    left = [record for record in records if record["how"] in (SURVIVED, OPEN)]
    out = ["", "| what no program has shown | survived | open |", "|---|--:|--:|"]
    for entry in (
        *tomllib.loads(REASONS.read_text())["reason"],
        {"modules": ".*", "reason": "no reason is known"},
    ):
        own = [record for record in left if re.fullmatch(entry["modules"], record["module"])]
        left = [record for record in left if record not in own]
        if own:
            modules = ", ".join(f"`{module}`" for module in sorted({record["module"] for record in own}))
            modules = "elsewhere" if entry["modules"] == ".*" else modules
            hows = [record["how"] for record in own]
            out.append(f"| {modules}: {entry['reason']} | {hows.count(SURVIVED)} | {hows.count(OPEN)} |")
    return out


def _listed(records: list[Record], how: str, title: str) -> list[str]:
    """The mutants of one fate, by module."""
    of_module = collections.defaultdict[str, list[str]](list)
    for record in records:
        if record["how"] == how:
            of_module[record["module"]].append(record["name"])
    if not of_module:
        return []
    return [
        "",
        title,
        "",
        *(f"- `{module}`: {'; '.join(sorted(of_module[module]))}" for module in sorted(of_module)),
    ]


def samples_page() -> str:
    """How many of some samples' mutants programs noticed that were not written with a look at them."""
    known = tomllib.loads(SAMPLES.read_text())
    out = [known["text"].strip(), ""]
    out += [
        "| sample | RTL of | mutants | change something | noticed at first sight | score | noticed since |"
    ]
    out += ["|---|---|--:|--:|--:|--:|--:|"]
    for row in known["sample"]:
        numbers = [row[name] for name in ("mutants", "change", "first")]
        score = f"{row['first'] / row['change']:.1%}"
        shown = [f"`{row['options']}`", row["commit"], *numbers, score, row["since"]]
        out.append(f"| {' | '.join(map(str, shown))} |")
    return "\n".join(out) + "\n"
