"""What a host sees of each program of the measurements on the RTL of `nano`, as tests/rtl/recorded_seen.json has it.

    python bench/rtl_recorded.py    # writes the file again

Results are compared with the emulator by other tests; here is what no other machine tells: cycles and counters, what is
left in memory behind an error, what the control port answers. A line is a program, with its cycles and a digest of all
that is seen. tests/rtl/test_rtl_recorded.py fails when the RTL does otherwise; a change that means to is recorded anew,
and the file's difference is for the review.
"""

import hashlib
import json
import pathlib
import sys
from collections.abc import Iterator

from rtl_stimulus import HUNG, Seen, cases, registers_seen

from tosaic.hw.config import CONFIGS, Config
from tosaic.sim.rtl.build import simulator_library
from tosaic.sim.rtl.library import Harness

CONFIG = CONFIGS["nano"]
AMOUNT = 1
"""Programs of each family: those that judge mutants."""
REGISTERS = "registers"
"""The name of what is no program, but what a host does with the registers."""
RECORDED = pathlib.Path(__file__).resolve().parents[1] / "tests" / "rtl" / "recorded_seen.json"
Figures = tuple[int, str]
"""Cycles, and a digest of what is seen."""


def figures(config: Config = CONFIG, amount: int = AMOUNT) -> Iterator[tuple[str, Figures]]:
    """Returns the figures of each program that ends, by name, on a machine of its own: what some read depends
    on what the ones before left.
    """
    library = simulator_library(config)
    harness = Harness(library)
    yield REGISTERS, _figures(registers_seen(harness))
    harness.close()
    for case in cases(config, amount):
        harness = Harness(library)
        seen = case.run(harness, config)
        harness.close()
        if seen.end != HUNG:
            yield case.name, _figures(seen)


def _figures(seen: Seen) -> Figures:
    return dict(seen.registers).get("CYCLES", 0), hashlib.sha256(repr(seen).encode()).hexdigest()[:12]


def main() -> int:
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in figures()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
