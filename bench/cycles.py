"""tests/cycles.csv: cycles of layers and networks, as numbers that a reviewer reads.

    python bench/cycles.py             # writes the table again, and says which rows rose and which fell
    python bench/cycles.py --check     # exit 1 where a row has other cycles than the table

Cycles are the emulator's. A row that rises needs a reason in the commit; one that falls is welcome.
"""

import argparse
import contextlib
import csv
import dataclasses
import os
import pathlib
import sys
from collections.abc import Iterator

import numpy as np
from cliff_cases import FAMILIES, random_case

import tosaic
from tosaic.compiler.ir import Graph

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests/cycles.csv"
MODELS = pathlib.Path(os.environ.get("TOSAIC_SHARED", ROOT.parent / "shared")) / "models"
CONFIGS = ("nano", "small", "base")
LAYERS_EACH = 5
"""Layers of a family, by seeds from 0 on."""
OTHERS = ("base,cores=2,bus_words=2", "base,am_bytes=32K", "small,am_bytes=8K")
"""Configurations of which a layer of each family is run."""
NETWORKS = (
    "ic_resnet8",
    "vww_mobilenet",
    "kws_dscnn",
    "ad_autoencoder",
    "sww_dscnn1d",
    "ic_resnet_large",
    "mbv2_100_224",
    "gemma3_layer",
)
DIGITS = ("digits", "digits_tiny")


@dataclasses.dataclass(frozen=True)
class Row:
    """What runs on what, and its cycles."""

    kind: str
    """A family of layers, or `network`."""
    name: str
    """The seed, or the network's name."""
    config: str
    bandwidth: str
    """Bytes per cycle of external memory; empty for the bus' width."""
    layer: str
    """What it is, for readers."""
    cycles: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it from the others."""
        return (self.kind, self.name, self.config, self.bandwidth)


COLUMNS = [field.name for field in dataclasses.fields(Row)]


@dataclasses.dataclass(frozen=True)
class Run:
    """What a row measures."""

    kind: str
    name: str
    config: str
    bandwidth: str
    layer: str
    model: Graph | pathlib.Path

    @property
    def key(self) -> tuple[str, str, str, str]:
        """That of the row."""
        return (self.kind, self.name, self.config, self.bandwidth)


def layer_runs(family: str) -> Iterator[Run]:
    """A family's layers on each configuration."""
    runs = [(config, seed) for config in CONFIGS for seed in range(LAYERS_EACH)]
    runs += [(config, LAYERS_EACH + number) for number, config in enumerate(OTHERS)]
    for config, seed in runs:
        case = random_case(family, seed)
        yield Run(family, str(seed), config, "", case.name, case.graph)


def network_runs(name: str) -> Iterator[Run]:
    """A network on `base` at several speeds of memory, and on the other configurations."""
    small = name in DIGITS
    for config, bandwidth in (("base", ""), ("base", "4"), ("small", ""), *([("nano", "")] if small else [])):
        yield Run("network", name, config, bandwidth, "", network_path(name))


def names() -> list[str]:
    """Families of layers and those networks that are there."""
    return [*FAMILIES, *DIGITS, *(name for name in NETWORKS if network_path(name).exists())]


def runs(name: str) -> Iterator[Run]:
    """Returns the runs of a family or network."""
    return layer_runs(name) if name in FAMILIES else network_runs(name)


def rows(name: str) -> Iterator[Row]:
    """Yields the rows of a family or network."""
    for run in runs(name):
        # Types that are wider than a configuration's words are refused by name.
        with contextlib.suppress(tosaic.UnsupportedError):
            cycles = _cycles(run.model, run.config, float(run.bandwidth or 0) or None)
            yield Row(*run.key, run.layer, cycles)


def read_table() -> list[Row]:
    """The rows that the repository keeps."""
    with TABLE.open(newline="") as file:
        return [Row(**{**line, "cycles": int(line["cycles"])}) for line in csv.DictReader(file)]


def differences(found: list[Row], kept: list[Row]) -> list[str]:
    """A line for each row whose cycles are not those of the table."""
    known = {row.key: row.cycles for row in kept}
    return [
        f"{' '.join(filter(None, (*row.key, row.layer)))}: {known.get(row.key, 'no row')} -> {row.cycles}"
        for row in found
        if known.get(row.key) != row.cycles
    ]


def network_path(name: str) -> pathlib.Path:
    return ROOT / f"examples/digits/{name}.tosa" if name in DIGITS else MODELS / name / "model.tosa"


def _cycles(model: object, config: str, bandwidth: float | None = None) -> int:
    session = tosaic.Session(model, target="emulator", config=config, memory_bandwidth=bandwidth)
    session.run({each.name: np.zeros(each.shape, each.numpy) for each in session.inputs})
    return session.stats["cycles"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    found = [row for name in names() for row in rows(name)]
    kept = read_table() if TABLE.exists() else []
    told = differences(found, kept)
    print(*told, sep="\n")
    before = {row.key: row.cycles for row in kept}
    rose = sum(row.cycles > before.get(row.key, row.cycles) for row in found)
    print(f"{len(found)} rows, {len(told)} changed, {rose} of them rose")
    if not chosen.check:
        # Rows of networks that are not beside this checkout stay.
        here = {row.key for row in found}
        away = [row for row in kept if row.key not in here and row.name in NETWORKS]
        with TABLE.open("w", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(COLUMNS)
            out.writerows(dataclasses.astuple(row) for row in (*found, *away))
    return int(chosen.check and bool(told))


if __name__ == "__main__":
    sys.exit(main())
