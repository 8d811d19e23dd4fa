"""The register bank, generated from the register map."""

import collections.abc

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..csr_map import FieldAccess, Register
from .axi_lite import RegisterBus

_STORED = (FieldAccess.RW, FieldAccess.SET)
_HARDWARE = (FieldAccess.RO, FieldAccess.W1C)
_COMMAND = (FieldAccess.PULSE, FieldAccess.W1C)


class RegisterBank(wiring.Component):
    """Storage and decoding of a list of registers.

    Ports:
        `bus`: accesses. Errors: no register at the address; a write to a register whose fields are all read
            only.
        `<register>_value`, 32 bits, for every register with fields the hardware sets (RO, W1C): what they
        read as.
        `<register>_stored`, 32 bits, for every register with RW or SET fields: what was written, `reset` before.
        `<register>_written`, 32 bits, for every register with PULSE or W1C fields: the bits written as 1 in
        this cycle.
    """

    def __init__(self, registers: collections.abc.Sequence[Register]):
        offsets = [register.offset for register in registers]
        if len(set(offsets)) != len(offsets):
            raise ValueError("two registers have the same offset")
        for register in registers:
            if register.offset % 4 or not 0 <= register.offset < 4096:
                raise ValueError(
                    f"{register.name}'s offset must be a multiple of 4 below 4096, not {register.offset:#x}"
                )
        self.registers = tuple(registers)
        members: dict[str, wiring.Member] = {"bus": In(RegisterBus())}
        for register in registers:
            name = register.name.lower()
            if register.mask(*_HARDWARE):
                members[f"{name}_value"] = In(32)
            if stored := register.mask(*_STORED):
                members[f"{name}_stored"] = Out(32, init=(register.reset or 0) & stored)
            if register.mask(*_COMMAND):
                members[f"{name}_written"] = Out(32)
        super().__init__(members)

    def value(self, register: str) -> Signal:
        """The port `<register>_value`."""
        return getattr(self, f"{register.lower()}_value")

    def stored(self, register: str) -> Signal:
        """The port `<register>_stored`."""
        return getattr(self, f"{register.lower()}_stored")

    def written(self, register: str) -> Signal:
        """The port `<register>_written`."""
        return getattr(self, f"{register.lower()}_written")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        written_bits = Signal(32)
        strobed = Signal(32)
        m.d.comb += [
            strobed.eq(Cat(bit.replicate(8) for bit in bus.write_strobe)),
            written_bits.eq(bus.write_data & strobed),
        ]

        with m.Switch(bus.read_address):
            for register in self.registers:
                with m.Case(register.offset >> 2):
                    m.d.comb += bus.read_data.eq(self._read(register))
            with m.Default():
                m.d.comb += bus.read_error.eq(1)

        m.d.comb += bus.write_error.eq(1)
        with m.Switch(bus.write_address):
            for register in self.registers:
                if not register.mask(*_STORED, *_COMMAND):
                    continue
                with m.Case(register.offset >> 2):
                    m.d.comb += bus.write_error.eq(0)
                    with m.If(bus.write):
                        self._write(m, register, strobed, written_bits)
        return m

    def _write(self, m: Module, register: Register, strobed: Signal, written_bits: Signal) -> None:
        """Executes a write whose bytes with `strobed` bits are `written_bits`, and 0 elsewhere."""
        if register.mask(*_STORED):
            stored = self.stored(register.name)
            kept = (stored & ~strobed | written_bits) & register.mask(FieldAccess.RW)
            with m.If(~self._locked(register)):
                m.d.sync += stored.eq(kept | (stored | written_bits) & register.mask(FieldAccess.SET))
        if mask := register.mask(*_COMMAND):
            m.d.comb += self.written(register.name).eq(written_bits & mask)

    def _locked(self, register: Register) -> Value:
        if not register.lock:
            return Const(0, 1)
        lock = next(other for other in self.registers if other.name == "LOCK")
        return self.lock_stored[lock.field(register.lock).lsb]

    def _read(self, register: Register) -> Value:
        value: Value = Const(0, 32)
        if mask := register.mask(*_HARDWARE):
            value = value | self.value(register.name) & mask
        if register.mask(*_STORED):
            value = value | self.stored(register.name)
        return value
