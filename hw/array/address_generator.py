"""Turns jobs into slots: what the array reads and does in each of its advances."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for, exact_log2

from ..config import Config
from .delivery_counter import DeliveryCounter
from .dense_counter import DenseCounter
from .depthwise_counter import DepthwiseCounter
from .kernel_counter import KernelCounter
from .layouts import ArrayJob, Slot
from .pixel_counter import PixelCounter


class AddressGenerator(wiring.Component):
    """One slot per advance, without a pause between jobs.

    Output stationary (`DenseCounter`): a step is W slots, weight word j of the step in slot j, the read of row i in
    slot i. The last slot of a tile delivers row 0, the following ones the other rows, whatever else they do; with no
    job to follow, empty slots carry the rows below row 0 to their end (`DeliveryCounter`). With `more_blocks` the tile
    comes again, with the weights that follow. A tile of few pixels divides the rows into parts, of which all deliver.

    Depthwise (`DepthwiseCounter`): a slot for each row that is not idle loads weights, and one vector per slot streams
    past them. Empty slots carry the last sums past the idle rows, if no slots of another such job do.

    Ports:
        jobs (stream of ArrayJob, in): GOs in order; one is taken together with the last slot of the one before.
        slots (stream of Slot, out): slots in order.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {"jobs": In(stream.Signature(ArrayJob())), "slots": Out(stream.Signature(Slot(config)))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.dense = dense = DenseCounter(self._config)
        m.submodules.depthwise = depthwise = DepthwiseCounter(self._config)
        m.submodules.deliveries = deliveries = DeliveryCounter(self._config)
        m.submodules.pixels = PixelCounter(self._config)
        m.submodules.kernel = KernelCounter(self._config)
        job, first = Signal(ArrayJob(), reset_less=True), self.jobs.payload
        active, last, begin, advance = Signal(), Signal(), Signal(), Signal()
        # An active job has a slot in every cycle, and while there is none what it moves is loaded: so it moves where
        # slots are taken, whether there is one or not.
        moves = self.slots.ready
        m.d.comb += [
            dense.running.eq(active & ~job.is_depthwise),
            depthwise.running.eq(active & job.is_depthwise),
            last.eq(Mux(job.is_depthwise, depthwise.last, dense.last)),
            self.slots.valid.eq(active | deliveries.flushing | depthwise.flushing),
            advance.eq(self.slots.valid & self.slots.ready),
            self.jobs.ready.eq(
                (~self.slots.valid | (advance & (~active | last))) & self._rows_are_free(m, active, job)
            ),
            # Off the critical path: the counters load whatever is offered, also when no job is taken. The handshake of
            # `jobs` comes late and would have to enable hundreds of registers; without a job their values are unused.
            begin.eq(~active | (moves & last)),
        ]
        with m.If(begin):
            m.d.sync += job.eq(first)
        with m.If(self.jobs.valid & self.jobs.ready):
            m.d.sync += active.eq(1)
        with m.Elif(advance & last):
            m.d.sync += active.eq(0)
        for counter in (dense, depthwise):
            m.d.comb += [
                counter.load.eq(begin),
                counter.first.eq(first),
                counter.job.eq(job),
                counter.advance.eq(advance),
            ]
        m.d.comb += [
            deliveries.advance.eq(advance),
            deliveries.mac.eq(dense.running),
            deliveries.drain.eq(dense.tile_end & job.drain),
            deliveries.tile_rows.eq(dense.tile_rows),
            deliveries.split.eq(dense.split),
            self.slots.payload.last.eq(active & last),
        ]
        self._count(m, job, begin, moves)
        self._walk_image(m, job, begin, moves)
        self._control(m, job)
        return m

    def _rows_are_free(self, m: Module, active: Signal, job: data.View) -> Value:
        """Whether the rows are free for the next job's slots when those before it are over."""
        dense, depthwise, first = m.submodules.deliveries, m.submodules.depthwise, self.jobs.payload
        # A depthwise job uses every row at once, and a dense one may not come among the sums of a depthwise one.
        # Partial sums are counted from the beginning of a job.
        hands_on = first.accumulate | ~first.drain
        after_dense = Mux(active, job.is_depthwise, dense.flushed)
        # Lower parts of the rows may read the bank in which weights begin that do not at a whole step.
        apart = ~self._crosses_banks(first) | (~active & dense.flushed)
        return Mux(
            first.is_depthwise,
            after_dense & (depthwise.flushed | ~hands_on),
            apart & depthwise.flushed,
        )

    def _crosses_banks(self, job: data.View) -> Value:
        """Whether a job's words may meet those of the parts of a tile before it in a bank."""
        if self._config.most_row_parts == 1:
            return Const(0)
        return job.weights[: exact_log2(self._config.columns)].any()

    def _count(self, m: Module, job: data.View, begin: Signal, moves: Signal) -> None:
        """Counts what is left of the job, and moves its place in the weight memory."""
        dense, depthwise, first = m.submodules.dense, m.submodules.depthwise, self.jobs.payload
        left = Signal.like(job.count, reset_less=True)  # output stationary: pixels from this tile on
        weights = Signal(bits_for(self._config.wm_words - 1), reset_less=True)
        with m.If(moves & (depthwise.stream | dense.tile_done)):
            m.d.sync += left.eq(left - Mux(job.is_depthwise, 1, self._config.rows))
        following = weights + 1
        if self._config.most_row_parts > 1:
            following = Mux(dense.step_end, self._next_step(m, job, begin, moves), following)
        with m.If(moves & (dense.running | depthwise.load_weights)):
            m.d.sync += weights.eq(Mux(dense.tile_done, job.weights, following))
        with m.If(begin):
            m.d.sync += [left.eq(first.count), weights.eq(first.weights)]
        slot = self.slots.payload
        m.d.comb += [
            dense.left.eq(left),
            depthwise.left.eq(left),
            slot.read_weights.eq(dense.running | depthwise.load_weights),
            slot.weights.eq(weights),
            slot.streamed.eq(dense.fresh),
            slot.split.eq(dense.split & dense.running.replicate(len(dense.split))),
        ]

    def _next_step(self, m: Module, job: data.View, begin: Signal, moves: Signal) -> Value:
        """The first word of the step that no part of the rows has taken."""
        dense = m.submodules.dense
        step = Signal(bits_for(self._config.wm_words - 1), reset_less=True)
        following = Mux(dense.exhausted, step, step + self._config.columns)
        with m.If(moves & dense.step_taken):
            m.d.sync += step.eq(following)
        with m.If(moves & dense.tile_done):
            m.d.sync += step.eq(job.weights)
        with m.If(begin):
            m.d.sync += step.eq(self.jobs.payload.weights)
        return following

    def _walk_image(self, m: Module, job: data.View, begin: Signal, moves: Signal) -> None:
        """The word of the image that a slot reads: the pixel's place and the step's offset."""
        dense, depthwise, first = m.submodules.dense, m.submodules.depthwise, self.jobs.payload
        pixels, kernel, slot = m.submodules.pixels, m.submodules.kernel, self.slots.payload
        m.d.comb += [
            pixels.load.eq(begin),
            pixels.first_input.eq(first.input),
            pixels.first_window.eq(first.window),
            pixels.window.eq(job.window),
            pixels.advance.eq(moves),
            pixels.move.eq(depthwise.stream | dense.move),
            pixels.set_mark.eq(dense.tile_begin),
            pixels.go_back.eq(dense.go_back),
            kernel.load.eq(begin),
            kernel.kernel.eq(job.kernel),
            kernel.advance.eq(moves & dense.step_taken),
            dense.last_step.eq(kernel.last),
            slot.read.eq(depthwise.stream | dense.read),
            slot.column.eq(pixels.pixel.column + kernel.column),
            slot.line.eq(pixels.pixel.line + kernel.line),
            slot.base.eq(pixels.pixel.base + kernel.base),
            slot.pitch.eq(job.window.y_step_bytes >> 1),
            slot.row_bytes.eq(job.input.row_bytes),
            slot.height.eq(job.input.height),
            slot.input_zp.eq(job.input.input_zp),
            slot.weight_zp.eq(job.input.weight_zp),
            slot.unsigned_input.eq(job.input.unsigned_input),
        ]

    def _control(self, m: Module, job: data.View) -> None:
        """Sets what a slot does in the PE array."""
        dense, depthwise, deliveries = m.submodules.dense, m.submodules.depthwise, m.submodules.deliveries
        control = self.slots.payload.control
        m.d.comb += [
            control.depthwise.eq(depthwise.running | depthwise.flushing),
            control.mac.eq(dense.running),
            control.start.eq(dense.start),
            control.clear.eq(dense.running & dense.tile_begin & ~job.accumulate),
            control.load.eq(depthwise.load_weights),
            control.stream.eq(depthwise.stream),
            # Sums that are left from the job before go to the vector unit.
            control.deliver.eq(deliveries.deliver | (depthwise.output & (job.drain | ~depthwise.running))),
            control.gather.eq(deliveries.gather),
            control.add.eq(deliveries.add),
            control.place.eq(deliveries.place),
            control.keep.eq(depthwise.output & ~job.drain & depthwise.running),
            control.resume.eq(depthwise.begin & job.accumulate),
            control.group.eq(depthwise.group),
            control.paired.eq(depthwise.stream & job.depthwise.paired),
            control.pointer_1.eq(depthwise.pointer_1),
            control.pointer.eq(depthwise.pointer),
            control.filled.eq(depthwise.filled),
            control.row.eq(Mux(control.depthwise, depthwise.row, deliveries.row)),
        ]
