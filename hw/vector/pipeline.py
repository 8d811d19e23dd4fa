"""The control pipeline: follows every issued slot from the issue to its write."""

import enum

from amaranth.hdl import Cat, Module, Mux, Signal, Value, ValueCastable
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Element, Op
from .lane_control import LaneControl
from .program import Arithmetic, Bounds, Finish, Issue, Program, Select

LATENCY_CYCLES = 10
"""Cycles from the issue of a slot that writes a register to the issue of one that reads it."""
STORE_STAGE = 11
"""Stage in which a slot's write is prepared; it is made in the next cycle."""
UNSIGNED = [element for element in Element if element.name.startswith("U")]


def one_of(value: Value, *members: enum.IntEnum) -> Value:
    """Whether `value` is one of the members."""
    return Cat(value == member.value for member in members).any()


def register_address(config: Config, slot: Value, register: Value) -> Value:
    """Address in a lane's register file."""
    slot_bits = (config.vector_slots - 1).bit_length()
    register_bits = (config.vector_registers - 1).bit_length()
    return Cat(slot[:slot_bits], register[:register_bits])


class Pipeline(wiring.Component):
    """Stage k (0 to 11) holds what was issued k + 1 cycles ago, in stage 0 its load is granted; nothing ever waits. The
    lanes do everything a cycle later than they are told: their inputs have registers.

    - `issue`: the slot `slot` of micro-op `index`, decoded as `fields`, in repetition `iteration` is issued; `element`
      and `splat` are those of the load stream it reads.
    - `program` ports: tables read on the way, see Program.
    - `control`: to the lanes. `pack` (stage 10): results go to memory.
    - `empty`: nothing between the issue and the write, which may be made in this cycle; a command that needs
      everything complete may start.
    """

    def __init__(self, config: Config):
        self.config = config
        index_shape = range(max(config.vector_uops, 2))
        ports = {
            "issue": In(1),
            "fields": In(Issue),
            "index": In(index_shape),
            "slot": In(range(config.vector_slots)),
            "iteration": In(16),
            "element": In(Element),
            "splat": In(1),
            "control": Out(LaneControl(config)),
            "pack": Out(1),
            "empty": Out(1),
        }
        for name in ("immediate", "arithmetic", "out_zp", "finish", "limits"):
            ports[f"{name}_enable"] = Out(1)
            ports[f"{name}_index"] = Out(index_shape)
            ports[name] = In(Program.TABLES[name])
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control = self.control

        def delay(value: object, stage: int, name: str, enable: object | None = None) -> Signal:
            """`value` of the stage before, in `stage`; data that holds only where valid needs no reset."""
            shape = value.shape() if isinstance(value, ValueCastable) else Value.cast(value).shape()
            signal = Signal(shape, name=f"s{stage}_{name}", reset_less=enable is not None)
            if enable is None:
                m.d.sync += signal.eq(value)
            else:
                with m.If(enable):
                    m.d.sync += signal.eq(value)
            return signal

        # 0: fields and place of what was issued.
        valid, index, slot = (
            {0: delay(value, 0, name)}
            for value, name in ((self.issue, "valid"), (self.index, "index"), (self.slot, "slot"))
        )
        fields = delay(self.fields, 0, "fields")
        issued_iteration = delay(self.iteration, 0, "iteration")
        issued_element = delay(self.element, 0, "element")
        issued_splat = delay(self.splat, 0, "splat")
        for stage in range(1, STORE_STAGE):
            index[stage] = delay(index[stage - 1], stage, "index", valid[stage - 1])
            slot[stage] = delay(slot[stage - 1], stage, "slot", valid[stage - 1])
            valid[stage] = delay(valid[stage - 1], stage, "valid")
        moving = delay(Cat(self.issue, *valid.values()).any(), 1, "moving")
        m.d.comb += self.empty.eq(~moving)

        def look_up(name: str, stage: int) -> None:
            """Table `name` is read in `stage`, its value holds in the next one."""
            m.d.comb += getattr(self, f"{name}_enable").eq(valid[stage])
            m.d.comb += getattr(self, f"{name}_index").eq(index[stage])

        def flag(name: str, op: Value, *members: Op) -> None:
            """control.`name` says whether `op`, of the stage before, is one of `members`."""
            stage = int(name[1])
            decoded = delay(one_of(op, *members), stage, name[3:], valid[stage - 1])
            m.d.comb += getattr(control, name).eq(decoded)

        # 1: registers, the bias; the immediate, the arithmetic.
        operands = {1: delay(fields, 1, "fields", valid[0])}
        iteration = delay(issued_iteration, 1, "iteration", valid[0])
        element = delay(issued_element, 1, "element", valid[0])
        splat = delay(issued_splat, 1, "splat", valid[0])
        m.d.comb += control.s1_bias.eq(operands[1].bias)
        for letter in ("a", "b"):
            operand = operands[1][letter]
            m.d.comb += [
                getattr(control, f"s1_{letter}_enable").eq(valid[1] & (operand.select == Select.REGISTER)),
                getattr(control, f"s1_{letter}_address").eq(
                    register_address(self.config, slot[1], operand.register)
                ),
            ]
        look_up("immediate", 1)
        look_up("arithmetic", 1)

        # 2: operand selection; multiplier, shift and zero point.
        iteration = delay(iteration, 2, "iteration", valid[1])
        m.d.comb += [
            control.s2_splat.eq(delay(splat, 2, "splat", valid[1])),
            control.s2_signed.eq(delay(~one_of(element, *UNSIGNED), 2, "signed", valid[1])),
        ]
        for size in (2, 4, 8):
            elements = [member for member in Element if member.bytes >= size]
            wide = delay(one_of(element, *elements), 2, f"wide{size}", valid[1])
            m.d.comb += getattr(control, f"s2_wide{size}").eq(wide)
        for letter, selects in (("a", "register load array"), ("b", "register load")):
            operand = operands[1][letter]
            for select in selects.split():
                chosen = operand.select == Select[select.upper()]
                name = f"{letter}_{select}"
                m.d.comb += getattr(control, f"s2_{name}").eq(delay(chosen, 2, name, valid[1]))
            immediate = delay(operand.immediate, 2, f"{letter}_immediate", valid[1])
            iterated = delay(operand.iteration, 2, f"{letter}_iteration", valid[1])
            scalar = Mux(immediate, self.immediate, Mux(iterated, iteration, 0))
            m.d.comb += getattr(control, f"s2_{letter}_scalar").eq(scalar)
        arithmetic: Arithmetic = self.arithmetic
        op = {2: Signal(Op, name="s2_op")}
        rescale, shifts = Signal(), Signal()
        m.d.comb += [
            op[2].eq(arithmetic.op),
            rescale.eq(op[2] == Op.RESCALE),
            shifts.eq(one_of(op[2], Op.RESCALE, Op.MUL)),
            control.s2_a_zp.eq(arithmetic.a_zp),
            control.s2_rescale.eq(rescale),
            control.s2_per_channel.eq(arithmetic.per_channel & rescale),
            control.s2_multiplier.eq(arithmetic.multiplier),
            control.s2_shift.eq(Mux(shifts, arithmetic.shift, 0)),
        ]

        # 3 to 7: the operation.
        rounding = {2: arithmetic.round}
        for stage in range(3, 6):
            op[stage] = delay(op[stage - 1], stage, "op", valid[stage - 1])
            rounding[stage] = delay(rounding[stage - 1], stage, "round", valid[stage - 1])

        flag("s3_factor_one", op[2], Op.ADD, Op.SUB, Op.ASR, Op.LSR)
        flag("s3_factor_b", op[2], Op.MUL)
        flag("s3_factor_power", op[2], Op.LSL)
        flag("s3_shift_b", op[2], Op.ASR, Op.LSR)
        flag("s3_unsigned32", op[2], Op.LSR)
        flag("s3_b_ones", op[2], Op.ABS)

        flag("s4_x", op[3], Op.MOV, Op.OR, Op.XOR, Op.ABS)
        flag("s4_own", op[3], Op.RESCALE, Op.ADD, Op.SUB, Op.OR, Op.XOR)
        flag("s4_both", op[3], Op.AND, Op.OR)
        flag("s4_abs", op[3], Op.ABS)
        flag("s4_choose", op[3], Op.MIN, Op.MAX)
        flag("s4_choose_less", op[3], Op.MIN)
        flag("s4_few", op[3], Op.CLZ, Op.EQ, Op.GT, Op.GE)
        flag("s4_zeros", op[3], Op.CLZ)
        flag("s4_equal", op[3], Op.EQ, Op.GE)
        flag("s4_greater", op[3], Op.GT, Op.GE)
        flag("s4_table8", op[3], Op.TABLE8)
        table = one_of(op[3], Op.TABLE8, Op.TABLE16)
        m.d.comb += control.s4_table.eq(delay(valid[3] & table, 4, "table"))

        flag("s5_invert", op[4], Op.SUB)
        flag("s5_table8", op[4], Op.TABLE8)
        flag("s5_table16", op[4], Op.TABLE16)

        rounds = one_of(op[5], Op.MUL, Op.RESCALE) | ((op[5] == Op.ASR) & rounding[5])
        twice = (op[5] == Op.RESCALE) & rounding[5]
        m.d.comb += [
            control.s6_round.eq(delay(rounds, 6, "round", valid[5])),
            control.s6_double_round.eq(delay(twice, 6, "double_round", valid[5])),
            control.s6_out_zp.eq(self.out_zp),
        ]
        flag("s6_one", op[5], Op.SUB)
        flag("s6_abs", op[5], Op.ABS)
        look_up("out_zp", 5)

        # 8: limits; 9: destination.
        finish: Finish = self.finish
        limits: Bounds = self.limits
        look_up("finish", 7)
        look_up("limits", 7)
        m.d.comb += [
            control.s8_clamp.eq(finish.clamp),
            control.s8_wrap32.eq(finish.wrap32),
            control.s8_low.eq(limits.low),
            control.s8_high.eq(limits.high),
        ]
        to_memory = delay(finish.to_memory, 9, "to_memory", valid[8])
        destination = delay(finish.destination, 9, "destination", valid[8])
        m.d.comb += [
            control.s9_write.eq(valid[9] & ~to_memory),
            control.s9_address.eq(register_address(self.config, slot[9], destination)),
            self.pack.eq(delay(valid[9] & to_memory, 10, "pack")),
        ]
        return m


__all__ = ["LATENCY_CYCLES", "STORE_STAGE", "Pipeline"]
