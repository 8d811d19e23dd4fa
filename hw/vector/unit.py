"""The vector unit."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from ..interfaces import AmRead, AmWrite, Command, Lookahead, Tokens, UnitStatus, accumulators
from ..isa import Opcode, layout
from ..layouts import shapes
from .beats import Beats
from .commands import VectorCommands
from .definitions import Definitions
from .issue import Issuer
from .lanes import Lanes
from .loop_counter import LoopCounter
from .next_params import NextParams
from .parameter_fetch import ParameterFetch
from .pipeline import Pipeline
from .program import MicroOpStore
from .store import Store
from .streams import Streams


class VectorUnit(wiring.Component):
    """Executes the VECTOR commands of the instruction set; docs/timing.md says what they mean.

    Ports:
        commands (Command, in), lookahead (Lookahead, in): instructions in program order, and the one that comes next.
        accumulators (accumulators, in): vectors out of the array.
        read (AmRead, out), write (AmWrite, out): the activation memory. Both must always be granted.
        tokens (Tokens, out): the semaphores.
        status (Status, out): to sequencer and counters; after an error the unit stops until reset.
        mark (1, out), mark_layer (VECTOR_MARK.layer, out): one cycle: all before this VECTOR_MARK is complete.
        tested, test_value (1, out): one cycle: the byte of a VECTOR_TEST is there, and whether it is other than 0.
        active (1, out): a beat of a micro-op's slot is issued in this cycle.
        stall_array (1, out): the one at the head waits for a vector of the array.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "commands": In(Command),
                "lookahead": In(Lookahead()),
                "accumulators": In(accumulators(config)),
                "read": Out(AmRead(config)),
                "write": Out(AmWrite(config)),
                "tokens": Out(Tokens(config.core_mask_bits)),
                "status": Out(UnitStatus()),
                "mark": Out(1),
                "mark_layer": Out(*shapes(Opcode.VECTOR_MARK, "layer").values()),
                "tested": Out(1),
                "test_value": Out(1),
                "active": Out(1),
                "stall_array": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.commands = commands = VectorCommands(config)
        m.submodules.definitions = definitions = Definitions(config)
        m.submodules.program = program = MicroOpStore(config)
        m.submodules.loops = loops = LoopCounter(config)
        m.submodules.beats = Beats(config)
        m.submodules.issuer = issuer = Issuer(config)
        m.submodules.pipeline = pipeline = Pipeline(config)
        m.submodules.fetch = fetch = ParameterFetch(config)
        m.submodules.next_params = next_params = NextParams(config)
        m.submodules.streams = Streams(config)
        m.submodules.lanes = Lanes(config)
        m.submodules.store = Store(config)
        self._fetch(m)
        self._run(m)
        self._move_data(m)

        # The command's fields go to everyone; the start signals say for whom they are.
        connect(m, flipped(self.commands), commands.commands)
        connect(m, flipped(self.lookahead), commands.lookahead)
        connect(m, flipped(self.lookahead), definitions.lookahead)
        connect(m, commands.tokens, flipped(self.tokens))
        quiet = ~issuer.busy & pipeline.drained & ~fetch.busy
        issued = loops.idle & ~issuer.busy & ~fetch.busy
        m.d.comb += [
            definitions.word.eq(commands.word),
            definitions.has_uop.eq(commands.has_uop),
            definitions.has_bounds.eq(commands.has_bounds),
            definitions.has_params.eq(commands.has_params),
            definitions.has_table.eq(commands.has_table),
            commands.missing.eq(definitions.missing),
            program.write_uop.eq(commands.write_uop),
            program.uop.eq(commands.word),
            program.write_bounds.eq(commands.write_bounds),
            program.bounds.eq(commands.word),
            next_params.quiet.eq(quiet),
            commands.may_follow.eq(issued & pipeline.drained),
            commands.may_set_up.eq(issued & pipeline.read),
            commands.may_signal.eq(issued & pipeline.almost_empty),
            self.status.busy.eq(~(issued & pipeline.empty) | self.write.request | commands.taken),
            self.status.progress.eq(issuer.issue | fetch.busy | ~pipeline.empty | commands.taken),
            self.status.error.eq(commands.error),
            self.status.code.eq(commands.code),
            self.mark.eq(commands.mark),
            self.mark_layer.eq(layout(Opcode.VECTOR_MARK)(commands.word).layer),
            self.active.eq(issuer.issue),
            self.stall_array.eq(issuer.stall_array),
        ]
        return m

    def _fetch(self, m: Module) -> None:
        """Parameters, tables, offsets, tests. All their commands have the address in the same place, and the number of
        offsets is where that of a table's entries is."""
        commands, fetch, next_params = m.submodules.commands, m.submodules.fetch, m.submodules.next_params
        params = layout(Opcode.VECTOR_PARAM)(commands.word)
        m.d.comb += [
            next_params.set.eq(commands.start_params),
            next_params.params.eq(params),
            next_params.paused.eq(m.submodules.loops.paused),
            fetch.start_params.eq(commands.start_params | next_params.start),
            fetch.start_table.eq(commands.start_table),
            fetch.start_offsets.eq(commands.start_offsets),
            fetch.start_test.eq(commands.start_test),
            fetch.block.address.eq(Mux(next_params.start, next_params.block.address, params.address)),
            fetch.block.bias.eq(Mux(next_params.start, next_params.block.bias, params.bias)),
            fetch.block.scale.eq(Mux(next_params.start, next_params.block.scale, params.scale)),
            fetch.block.narrow.eq(Mux(next_params.start, next_params.block.narrow, params.narrow)),
            fetch.entries.eq(layout(Opcode.VECTOR_TABLE)(commands.word).entries),
            self.tested.eq(fetch.fetched.test),
            self.test_value.eq(self.read.data[:8].any()),
        ]

    def _run(self, m: Module) -> None:
        """Loops, issue, pipeline."""
        commands, loops, program = m.submodules.commands, m.submodules.loops, m.submodules.program
        issuer, pipeline, streams = m.submodules.issuer, m.submodules.pipeline, m.submodules.streams
        beats = m.submodules.beats
        m.d.comb += [
            beats.configure.eq(commands.start_go),
            beats.lanes.eq(layout(Opcode.VECTOR_GO)(commands.word).lanes),
            beats.sizes.eq(streams.sizes),
            beats.fields.eq(program.issue.data),
            beats.issue.eq(issuer.issue),
            issuer.first.eq(beats.first),
            issuer.more.eq(beats.more),
            loops.start.eq(commands.start_go),
            loops.go.eq(commands.word),
            loops.advance.eq(issuer.advance),
            loops.resume.eq(m.submodules.next_params.resume),
            program.issue.enable.eq(loops.running & issuer.advance),
            program.issue.index.eq(loops.place.index),
            issuer.running.eq(loops.running),
            issuer.next_place.eq(loops.place),
            issuer.fields.eq(program.issue.data),
            issuer.array_valid.eq(self.accumulators.valid),
            self.accumulators.ready.eq(issuer.array_ready),
            pipeline.issue.eq(issuer.issue),
            pipeline.issued.fields.eq(program.issue.data),
            pipeline.issued.place.eq(issuer.place),
            pipeline.issued.element.eq(streams.load_element),
            pipeline.issued.splat.eq(streams.load_splat),
            pipeline.issued.group.eq(beats.group),
            pipeline.issued.ends.eq(~beats.more),
        ]
        connect(m, pipeline.immediate, program.immediate)
        connect(m, pipeline.arithmetic, program.arithmetic)
        connect(m, pipeline.out_zp, program.out_zp)
        connect(m, pipeline.finish, program.finish)
        connect(m, pipeline.limits, program.limits)
        connect(m, pipeline.control, m.submodules.lanes.control)

    def _move_data(self, m: Module) -> None:
        """Streams, lanes, store; the activation memory."""
        commands, issuer, fetch = m.submodules.commands, m.submodules.issuer, m.submodules.fetch
        streams, lanes, store = m.submodules.streams, m.submodules.lanes, m.submodules.store
        m.d.sync += self.read.request.eq(issuer.load | fetch.request)
        m.d.comb += [
            streams.word.eq(commands.word),
            streams.set_stream.eq(commands.set_stream),
            streams.set_dims.eq(commands.set_dims),
            streams.set_offsets.eq(commands.start_offsets),
            commands.streams_settled.eq(streams.settled),
            commands.streams_illegal.eq(streams.illegal),
            streams.idle.eq(commands.may_follow),
            streams.write_offsets.eq(fetch.fetched.offsets),
            streams.offsets_word.eq(fetch.fetched.word),
            streams.data.eq(self.read.data),
            streams.load.eq(issuer.load & ~m.submodules.beats.more),
            streams.load_next_word.eq(issuer.load & m.submodules.beats.next_word),
            streams.loads.eq(issuer.fields.loads),
            self.read.prepare.eq(1),
            self.read.address.eq(Mux(fetch.busy, fetch.read_address, streams.load_address)),
            lanes.loaded.eq(self.read.data),
            lanes.fetched.eq(fetch.fetched),
            lanes.selected.eq(m.submodules.pipeline.selected),
            lanes.take_accumulators.eq(issuer.array_ready),
            lanes.accumulators.eq(self.accumulators.payload),
            lanes.first_column.eq(m.submodules.pipeline.first_column),
            store.configure.eq(commands.start_go),
            store.go.eq(commands.word),
            store.pack.eq(m.submodules.pipeline.pack),
            store.packed.eq(m.submodules.pipeline.packed),
            store.results.eq(lanes.results),
            store.element.eq(streams.store_element),
            store.address.eq(streams.store_address),
            store.last.eq(streams.store_last),
            streams.store.eq(store.step),
            streams.store_next_word.eq(store.next_word),
        ]
        connect(m, store.write, flipped(self.write))
