"""The signatures between the blocks. Every port is described from the requester's side (`Out` = driven by it)."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .config import Config

AM_READ_LATENCY = 2
"""Cycles from a granted activation-memory read to its data."""
VECTOR_READ_LATENCY = AM_READ_LATENCY + 1
"""The vector unit's, from the cycle in which it prepares a read; it is granted in the next one."""
WM_READ_LATENCY = 2
"""Cycles from a weight-memory read to its data."""

Command = stream.Signature(unsigned(128))
"""Instructions on their way to a unit; the unit is the receiver."""


def accumulators(config: Config) -> stream.Signature:
    """Vectors of W int32 accumulators from the array to the vector unit."""
    return stream.Signature(data.ArrayLayout(unsigned(32), config.columns))


class AmRead(wiring.Signature):
    """An unaligned read of W bytes of activation memory.

    `address` of a cycle with `prepare` is that of every `request` from the next cycle on, up to and with the next
    `prepare`. In a cycle with `request` and `grant` (combinational) the read is taken, and `data` holds byte `address`
    in its lowest byte exactly AM_READ_LATENCY cycles later. Addresses wrap at am_bytes.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "prepare": Out(1),
                "address": Out(24),
                "request": Out(1),
                "grant": In(1),
                "data": In(8 * config.columns),
            }
        )


class AmPairRead(wiring.Signature):
    """An AmRead that may be `paired`: then `address` and `second` are multiples of W, one an even and one an odd
    multiple, and `second_data` is the word at `second`, when `data` is the one at `address`. Both come with `prepare`.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "prepare": Out(1),
                "address": Out(24),
                "paired": Out(1),
                "second": Out(24),
                "request": Out(1),
                "grant": In(1),
                "data": In(8 * config.columns),
                "second_data": In(8 * config.columns),
            }
        )


class AmWrite(wiring.Signature):
    """An unaligned write of up to W bytes of activation memory; `mask` bit i writes byte `address` + i.

    `address`, `data` and `mask` of a cycle with `prepare` are those of every `request` from the next cycle on, up to
    and with the next `prepare`. The write is taken in the cycle with `request` and `grant`; a read granted in the next
    cycle or later sees it.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "prepare": Out(1),
                "address": Out(24),
                "data": Out(8 * config.columns),
                "mask": Out(config.columns),
                "request": Out(1),
                "grant": In(1),
            }
        )


class Lookahead(wiring.Signature):
    """The instruction behind the one at the head of a queue, so that it can be decoded into registers.

    In a cycle with `moves`, `following` is what the queue's payload is from the next cycle on, if there is one.
    """

    def __init__(self) -> None:
        super().__init__({"moves": Out(1), "following": Out(128)})


class WmRead(wiring.Signature):
    """A read of one word of weights, always taken; `data` is valid WM_READ_LATENCY cycles after `enable`."""

    def __init__(self, config: Config):
        super().__init__({"enable": Out(1), "address": Out(20), "data": In(8 * config.columns)})


class WmWrite(wiring.Signature):
    """A write of one word of weights, always taken."""

    def __init__(self, config: Config):
        super().__init__({"enable": Out(1), "address": Out(20), "data": Out(8 * config.columns)})


class Tokens(wiring.Signature):
    """A unit's access to the semaphores.

    `wait` asks for `count` of `semaphore`, and goes on asking for the same until `ok`: in that cycle they are
    subtracted and the unit goes on. `ok` is of an earlier cycle's comparison, so `wait` does not reach it
    combinationally. `signal` adds `signal_count` to `signal_semaphore`; only while `signal_full`, which comes from a
    register, is low.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "wait": Out(1),
                "semaphore": Out(4),
                "count": Out(8),
                "ok": In(1),
                "signal": Out(1),
                "signal_full": In(1),
                "signal_semaphore": Out(4),
                "signal_count": Out(8),
            }
        )


class Status(wiring.Signature):
    """What a unit tells the sequencer and the counters.

    `busy`: a command is being executed or its effects are not complete. `progress`: something moved in this
    cycle (keeps the watchdog quiet). `error`: a fault in this cycle, with its isa.Error `code`.
    """

    def __init__(self) -> None:
        super().__init__({"busy": Out(1), "progress": Out(1), "error": Out(1), "code": Out(4)})


class AxiRead(wiring.Signature):
    """AXI4 read channels of a manager. INCR bursts of full-width beats; `id` tells the requester."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "arid": Out(2),
                "araddr": Out(32),
                "arlen": Out(8),
                "arsize": Out(3),
                "arburst": Out(2),
                "arvalid": Out(1),
                "arready": In(1),
                "rid": In(2),
                "rdata": In(8 * config.columns),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AxiWrite(wiring.Signature):
    """AXI4 write channels of a manager. INCR bursts of full-width beats."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "awid": Out(2),
                "awaddr": Out(32),
                "awlen": Out(8),
                "awsize": Out(3),
                "awburst": Out(2),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(8 * config.columns),
                "wstrb": Out(config.columns),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(2),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )


class AxiLite(wiring.Signature):
    """AXI4-Lite of a manager, 32 bits of data, 12 bits of address (the control port is its subordinate: In)."""

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(12),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(12),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


__all__ = [
    "AM_READ_LATENCY",
    "VECTOR_READ_LATENCY",
    "WM_READ_LATENCY",
    "AmPairRead",
    "AmRead",
    "AmWrite",
    "AxiLite",
    "AxiRead",
    "AxiWrite",
    "Command",
    "Lookahead",
]
__all__ += ["Status", "Tokens", "WmRead", "WmWrite", "accumulators", "In", "Out"]
