"""The activation memory is one memory of bytes for all its ports, for all addresses, aligned or not, and all accesses
at once: any one byte is followed. By induction, for a small memory of two banks, which the rest of the address only
makes longer."""

import dataclasses
from typing import ClassVar

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Module, Signal
from amaranth.utils import exact_log2
from proving import before, constant, elaborated, implies, inputs_of, prove_by_induction

from tosaic.hw.config import CONFIGS
from tosaic.hw.interfaces import AmPairRead
from tosaic.hw.memory.activation import ActivationMemory

pytestmark = pytest.mark.nightly
SMALL = dataclasses.replace(CONFIGS["nano"], am_bytes=64, am_banks=2)
W = SMALL.word_bytes
ADDRESS_BITS = exact_log2(SMALL.am_bytes)


class KeptAccesses(ActivationMemory):
    """What a port prepares stays on it until it prepares again, which the memory does not look at: so the registers of
    a prepared access are told by what is on the port."""

    prepared: ClassVar[dict[int, Signal]] = {}
    """Whether each port prepared anything at all."""

    def __init__(self, config):
        super().__init__(config)
        self.ports = (self.vector_read, self.array_read, self.store_read, self.vector_write, self.load_write)
        KeptAccesses.prepared = {id(port): Signal(name="prepared") for port in self.ports}

    @staticmethod
    def _prepared(m, port, value, name):
        register = ActivationMemory._prepared(m, port, value, name)
        shown = Signal(len(value), name=f"{name}_shown")
        m.d.comb += [
            shown.eq(value),
            Assert(implies(KeptAccesses.prepared[id(port)], register == before(m, shown))),
        ]
        return register


class Prepared:
    """A port's access, as it was prepared last: its address, and, of a write, its data and mask."""

    def __init__(self, m, port, **fields):
        self.port = port
        self.address = Signal(ADDRESS_BITS)
        self.kept = {name: Signal.like(value, name=name) for name, value in fields.items()}
        once = KeptAccesses.prepared[id(port)]
        with m.If(port.prepare):
            m.d.sync += [once.eq(1), self.address.eq(port.address)]
            m.d.sync += [self.kept[name].eq(value) for name, value in fields.items()]
        m.d.comb += Assume(implies(port.request, once))
        shown = {"address": port.address, **fields}
        if isinstance(port.signature, AmPairRead):
            shown |= {"paired": port.paired, "second": port.second}
        m.d.comb += [Assume(implies(~port.prepare, value == before(m, value))) for value in shown.values()]
        kept = {"address": self.address, **self.kept}
        m.d.comb += [
            Assert(implies(once, kept[name] == before(m, shown[name])[: len(kept[name])])) for name in kept
        ]

    def lane_of(self, byte, address=None):
        """The lane that the byte has in the access, if it is less than W."""
        return (byte - (self.address if address is None else address))[:ADDRESS_BITS]


def test_a_read_gives_what_was_written_last(tmp_path):
    """A granted write with its lane's mask changes a byte, nothing else does, and each granted read gives the byte's
    value at the grant, unless it is written in this cycle. Reads that are granted together do not disturb each other,
    nor do writes; only VECTOR's hold up LOAD's writes and ARRAY's reads, and VECTOR's and ARRAY's hold up STORE's."""
    m = Module()
    dut = elaborated(m, "dut", KeptAccesses(SMALL))
    byte = constant(m, Signal(ADDRESS_BITS, name="byte"))
    held, inside = Signal(8), m.submodules.dut.submodules
    writes = [
        Prepared(m, port, data=port.data, mask=port.mask) for port in (dut.vector_write, dut.load_write)
    ]
    changed = []
    for write in writes:
        lane, mask = write.lane_of(byte), write.kept["mask"]
        hits = write.port.grant & (lane < W) & mask.bit_select(lane[: exact_log2(W)], 1)
        changed.append(hits)
        with m.If(hits):
            m.d.sync += held.eq(write.kept["data"].word_select(lane[: exact_log2(W)], 8))
    # The byte's place: bank, row, even or odd word, lane.
    offset_bits, row_bits = exact_log2(W), exact_log2(SMALL.am_bank_bytes // W // 2)
    odd, row, bank = byte[offset_bits], byte[offset_bits + 1 :][:row_bits], byte[offset_bits + 1 + row_bits :]
    stored = []
    for number in range(SMALL.am_banks):
        for half in ("even", "odd"):
            shown = getattr(inside, f"bank{number}_{half}").read_port(domain="comb")
            m.d.comb += shown.addr.eq(row)
            stored.append(shown.data.word_select(byte[:offset_bits], 8))
    m.d.comb += [
        Assert(Array(stored)[Cat(odd, bank)] == held),
        Assert(~(changed[0] & changed[1])),
        Assert(dut.vector_write.grant == dut.vector_write.request),
        Assert(dut.vector_read.grant == dut.vector_read.request),
        Assert(implies(dut.load_write.request & ~dut.vector_write.request, dut.load_write.grant)),
        Assert(implies(dut.array_read.request & ~dut.vector_read.request, dut.array_read.grant)),
        Assert(
            implies(
                dut.store_read.request & ~dut.array_read.request & ~dut.vector_read.request,
                dut.store_read.grant,
            )
        ),
    ]
    for port in (dut.vector_read, dut.array_read, dut.store_read):
        read = Prepared(m, port, **({"paired": port.paired} if port is dut.array_read else {}))
        lane = read.lane_of(byte)
        hits = port.grant & (lane < W) & ~changed[0] & ~changed[1]
        if port is dut.array_read:
            hits &= ~read.kept["paired"]
        due, place, value = before(m, before(m, hits)), before(m, before(m, lane)), before(m, before(m, held))
        m.d.comb += Assert(implies(due, port.data.word_select(place[:offset_bits], 8) == value))
    prove_by_induction(m, tmp_path, [*inputs_of(dut), byte], steps=4)
