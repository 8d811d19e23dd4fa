"""The lanes and what is laid out over them: loaded words, accumulators, parameters."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..config import Config
from ..constants import BIAS_BYTES, NARROW_BIAS_BYTES
from ..one_hot import only_if
from .element import ElementFormat, Elements
from .lane import Lane
from .lane_control import LaneControl, lane_column_shape
from .layouts import FetchedWord


class Lanes(wiring.Component):
    """All inputs come from far away and go to every lane: they are registered before they reach the lanes.

    Ports:
        control (LaneControl, in): the pipeline's.
        loaded (8 W, in): a word of the activation memory: of a load in stage 2, or what `fetched` says.
        fetched (FetchedWord, in): which parameters, or word of the table, `loaded` is.
        selected (a bit per lane, in): stage 10: the lanes of this beat; only they write a register.
        take_accumulators (1, in): `accumulators` belong to the slot that is issued.
        accumulators (32 W, in): a vector of the array.
        first_column (0..lane_columns-1, in): stage 0: which of its columns a lane works for.
        results (vector_bits per lane, out): stage 11: the lanes' results.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "loaded": In(8 * config.columns),
                "fetched": In(FetchedWord(config)),
                "selected": In(config.lanes),
                "take_accumulators": In(1),
                "accumulators": In(32 * config.columns),
                "first_column": In(lane_column_shape(config)),
                "results": Out(config.vector_bits * config.lanes),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, lanes, bits = self.config.columns, self.config.lanes, self.config.vector_bits
        control = LaneControl(self.config).create(path=("control",))
        received = flipped(self.control).signature.flatten(self.control)
        for (_, _, source), (_, _, register) in zip(
            received, control.signature.flatten(control), strict=True
        ):
            m.d.sync += register.eq(source)
        loaded = Signal(8 * width, reset_less=True)
        fetched = Signal(FetchedWord(self.config))
        selected = Signal(lanes, reset_less=True)
        m.d.sync += [loaded.eq(self.loaded), fetched.eq(self.fetched), selected.eq(self.selected)]
        accumulators = self._accumulators(m)

        # A splat: element 0 goes to all lanes, whose own elements are then without a size.
        m.submodules.first = first = Elements(self.config, 1)
        m.submodules.elements = elements = Elements(self.config, lanes)
        narrow = {1: loaded, 2: loaded}
        for size in narrow:
            if size < self.config.lane_columns:
                narrow[size] = Signal(8 * size * lanes, name=f"loaded_{size}", reset_less=True)
                m.d.sync += narrow[size].eq(
                    _of_column(self.loaded, self.config.lane_columns // size, self.control.s2_column)
                )
        splat, format = Signal(bits, reset_less=True), Signal(ElementFormat, reset_less=True)
        m.d.comb += [
            first.word.eq(self.loaded),
            first.bytes.eq(self.loaded),
            first.pairs.eq(self.loaded),
            first.format.eq(self.control.s2.element),
            elements.word.eq(loaded),
            elements.bytes.eq(narrow[1]),
            elements.pairs.eq(narrow[2]),
            elements.format.eq(format),
            elements.splat.eq(splat),
        ]
        m.d.sync += [
            splat.eq(only_if(self.control.s2.splat, first.elements[0])),
            format.eq(only_if(~self.control.s2.splat, self.control.s2.element.as_value())),
        ]
        results = []
        for i in range(lanes):
            m.submodules[f"lane_{i}"] = lane = Lane(self.config)
            connect(m, control, lane.control)
            m.d.comb += [
                lane.selected.eq(selected[i]),
                lane.element.eq(elements.elements[i]),
                lane.accumulator.eq(accumulators[32 * i :][:32]),
                lane.write_table.enable.eq(fetched.table),
                lane.write_table.address.eq(fetched.word),
                lane.write_table.word.eq(loaded),
            ]
            for column, write in enumerate(lane.write_parameters):
                self._write_parameters(m, write, column * lanes + i, fetched, loaded)
            results.append(lane.result)
        m.d.comb += self.results.eq(Cat(results))
        return m

    def _accumulators(self, m: Module) -> Signal:
        """Accumulators arrive with the issue, loads three cycles later: the accumulators wait. Of a vector that has
        several beats the first register keeps all, and from then on there is what the beat's columns need."""
        columns = self.config.lane_columns
        held = Signal(len(self.accumulators), name="s0_accumulators", reset_less=True)
        with m.If(self.take_accumulators):
            m.d.sync += held.eq(self.accumulators)
        for stage in range(1, 4):
            source = _of_column(held, columns, self.first_column) if columns > 1 and stage == 1 else held
            held = Signal(len(source), name=f"s{stage}_accumulators", reset_less=True)
            m.d.sync += held.eq(source)
        return held

    def _write_parameters(
        self, m: Module, write: wiring.PureInterface, column: int, fetched: data.View, loaded: Signal
    ) -> None:
        """Writes the part of a fetched word that belongs to this column."""
        word, place = divmod(column, self.config.columns // BIAS_BYTES)
        narrow_word, narrow_place = divmod(column, self.config.columns // NARROW_BIAS_BYTES)
        narrow = loaded[16 * narrow_place :][:16].as_signed()
        m.d.comb += [
            write.bias.eq(
                (fetched.bias & (fetched.word == word))
                | (fetched.narrow_bias & (fetched.word == narrow_word))
            ),
            write.multiplier.eq(fetched.multiplier & (fetched.word == word)),
            write.shift.eq(fetched.shift),
            write.word.eq(Mux(fetched.narrow_bias, narrow, loaded[32 * place :][:32].as_signed())),
            write.byte.eq(loaded[8 * column :][:8]),
        ]


def _of_column(vector: Value, parts: int, column: Value) -> Value:
    """The one of a vector's parts that belongs to the column of each lane."""
    bits = len(vector) // parts
    return Array(vector[bits * part :][:bits] for part in range(parts))[column[: exact_log2(parts)]]
