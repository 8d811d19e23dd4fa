"""What all fuzzing of damaged files shares: the tally of a run, the judgement of an input, a long run's command line.

A format's own module makes samples, damages them, and says what an attempt is. Each attempt must end in a result or in
an error of one line; `allowed_bytes` limits the memory that Python takes for it.
"""

import argparse
import resource
import sys
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tosaic.errors import Error

Result = TypeVar("Result")
FREE_BYTES, FILE_FACTOR = 256 << 20, 4


def allowed_bytes(file_bytes: int) -> int:
    """The importers' rule of what a file may make them take."""
    return FREE_BYTES + FILE_FACTOR * file_bytes


@dataclass
class Tally:
    """What became of the inputs, by kind of damage or of data; `run` counts those that were run as well."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    run: int = 0
    wrong: list[str] = field(default_factory=list)
    slowest_seconds: float = 0.0
    slowest: str = ""
    peak_bytes: int = 0

    @property
    def inputs(self) -> int:
        return self.accepted.total() + self.refused.total() + len(self.wrong)

    def attempt(
        self,
        kind: str,
        label: str,
        work: Callable[[], Result],
        refusal: type[Exception] = Error,
        allowed: int | None = None,
    ) -> Result | Exception:
        """Counts one input; what `work` returns, or what it raised. With `allowed` its memory is measured too."""
        if allowed is not None:
            tracemalloc.start()
        started, result = time.process_time(), None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = work()
            self.accepted[kind] += 1
        except refusal as error:
            result = error
            if "\n" in str(error) or not str(error):
                self.wrong.append(f"{label}: the message has not one line: {error!r}")
            else:
                self.refused[kind] += 1
                self.errors[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001 (anything else is what is looked for)
            result = error
            self.wrong.append(f"{label}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
        seconds = time.process_time() - started
        if seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest = seconds, label
        if allowed is not None:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.peak_bytes = max(self.peak_bytes, peak)
            if peak > allowed:
                self.wrong.append(f"{label}: {peak >> 20} MiB of memory, {allowed >> 20} are allowed")
        return result

    def add(self, other: "Tally", name: str) -> None:
        """Takes up what another run found; its labels get its name in front."""
        self.accepted += other.accepted
        self.refused += other.refused
        self.errors += other.errors
        self.run += other.run
        self.wrong += [f"{name}, {line}" for line in other.wrong]
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        if other.slowest_seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest = other.slowest_seconds, f"{name}, {other.slowest}"


def long_run(
    description: str, one_round: Callable[[int, int, bool], Tally], inputs_each: int, memory_gib: int = 3
) -> int:
    """The command line of a long run: rounds of `one_round(inputs, seed, traced)` until time or inputs are used up."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--inputs", type=int, help="stop after this number, instead of after minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, default=memory_gib, help="limit of the address space in GiB")
    parser.add_argument("--traced", action="store_true", help="measure the memory of each input; slower")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (chosen.memory << 30, chosen.memory << 30))
    started, total, number = time.monotonic(), Tally(), 0
    while total.inputs < chosen.inputs if chosen.inputs else time.monotonic() < started + 60 * chosen.minutes:
        count = min(inputs_each, chosen.inputs - total.inputs) if chosen.inputs else inputs_each
        seed = chosen.seed * 1_000_000 + number
        found = one_round(count, seed, chosen.traced)
        for line in found.wrong:
            print(f"seed {seed}, {line}", flush=True)
        total.add(found, f"seed {seed}")
        number += 1
    _report(total, time.monotonic() - started)
    return 1 if total.wrong else 0


def _report(total: Tally, seconds: float) -> None:
    print(f"{'kind':16} {'inputs':>9} {'refused':>9} {'accepted':>9}")
    for kind in sorted(total.accepted | total.refused):
        refused, accepted = total.refused[kind], total.accepted[kind]
        print(f"{kind:16} {refused + accepted:>9,} {refused:>9,} {accepted:>9,}")
    ran = f"{total.run:,} run on golden, " if total.run else ""
    errors = ", ".join(f"{count:,} {name}" for name, count in total.errors.most_common())
    print(f"{total.inputs:,} inputs ({errors}), {ran}{len(total.wrong)} wrong, {seconds:.0f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    traced = f"; {total.peak_bytes >> 20} MiB of Python's at most for one" if total.peak_bytes else ""
    print(f"the slowest took {total.slowest_seconds:.2f} s ({total.slowest}); the process {peak} MiB{traced}")
    sys.stdout.flush()
