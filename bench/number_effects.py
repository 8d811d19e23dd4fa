"""What each number of `compiler/machine_numbers.py` is worth: cycles with half of it, and with twice it.

    python bench/number_effects.py [NAME ...]                 # some numbers, or all, on a sample of tests/cycles.csv
    python bench/number_effects.py --whole [NAME ...]         # on the whole of it: an hour and more for all numbers
    python bench/number_effects.py --rows pool,digits NAME    # on a family of layers, and a network

Of a tuple every second value is left out, the first ones or the others. The set is compiled once for each value; what
becomes another program runs on the emulator. A line tells the programs that changed, those that there were no more, the
sum of the cycles of all rows in per mille, and the row that changed most each way.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import importlib
import multiprocessing
import pathlib
import sys
from collections.abc import Collection

from cycles import DIGITS, FAMILIES, NETWORKS, Run, names, read_table, runs

# Nothing here, nor what it imports, may import the compiler's stages before a number is changed.
from tosaic.compiler import machine_numbers
from tosaic.compiler.ir import read_tosa
from tosaic.errors import Error, UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator

STAGES = "tosaic.compiler.build"
SAMPLE_NETWORKS = (*DIGITS, "kws_dscnn", "vww_mobilenet", "ad_autoencoder", "ic_resnet8")
SAMPLE_SEEDS = ("0", "1", "5", "6", "7")
Value = int | float | tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    digest: str
    """The digest of the program; empty where there is none."""
    cycles: int | None
    """None where the program is the one that was known."""


def values_of(name: str) -> dict[str, Value]:
    """The values that are tried for a number, by what they are called."""
    value = getattr(machine_numbers, name)
    if isinstance(value, tuple):
        return {"others": value[::2], "rest": value[1::2]}
    if isinstance(value, float):
        return {"half": value / 2, "twice": value * 2}
    return {"half": value // 2, "twice": value * 2}


def numbers() -> list[str]:
    """Names of all numbers."""
    return [name for name in vars(machine_numbers) if name.isupper()]


def chosen_runs(rows: Collection[str], *, whole: bool) -> list[Run]:
    """Runs of the benchmark set, or of a sample that is compiled fast; of `rows` only, if there are some."""
    small = [name for name in names() if name not in NETWORKS or name in SAMPLE_NETWORKS]
    return [
        run
        for name in rows or (names() if whole else small)
        for run in runs(name)
        if whole or (run.config != "nano" and (run.kind not in FAMILIES or run.name in SAMPLE_SEEDS))
    ]


def outcomes(change: tuple[str, Value] | None, run_list: list[Run], known: list[str]) -> list[Outcome]:
    """What becomes of runs with a changed number; `known` are the digests without. For a process of its own."""
    assert STAGES not in sys.modules
    if change is not None:
        setattr(machine_numbers, *change)
    compile_graph = importlib.import_module(STAGES).compile_graph
    speed_of = importlib.import_module("tosaic.compiler.memory_speed").MemorySpeed
    found = []
    for number, run in enumerate(run_list):
        graph = read_tosa(run.model) if isinstance(run.model, pathlib.Path) else run.model
        config, bandwidth = get_config(run.config), float(run.bandwidth or 0) or None
        try:
            program = compile_graph(graph, config, speed=speed_of(bandwidth))
            digest = hashlib.sha256(program.image).hexdigest()
            cycles = None
            if known and digest != known[number]:
                result = Emulator(config).run(
                    program.memory(),
                    program.program_address,
                    program.program_bytes,
                    others=program.others,
                    bandwidth_bytes=bandwidth,
                )
                cycles = result.cycles
            found.append(Outcome(digest, cycles))
        except UnsupportedError:
            found.append(Outcome("", None))
        except (Error, ArithmeticError, AssertionError, LookupError, ValueError) as error:
            print(f"    {change}: {' '.join(run.key)}: {type(error).__name__}: {error}", flush=True)
            found.append(Outcome("", None))
    return found


def compared(run_list: list[Run], before: list[Outcome], after: list[Outcome]) -> str:
    """A line that compares the outcomes of all runs."""
    table = {row.key: row.cycles for row in read_table()}
    changes, lost, cycles_before, cycles_after = [], 0, 0, 0
    for run, old, new in zip(run_list, before, after, strict=True):
        lost += bool(old.digest and not new.digest)
        if old.digest and new.digest:
            kept = table[run.key]
            found = kept if new.cycles is None else new.cycles
            cycles_before, cycles_after = cycles_before + kept, cycles_after + found
            if new.cycles is not None:
                changes.append((found / kept - 1, " ".join(filter(None, run.key))))
    text = f"{len(changes):4} {lost:4} {1000 * (cycles_after / cycles_before - 1):+9.3f}"
    for ratio, row in dict.fromkeys((min(changes), max(changes)) if changes else ()):
        text += f"  {100 * ratio:+.2f} % {row}" if ratio else ""
    return text


def in_a_process(*arguments: object) -> list[Outcome]:
    """`outcomes`, where no stage of the compiler has been imported yet."""
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(outcomes, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--whole", action="store_true", help="all rows of tests/cycles.csv")
    parser.add_argument("--rows", default="", help="families of layers and networks, with commas between")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(numbers())
    if unknown:
        parser.error(f"no such number: {', '.join(sorted(unknown))}")
    rows = list(filter(None, chosen.rows.split(",")))
    if not set(rows) <= set(names()):
        parser.error(f"no such rows: {', '.join(sorted(set(rows) - set(names())))}")
    run_list = chosen_runs(rows, whole=chosen.whole)
    before = in_a_process(None, run_list, [])
    digests = [outcome.digest for outcome in before]
    print(f"{len(run_list)} rows; changed, not compiled, cycles in per mille, least and most of a row")
    for name in chosen.names or numbers():
        for called, value in values_of(name).items():
            after = in_a_process((name, value), run_list, digests)
            print(f"{name:32} {called:6} {compared(run_list, before, after)}", flush=True)


if __name__ == "__main__":
    main()
