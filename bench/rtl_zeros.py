"""Bits of registers and memories that are 0 for ever, because all that is written there is 0 when they are.

Registers without a reset, and memories, are taken to begin with 0, as they do in an FPGA and in the simulators.
"""

import re
from collections.abc import Mapping

from rtl_unread import Bit, Cell

_MOST_TURNS = 50
"""Of the search: each turn takes some bits away."""


class Zeros:
    """The bits of registers and memories of a netlist, Yosys' JSON of a flat module, that are always 0."""

    def __init__(self, cells: Mapping[str, Cell]):
        self._made: dict[Bit, tuple[Cell, int]] = {}
        self._states = dict[Bit, list[Bit]]()
        """Of each bit of a register, or column of a memory: the bits that are written there."""
        self._columns = dict[Bit, Bit]()
        """Of each bit that is read of a memory: its column."""
        for cell in cells.values():
            kind, ports, given = cell["type"], cell["connections"], cell["parameters"]
            if kind.startswith("$memwr"):
                for index, bit in enumerate(ports["DATA"]):
                    self._states.setdefault(f"{given['MEMID']} {index}", []).append(bit)
            elif kind.startswith("$memrd"):
                for index, bit in enumerate(ports["DATA"]):
                    self._columns[bit] = f"{given['MEMID']} {index}"
            elif re.fullmatch(r"\$s?dff(e|ce)?", kind):
                resets = given.get("SRST_VALUE", "0" * len(ports["Q"]))[::-1]
                for bit, data, reset in zip(ports["Q"], ports["D"], resets, strict=True):
                    self._states[bit] = [data, reset]
            elif "Y" in ports:
                for index, bit in enumerate(ports["Y"]):
                    self._made[bit] = cell, index
        self.bits: set[Bit] = {state for state in self._states if isinstance(state, int)}
        self._columns_left = {state for state in self._states if isinstance(state, str)}
        for _ in range(_MOST_TURNS):
            self._known: dict[Bit, int | None] = {}
            left = {state for state in self.bits | self._columns_left if self._stays(state)}
            if left == self.bits | self._columns_left:
                break
            self.bits, self._columns_left = self.bits & left, self._columns_left & left
        else:
            self.bits, self._columns_left = set(), set()
        self.bits |= {bit for bit, column in self._columns.items() if column in self._columns_left}

    def _stays(self, state: Bit) -> bool:
        return all(self._value(bit) == 0 for bit in self._states[state])

    def _value(self, bit: Bit) -> int | None:
        """0 or 1, if that is certain."""
        if isinstance(bit, str):
            return int(bit) if bit in "01" else None
        if bit in self._states:
            return 0 if bit in self.bits else None
        if bit in self._columns:
            return 0 if self._columns[bit] in self._columns_left else None
        if bit not in self._known:
            self._known[bit] = None
            if bit in self._made:
                self._known[bit] = self._computed(*self._made[bit])
        return self._known[bit]

    def _computed(self, cell: Cell, index: int) -> int | None:
        kind, ports = cell["type"], cell["connections"]

        def at(port: str) -> int | None:
            return self._value(ports[port][index]) if index < len(ports[port]) else None

        if kind == "$and":
            return 0 if 0 in (at("A"), at("B")) else None
        if kind == "$or":
            return 0 if at("A") == at("B") == 0 else None
        if kind == "$mux":
            choice = self._value(ports["S"][0])
            if choice is not None:
                return at("AB"[choice])
            return 0 if at("A") == at("B") == 0 else None
        if kind == "$pmux":
            values = [self._value(bit) for bit in ports["B"][index :: len(ports["A"])]]
            return 0 if all(value == 0 for value in (at("A"), *values)) else None
        if kind in ("$reduce_or", "$reduce_bool"):
            return 0 if index or all(self._value(bit) == 0 for bit in ports["A"]) else None
        return None
