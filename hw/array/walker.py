"""Turns jobs into slots: what the array does in each of its advances."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from .layouts import Job, Slot, group_count
from .pixels import Pixels
from .positions import Positions
from .steps import Steps


class Walker(wiring.Component):
    """One slot per advance, without a pause between jobs.

    Output stationary: a step is W slots, weight word j of the step in slot j, the read of row i in slot i.
    The last slot of a tile delivers row 0, the following ones the other rows, whatever else they do; with no
    job to follow, empty slots carry the rows behind row 0 to their end.
    With `more_blocks` the tile comes again, with the weights behind.
    Depthwise: `rows` slots load the weights. The vectors begin with the first of these slots when no weight
    can be late for an output (skip - (rows - 1) >= rows), and otherwise so much later that this holds.

    jobs: taken when the last slot of the job before is.
    slots: in order.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__({"jobs": In(stream.Signature(Job())), "slots": Out(stream.Signature(Slot(config)))})

    def elaborate(self, platform):
        m = Module()
        config, rows, columns = self._config, self._config.rows, self._config.columns
        job, slot = Signal(Job(), reset_less=True), self.slots.payload
        active, depthwise, advance, last, take = Signal(), Signal(), Signal(), Signal(), Signal()
        begin = Signal()  # whatever job comes, its state may be set up
        flush_left, flushing = Signal(range(rows + 1)), Signal()
        left = Signal(24, reset_less=True)  # pixels from this tile on, or advances
        m.submodules.pixels = pixels = Pixels(config)
        m.submodules.steps = steps = Steps(config)
        m.submodules.positions = positions = Positions()

        following = self.jobs.payload
        m.d.comb += [
            depthwise.eq(active & job.is_depthwise),
            self.slots.valid.eq(active | flushing),
            advance.eq(self.slots.valid & self.slots.ready),
            # A depthwise job uses every row at once: the rows must have finished what came before.
            self.jobs.ready.eq(
                (~self.slots.valid | (advance & (~active | last)))
                & (~following.is_depthwise | Mux(active, job.is_depthwise, flush_left <= 1))
            ),
            take.eq(self.jobs.valid & self.jobs.ready),
            begin.eq(~active | (advance & last)),
        ]
        with m.If(begin):
            m.d.sync += job.eq(following)
        with m.If(take):
            m.d.sync += active.eq(1)
        with m.Elif(advance & last):
            m.d.sync += active.eq(0)

        # Output stationary. A step has at least four slots. So what changes at its end has settled in registers long
        # before its next end: `last_tile` and `tile_rows` in the step's second cycle, `tile_done` in the third.
        phase, phase_begin, phase_end = Signal(range(columns), reset_less=True), Signal(), Signal()
        tile_begin = Signal(reset_less=True)
        mac, tile_end = Signal(), Signal()
        tile_rows, last_tile = Signal(range(rows + 1), reset_less=True), Signal(reset_less=True)
        fresh = Signal(reset_less=True)  # weights are read for the first time
        blocks_left, again = Signal(16, reset_less=True), Signal(reset_less=True)  # blocks behind this one
        tile_done = Signal(reset_less=True)  # with this step the tile is through, in its last block
        m.d.sync += [
            last_tile.eq(left <= rows),
            tile_rows.eq(Mux(left <= rows, left, rows)),
            again.eq(blocks_left.any()),
            tile_done.eq(steps.last & ~again),
        ]
        m.d.comb += [
            mac.eq(active & ~job.is_depthwise),
            tile_end.eq(phase_end & steps.last),
        ]
        with m.If(advance & mac):
            m.d.sync += [
                phase.eq(Mux(phase_end, 0, phase + 1)),
                phase_begin.eq(phase_end),
                phase_end.eq(phase == columns - 2),
                tile_begin.eq(tile_end),
            ]
            with m.If(tile_end & again):
                m.d.sync += blocks_left.eq(blocks_left - 1)
            with m.If(phase_end & tile_done):
                m.d.sync += fresh.eq(0)
        with m.If(advance):
            with m.If(mac):
                m.d.sync += [flush_left.eq(rows - 1), flushing.eq(rows > 1)]
            with m.Elif(flushing):
                m.d.sync += [flush_left.eq(flush_left - 1), flushing.eq(flush_left != 1)]

        # Depthwise.
        load_left, stream_wait = (
            Signal(range(rows + 1), reset_less=True, name=name) for name in ("load_left", "stream_wait")
        )
        group = Signal(range(group_count(config)), reset_less=True)
        group_left = Signal(6, reset_less=True)
        pointer_1, pointer = (
            Signal(range(config.line_pixels), reset_less=True, name=name) for name in ("pointer_1", "pointer")
        )
        filled_1, filled = Signal(reset_less=True), Signal(reset_less=True)
        last_1, last_pointer = Signal.like(pointer_1, reset_less=True), Signal.like(pointer, reset_less=True)
        load, streaming = Signal(), Signal()
        loading, arriving, last_left = (  # load_left != 0, stream_wait == 0, left == 1
            Signal(reset_less=True, name=name) for name in ("loading", "arriving", "last_left")
        )
        m.d.comb += [
            load.eq(depthwise & loading),
            streaming.eq(depthwise & arriving),
            last.eq(Mux(job.is_depthwise, arriving & last_left, phase_end & tile_done & last_tile)),
        ]
        with m.If(advance & load):
            m.d.sync += [load_left.eq(load_left - 1), loading.eq(load_left != 1)]
            m.d.sync += group_left.eq(Mux(group_left == 1, job.group_rows, group_left - 1))
            with m.If(group_left == 1):
                m.d.sync += group.eq(Mux(group == group_count(config) - 1, group, group + 1))
        with m.If(advance & depthwise & ~arriving):
            m.d.sync += [stream_wait.eq(stream_wait - 1), arriving.eq(stream_wait == 1)]
        with m.If(advance & (streaming | (phase_end & tile_done))):
            m.d.sync += left.eq(left - Mux(job.is_depthwise, 1, rows))
        with m.If(advance & streaming):
            m.d.sync += [
                last_left.eq(left == 2),
                pointer_1.eq(pointer_1 + 1),
                pointer.eq(pointer + 1),
            ]
            with m.If(pointer_1 == last_1):
                m.d.sync += [pointer_1.eq(0), filled_1.eq(1)]
            with m.If(pointer == last_pointer):
                m.d.sync += [pointer.eq(0), filled.eq(1)]

        # Deliveries.
        deliver_left, deliver_row = Signal(range(rows + 1)), Signal(range(rows), reset_less=True)
        delivering = Signal()  # deliver_left != 0
        drain = Signal()
        m.d.comb += drain.eq(tile_end & job.drain)
        with m.If(advance):
            with m.If(drain):
                m.d.sync += [
                    deliver_left.eq(tile_rows - 1),
                    delivering.eq(tile_rows != 1),
                    deliver_row.eq(1),
                ]
            with m.Elif(delivering):
                m.d.sync += [
                    deliver_left.eq(deliver_left - 1),
                    delivering.eq(deliver_left != 1),
                    deliver_row.eq(deliver_row + 1),
                ]

        weights = Signal(bits_for(config.wm_words - 1), reset_less=True)
        with m.If(advance & (mac | load)):
            m.d.sync += weights.eq(Mux(phase_end & tile_done, job.weights, weights + 1))

        # Hundreds of registers: so they do not wait for `take`. Without a job they hold nothing of use.
        with m.If(begin):
            skip = following.depthwise.skip
            m.d.sync += [
                left.eq(following.count),
                last_left.eq(following.count == 1),
                phase.eq(0),
                phase_begin.eq(1),
                phase_end.eq(0),
                tile_begin.eq(1),
                load_left.eq(rows),
                loading.eq(1),
                stream_wait.eq(Mux(skip <= rows - 1, rows, 2 * rows - 1 - skip)),
                arriving.eq(skip >= 2 * rows - 1),
                group.eq(0),
                group_left.eq(following.group_rows),
                pointer_1.eq(0),
                pointer.eq(0),
                # The pair's second rows are one kernel row nearer in the chain.
                last_1.eq(
                    following.depthwise.delay - 1 - Mux(following.depthwise.paired, following.group_rows, 0)
                ),
                last_pointer.eq(following.depthwise.delay - 1),
                filled_1.eq(0),
                filled.eq(0),
                weights.eq(following.weights),
                blocks_left.eq(following.more_blocks),
                fresh.eq(following.streamed),
            ]

        m.d.comb += [
            pixels.load.eq(begin),
            pixels.first_input.eq(following.input),
            pixels.first_window.eq(following.window),
            pixels.window.eq(job.window),
            pixels.advance.eq(advance),
            pixels.move.eq(streaming | (mac & (phase < rows))),
            pixels.set_mark.eq(tile_begin),
            pixels.go_back.eq(phase_end & ~tile_done),
            steps.load.eq(begin),
            steps.kernel.eq(job.kernel),
            steps.advance.eq(advance & phase_end),
            positions.load.eq(begin),
            positions.first.eq(following.depthwise),
            positions.running.eq(job.depthwise),
            positions.advance.eq(advance & streaming),
        ]

        control, pixel = slot.control, pixels.pixel
        m.d.comb += [
            control.depthwise.eq(depthwise),
            control.mac.eq(mac),
            control.start.eq(mac & phase_begin),
            control.clear.eq(mac & tile_begin & ~job.accumulate),
            control.load.eq(load),
            control.stream.eq(streaming),
            control.deliver.eq(drain | delivering | (streaming & positions.output)),
            control.group.eq(group),
            control.paired.eq(streaming & job.depthwise.paired),
            control.pointer_1.eq(pointer_1),
            control.pointer.eq(pointer),
            control.filled.eq(Cat(filled_1, filled)),
            slot.last.eq(active & last),
            # The first pixel is always there, and `tile_rows` not yet.
            slot.read.eq(streaming | (mac & (phase_begin | (phase < tile_rows)))),
            slot.column.eq(pixel.column + steps.column),
            slot.line.eq(pixel.line + steps.line),
            slot.base.eq(pixel.base + steps.base),
            slot.pitch.eq(job.window.y_step_bytes >> 1),
            slot.row_bytes.eq(job.input.row_bytes),
            slot.height.eq(job.input.height),
            slot.input_zp.eq(job.input.input_zp),
            slot.weight_zp.eq(job.input.weight_zp),
            slot.unsigned_input.eq(job.input.unsigned_input),
            slot.read_weights.eq(mac | load),
            slot.weights.eq(weights),
            slot.streamed.eq(fresh),
        ]
        with m.If(load):
            m.d.comb += control.row.eq(rows - load_left)
        with m.Elif(depthwise):
            m.d.comb += control.row.eq(rows - 1)
        with m.Elif(~drain):
            m.d.comb += control.row.eq(deliver_row)
        return m
