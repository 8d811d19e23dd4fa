"""The control pipeline: follows every issued slot from the issue to its write."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..constants import (
    VECTOR_NEXT_EARLY_CYCLES,
    VECTOR_SETUP_EARLY_CYCLES,
    VECTOR_SIGNAL_EARLY_CYCLES,
    VECTOR_STORE_STAGE,
)
from ..isa import Element, Op, Opcode
from ..layouts import shapes
from ..one_hot import any_of, one_of
from .beats import Group, members
from .lane_control import (
    AddendFlags,
    FactorFlags,
    LaneControl,
    RoundFlags,
    SelectFlags,
    TableFlags,
    lane_column_shape,
)
from .layouts import Arithmetic, Finish, IssueFields, Limits, LoopPlace, Select
from .program import EntryRead, TableRead

UNSIGNED = [element for element in Element if element.name.startswith("U")]


def of_size(value: Value, size: int) -> Value:
    """Whether elements of type `value` have `size` bytes."""
    return one_of(value, *(element for element in Element if element.bytes == size))


def lane_column(config: Config, group: data.View) -> Value:
    """Returns the one of a lane's columns that is in the group."""
    return group.position[-exact_log2(config.lane_columns) :] if config.lane_columns > 1 else C(0, 1)


def register_address(config: Config, slot: Value, register: Value, group: data.View) -> Value:
    """Address in a lane's register file."""
    slot_bits = (config.vector_slots - 1).bit_length()
    register_bits = (config.vector_registers - 1).bit_length()
    column = lane_column(config, group)[: exact_log2(config.lane_columns)]
    return Cat(slot[:slot_bits], register[:register_bits], column)


class IssuedSlot(data.StructLayout):
    """What is issued: a beat of a slot of a micro-op, and the `element` type and `splat` of the load stream that it
    reads. The beat is that of the lanes `group`, the slot's last one if `ends`."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "fields": IssueFields,
                "place": LoopPlace(config),
                "element": Element,
                "splat": 1,
                "group": Group,
                "ends": 1,
            }
        )


PackedBeat = data.StructLayout({"group": Group, "ends": 1})
"""A beat whose results are stored: its lanes, and whether it is its slot's last one."""


class Pipeline(wiring.Component):
    """Stage k (0 to VECTOR_STORE_STAGE) holds what was issued k + 1 cycles ago, in stage 0 its load is granted; nothing
    ever waits. The lanes do everything a cycle later than they are told: their inputs have registers.

    Ports:
        issue (1, in), issued (IssuedSlot, in): a beat of a slot is issued.
        arithmetic (TableRead, out): the program's table, read in stage 1.
        immediate, out_zp, finish, limits (EntryRead, out): what comes of it, in stages 2, 7, 9 and 9.
        control (LaneControl, out): to the lanes.
        first_column (0..lane_columns-1, out): stage 0: which of its columns a lane works for.
        selected (a bit per lane, out): stage 10: the lanes of the beat; the others write no register.
        pack (1, out), packed (PackedBeat, out): stage 11: results of these lanes go to memory.
        empty (1, out): there is nothing between the issue and the write, which may be made in this cycle.
        drained (1, out): there will be nothing in VECTOR_NEXT_EARLY_CYCLES cycles. Any command may be taken.
        read (1, out): there will be nothing in VECTOR_SETUP_EARLY_CYCLES cycles, and the program is read no more.
        almost_empty (1, out): there will be nothing in VECTOR_SIGNAL_EARLY_CYCLES cycles.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "issue": In(1),
                "issued": In(IssuedSlot(config)),
                "arithmetic": Out(TableRead(config, Arithmetic)),
                "immediate": Out(EntryRead(*shapes(Opcode.VECTOR_BOUNDS, "immediate").values())),
                "out_zp": Out(EntryRead(*shapes(Opcode.VECTOR_UOP, "out_zp").values())),
                "finish": Out(EntryRead(Finish)),
                "limits": Out(EntryRead(Limits)),
                "control": Out(LaneControl(config)),
                "first_column": Out(lane_column_shape(config)),
                "selected": Out(config.lanes),
                "pack": Out(1),
                "packed": Out(PackedBeat),
                "empty": Out(1),
                "drained": Out(1),
                "read": Out(1),
                "almost_empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Data that hold only where `valid` need no reset.
        issued = Signal(IssuedSlot(self.config), name="s0_issued")
        valid, slot = [Signal(name="s0_valid")], [issued.place.slot]
        beat = [Signal(PackedBeat, name="s0_beat")]
        m.d.comb += [beat[0].group.eq(issued.group), beat[0].ends.eq(issued.ends)]
        m.d.sync += [valid[0].eq(self.issue), issued.eq(self.issued)]
        for stage in range(1, VECTOR_STORE_STAGE):
            valid.append(Signal(name=f"s{stage}_valid"))
            slot.append(Signal.like(slot[0], name=f"s{stage}_slot", reset_less=True))
            beat.append(Signal(PackedBeat, name=f"s{stage}_beat", reset_less=True))
            m.d.sync += [valid[stage].eq(valid[stage - 1]), beat[stage].eq(beat[stage - 1])]
            with m.If(valid[stage - 1]):
                m.d.sync += slot[stage].eq(slot[stage - 1])
        for port, early in (
            (self.empty, 0),
            (self.drained, VECTOR_NEXT_EARLY_CYCLES),
            (self.read, VECTOR_SETUP_EARLY_CYCLES),
            (self.almost_empty, VECTOR_SIGNAL_EARLY_CYCLES),
        ):
            moving = Signal(name=f"moving_{early}")
            m.d.sync += moving.eq(Cat(self.issue, *valid[: len(valid) - early]).any())
            m.d.comb += port.eq(~moving)
        m.d.comb += [
            self.first_column.eq(lane_column(self.config, beat[0].group)),
            self.selected.eq(self._lanes_of(beat[10].group)),
            self.packed.eq(beat[11]),
            self.arithmetic.enable.eq(valid[1]),
        ]
        self._operands(m, issued, valid, slot, beat)
        self._arithmetic(m, valid)
        self._destination(m, valid, slot, beat)
        return m

    def _lanes_of(self, group: data.View) -> Value:
        """The lanes that have a column in the group."""
        columns, lanes = members(group, self.config.columns), self.config.lanes
        return any_of(columns[first : first + lanes] for first in range(0, len(columns), lanes))

    def _operands(
        self, m: Module, issued: data.View, valid: list[Signal], slot: list[Signal], beat: list[Signal]
    ) -> None:
        """Stages 1 and 2: registers, the bias, the immediate; which operand it is."""
        control = self.control
        s1 = Signal(issued.shape(), name="s1_issued", reset_less=True)
        with m.If(valid[0]):
            m.d.sync += s1.eq(issued)
        a, b = s1.fields.a, s1.fields.b
        m.d.comb += [
            self.arithmetic.index.eq(s1.place.index),
            control.s1_bias.eq(s1.fields.bias),
            control.s1_column.eq(lane_column(self.config, beat[1].group)),
            control.s2_column.eq(lane_column(self.config, beat[2].group)),
            control.s1_a_enable.eq(valid[1] & (a.select == Select.REGISTER)),
            control.s1_a_address.eq(register_address(self.config, slot[1], a.register, beat[1].group)),
            control.s1_b_enable.eq(valid[1] & (b.select == Select.REGISTER)),
            control.s1_b_address.eq(register_address(self.config, slot[1], b.register, beat[1].group)),
        ]
        s2, iteration = Signal(SelectFlags, reset_less=True), Signal.like(s1.place.iteration, reset_less=True)
        a_immediate, a_iteration = Signal(reset_less=True), Signal(reset_less=True)
        b_immediate, b_iteration = Signal(reset_less=True), Signal(reset_less=True)
        with m.If(valid[1]):
            m.d.sync += [
                s2.a_register.eq(a.select == Select.REGISTER),
                s2.a_load.eq(a.select == Select.LOAD),
                s2.a_array.eq(a.select == Select.ARRAY),
                s2.b_register.eq(b.select == Select.REGISTER),
                s2.b_load.eq(b.select == Select.LOAD),
                s2.splat.eq(s1.splat),
                s2.element.signed.eq(~one_of(s1.element, *UNSIGNED)),
                *(s2.element[f"bytes{size}"].eq(of_size(s1.element, size)) for size in (1, 2, 4, 8)),
                iteration.eq(s1.place.iteration),
                a_immediate.eq(a.immediate),
                a_iteration.eq(a.iteration),
                b_immediate.eq(b.immediate),
                b_iteration.eq(b.iteration),
            ]
        immediate = self.immediate.data
        m.d.comb += [
            control.s2.eq(s2),
            control.s2_a_scalar.eq(Mux(a_immediate, immediate, Mux(a_iteration, iteration, 0))),
            control.s2_b_scalar.eq(Mux(b_immediate, immediate, Mux(b_iteration, iteration, 0))),
        ]

    def _arithmetic(self, m: Module, valid: list[Signal]) -> None:
        """Stages 2 to 7: the operation, a stage's flags decoded in the stage before."""
        control, arithmetic = self.control, self.arithmetic.data
        op, rounding = {2: Signal(Op, name="s2_op")}, {2: arithmetic.round}
        for stage in range(3, 7):
            op[stage] = Signal(Op, name=f"s{stage}_op", reset_less=True)
            rounding[stage] = Signal(name=f"s{stage}_round", reset_less=True)
            with m.If(valid[stage - 1]):
                m.d.sync += [op[stage].eq(op[stage - 1]), rounding[stage].eq(rounding[stage - 1])]
        shifts = one_of(op[2], Op.RESCALE, Op.MUL)
        m.d.comb += [
            op[2].eq(arithmetic.op),
            control.s2_a_zp.eq(arithmetic.a_zp),
            control.s2_rescale.eq(op[2] == Op.RESCALE),
            control.s2_per_channel.eq(arithmetic.per_channel & control.s2_rescale),
            control.s2_multiplier.eq(arithmetic.multiplier),
            control.s2_shift.eq(Mux(shifts, arithmetic.shift, 0)),
        ]
        s3, s4 = Signal(FactorFlags, reset_less=True), Signal(AddendFlags, reset_less=True)
        s6, s7 = Signal(TableFlags, reset_less=True), Signal(RoundFlags, reset_less=True)
        with m.If(valid[2]):
            m.d.sync += [
                s3.one.eq(one_of(op[2], Op.ADD, Op.SUB, Op.ASR, Op.LSR)),
                s3.b.eq(op[2] == Op.MUL),
                s3.power.eq(op[2] == Op.LSL),
                s3.shift_b.eq(one_of(op[2], Op.ASR, Op.LSR)),
                s3.unsigned32.eq(op[2] == Op.LSR),
                s3.b_ones.eq(op[2] == Op.ABS),
            ]
        with m.If(valid[3]):
            m.d.sync += [
                s4.x.eq(one_of(op[3], Op.MOV, Op.OR, Op.XOR, Op.ABS)),
                s4.own.eq(one_of(op[3], Op.RESCALE, Op.ADD, Op.SUB, Op.OR, Op.XOR)),
                s4.both.eq(one_of(op[3], Op.AND, Op.OR)),
                s4.abs.eq(op[3] == Op.ABS),
                s4.choose.eq(one_of(op[3], Op.MIN, Op.MAX)),
                s4.choose_less.eq(op[3] == Op.MIN),
                s4.few.eq(one_of(op[3], Op.CLZ, Op.EQ, Op.GT, Op.GE)),
                s4.zeros.eq(op[3] == Op.CLZ),
                s4.equal.eq(one_of(op[3], Op.EQ, Op.GE)),
                s4.greater.eq(one_of(op[3], Op.GT, Op.GE)),
                s4.table8.eq(op[3] == Op.TABLE8),
            ]
        with m.If(valid[5]):
            m.d.sync += [
                s6.invert.eq(op[5] == Op.SUB),
                s6.table8.eq(op[5] == Op.TABLE8),
                s6.table16.eq(op[5] == Op.TABLE16),
            ]
        with m.If(valid[6]):
            m.d.sync += [
                s7.round.eq(one_of(op[6], Op.MUL, Op.RESCALE) | ((op[6] == Op.ASR) & rounding[6])),
                s7.double_round.eq((op[6] == Op.RESCALE) & rounding[6]),
                s7.one.eq(op[6] == Op.SUB),
                s7.abs.eq(op[6] == Op.ABS),
            ]
        table = Signal()
        m.d.sync += table.eq(valid[4] & one_of(op[4], Op.TABLE8, Op.TABLE16))
        m.d.comb += [
            control.s3.eq(s3),
            control.s4.eq(s4),
            control.s5_table.eq(table),
            control.s6.eq(s6),
            control.s7.eq(s7),
            control.s7_out_zp.eq(self.out_zp.data),
        ]

    def _destination(self, m: Module, valid: list[Signal], slot: list[Signal], beat: list[Signal]) -> None:
        """Stages 9 to 11: limits; where the result goes."""
        control, finish, limits = self.control, self.finish.data, self.limits.data
        to_memory, destination = Signal(reset_less=True), Signal.like(finish.destination, reset_less=True)
        with m.If(valid[9]):
            m.d.sync += [to_memory.eq(finish.to_memory), destination.eq(finish.destination)]
        pack = Signal()
        m.d.sync += pack.eq(valid[10] & to_memory)
        m.d.comb += [
            control.s9_clamp.eq(finish.clamp),
            control.s9_wrap32.eq(finish.wrap32),
            control.s9_low.eq(limits.low),
            control.s9_high.eq(limits.high),
            control.s10_write.eq(valid[10] & ~to_memory),
            control.s10_address.eq(register_address(self.config, slot[10], destination, beat[10].group)),
            self.pack.eq(pack),
        ]
