"""What other accelerators need for the networks that many people measure. The figures are in `anchors.csv`."""

import csv
import dataclasses
import functools
import importlib.resources


@dataclasses.dataclass(frozen=True)
class Anchor:
    """Another accelerator's cycles for a network."""

    network: str
    name: str
    multipliers: int
    cycles: int
    source: str


@functools.cache
def _all() -> tuple[Anchor, ...]:
    text = importlib.resources.files(__package__).joinpath("anchors.csv").read_text()
    return tuple(
        Anchor(line["network"], line["anchor"], int(line["multipliers"]), int(line["cycles"]), line["source"])
        for line in csv.DictReader(text.splitlines())
    )


def anchor_names() -> list[str]:
    """The accelerators, in the order of the file."""
    return list(dict.fromkeys(anchor.name for anchor in _all()))


def anchors_of(network: str) -> dict[str, Anchor]:
    """Anchors of a network by accelerator; empty for a network that is not in the file."""
    return {anchor.name: anchor for anchor in _all() if anchor.network == network}
