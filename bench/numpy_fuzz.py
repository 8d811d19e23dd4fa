"""NumPy in against the installed NumPy: the type matrix, or random programs, on golden, the emulator and the RTL.

    python bench/numpy_fuzz.py matrix --cases 10000
    python bench/numpy_fuzz.py programs --cases 2000 --rtl-every 10

Values, types, shapes, intervals and errors must be those of NumPy. Prints what is wrong, and how many cases were exact,
refused by name, or an error for both. Exit 1 if anything is wrong: each failure leaves a folder with the fewest steps.
`--first N --cases 1` repeats case N.
"""

import argparse
import collections
import pathlib
import sys
import time

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(_TESTS / "fuzzing"), str(_TESTS / "numpy_in")]

import campaign_log  # noqa: E402 (the path comes first)
from failed_case import leave  # noqa: E402
from numpy_jobs import KINDS, MATRIX_CASES, cases_job, smallest  # noqa: E402

from tosaic.driver.jobs import RecordFile, place_of, run_jobs  # noqa: E402

_EACH = 100
"""Cases of a job."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the type matrix takes more, one after another")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--rtl-every", type=int, default=0, help="each of these also on the RTL; 0: none")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    parser.add_argument("--cluster", help="address of a Dask scheduler whose workers run them")
    parser.add_argument("--records", type=pathlib.Path, help="keep what is done; a second run goes on")
    campaign_log.add_options(parser)
    chosen = parser.parse_args()
    started = time.monotonic()
    records = run_jobs(_jobs(chosen), place_of(chosen.jobs, chosen.cluster), RecordFile(chosen.records))
    tally: collections.Counter[str] = collections.Counter()
    wrong = 0
    for record in records:
        if record.failure:
            wrong += 1
            print(f"WRONG ({record.job['title']}): {record.failure}", flush=True)
            continue
        tally.update(record.result["tally"])
        for number, problem in record.result["wrong"].items():
            wrong += 1
            seed = record.job["seed"]
            again = f"{chosen.kind} --seed {seed} --first {number} --cases 1 --rtl-every {chosen.rtl_every}"
            print(f"WRONG ({again}): {problem}", flush=True)
            case = smallest(chosen.kind, seed, int(number), chosen.rtl_every)
            print(f"  sh {leave(chosen.failures / f'numpy_{chosen.kind}_{seed}_{number}', case)}", flush=True)
    told = ", ".join(f"{tally[kind]} {kind}" for kind in ("exact", "refused", "error", "on the RTL"))
    print(f"{chosen.cases} cases of {chosen.kind}, seed {chosen.seed}: {wrong} wrong, {told}")
    campaign_log.append(chosen.log, "numpy_fuzz", chosen.cases, wrong, time.monotonic() - started)
    return 1 if wrong else 0


def _jobs(chosen: argparse.Namespace) -> list:
    """Slices of at most `_EACH` cases; the type matrix goes on with the next seed at its end."""
    jobs, at, last = [], chosen.first, chosen.first + chosen.cases
    while at < last:
        turn, first = divmod(at, MATRIX_CASES) if chosen.kind == "matrix" else (0, at)
        left = MATRIX_CASES - first if chosen.kind == "matrix" else _EACH
        count = min(_EACH, left, last - at)
        jobs.append(cases_job(chosen.kind, chosen.seed + turn, first, count, chosen.rtl_every))
        at += count
    return jobs


if __name__ == "__main__":
    sys.exit(main())
