"""The W lanes and what is laid out over them: loaded words, accumulators, parameters."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .element import Elements
from .lane import Lane, drive_control
from .lane_control import LaneControl
from .table import table_words


class Lanes(wiring.Component):
    """All inputs are registered before they reach the lanes.

    - `control`: the pipeline's.
    - `loaded`: W bytes of the activation memory: of a load in stage 2, of a parameter or table word.
    - `take_accumulators`: `accumulators`, W times 32 bits, belong to the slot that is issued.
    - `bias_data`, `multiplier_data`, `shift_data`, `table_data`: `loaded` is word `word` of these.
    - `results` (stage 10): vector_bits of each lane.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "loaded": In(8 * config.columns),
                "take_accumulators": In(1),
                "accumulators": In(32 * config.columns),
                "bias_data": In(1),
                "multiplier_data": In(1),
                "shift_data": In(1),
                "table_data": In(1),
                "word": In(range(table_words(config))),
                "results": Out(config.vector_bits * config.columns),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.config.columns
        lanes_per_word = width // 4
        signature = LaneControl(self.config)

        # All inputs have registers: they come from far away, and go to every lane.
        control = signature.create(path=("control",))
        for name in signature.members:
            m.d.sync += getattr(control, name).eq(getattr(self.control, name))
        loaded = Signal(8 * width, reset_less=True)
        word = Signal.like(self.word)
        m.d.sync += [loaded.eq(self.loaded), word.eq(self.word)]
        writes = {name: Signal(name=name) for name in ("bias", "multiplier", "shift", "table")}
        for name, signal in writes.items():
            m.d.sync += signal.eq(getattr(self, f"{name}_data"))

        # Accumulators arrive with the issue, loads three cycles later.
        taken, accumulators = self.take_accumulators, self.accumulators
        for stage in range(4):
            held = Signal(32 * width, name=f"s{stage}_accumulators", reset_less=True)
            with m.If(taken):
                m.d.sync += held.eq(accumulators)
            took = Signal(name=f"s{stage}_taken")
            m.d.sync += took.eq(taken)
            taken, accumulators = took, held

        # Element 0, for the lanes that all take it.
        bits = self.config.vector_bits
        m.submodules.first = first = Elements(self.config)
        splat = Signal(bits, reset_less=True)
        m.d.comb += [
            first.bytes8.eq(self.loaded),
            first.bytes16.eq(self.loaded),
            first.bytes32.eq(self.loaded),
            first.bytes64.eq(self.loaded),
            first.wide2.eq(self.control.s2_wide2),
            first.wide4.eq(self.control.s2_wide4),
            first.wide8.eq(self.control.s2_wide8),
            first.signed.eq(self.control.s2_signed),
        ]
        m.d.sync += splat.eq(first.element)
        results = []
        for i in range(width):
            m.submodules[f"lane_{i}"] = lane = Lane(self.config)
            drive_control(m, lane.control, signature, control)
            here = word == i // lanes_per_word
            place = 32 * (i % lanes_per_word)
            m.d.comb += [
                lane.bytes8.eq(loaded[8 * i :][:8]),
                lane.bytes16.eq(loaded[16 * i :][:16]),
                lane.bytes32.eq(loaded[32 * i :][:32]),
                lane.bytes64.eq(loaded[64 * i :][:bits]),
                lane.splat.eq(splat),
                lane.accumulator.eq(accumulators[32 * i :][:32]),
                lane.write_bias.eq(writes["bias"] & here),
                lane.write_multiplier.eq(writes["multiplier"] & here),
                lane.write_shift.eq(writes["shift"]),
                lane.parameter_word.eq(loaded[place:][:32]),
                lane.parameter_byte.eq(loaded[8 * i :][:8]),
                lane.write_table.eq(writes["table"]),
                lane.table_word_address.eq(word),
                lane.table_word.eq(loaded),
            ]
            results.append(lane.result)
        m.d.comb += self.results.eq(Cat(results))
        return m


__all__ = ["Lanes"]
