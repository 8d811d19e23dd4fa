"""From a DMA unit's commands to jobs: WAIT, PITCH, and what goes on to the splitter."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import Command
from ..isa import Opcode, Space, Unit, layout
from .bursts import Job
from .decode import BlockJob


class CommandIssue(wiring.Component):
    """Executes WAIT and PITCH of the LOAD or STORE unit, TENSOR and STREAMS of a LOAD unit with a decoder, and passes
    GOs, DECODEs and SIGNALs on as jobs.

    One command per cycle; WAIT stays at the head until the tokens are there. Jobs are not delayed
    (combinational).

    Ports:
        `commands`: instructions of this unit.
        `jobs`: GOs, DECODEs, SIGNALs and, marked illegal, everything that is no valid command of the unit.
        `blocks`, if there is a decoder: what it is told about a DECODE, when that goes to `jobs`. `ready` must come
            from a register.
        `wait`, `semaphore`, `count`, `ok`: as in `Tokens`.
        `halt`: no command is taken but WAIT.
    """

    def __init__(self, unit: Unit, config: Config):
        if unit not in (Unit.LOAD, Unit.STORE):
            raise ValueError(f"unit must be LOAD or STORE, not {unit!r}")
        self.unit, self.config = unit, config
        self._decodes = unit == Unit.LOAD and config.cabac_engines > 0
        super().__init__(
            {
                "commands": In(Command),
                "jobs": Out(stream.Signature(Job())),
                "wait": Out(1),
                "semaphore": Out(4),
                "count": Out(8),
                "ok": In(1),
                "halt": In(1),
                **({"blocks": Out(stream.Signature(BlockJob(config)))} if self._decodes else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        names = ("WAIT", "SIGNAL", "PITCH", "GO", *(("TENSOR", "STREAMS", "DECODE") if self._decodes else ()))
        opcode = {name: Opcode[f"{self.unit.name}_{name}"] for name in names}
        fields = {name: data.View(layout(code), self.commands.payload) for name, code in opcode.items()}
        memory_pitch = Signal(32)
        local_pitch = Signal(24)
        go, opcode_byte = fields["GO"], self.commands.payload[:8]
        is_signal, is_go = opcode_byte == opcode["SIGNAL"], opcode_byte == opcode["GO"]
        is_decode: ValueLike = Const(0)
        legal: ValueLike = is_go & go.row_bytes.any() & go.rows.any()
        can_take: ValueLike = Const(1)
        if self._decodes:
            is_decode = opcode_byte == opcode["DECODE"]
            decode_legal, can_take = self._decode(m, opcode, fields)
            legal = Mux(is_decode, decode_legal, legal)
        m.d.comb += [
            self.semaphore.eq(fields["WAIT"].semaphore),
            self.count.eq(fields["WAIT"].count),
        ]
        misplaced = go.streamed & (go.space != Space.WM) if self.unit == Unit.LOAD else Const(0)
        job = {
            "is_signal": is_signal,
            "illegal": ~is_signal & (~legal | (is_go & misplaced)),
            "semaphore": fields["SIGNAL"].semaphore,
            "signal_count": fields["SIGNAL"].count,
            "to_wm": go.space == Space.WM if self.unit == Unit.LOAD else Const(0),
            "to_decoder": is_decode,
            "streamed": is_go & go.streamed if self.unit == Unit.LOAD else Const(0),
            "memory_address": go.memory_address,
            "local_address": go.local_address,
            "span": (go.row_bytes - 1)[:24],
            # Where a GO has its rows a DECODE has the number of its weights.
            "rows": Mux(is_decode, 1, go.rows),
            "memory_pitch": memory_pitch,
            "local_pitch": local_pitch,
        }
        # In one assignment: a field that is constant by itself becomes an `always @*` without a sensitivity in
        # Verilog, which simulators never execute.
        m.d.comb += self.jobs.payload.as_value().eq(Cat(job[name] for name, _ in Job()))
        with m.Switch(opcode_byte):
            with m.Case(opcode["WAIT"]):
                # Even when halted: a WAIT that waits must still show that it does.
                m.d.comb += [self.wait.eq(self.commands.valid), self.commands.ready.eq(self.ok)]
            with m.Case(opcode["PITCH"]):
                m.d.comb += self.commands.ready.eq(~self.halt)
                with m.If(self.commands.valid & ~self.halt):
                    m.d.sync += [
                        memory_pitch.eq(fields["PITCH"].memory_pitch),
                        local_pitch.eq(fields["PITCH"].local_pitch),
                    ]
            if self._decodes:
                with m.Case(opcode["TENSOR"], opcode["STREAMS"]):
                    m.d.comb += self.commands.ready.eq(~self.halt)
            with m.Default():
                m.d.comb += [
                    self.jobs.valid.eq(self.commands.valid & can_take & ~self.halt),
                    self.commands.ready.eq(self.jobs.ready & can_take & ~self.halt),
                ]
        return m

    def _decode(
        self, m: Module, opcode: dict[str, Opcode], fields: dict[str, data.View]
    ) -> tuple[ValueLike, ValueLike]:
        """Tells the decoder of DECODEs. Whether a DECODE is legal, and whether the command, if it is one, can go on."""
        engines, opcode_byte, decode = self.config.cabac_engines, self.commands.payload[:8], fields["DECODE"]
        tensor, too_many = Signal(layout(opcode["TENSOR"])), Signal()
        lengths = Signal(data.ArrayLayout(24, engines))
        taken = self.commands.valid & ~self.halt
        with m.If(taken & (opcode_byte == opcode["TENSOR"])):
            m.d.sync += [
                tensor.as_value().eq(self.commands.payload),
                too_many.eq(fields["TENSOR"].log2_streams > engines.bit_length() - 1),
            ]
        with m.If(taken & (opcode_byte == opcode["STREAMS"])):
            given = fields["STREAMS"]
            m.d.sync += lengths.as_value().eq(Cat(given[f"length_{number}"] for number in range(engines)))
        job = self.blocks.payload
        lane_bits = len(decode.row_bytes) - len(job.block_words)
        is_decode = opcode_byte == opcode["DECODE"]
        settings = {
            "unary_length": Cat(tensor.unary_length, Const(0, 3)),
            "header_bins": tensor.header_bins,
            "dq_coded": tensor.dq_coded,
            "dq": tensor.dq,
            "low": Mux(tensor.int4, Const(-8, 8), Const(-128, 8)),
            "high": Mux(tensor.int4, Const(7, 8), Const(127, 8)),
        }
        cabac = {
            "settings": Cat(settings.values()),
            "tensor": tensor.tensor,
            "levels": Cat(decode.weights, Const(0, 4)),
            "log2_streams": tensor.log2_streams,
            "lengths": lengths,
            "offset": Const(0, lane_bits),
        }
        block = {
            "cabac": Cat(cabac.values()),
            "block_words": decode.row_bytes[lane_bits:],
            "to_wm": decode.space == Space.WM,
            "local_address": decode.local_address,
        }
        # In one assignment and in the order of the layouts, for the same reason as the job.
        m.d.comb += [
            job.as_value().eq(Cat(block.values())),
            self.blocks.valid.eq(taken & is_decode & self.jobs.ready),
        ]
        return decode.row_bytes.any() & decode.weights.any() & ~too_many, ~is_decode | self.blocks.ready
