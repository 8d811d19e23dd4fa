"""The signatures between the blocks, seen from the requester: it drives a port that is `Out`.

Widths come from the instruction set: a port that carries a field is as wide as the field.
"""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from .config import Config
from .isa import INSTRUCTION_BYTES, Error, Opcode, width

AM_READ_LATENCY = 2
"""Cycles from a granted activation-memory read to its data."""
VECTOR_READ_LATENCY = AM_READ_LATENCY + 1
"""The vector unit's, from the cycle in which it prepares a read; it is granted in the next one."""
WM_READ_LATENCY = 2
"""Cycles from a weight-memory read to its data."""

INSTRUCTION_BITS = 8 * INSTRUCTION_BYTES
MEMORY_ADDRESS_BITS = width(Opcode.LOAD_GO, "memory_address")
LOCAL_ADDRESS_BITS = width(Opcode.LOAD_GO, "local_address")
"""Byte address in the activation memory or in the weight memory."""
WM_ADDRESS_BITS = width(Opcode.ARRAY_GO, "weights")
"""Word address in the weight memory."""
SEMAPHORE_BITS = width(Opcode.LOAD_WAIT, "semaphore")
COUNT_BITS = width(Opcode.LOAD_WAIT, "count")
"""Tokens that a WAIT takes or a SIGNAL gives."""
ERROR_BITS = bits_for(max(Error))

Command = stream.Signature(unsigned(INSTRUCTION_BITS))
"""Instructions on their way to a unit; the unit is the receiver."""


def accumulators(config: Config) -> stream.Signature:
    """Vectors of W int32 accumulators from the array to the vector unit."""
    return stream.Signature(data.ArrayLayout(unsigned(32), config.columns))


class AmRead(wiring.Signature):
    """An unaligned read of W bytes of activation memory. Addresses wrap at am_bytes.

    Ports:
        prepare (1, out): `address` is that of every `request` from the next cycle on, until the next `prepare`.
        address (LOCAL_ADDRESS_BITS, out): byte that becomes the lowest one of `data`.
        request (1, out): asks for the prepared read.
        grant (1, in): takes the read in a cycle with `request`; combinational.
        data (8 W, in): the bytes, exactly AM_READ_LATENCY cycles after the grant.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "prepare": Out(1),
                "address": Out(LOCAL_ADDRESS_BITS),
                "request": Out(1),
                "grant": In(1),
                "data": In(8 * config.columns),
            }
        )


class AmPairRead(wiring.Signature):
    """An AmRead that can ask for two aligned words at once, an even and an odd one.

    Ports beside those of AmRead:
        paired (1, out): comes with `prepare`; `address` and `second` are an even and an odd multiple of W, or reverse.
        second (LOCAL_ADDRESS_BITS, out): byte address of the other word; comes with `prepare`.
        second_data (8 W, in): the word at `second`, in the cycle in which `data` is the one at `address`.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                **AmRead(config).members,
                "paired": Out(1),
                "second": Out(LOCAL_ADDRESS_BITS),
                "second_data": In(8 * config.columns),
            }
        )


class AmWrite(wiring.Signature):
    """An unaligned write of up to W bytes of activation memory. A read granted in the next cycle or later sees it.

    Ports:
        prepare (1, out): the three below are those of every `request` from the next cycle on, until the next `prepare`.
        address (LOCAL_ADDRESS_BITS, out): byte that takes the lowest one of `data`.
        data (8 W, out): the bytes.
        mask (W, out): bit i writes byte `address` + i.
        request (1, out): asks for the prepared write.
        grant (1, in): takes the write in a cycle with `request`; combinational.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "prepare": Out(1),
                "address": Out(LOCAL_ADDRESS_BITS),
                "data": Out(8 * config.columns),
                "mask": Out(config.columns),
                "request": Out(1),
                "grant": In(1),
            }
        )


class Lookahead(wiring.Signature):
    """The instruction that follows the one at the head of a queue, so that it can be decoded into registers.

    Ports:
        moves (1, out): the queue's payload changes at the end of this cycle.
        following (INSTRUCTION_BITS, out): the payload from the next cycle on, in a cycle with `moves`, if there is one.
    """

    def __init__(self) -> None:
        super().__init__({"moves": Out(1), "following": Out(INSTRUCTION_BITS)})


class WmRead(wiring.Signature):
    """A read of one word of weights, and of one for each lower part of the rows, always taken. Words that are read in
    the same cycle lie in different banks.

    Ports:
        enable (1, out): reads word `address`.
        address (WM_ADDRESS_BITS, out): number of the word.
        data (8 W, in): the word, WM_READ_LATENCY cycles after `enable`.
        part_enable (a bit per bank but one, out): reads the part's word.
        part_address (WM_ADDRESS_BITS per bank but one, out): its number.
        part_data (8 W per bank but one, in): the word, as late as `data`.
    """

    def __init__(self, config: Config):
        parts = config.most_row_parts - 1
        super().__init__(
            {
                "enable": Out(1),
                "address": Out(WM_ADDRESS_BITS),
                "data": In(8 * config.columns),
                "part_enable": Out(parts),
                "part_address": Out(WM_ADDRESS_BITS * parts),
                "part_data": In(8 * config.columns * parts),
            }
        )


class WmWrite(wiring.Signature):
    """A write of one word of weights, always taken.

    Ports:
        enable (1, out): writes `data` to word `address`.
        address (WM_ADDRESS_BITS, out): number of the word.
        data (8 W, out): the word.
    """

    def __init__(self, config: Config):
        super().__init__({"enable": Out(1), "address": Out(WM_ADDRESS_BITS), "data": Out(8 * config.columns)})


class Tokens(wiring.Signature):
    """A unit's access to the semaphores.

    Ports:
        wait (1, out): asks for tokens, and goes on asking for the same ones until `ok`.
        semaphore (SEMAPHORE_BITS, out): where they are.
        count (COUNT_BITS, out): how many.
        ok (1, in): they are subtracted and the unit goes on; compared in an earlier cycle, so not a path from `wait`.
        signal (1, out): adds tokens; only while `signal_full` is low.
        signal_full (1, in): from a register.
        signal_semaphore (SEMAPHORE_BITS, out): where they go.
        signal_count (COUNT_BITS, out): how many.
        signal_cores (core_mask_bits, out): to which cores; 0: the own one.
    """

    def __init__(self, core_mask_bits: int = 0) -> None:
        super().__init__(
            {
                "wait": Out(1),
                "semaphore": Out(SEMAPHORE_BITS),
                "count": Out(COUNT_BITS),
                "ok": In(1),
                "signal": Out(1),
                "signal_full": In(1),
                "signal_semaphore": Out(SEMAPHORE_BITS),
                "signal_count": Out(COUNT_BITS),
                "signal_cores": Out(core_mask_bits),
            }
        )


class UnitStatus(wiring.Signature):
    """What a unit tells the sequencer and the counters.

    Ports:
        busy (1, out): a command is being executed, or its effects are not complete.
        progress (1, out): something moved in this cycle, which keeps the watchdog quiet.
        error (1, out): there is a fault in this cycle.
        code (ERROR_BITS, out): the fault's isa.Error.
    """

    def __init__(self) -> None:
        super().__init__({"busy": Out(1), "progress": Out(1), "error": Out(1), "code": Out(ERROR_BITS)})


ID_BITS = 2
"""AXI IDs of a core, of which 0 and 1 are used."""


def bus_id_bits(config: Config) -> int:
    """Bits of an ID on the port that the cores share."""
    return max(ID_BITS, config.cores.bit_length())


class AxiRead(wiring.Signature):
    """AXI4 read channels of a manager, its ports by the names of the specification.

    Bursts are INCR, of full-width beats: of a core, or with `shared` of the port that the cores share. `arid` tells the
    requester: bit 0 LOAD or the program's fetch, the bits above of the shared port the core.
    """

    def __init__(self, config: Config, *, shared: bool = False):
        data_bytes, id_bits = (
            (config.bus_bytes, bus_id_bits(config)) if shared else (config.word_bytes, ID_BITS)
        )
        super().__init__(
            {
                "arid": Out(id_bits),
                "araddr": Out(MEMORY_ADDRESS_BITS),
                "arlen": Out(8),
                "arsize": Out(3),
                "arburst": Out(2),
                "arvalid": Out(1),
                "arready": In(1),
                "rid": In(id_bits),
                "rdata": In(8 * data_bytes),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AxiWrite(wiring.Signature):
    """AXI4 write channels of a manager, its ports by the names of the specification. Bursts are INCR, of full-width
    beats: of a core, or with `shared` of the port that the cores share, whose `awid` tells the core as `arid` does."""

    def __init__(self, config: Config, *, shared: bool = False):
        data_bytes, id_bits = (
            (config.bus_bytes, bus_id_bits(config)) if shared else (config.word_bytes, ID_BITS)
        )
        super().__init__(
            {
                "awid": Out(id_bits),
                "awaddr": Out(MEMORY_ADDRESS_BITS),
                "awlen": Out(8),
                "awsize": Out(3),
                "awburst": Out(2),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(8 * data_bytes),
                "wstrb": Out(data_bytes),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(id_bits),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )


def high_address(config: Config, name: str) -> dict[str, wiring.Member]:
    """Returns an output of this name for what an address on the memory port has above 32 bits, if it has."""
    bits = config.address_bits - MEMORY_ADDRESS_BITS
    return {name: Out(bits)} if bits else {}


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
