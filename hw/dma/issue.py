"""Turns a DMA unit's commands into transfers: WAIT, PITCH, and what goes on to the splitter."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..interfaces import COUNT_BITS, SEMAPHORE_BITS, Command
from ..isa import Opcode, Space, Unit, layout, width
from ..row_crc import CRC_BITS
from .bursts import Transfer
from .decode import BlockJob
from .pack import pack

_OPCODES = {
    Unit.LOAD: (Opcode.LOAD_WAIT, Opcode.LOAD_SIGNAL, Opcode.LOAD_PITCH, Opcode.LOAD_GO),
    Unit.STORE: (Opcode.STORE_WAIT, Opcode.STORE_SIGNAL, Opcode.STORE_PITCH, Opcode.STORE_GO),
}


class CommandIssue(wiring.Component):
    """Executes WAIT and PITCH of the LOAD or STORE unit, TENSOR, STREAMS and CHECK of a LOAD unit that has them, and
    passes GOs, DECODEs and SIGNALs on as transfers.

    One command per cycle. Transfers are not delayed (combinational).

    Ports:
        commands (stream of instructions, in): those of this unit; a WAIT stays at the head until its tokens are there.
        transfers (stream of Transfer, out): GOs, DECODEs, SIGNALs and, marked illegal, what is no command of the unit.
        blocks (stream of BlockJob, out): only with a decoder: each DECODE, in the cycle in which it goes to
            `transfers`. `ready` must come from a register.
        wait (1, out): as in Tokens.
        semaphore (SEMAPHORE_BITS, out): as in Tokens.
        count (COUNT_BITS, out): as in Tokens.
        ok (1, in): as in Tokens.
        halt (1, in): no command is taken but WAIT.
        settled (1, in): only of LOAD with `load_crc`: everything before the command is complete; CHECK waits for it.
        check (1, out): a CHECK is taken.
        crc (32, out): what it expects.
    """

    def __init__(self, unit: Unit, config: Config):
        if unit not in _OPCODES:
            raise ValueError(f"unit must be LOAD or STORE, not {unit!r}")
        self.unit, self.config = unit, config
        self._decodes = unit == Unit.LOAD and config.cabac_engines > 0
        self._checks = unit == Unit.LOAD and config.load_crc > 0
        super().__init__(
            {
                "commands": In(Command),
                "transfers": Out(stream.Signature(Transfer(config))),
                "wait": Out(1),
                "semaphore": Out(SEMAPHORE_BITS),
                "count": Out(COUNT_BITS),
                "ok": In(1),
                "halt": In(1),
                **({"blocks": Out(stream.Signature(BlockJob(config)))} if self._decodes else {}),
                **({"settled": In(1), "check": Out(1), "crc": Out(CRC_BITS)} if self._checks else {}),
            }
        )
        self.memory_pitch = Signal(width(Opcode.LOAD_PITCH, "memory_pitch"))
        self.local_pitch = Signal(width(Opcode.LOAD_PITCH, "local_pitch"))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wait, _, pitch, _ = _OPCODES[self.unit]
        legal, can_take = self._decode(m) if self._decodes else (Const(0), Const(1))
        self._make_transfer(m, legal)
        m.d.comb += [self.semaphore.eq(self._fields(wait).semaphore), self.count.eq(self._fields(wait).count)]
        with m.Switch(self._opcode):
            with m.Case(wait):
                # Even when halted: the watchdog's report shows that a WAIT waits.
                m.d.comb += [self.wait.eq(self.commands.valid), self.commands.ready.eq(self.ok)]
            with m.Case(pitch):
                m.d.comb += self.commands.ready.eq(~self.halt)
                with m.If(self.commands.valid & ~self.halt):
                    m.d.sync += [
                        self.memory_pitch.eq(self._fields(pitch).memory_pitch),
                        self.local_pitch.eq(self._fields(pitch).local_pitch),
                    ]
            if self._decodes:
                with m.Case(Opcode.LOAD_TENSOR, Opcode.LOAD_STREAMS):
                    m.d.comb += self.commands.ready.eq(~self.halt)
            if self._checks:
                with m.Case(Opcode.LOAD_CHECK):
                    m.d.comb += [
                        self.commands.ready.eq(self.settled & ~self.halt),
                        self.check.eq(self.commands.valid & self.commands.ready),
                        self.crc.eq(self._fields(Opcode.LOAD_CHECK).crc),
                    ]
            with m.Default():
                m.d.comb += [
                    self.transfers.valid.eq(self.commands.valid & can_take & ~self.halt),
                    self.commands.ready.eq(self.transfers.ready & can_take & ~self.halt),
                ]
        return m

    @property
    def _opcode(self) -> Value:
        return self.commands.payload[:8]

    def _fields(self, opcode: Opcode) -> data.View:
        return data.View(layout(opcode), self.commands.payload)

    def _make_transfer(self, m: Module, decode_legal: ValueLike) -> None:
        """The command as a transfer, whatever it is."""
        _, signal, _, go_opcode = _OPCODES[self.unit]
        go, tokens = self._fields(go_opcode), self._fields(signal)
        is_signal, is_go = self._opcode == signal, self._opcode == go_opcode
        is_decode = self._opcode == Opcode.LOAD_DECODE if self._decodes else Const(0)
        to_wm, streamed, packed = Const(0), Const(0), Const(0)
        checked = is_go & go.checked if self._checks else Const(0)
        if self.unit == Unit.LOAD:
            to_wm, streamed, packed = go.space == Space.WM, go.streamed, go.packed
        # A machine without an unpacker has no such GOs.
        wrong_packed = packed & (~to_wm if self.config.unpackers else Const(1))
        legal = Mux(is_decode, decode_legal, is_go & go.row_bytes.any() & go.rows.any())
        transfer = {
            "purpose": {
                "is_signal": is_signal,
                "tokens": {
                    "semaphore": tokens.semaphore,
                    "count": tokens.count,
                    "cores": tokens.cores[: self.config.core_mask_bits],
                },
                "to_wm": to_wm,
                "to_decoder": is_decode,
                "streamed": is_go & streamed,
                "packed": is_go & packed if self.config.unpackers else Const(0),
                "checked": checked[: self.config.load_crc],
            },
            "illegal": ~is_signal & (~legal | (is_go & ((streamed & ~to_wm) | wrong_packed))),
            "memory_address": go.memory_address,
            "local_address": go.local_address,
            "row_bytes": go.row_bytes,
            # A DECODE is one row, and where a GO has its rows it has the number of its weights.
            "rows": Mux(is_decode, 1, go.rows)[: len(go.rows)],
            "memory_pitch": self.memory_pitch,
            "local_pitch": self.local_pitch,
        }
        m.d.comb += self.transfers.payload.as_value().eq(pack(Transfer(self.config), transfer))

    def _decode(self, m: Module) -> tuple[ValueLike, ValueLike]:
        """Keeps TENSOR and STREAMS, and passes DECODEs to `blocks`. Returns whether a DECODE is legal, and whether the
        command may be taken."""
        engines, decode = self.config.cabac_engines, self._fields(Opcode.LOAD_DECODE)
        tensor, too_many = Signal(layout(Opcode.LOAD_TENSOR)), Signal()
        lengths = Signal(engines * width(Opcode.LOAD_STREAMS, "length_0"))
        taken = self.commands.valid & ~self.halt
        is_decode = self._opcode == Opcode.LOAD_DECODE
        with m.If(taken & (self._opcode == Opcode.LOAD_TENSOR)):
            given = self._fields(Opcode.LOAD_TENSOR)
            m.d.sync += [tensor.eq(given), too_many.eq(given.log2_streams > engines.bit_length() - 1)]
        with m.If(taken & (self._opcode == Opcode.LOAD_STREAMS)):
            given = self._fields(Opcode.LOAD_STREAMS)
            m.d.sync += lengths.eq(Cat(given.length_0, given.length_1, given.length_2, given.length_3))
        settings = {
            "unary_length": tensor.unary_length,
            "header_bins": tensor.header_bins,
            "dq_coded": tensor.dq_coded,
            "dq": tensor.dq,
            "low": Mux(tensor.int4, Const(-8, 8), Const(-128, 8)),
            "high": Mux(tensor.int4, Const(7, 8), Const(127, 8)),
        }
        block = {
            "tensor": {
                "settings": settings,
                "tensor": tensor.tensor,
                "levels": decode.weights,
                "log2_streams": tensor.log2_streams,
                "lengths": lengths,
                "offset": Const(0, 0),
            },
            "block_words": decode.row_bytes[exact_log2(self.config.word_bytes) :],
            "to_wm": decode.space == Space.WM,
            "local_address": decode.local_address,
        }
        m.d.comb += [
            self.blocks.payload.as_value().eq(pack(BlockJob(self.config), block)),
            self.blocks.valid.eq(taken & is_decode & self.transfers.ready),
        ]
        return decode.row_bytes.any() & decode.weights.any() & ~too_many, ~is_decode | self.blocks.ready
