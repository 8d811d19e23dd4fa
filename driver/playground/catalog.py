"""What a page must know of networks and hardware, as JSON."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tosaic.compiler.program import MAGIC, Program
from tosaic.hw.config import Config
from tosaic.hw.csr_map import EVENT_COUNTERS, REGISTER, WATCHDOG_RESET_CYCLES, FieldAccess
from tosaic.hw.isa import ISA_HASH, Error
from tosaic.sim.rtl.wave import STATES

REGISTERS = (
    *("ISA_HASH", "CONFIG_HASH", "CONTROL", "STATUS", "IRQ", "ERROR", "MEM_BASE", "MEM_SIZE", "WATCHDOG"),
    *("PROGRAM_ADDRESS", "PROGRAM_BYTES", "CYCLES", "CYCLES_HIGH"),
    *("MARK_COUNT", "MARK_INDEX", "MARK_LAYER", "MARK_CYCLE"),
)
"""Those that a page reads and writes, beside the event counters."""


@dataclasses.dataclass(frozen=True)
class Demo:
    """A network of a page."""

    name: str
    """Its name, as in the names of its files."""
    title: str
    """What readers choose it by."""
    programs: dict[str, Program]
    """The program for each configuration, by its name."""
    shown: dict[str, Any]
    """What the page's part for this kind of network asks for; `kind` names the part."""


def program_file(demo: str, machine: str) -> str:
    """The name of a program's file."""
    return f"{demo}_{machine}.tsc"


def machine_file(machine: str) -> str:
    """The name of a machine's file."""
    return f"{machine}.wasm"


def catalog_of(demos: Sequence[Demo], configs: Sequence[Config]) -> dict[str, Any]:
    """The catalog of a page with these networks, each on those of the machines that it has a program for."""
    control, irq = REGISTER["CONTROL"], REGISTER["IRQ"]
    return {
        "magic": MAGIC.decode("latin1"),
        "isa_hash": ISA_HASH,
        "registers": {name: REGISTER[name].offset for name in REGISTERS}
        | {"EVENTS": REGISTER[EVENT_COUNTERS[0].upper()].offset},
        "start": sum(control.field(name).mask for name in ("irq_enable", "start")),
        "acknowledge": irq.mask(FieldAccess.W1C),
        "error": REGISTER["STATUS"].field("error").mask,
        "errors": {int(error): error.name for error in Error},
        "watchdog_cycles": WATCHDOG_RESET_CYCLES,
        "events": list(EVENT_COUNTERS),
        "units": {unit.name: list(states.items()) for unit, states in STATES.items()},
        "machines": [
            {
                "name": config.name,
                "title": f"{config.name} ({config.rows} × {config.columns} multipliers)",
                "wasm": machine_file(config.name),
                "bus_bytes": config.bus_bytes,
            }
            for config in configs
        ],
        "demos": [
            {"name": demo.name, "title": demo.title, **demo.shown}
            | {"programs": {name: program_file(demo.name, name) for name in demo.programs}}
            for demo in demos
        ],
    }
