"""The W lanes and what is laid out over them: loaded words, accumulators, parameters."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from ..one_hot import only_if
from .element import ElementFormat, Elements
from .lane import Lane
from .lane_control import LaneControl
from .layouts import FetchedWord

PARAMETER_BYTES = 4
"""Bytes of a lane's bias, and of its multiplier, in the activation memory."""


class Lanes(wiring.Component):
    """All inputs come from far away and go to every lane: they are registered before they reach the lanes.

    Ports:
        control (LaneControl, in): the pipeline's.
        loaded (8 W, in): a word of the activation memory: of a load in stage 2, or what `fetched` says.
        fetched (FetchedWord, in): which parameters, or word of the table, `loaded` is.
        selected (W, in): stage 9: the lanes of this beat; only they write a register.
        take_accumulators (1, in): `accumulators` belong to the slot that is issued.
        accumulators (32 W, in): a vector of the array.
        results (W vector_bits, out): stage 10: the lanes' results.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "loaded": In(8 * config.columns),
                "fetched": In(FetchedWord(config)),
                "selected": In(config.columns),
                "take_accumulators": In(1),
                "accumulators": In(32 * config.columns),
                "results": Out(config.vector_bits * config.columns),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, bits = self.config.columns, self.config.vector_bits
        lanes_per_word = width // PARAMETER_BYTES
        control = LaneControl(self.config).create(path=("control",))
        received = flipped(self.control).signature.flatten(self.control)
        for (_, _, source), (_, _, register) in zip(
            received, control.signature.flatten(control), strict=True
        ):
            m.d.sync += register.eq(source)
        loaded = Signal(8 * width, reset_less=True)
        fetched = Signal(FetchedWord(self.config))
        selected = Signal(width, reset_less=True)
        m.d.sync += [loaded.eq(self.loaded), fetched.eq(self.fetched), selected.eq(self.selected)]

        # Accumulators arrive with the issue, loads three cycles later: the accumulators wait.
        taken, accumulators = self.take_accumulators, self.accumulators
        for stage in range(4):
            held = Signal(32 * width, name=f"s{stage}_accumulators", reset_less=True)
            with m.If(taken):
                m.d.sync += held.eq(accumulators)
            took = Signal(name=f"s{stage}_taken")
            m.d.sync += took.eq(taken)
            taken, accumulators = took, held

        # A splat: element 0 goes to all lanes, whose own elements are then without a size.
        m.submodules.first = first = Elements(self.config, 1)
        m.submodules.elements = elements = Elements(self.config, width)
        splat, format = Signal(bits, reset_less=True), Signal(ElementFormat, reset_less=True)
        m.d.comb += [
            first.word.eq(self.loaded),
            first.format.eq(self.control.s2.element),
            elements.word.eq(loaded),
            elements.format.eq(format),
            elements.splat.eq(splat),
        ]
        m.d.sync += [
            splat.eq(only_if(self.control.s2.splat, first.elements[0])),
            format.eq(only_if(~self.control.s2.splat, self.control.s2.element.as_value())),
        ]
        results = []
        for i in range(width):
            m.submodules[f"lane_{i}"] = lane = Lane(self.config)
            connect(m, control, lane.control)
            here = fetched.word == i // lanes_per_word
            m.d.comb += [
                lane.selected.eq(selected[i]),
                lane.element.eq(elements.elements[i]),
                lane.accumulator.eq(accumulators[32 * i :][:32]),
                lane.write_parameters.bias.eq(fetched.bias & here),
                lane.write_parameters.multiplier.eq(fetched.multiplier & here),
                lane.write_parameters.shift.eq(fetched.shift),
                lane.write_parameters.word.eq(loaded[32 * (i % lanes_per_word) :][:32]),
                lane.write_parameters.byte.eq(loaded[8 * i :][:8]),
                lane.write_table.enable.eq(fetched.table),
                lane.write_table.address.eq(fetched.word),
                lane.write_table.word.eq(loaded),
            ]
            results.append(lane.result)
        m.d.comb += self.results.eq(Cat(results))
        return m
