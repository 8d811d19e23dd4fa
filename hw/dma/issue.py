"""From a DMA unit's commands to jobs: WAIT, PITCH, and what goes on to the splitter."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..interfaces import Command
from ..isa import Opcode, Space, Unit, layout
from .bursts import Job


class CommandIssue(wiring.Component):
    """Executes WAIT and PITCH of the LOAD or STORE unit and passes its GOs and SIGNALs on as jobs.

    One command per cycle; WAIT stays at the head until the tokens are there. Jobs are not delayed
    (combinational).

    Ports:
        `commands`: instructions of this unit.
        `jobs`: GOs, SIGNALs and, marked illegal, everything that is no valid command of the unit.
        `wait`, `semaphore`, `count`, `ok`: as in `Tokens`.
        `halt`: no command is taken but WAIT.
    """

    def __init__(self, unit: Unit):
        if unit not in (Unit.LOAD, Unit.STORE):
            raise ValueError(f"unit must be LOAD or STORE, not {unit!r}")
        self.unit = unit
        super().__init__(
            {
                "commands": In(Command),
                "jobs": Out(stream.Signature(Job())),
                "wait": Out(1),
                "semaphore": Out(4),
                "count": Out(8),
                "ok": In(1),
                "halt": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        opcode = {name: Opcode[f"{self.unit.name}_{name}"] for name in ("WAIT", "SIGNAL", "PITCH", "GO")}
        fields = {name: data.View(layout(code), self.commands.payload) for name, code in opcode.items()}
        memory_pitch = Signal(32)
        local_pitch = Signal(24)
        go, opcode_byte = fields["GO"], self.commands.payload[:8]
        is_signal, is_go = opcode_byte == opcode["SIGNAL"], opcode_byte == opcode["GO"]
        m.d.comb += [
            self.semaphore.eq(fields["WAIT"].semaphore),
            self.count.eq(fields["WAIT"].count),
        ]
        job = {
            "is_signal": is_signal,
            "illegal": ~is_signal & ~(is_go & (go.row_bytes != 0) & (go.rows != 0)),
            "semaphore": fields["SIGNAL"].semaphore,
            "signal_count": fields["SIGNAL"].count,
            "to_wm": go.space == Space.WM if self.unit == Unit.LOAD else Const(0),
            "memory_address": go.memory_address,
            "local_address": go.local_address,
            "span": (go.row_bytes - 1)[:24],
            "rows": go.rows,
            "memory_pitch": memory_pitch,
            "local_pitch": local_pitch,
        }
        # In one assignment: a field that is constant by itself becomes an `always @*` without a sensitivity in
        # Verilog, which simulators never execute.
        m.d.comb += self.jobs.payload.as_value().eq(Cat(job[name] for name, _ in Job()))
        with m.If(opcode_byte == opcode["WAIT"]):
            # Even when halted: a WAIT that waits must still show that it does.
            m.d.comb += [self.wait.eq(self.commands.valid), self.commands.ready.eq(self.ok)]
        with m.Elif(~self.halt):
            with m.If(opcode_byte == opcode["PITCH"]):
                m.d.comb += self.commands.ready.eq(1)
                with m.If(self.commands.valid):
                    m.d.sync += [
                        memory_pitch.eq(fields["PITCH"].memory_pitch),
                        local_pitch.eq(fields["PITCH"].local_pitch),
                    ]
            with m.Else():
                m.d.comb += [self.jobs.valid.eq(self.commands.valid), self.commands.ready.eq(self.jobs.ready)]
        return m
