"""What a simulation sees of a machine from outside: the events and the instructions of each core in each cycle."""

from amaranth.lib import data

from .config import Config
from .control.counters import Events

OfCore = data.StructLayout(
    {
        "events": Events,
        "counts": 1,
        "unused": 32 - Events.size - 2,
        "mark": 1,
        "unit_pcs": data.ArrayLayout(32, 4),
        "mark_layer": 32,
    }
)
"""`events` are what the counters of the register map count, in their order, in a cycle in which they `count`. With
`mark` the layer `mark_layer` ends. `unit_pcs` are byte offsets from the start of the core's program, in the order LOAD,
ARRAY, VECTOR, STORE: of the instruction at the head of the unit's queue that waits, else of the one taken last, some
cycles late."""


def probe_layout(config: Config) -> data.ArrayLayout:
    """The probe of a machine: `OfCore` for each core."""
    return data.ArrayLayout(OfCore, config.cores)
