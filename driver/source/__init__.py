"""The integers against the network they were made of: `--check-source`.

`notes` is what `tosaic quantize` writes of it, `float_models` runs it (in its own framework where that is installed),
`networks` finds it for a session, `agreement` has the figures and says whether they will do.
"""

from .agreement import NOT_THE_NETWORK, Agreement, Limits, OutputAgreement
from .networks import SourceNetwork, find_network
from .notes import SourceNote, read_note

__all__ = [
    "NOT_THE_NETWORK",
    "Agreement",
    "Limits",
    "OutputAgreement",
    "SourceNetwork",
    "SourceNote",
    "find_network",
    "read_note",
]
