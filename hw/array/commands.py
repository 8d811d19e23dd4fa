"""Takes the array's commands: builds jobs, waits for tokens and signals when jobs have made their reads."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..interfaces import Command, Tokens
from ..isa import Opcode, layout
from ..layouts import shapes
from .layouts import ArrayJob

SIGNALS = 4
"""SIGNALs that may wait for their job while the queue goes on."""
JOB_NUMBER_BITS = 4
"""At most seven jobs are under way, of a slot each, and at most as many were handed out behind a SIGNAL that waits for
its turn at the semaphores: the sign of the difference of two job numbers tells which comes first."""
MOST_BEHIND = (1 << (JOB_NUMBER_BITS - 1)) - 1


class PendingSignal(data.StructLayout):
    """A SIGNAL, and the number of jobs handed out before it."""

    def __init__(self, core_mask_bits: int):
        tokens = shapes(Opcode.ARRAY_SIGNAL, "semaphore", "count")
        super().__init__({**tokens, "cores": core_mask_bits, "after": JOB_NUMBER_BITS})


class ArrayCommands(wiring.Component):
    """Command decoder.

    Configuration and one GO are taken while the job before is running, so that jobs follow each other without a pause.
    A SIGNAL is put aside until every GO before it is `finished`; a WAIT stops the queue.

    Ports:
        commands (Command, in): the unit's queue.
        jobs (stream of ArrayJob, out): GOs in order, each with its configuration.
        tokens (Tokens, out): the semaphores.
        finished (1, in): one cycle: the oldest job handed out has made its last read.
        fault (1, out): one cycle, the one after: a GO was illegal and dropped, or an opcode was not of this unit.
        busy (1, out): a job or a signal is not complete.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "commands": In(Command),
                "jobs": Out(stream.Signature(ArrayJob())),
                "tokens": Out(Tokens(config.core_mask_bits)),
                "finished": In(1),
                "fault": Out(1),
                "busy": Out(1),
            }
        )
        # Numbers of the jobs handed out and finished, and that one is handed out; for the proofs.
        self.handed, self.done, self.hands_out = Signal(JOB_NUMBER_BITS), Signal(JOB_NUMBER_BITS), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job = Signal(ArrayJob(), reset_less=True)
        pending, checked, unknown = Signal(), Signal(), Signal()
        # A bit per opcode of the configuration: it was set up since the reset. `sums`: there are sums to go on from.
        set_up, sums = Signal(4), Signal()
        handed, done, crowded = self.handed, self.done, Signal()
        m.d.comb += [self.jobs.payload.eq(job), self.jobs.valid.eq(checked)]
        self._take(m, job, set_up, pending, unknown)

        # A job is checked in the cycle after it is taken, off the address generator's critical path.
        has_input, has_window, has_kernel, has_depthwise = set_up
        defined = has_input & has_window & Mux(job.is_depthwise, has_depthwise, has_kernel)
        legal = self._legal(m, job) & defined & (job.is_depthwise | ~job.accumulate | sums)
        m.d.comb += self.hands_out.eq(pending & ~checked & legal & ~crowded)
        with m.If(pending & ~checked):
            with m.If(legal & ~crowded):
                m.d.sync += [checked.eq(1), handed.eq(handed + 1), sums.eq(self._leaves_sums(job))]
            with m.Elif(~legal):
                m.d.sync += pending.eq(0)
        with m.If(self.jobs.valid & self.jobs.ready):
            m.d.sync += [pending.eq(0), checked.eq(0)]
        with m.If(self.finished):
            m.d.sync += done.eq(done + 1)
        m.d.sync += self.fault.eq(unknown | (pending & ~checked & ~legal))

        waits = self._signal(m, crowded, pending & ~checked)
        m.d.comb += self.busy.eq(pending | (handed != done) | waits | self.fault)
        return m

    def _leaves_sums(self, job: data.View) -> Value:
        """Whether there are sums to go on from after a job: not those of a depthwise one, nor of divided rows, which
        only a drained job has."""
        return ~(job.is_depthwise | (job.drain & (self._config.most_row_parts > 1)))

    def _take(self, m: Module, job: data.View, set_up: Signal, pending: Signal, unknown: Signal) -> None:
        """Configuration and GOs go into `job` unless a GO is `pending`; `unknown` where the opcode is."""
        word = self.commands.payload
        wait = layout(Opcode.ARRAY_WAIT)(word)
        # Off the critical path: a WAIT's tokens arrive late in the cycle, so nothing but its `ready` depends on them.
        taken = Signal()
        m.d.comb += [
            taken.eq(self.commands.valid & ~pending),
            self.commands.ready.eq(~pending),
            self.tokens.semaphore.eq(wait.semaphore),
            self.tokens.count.eq(wait.count),
        ]
        configuration = {
            Opcode.ARRAY_INPUT: job.input,
            Opcode.ARRAY_WINDOW: job.window,
            Opcode.ARRAY_KERNEL: job.kernel,
            Opcode.ARRAY_DEPTHWISE: job.depthwise,
        }
        with m.Switch(word[:8]):
            for bit, (opcode, target) in enumerate(configuration.items()):
                with m.Case(opcode), m.If(taken):
                    m.d.sync += [target.eq(word[16:]), set_up[bit].eq(1)]
            with m.Case(Opcode.ARRAY_GO), m.If(taken):
                go = layout(Opcode.ARRAY_GO)(word)
                m.d.sync += [
                    pending.eq(1),
                    job.is_depthwise.eq(0),
                    job.weights.eq(go.weights),
                    job.count.eq(go.pixels),
                    job.accumulate.eq(go.accumulate),
                    job.drain.eq(go.drain),
                    job.more_blocks.eq(go.more_blocks),
                    job.streamed.eq(go.streamed),
                ]
            with m.Case(Opcode.ARRAY_DEPTHWISE_GO), m.If(taken):
                go = layout(Opcode.ARRAY_DEPTHWISE_GO)(word)
                m.d.sync += [
                    pending.eq(1),
                    job.is_depthwise.eq(1),
                    job.weights.eq(go.weights),
                    job.count.eq(go.advances),
                    job.group_rows.eq(go.group_rows),
                    job.idle_rows.eq(go.idle_rows),
                    job.accumulate.eq(go.accumulate),
                    job.drain.eq(go.drain),
                    job.more_blocks.eq(0),
                    job.streamed.eq(0),
                ]
            with m.Case(Opcode.ARRAY_WAIT):
                m.d.comb += [self.tokens.wait.eq(self.commands.valid), self.commands.ready.eq(self.tokens.ok)]
            with m.Case(Opcode.ARRAY_SIGNAL):
                pass
            with m.Default():
                m.d.comb += unknown.eq(taken)

    def _signal(self, m: Module, crowded: Signal, unchecked: Value) -> Value:
        """Puts SIGNALs aside, not while a GO before them is `unchecked`; whether one waits. `crowded`: too many jobs
        were handed out behind one."""
        word, handed, done = self.commands.payload, self.handed, self.done
        mask_bits = self._config.core_mask_bits
        pending = PendingSignal(mask_bits)
        m.submodules.signals = signals = fifo.SyncFIFO(width=pending.size, depth=SIGNALS)
        command, head = layout(Opcode.ARRAY_SIGNAL)(word), pending(signals.r_data)
        is_signal, put_aside = Signal(), Signal()
        m.d.comb += [
            is_signal.eq(word[:8] == Opcode.ARRAY_SIGNAL),
            put_aside.eq(signals.w_rdy & ~unchecked),
        ]
        with m.If(is_signal):
            m.d.comb += self.commands.ready.eq(put_aside)
        m.d.comb += [
            signals.w_data.eq(Cat(command.semaphore, command.count, command.cores[:mask_bits], handed)),
            signals.w_en.eq(is_signal & self.commands.valid & put_aside),
            signals.r_en.eq(self.tokens.signal),
            crowded.eq(signals.r_rdy & ((handed - head.after)[:JOB_NUMBER_BITS] == MOST_BEHIND)),
            self.tokens.signal.eq(
                signals.r_rdy & ~(done - head.after)[JOB_NUMBER_BITS - 1] & ~self.tokens.signal_full
            ),
            self.tokens.signal_semaphore.eq(head.semaphore),
            self.tokens.signal_count.eq(head.count),
            self.tokens.signal_cores.eq(head.cores),
        ]
        return signals.r_rdy

    def _legal(self, m: Module, job: data.View) -> Signal:
        """Whether no field makes a counter run away or an operand too wide, and a pair's words are the memory's."""
        config = self._config
        convolution, depthwise, pairs, operands, legal = (Signal() for _ in range(5))
        pairs_of_room = Signal(signed(len(job.depthwise.delay)))
        offset_bits = exact_log2(config.word_bytes)
        one_tile, plain = job.count <= config.rows, job.drain & ~job.accumulate
        m.d.comb += [
            convolution.eq(
                job.kernel.ky_count.any()
                & job.kernel.run_count.any()
                & job.kernel.chunks.any()
                & Mux(job.more_blocks.any(), one_tile & plain, one_tile | plain)
            ),
            # Both words of a pair are aligned, one an even and one an odd word; there is room for them: at least 2.
            pairs_of_room.eq((job.depthwise.delay - job.group_rows) >> 1),
            pairs.eq(
                ~job.input.address[:offset_bits].any()
                & ~job.window.x_step[:offset_bits].any()
                & ~job.window.y_step_bytes[: offset_bits + 1].any()
                & job.window.y_step_bytes[offset_bits + 1]
                & ~pairs_of_room[-1]
                & pairs_of_room[:-1].any()
            ),
            depthwise.eq(
                (job.depthwise.delay >= 2)
                & (job.depthwise.delay <= config.line_pixels)
                & job.depthwise.line.any()
                & job.depthwise.x_stride.any()
                & job.depthwise.y_stride.any()
                & job.group_rows.any()
                & (plain | (~job.idle_rows.any() if config.partial_sums else 0))
                & (job.idle_rows < config.rows)
                & (~job.depthwise.paired | pairs)
            ),
            # Operands minus their zero points fit the multipliers: 0..255 of bytes without a sign, else -128..128.
            operands.eq(
                Mux(job.input.unsigned_input, job.input.input_zp >= 0, _is_byte_or_128(job.input.input_zp))
                & _is_byte_or_128(job.input.weight_zp)
            ),
            legal.eq(
                job.count.any()
                & job.window.width.any()
                & operands
                & Mux(job.is_depthwise, depthwise, convolution)
            ),
        ]
        return legal


def _is_byte_or_128(zero_point: Value) -> Value:
    """Whether it is in -128..128."""
    return (zero_point >= -128) & (zero_point <= 128)
