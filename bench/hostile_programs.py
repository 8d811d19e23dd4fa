"""Mutated programs on the emulator and on the RTL: both must end the same way, with the same fault at the same place.

    python bench/hostile_programs.py [--programs 2000] [--first 0]

Prints how many ended how, and every program whose two ends nothing explains. Exit 1 if there is one: it leaves a
folder with the instructions that it takes, and a script that shows it.
"""

import argparse
import collections
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "tests" / "fuzzing"
sys.path.insert(0, str(FOLDER))

import campaign_log  # noqa: E402 (the path comes first)
from changed_programs import SAME, WRONG, case_of, mutant, smaller_program  # noqa: E402
from failed_case import leave  # noqa: E402

from tosaic.driver.jobs import Job, JobFunction, RecordFile, place_of, run_jobs  # noqa: E402

WORK = JobFunction("changed_programs:judge_job", (FOLDER,))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--cluster", help="address of a Dask scheduler whose workers run them")
    parser.add_argument("--records", type=pathlib.Path, help="keep what is done; a second run goes on")
    campaign_log.add_options(parser)
    chosen = parser.parse_args()
    numbers = range(chosen.first, chosen.first + chosen.programs)
    jobs = [Job(WORK, None, "nano", "emulator,sim", number, title=f"program {number}") for number in numbers]
    records = run_jobs(jobs, place_of(chosen.jobs, chosen.cluster), RecordFile(chosen.records))
    tally: collections.Counter[str] = collections.Counter()
    for record in records:
        result = record.result or {"kind": WRONG, "ends": record.failure}
        detail = "" if result["kind"] != SAME else ": END" if result["ended"] else ": a fault"
        tally[result["kind"] + detail] += 1
        if result["kind"] == WRONG:
            print(f"{record.job['title']}: {result['ends']}", flush=True)
            case = smaller_program(case_of(mutant(record.job["seed"])))
            script = leave(chosen.failures / f"program{record.job['seed']}", case)
            print(f"  sh {script}", flush=True)
    for kind, count in tally.most_common():
        print(f"{count:6}  {kind}")
    seconds = sum(record.seconds["all"] for record in records)
    print(f"{seconds:.0f} s")
    campaign_log.append(chosen.log, "hostile_programs", len(records), tally[WRONG], seconds)
    return int(tally[WRONG] > 0)


if __name__ == "__main__":
    sys.exit(main())
