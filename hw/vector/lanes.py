"""The W lanes and what is laid out over them: loaded words, accumulators, parameters."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from .element import Elements, LoadedElement
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
        m.d.sync += [loaded.eq(self.loaded), fetched.eq(self.fetched)]

        # Accumulators arrive with the issue, loads three cycles later: the accumulators wait.
        taken, accumulators = self.take_accumulators, self.accumulators
        for stage in range(4):
            held = Signal(32 * width, name=f"s{stage}_accumulators", reset_less=True)
            with m.If(taken):
                m.d.sync += held.eq(accumulators)
            took = Signal(name=f"s{stage}_taken")
            m.d.sync += took.eq(taken)
            taken, accumulators = took, held

        # A splat: element 0 goes to all lanes.
        m.submodules.first = first = Elements(self.config)
        splat = Signal(bits, reset_less=True)
        self._spread(m, first.loaded, self.loaded, 0)
        m.d.comb += first.format.eq(self.control.s2.element)
        m.d.sync += splat.eq(first.element)
        results = []
        for i in range(width):
            m.submodules[f"lane_{i}"] = lane = Lane(self.config)
            connect(m, control, lane.control)
            self._spread(m, lane.loaded, loaded, i)
            here = fetched.word == i // lanes_per_word
            m.d.comb += [
                lane.splat.eq(splat),
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

    def _spread(self, m: Module, lane: LoadedElement, word: Signal, i: int) -> None:
        """Element `i` of a word at each size."""
        m.d.comb += [
            lane.bytes8.eq(word[8 * i :][:8]),
            lane.bytes16.eq(word[16 * i :][:16]),
            lane.bytes32.eq(word[32 * i :][:32]),
            lane.bytes64.eq(word[64 * i :][: self.config.vector_bits]),
        ]
