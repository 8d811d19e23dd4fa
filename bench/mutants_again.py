r"""Judges the survivors that the sign-off page lists again, and writes its section on them anew: for when tests or
reasons have come, and the records of the sample are gone.

    python bench/mutants_again.py docs/sign_off.md --contexts build/sign_off/*.contexts \
        --seconds build/sign_off/*.seconds

What was killed stays so: only `make sign-off` judges that again.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import mutation
import pytest
import sign_off

_START = "## Mutants of golden, compiler and emulator"
_SHARE = re.compile(r"^\| (`[^`]+`|\*\*all\*\*) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| .* \|$", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument("--contexts", nargs="+", required=True, help="files of bench.mutation_contexts")
    parser.add_argument("--seconds", nargs="+", default=[], help="files of --cpu-durations")
    parser.add_argument("--most-seconds", type=float, default=2.5, help="of tests per mutant")
    chosen = parser.parse_args()
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    page = chosen.page.read_text()
    before, _, rest = page.partition(_START)
    section, heading, after = rest.partition("\n## ")
    listed = section[section.index("\nSurvivors:") : section.index("\nNo change:")]
    found = _judged(listed, mutation.tests_of_lines(chosen.contexts), chosen)
    chosen.page.write_text(before + _START + anew(section, found, done.stdout.strip()) + heading + after)
    return 0


def _judged(listed: str, lines: mutation.Lines, chosen: argparse.Namespace) -> list[mutation.Record]:
    """A record for each mutant of the list."""
    sample = mutation.named(listed)
    seconds = mutation.read_seconds(chosen.seconds)
    judge = mutation.Judge(sample, lines, seconds, chosen.most_seconds)
    files = {test.split("::")[0] for each in judge.open() for test in lines[each.file][each.line]}
    if files:
        arguments = ["-qq", "-s", "-m", "", "-p", "no:cacheprovider", *sorted(files)]
        pytest.main(arguments, plugins=[mutation.Judging(judge)])
    return judge.found


def anew(section: str, found: list[mutation.Record], commit: str) -> str:
    """The section with what is known now of its survivors. One that is listed survives if any survives that may be
    meant; it has the place that it has now."""
    by_text: dict[str, list[mutation.Record]] = {}
    for record in found:
        by_text.setdefault(record["mutant"], []).append(record)
    order = (mutation.SURVIVED, mutation.EQUIVALENT, mutation.KILLED)
    records = [min(own, key=lambda each: order.index(each["by"])) for own in by_text.values()]
    moved = Counter((f"`{sign_off.folder_of(record)}`", record["by"]) for record in records)
    survivors = section[section.index("\nSurvivors:") :]
    text = _SHARE.sub(lambda row: _row(row, moved), section[: -len(survivors)])
    tally = Counter(record["by"] for record in records)
    text += (
        f"\nThe {len(records)} that were left were judged again at {commit}: {tally[mutation.KILLED]} fail a test now, "
        f"and of {tally[mutation.EQUIVALENT]} more nothing can show a change. "
        "Those killed before were not judged again.\n"
    )
    known = [line for line in survivors[survivors.index("\nNo change:") :].splitlines() if line[:3] == "- `"]
    for title, by, old in (
        ("Survivors", mutation.SURVIVED, []),
        ("No change", mutation.EQUIVALENT, known),
    ):
        own = [sign_off.line_of(record) for record in records if record["by"] == by]
        text += "\n".join(["", f"{title}:", "", *(sorted([*old, *own]) or ["none."]), ""])
    return text


def _row(row: re.Match[str], moved: Counter[tuple[str, str]]) -> str:
    """Of the table: what has moved from its survivors."""
    name, *numbers = row.groups()
    mutants, killed, equal, survived = map(int, numbers)
    now = {
        by: sum(
            count for (folder, what), count in moved.items() if what == by and name in (folder, "**all**")
        )
        for by in (mutation.KILLED, mutation.EQUIVALENT)
    }
    killed, equal = killed + now[mutation.KILLED], equal + now[mutation.EQUIVALENT]
    survived -= sum(now.values())
    share = f"{killed / max(killed + survived, 1):.1%}"
    return f"| {name} | {mutants} | {killed} | {equal} | {survived} | {share} |"


if __name__ == "__main__":
    sys.path.insert(0, str(mutation.ROOT))
    sys.exit(main())
