"""The control pipeline: follows every issued slot from the issue to its write."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, ValueCastable
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Element, Op
from .lane_control import LaneControl
from .program import Arithmetic, Bounds, Finish, Issue, Operand, Program, Select

LATENCY_CYCLES = 9
"""Cycles from the issue of a slot that writes a register to the issue of one that reads it."""
STORE_STAGE = 10
"""Cycles from the issue of a slot to its write to memory."""


def one_of(op: Value, *members: Op) -> Value:
    """Whether `op` is one of the members."""
    return Cat(op == member.value for member in members).any()


def register_address(config: Config, slot: Value, register: Value) -> Value:
    """Address in a lane's register file."""
    slot_bits = (config.vector_slots - 1).bit_length()
    register_bits = (config.vector_registers - 1).bit_length()
    return Cat(slot[:slot_bits], register[:register_bits])


class Pipeline(wiring.Component):
    """Stage k (1 to 10) holds what was issued k cycles ago; nothing ever waits.

    - `issue`: the slot `slot` of micro-op `index`, decoded as `fields`, in repetition `iteration` is issued; `element`
      and `splat` are those of the load stream it reads.
    - `program` ports: tables read on the way, see Program.
    - `control`: to the lanes. `pack` (stage 9): results go to memory; `store` (stage 10): they are being written.
    - `empty`: nothing between the issue and the write; a command that needs everything complete may start.
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
            "store": Out(1),
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

        valid, index, slot = {0: self.issue}, {0: self.index}, {0: self.slot}
        for stage in range(1, STORE_STAGE):
            index[stage] = delay(index[stage - 1], stage, "index", valid[stage - 1])
            slot[stage] = delay(slot[stage - 1], stage, "slot", valid[stage - 1])
            valid[stage] = delay(valid[stage - 1], stage, "valid")
        store = delay(self.pack, STORE_STAGE, "store")
        moving = Cat(valid[stage] for stage in range(1, STORE_STAGE)).any()
        m.d.comb += [self.store.eq(store), self.empty.eq(~moving)]

        def look_up(name: str, stage: int) -> None:
            """Table `name` is read in `stage`, its value holds in the next one."""
            m.d.comb += getattr(self, f"{name}_enable").eq(valid[stage])
            m.d.comb += getattr(self, f"{name}_index").eq(index[stage])

        # 1: registers; the immediate.
        operands = {1: delay(self.fields, 1, "fields", self.issue)}
        iteration = delay(self.iteration, 1, "iteration", self.issue)
        element = delay(self.element, 1, "element", self.issue)
        splat = delay(self.splat, 1, "splat", self.issue)
        for letter in ("a", "b"):
            operand = operands[1][letter]
            m.d.comb += [
                getattr(control, f"s1_{letter}_enable").eq(valid[1] & (operand.select == Select.REGISTER)),
                getattr(control, f"s1_{letter}_address").eq(
                    register_address(self.config, slot[1], operand.register)
                ),
            ]
        look_up("immediate", 1)

        # 2: operand selection; the arithmetic.
        operands[2] = delay(operands[1], 2, "fields", valid[1])
        iteration = delay(iteration, 2, "iteration", valid[1])
        m.d.comb += [
            control.s2_enable.eq(valid[2]),
            control.s2_element.eq(delay(element, 2, "element", valid[1])),
            control.s2_splat.eq(delay(splat, 2, "splat", valid[1])),
        ]
        for letter in ("a", "b"):
            operand: Operand = operands[2][letter]
            scalar = Mux(operand.immediate, self.immediate, Mux(operand.iteration, iteration, 0))
            m.d.comb += [
                getattr(control, f"s2_{letter}_select").eq(operand.select),
                getattr(control, f"s2_{letter}_scalar").eq(scalar),
            ]
        look_up("arithmetic", 2)

        # 3 to 7: the operation.
        arithmetic: Arithmetic = self.arithmetic
        op = {3: Signal(Op, name="s3_op")}
        m.d.comb += op[3].eq(arithmetic.op)
        rounding = {3: arithmetic.round}
        for stage in range(4, 8):
            op[stage] = delay(op[stage - 1], stage, "op", valid[stage - 1])
            rounding[stage] = delay(rounding[stage - 1], stage, "round", valid[stage - 1])
        product = {stage: one_of(op[stage], Op.MUL, Op.RESCALE, Op.LSL) for stage in (4, 5)}
        table = one_of(op[4], Op.TABLE8, Op.TABLE16)
        m.d.comb += [
            control.s3_enable.eq(valid[3]),
            control.s3_op.eq(op[3]),
            control.s3_a_zp.eq(arithmetic.a_zp),
            control.s3_bias.eq(arithmetic.bias),
            control.s3_per_channel.eq(arithmetic.per_channel),
            control.s3_multiplier.eq(arithmetic.multiplier),
            control.s3_shift.eq(arithmetic.shift),
            control.s4_product.eq(valid[4] & product[4]),
            control.s4_table.eq(valid[4] & table),
            control.s4_simple.eq(valid[4] & ~product[4] & ~table),
            control.s4_rescale.eq(valid[4] & (op[4] == Op.RESCALE)),
            control.s4_double_round.eq(rounding[4] & (op[4] == Op.RESCALE)),
            control.s4_op.eq(op[4]),
            control.s5_enable.eq(valid[5]),
            control.s5_product.eq(product[5]),
            control.s5_rescale.eq(op[5] == Op.RESCALE),
            control.s5_table8.eq(op[5] == Op.TABLE8),
            control.s5_table16.eq(op[5] == Op.TABLE16),
            control.s6_enable.eq(valid[6]),
            control.s6_rescale.eq(op[6] == Op.RESCALE),
            control.s6_table16.eq(op[6] == Op.TABLE16),
            control.s7_enable.eq(valid[7]),
            control.s7_out_zp.eq(self.out_zp),
            control.s7_round.eq(one_of(op[7], Op.MUL, Op.RESCALE) | ((op[7] == Op.ASR) & rounding[7])),
        ]
        look_up("out_zp", 6)

        # 8: limits; 9: destination.
        finish: Finish = self.finish
        limits: Bounds = self.limits
        look_up("finish", 7)
        look_up("limits", 7)
        m.d.comb += [
            control.s8_enable.eq(valid[8]),
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
            self.pack.eq(valid[9] & to_memory),
        ]
        return m


__all__ = ["LATENCY_CYCLES", "STORE_STAGE", "Pipeline"]
