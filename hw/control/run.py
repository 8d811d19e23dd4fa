"""What the control registers and the rest of the machine tell each other."""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..cabac.job import DecodeReport
from .counters import Events

Report = data.StructLayout(
    {
        "running": 1,
        "done": 1,
        "error": 1,
        "resetting": 1,
        "code": 4,
        "unit": 3,
        "pc": 32,
        "busy": 4,
        "waiting": 4,
        "queued": 4,
        "unit_pcs": data.ArrayLayout(32, 4),
    }
)
"""The machine's state; arrays and bit masks are in the order LOAD, ARRAY, VECTOR, STORE. `unit_pcs` are those of the
cycle before."""


class CoreControl(wiring.Signature):
    """What the control registers and a core behind core 0 tell each other: where its program lies, a register that
    stays; its report, events and damaged stream, as those of core 0."""

    def __init__(self) -> None:
        super().__init__(
            {
                "program_address": Out(32),
                "program_bytes": Out(32),
                "report": In(Report),
                "events": In(Events),
                "damaged": In(DecodeReport),
            }
        )


class RunControl(wiring.Signature):
    """The host's orders, from the control registers' side.

    `start` and `soft_reset` are one cycle long; `will_start` is `start` a cycle earlier. The others are registers
    that the host keeps stable during a run. `report` is the answer: `running` and `error` levels, `done` from END until
    the next start.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": Out(1),
                "will_start": Out(1),
                "soft_reset": Out(1),
                "program_address": Out(32),
                "program_bytes": Out(32),
                "mem_base": Out(32),
                "mem_size": Out(32),
                "watchdog_cycles": Out(32),
                "report": In(Report),
            }
        )
