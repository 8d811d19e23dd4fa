"""Registers of the configuration `nano` that are read where a word is valid, for rtl_facts.py."""

from rtl_known import Known, whole
from rtl_unseen import Loose

INDEX_BITS = 24
SHOWN = {"load": ("$signal$18", "$signal$20"), "array": ("$signal$18", "$signal$20")}
SHOWN |= {"store": ("$signal$18", "$signal$20"), "vector": ("$signal$19", "$signal$21")}
"""Of each unit's queue: whether the instruction at its head is the one that concerns the unit, and its index."""
WORDS = {
    "load": (
        ("load.beats.spare", 34, "load.beats.spare_valid"),
        ("load.addresses.spare", 37, "load.addresses.spare_valid"),
        ("load.splitter.row", 170, "load.splitter.row_valid"),
    ),
    "store": (
        ("store.splitter.row", 170, "store.splitter.row_valid"),
        ("store.bursts__payload", 83, "store.splitter.burst_valid"),
    ),
    "array": (
        ("accumulators__payload", 128, "accumulators__valid"),
        ("array.issue.$signal$8", 102, "array.issue.$signal"),
    ),
    "sequencer": (("sequencer.dispatch.classifier.fetched", 129, "sequencer.dispatch.program__valid"),),
}
"""Of each unit: words, their bits, and what tells that there is one."""


def valid(wire: str, bits: int, there: str) -> Loose:
    return whole(wire, bits, read=lambda state: state.bit(there))


def shown(unit: str) -> tuple[Loose, Loose]:
    """Of two indices one is chosen."""
    queue, (is_head, index) = f"sequencer.{unit}_queue", SHOWN[unit]
    head = valid(f"{queue}.{index}", INDEX_BITS, f"{queue}.{is_head}")
    taken = whole(
        f"{queue}.shown_taken", INDEX_BITS, read=lambda state: state.no(state.bit(f"{queue}.{is_head}"))
    )
    return head, taken


KNOWN_OF_WORDS = tuple(
    Known((rf"{unit}(\..*)?",), tuple(valid(*word) for word in words)) for unit, words in WORDS.items()
) + tuple(Known((rf"sequencer\.{unit}_queue",), shown(unit)) for unit in SHOWN)

__all__ = ["KNOWN_OF_WORDS"]
