"""The loop counters of a depthwise job: slots that load weights, the vectors' places in the delay line."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from ..isa import Opcode, width
from .layouts import ArrayJob, group_count
from .output_counter import OutputCounter


class DepthwiseCounter(wiring.Component):
    """A slot for each row that is not idle loads its weights. The vectors begin with the first of these slots when no
    weight can be late for an output (skip >= those rows), and otherwise as many slots later as it takes.

    A sum that has passed the last tap still passes the idle rows, in slots of the next job or in empty ones.

    Ports:
        load (1, in), first (ArrayJob, in): a job may begin in the next cycle, `first` if it is taken.
        running (1, in), job (ArrayJob, in): a depthwise job is running, and which.
        advance (1, in): a slot is taken.
        left (ARRAY_DEPTHWISE_GO.advances, in): vectors to come, with this one.
        load_weights (1, out): the slot loads weights.
        group (0..groups-1, out): delay group of the row whose weights are loaded.
        row (0..rows-1, out): row whose weights are loaded, later the last one, which delivers.
        stream (1, out): the slot streams a vector.
        pointer_1, pointer (0..line_pixels-1, out): its place in the delay line's memories: group 1, groups above.
        filled (2, out): a bit per memory: its pointer has been around.
        begin (1, out): a sum that will be an output enters row 0 in this slot.
        output (1, out): the slot finishes such a sum, in the last row.
        flushing (1, out): sums are in the rows; empty slots must come if there is no job.
        flushed (1, out): none is, after this slot, whose job finishes them.
        last (1, out): last slot of the job.
    """

    def __init__(self, config: Config):
        self._config = config
        pointer = range(config.line_pixels)
        super().__init__(
            {
                "load": In(1),
                "first": In(ArrayJob()),
                "running": In(1),
                "job": In(ArrayJob()),
                "advance": In(1),
                "left": In(width(Opcode.ARRAY_DEPTHWISE_GO, "advances")),
                "load_weights": Out(1),
                "group": Out(range(group_count(config))),
                "row": Out(bits_for(config.rows - 1)),
                "stream": Out(1),
                "pointer_1": Out(pointer),
                "pointer": Out(pointer),
                "filled": Out(2),
                "begin": Out(1),
                "output": Out(1),
                "flushing": Out(1),
                "flushed": Out(1),
                "last": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.outputs = outputs = OutputCounter()
        m.d.comb += [
            outputs.load.eq(self.load),
            outputs.first.eq(self.first.depthwise),
            outputs.running.eq(self.job.depthwise),
            outputs.advance.eq(self.advance & self.stream),
            self.begin.eq(self.stream & outputs.output),
        ]
        self._finish(m)
        self._load_weights(m)
        self._stream(m)
        # A pair's second row is one kernel row nearer in the chain, so its turn is shorter by `group_rows`.
        end = self.first.depthwise.delay - 1
        nearer = Mux(self.first.depthwise.paired, self.first.group_rows, 0)
        filled = [self._circle(m, self.pointer_1, end - nearer), self._circle(m, self.pointer, end)]
        m.d.comb += self.filled.eq(Cat(filled))
        return m

    def _finish(self, m: Module) -> None:
        """A sum is in the last row `rows` - 1 slots after it was in row 0. With its job end the sums that have not
        passed the last tap."""
        rows = self._config.rows
        on_their_way = Signal(rows - 1)
        passing, following = Cat(self.begin, on_their_way), Signal(rows - 1)
        past_taps = Cat(self.job.idle_rows > rows - 2 - row for row in range(rows - 1))
        ends = Mux(self.running & self.last, past_taps, ~Const(0, rows - 1))
        m.d.comb += [
            self.output.eq(passing[-1]),
            self.flushing.eq(on_their_way.any()),
            following.eq(passing & ends),
            self.flushed.eq(~following.any()),
        ]
        with m.If(self.advance):
            m.d.sync += on_their_way.eq(following)

    def _load_weights(self, m: Module) -> None:
        """Rows in order, and their delay groups: `group_rows` rows each, the last group takes the rest."""
        rows, group, row = (
            self._config.rows,
            Signal.like(self.group, reset_less=True),
            Signal.like(self.row, reset_less=True),
        )
        left, loading = Signal(range(rows + 1), reset_less=True), Signal(reset_less=True)  # left != 0
        group_left = Signal(width(Opcode.ARRAY_DEPTHWISE_GO, "group_rows"), reset_less=True)
        m.d.comb += [
            self.load_weights.eq(self.running & loading),
            self.group.eq(group),
            self.row.eq(Mux(self.load_weights, row, rows - 1)),
        ]
        with m.If(self.advance & self.load_weights):
            m.d.sync += [
                left.eq(left - 1),
                row.eq(row + 1),
                loading.eq(left != 1),
                group_left.eq(Mux(group_left == 1, self.job.group_rows, group_left - 1)),
            ]
            with m.If(group_left == 1):
                m.d.sync += group.eq(Mux(group == group_count(self._config) - 1, group, group + 1))
        with m.If(self.load):
            m.d.sync += [left.eq(rows - self.first.idle_rows), row.eq(0), loading.eq(1)]
            m.d.sync += [group.eq(0), group_left.eq(self.first.group_rows)]

    def _stream(self, m: Module) -> None:
        """Decides when the vectors begin, and when they end."""
        rows, skip = Signal(range(self._config.rows + 1)), self.first.depthwise.skip
        m.d.comb += rows.eq(self._config.rows - self.first.idle_rows)
        wait, arriving = Signal.like(rows, reset_less=True), Signal(reset_less=True)  # wait == 0
        last_left = Signal(reset_less=True)  # left == 1
        m.d.comb += [self.stream.eq(self.running & arriving), self.last.eq(arriving & last_left)]
        with m.If(self.advance & self.running & ~arriving):
            m.d.sync += [wait.eq(wait - 1), arriving.eq(wait == 1)]
        with m.If(self.advance & self.stream):
            m.d.sync += last_left.eq(self.left == 2)
        with m.If(self.load):
            m.d.sync += [
                wait.eq(rows - skip),
                arriving.eq(skip >= rows),
                last_left.eq(self.first.count == 1),
            ]

    def _circle(self, m: Module, pointer: Signal, end: Value) -> Signal:
        """Counts vectors by `pointer`, from 0 to `end` (taken with `load`) and round again; whether it was there."""
        place = Signal.like(pointer, name_suffix="_place", reset_less=True)
        last = Signal.like(pointer, name_suffix="_last", reset_less=True)
        filled = Signal(name=f"{pointer.name}_filled", reset_less=True)
        m.d.comb += pointer.eq(place)
        with m.If(self.advance & self.stream):
            m.d.sync += place.eq(place + 1)
            with m.If(place == last):
                m.d.sync += [place.eq(0), filled.eq(1)]
        with m.If(self.load):
            m.d.sync += [place.eq(0), last.eq(end), filled.eq(0)]
        return filled
