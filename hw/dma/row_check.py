"""The CRC of the rows that LOAD brings, beat by beat."""

import zlib

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..row_crc import CRC_BITS

_ONES = (1 << CRC_BITS) - 1


def _after(register: int, beat: bytes) -> int:
    """Returns the register behind a beat; linear in both."""
    return zlib.crc32(beat, register ^ _ONES) ^ _ONES


class RowCheck(wiring.Component):
    """CRC-32 of beats, of whose bytes those that do not count are taken for 0 (`row_crc.rows_crc`).

    Ports:
        beat (1, in): a beat counts in this cycle.
        data (8 W, in): its bytes.
        lanes (W, in): which of them count.
        compare (1, in): compares with `expected` and begins anew; at the earliest two cycles after the last beat.
        expected (CRC_BITS, in): the CRC of the beats since the last `compare`.
        wrong (1, out): in the cycle before, they differed.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "beat": In(1),
                "data": In(8 * config.word_bytes),
                "lanes": In(config.word_bytes),
                "compare": In(1),
                "expected": In(CRC_BITS),
                "wrong": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat_bytes = len(self.lanes)
        of_register = [_after(1 << bit, bytes(beat_bytes)) for bit in range(CRC_BITS)]
        of_data = [_after(0, (1 << bit).to_bytes(beat_bytes, "little")) for bit in range(8 * beat_bytes)]
        counted = Cat(
            self.data.word_select(lane, 8) & self.lanes[lane].replicate(8) for lane in range(beat_bytes)
        )
        # The beat's part of the sum takes a cycle of its own.
        register = Signal(CRC_BITS, init=_ONES)
        part, there = Signal(CRC_BITS, reset_less=True), Signal()
        m.d.sync += [
            there.eq(self.beat),
            part.eq(_sums(counted, of_data)),
            self.wrong.eq(self.compare & (register != ~self.expected)),
        ]
        with m.If(self.compare):
            m.d.sync += register.eq(_ONES)
        with m.Elif(there):
            m.d.sync += register.eq(_sums(register, of_register) ^ part)
        return m


def _sums(bits: Value, columns: list[int]) -> Value:
    """Returns the sum, modulo 2, of the columns whose bit is set."""
    return Cat(
        Cat(bit for bit, column in zip(bits, columns, strict=True) if column >> place & 1).xor()
        for place in range(CRC_BITS)
    )


__all__ = ["RowCheck"]
