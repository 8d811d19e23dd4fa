"""What holds in every state of the RTL that can be reached, for the solver: for it alone each state is possible.

- Bits of registers and memories that are 0 for ever (rtl_zeros.py): those of a part that the configuration does not
  have, for example.
- Rules about queues, VECTOR's parameters and the program's fetch, each proved by induction (rtl_machine.py).

All this is true of the machine without a fault, and is asked of that one alone. A change that does nothing in any of
these states never leads out of them. What registers hold before the first reset is left out, as results do not depend
on it (tests/rtl/test_rtl_unknown_start.py).
"""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from rtl_logic import Fact, State
from rtl_machine import Machine, invariant
from rtl_unread import Bit
from rtl_zeros import Zeros

Wires = Mapping[str, Sequence[Bit]]
PARAMETERS = "vector.fetch."
WORDS = {"word": "$like", "last": "$like$27"}
KINDS = ("bias", "narrow_bias", "multiplier", "shift", "table", "offsets")
FETCH, LEFT, FETCH_ASKS = "sequencer.fetch.", "$signal$5", "axi__arvalid$92"
MOST_INSTRUCTIONS_BITS = 24
"""No program has more than 2**24 instructions."""


def reachable(module: Mapping[str, Any], folder: pathlib.Path) -> list[Fact]:
    """What is proved of the states of a netlist."""
    machine, zeros = Machine(module), Zeros(module["cells"]).bits
    proved = [rule for rule in rules(machine) if invariant(machine, (rule,), folder)]
    return [lambda state: state.no(state.either(state.values(sorted(zeros, key=str)))), *proved]


def rules(machine: Machine) -> list[Fact]:
    """Those whose signals the netlist has."""
    return [*_queues(machine), *_parameters(machine.wires), *_program(machine.wires)]


def _queues(machine: Machine) -> list[Fact]:
    """A queue's memory has several words only while its output has one, too."""
    levels = {
        tuple(bits): name.removesuffix("level") + "inner_level"
        for name, bits in machine.wires.items()
        if name.endswith(".fifo.level")
    }
    found = []
    for cell in machine.cells.values():
        ports = cell["connections"]
        inner = machine.wires.get(levels.get(tuple(ports.get("Y", ())), ""))
        if cell["type"] == "$add" and inner == ports["A"] and len(ports["B"]) == 1:
            found.append(_queue(inner, ports["B"]))
    return found


def _queue(inner: Sequence[Bit], ready: Sequence[Bit]) -> Fact:
    return lambda state: state.either((*state.values(ready), state.no(state.either(state.values(inner[1:])))))


def _parameters(wires: Wires) -> list[Fact]:
    names = (*WORDS.values(), *(f"{kind}_left" for kind in KINDS))
    return [word_of_kind] if all(f"accelerator.{PARAMETERS}{name}" in wires for name in names) else []


def word_of_kind(state: State) -> Bit:
    """VECTOR's parameters: the number of a word is one that the first kind that is left has."""
    word, last = (state.bits(PARAMETERS + WORDS[key]) for key in ("word", "last"))
    first = state.no(state.either(word))
    of_four, of_two = (state.no(state.either(word[place:])) for place in (2, 1))
    limits = {"bias": of_four, "narrow_bias": of_two, "multiplier": of_four, "shift": first}
    limits |= dict.fromkeys(("table", "offsets"), state.at_most(word, last))
    result = first
    for kind in reversed(KINDS):
        left = state.either(state.bits(f"{PARAMETERS}{kind}_left"))
        result = state.logic.choose(left, limits[kind], result)
    return result


def range_is_checked(state: State) -> Bit:
    """When a program starts it is known whether it lies within the window: what says where was written before."""
    known, is_so = state.bits("sequencer.$signal$49"), state.bits("sequencer.$28")
    return state.implies(state.bit("array.clear"), state.same(known, is_so))


def reset_is_reported(state: State) -> Bit:
    """While the core is reset no start is written: the machine says that it is resetting, or its ports are reset."""
    reported = state.bit("control_port.run__report.resetting")
    written = state.bit("control_port.axi_lite.bus__write")
    return state.implies(state.bit("core_reset"), state.either((reported, state.no(written))))


def _program(wires: Wires) -> list[Fact]:
    """The sequencer's fetch: no more is asked for than is left, and no program is longer than one can be, as what is
    longer does not lie within the window."""
    return [within_the_program] if f"accelerator.{FETCH}{LEFT}" in wires else []


def within_the_program(state: State) -> Bit:
    left, entries, fits = (state.bits(FETCH + name) for name in (LEFT, "$signal$36", "$signal$9"))
    waits = state.either((state.bit(FETCH_ASKS), state.no(fits[0])))
    rules = [state.either((waits, state.at_most(entries, left)))]
    rules += [state.no(state.either(left[MOST_INSTRUCTIONS_BITS:]))]
    return state.all((*rules, range_is_checked(state), reset_is_reported(state)))


__all__ = [
    *("FETCH_ASKS", "range_is_checked", "reachable", "reset_is_reported", "rules", "within_the_program"),
    "word_of_kind",
]
