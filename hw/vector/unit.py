"""The vector unit."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from ..interfaces import AmRead, AmWrite, Command, Lookahead, Status, Tokens, accumulators
from ..isa import OFFSETS_MAX, STORE_STREAM, Element, Opcode, layout
from .commands import Commands
from .fetch import Fetch
from .issue import Issuer
from .lane import drive_control
from .lane_control import LaneControl
from .lanes import Lanes
from .next_params import NextParams
from .offsets import Offsets
from .pipeline import LATENCY_CYCLES, Pipeline
from .program import Program
from .store import Store
from .stream_address import StreamAddress
from .walker import Walker

STREAMS = STORE_STREAM + 1


class VectorUnit(wiring.Component):
    """Executes the VECTOR commands of isa.py; docs/timing.md says what they mean.

    - `commands`: instructions in program order; `lookahead`: the one behind.
    - `accumulators`: vectors out of the array.
    - `read`, `write`: the activation memory. Both must always be granted.
    - `tokens`: the semaphores. `status`: to sequencer and counters; after an error the unit stops until reset.
    - `mark`: VECTOR_MARK number `mark_layer`; all before it is complete (one cycle).
    - `tested`: the byte of a VECTOR_TEST is there, and `test_value` says whether it is other than 0 (one cycle).
    - `active`: a slot of a micro-op is issued in this cycle. `stall_array`: the one at the head waits for a vector of
      the array.
    """

    def __init__(self, config: Config):
        if config.vector_latency_cycles < LATENCY_CYCLES:
            raise ValueError(
                f"vector_latency_cycles must be at least {LATENCY_CYCLES}, not {config.vector_latency_cycles}"
            )
        if not 36 <= config.vector_bits <= 51:
            raise ValueError(f"vector_bits must be in 36..51, not {config.vector_bits}")
        if config.vector_registers > 8:
            raise ValueError(f"vector_registers must be at most 8, not {config.vector_registers}")
        if config.vector_slots > 16:
            raise ValueError(f"vector_slots must be at most 16, not {config.vector_slots}")
        if config.vector_uops > 16:
            raise ValueError(f"vector_uops must be at most 16, not {config.vector_uops}")
        self.config = config
        super().__init__(
            {
                "commands": In(Command),
                "lookahead": In(Lookahead()),
                "accumulators": In(accumulators(config)),
                "read": Out(AmRead(config)),
                "write": Out(AmWrite(config)),
                "tokens": Out(Tokens()),
                "status": Out(Status()),
                "mark": Out(1),
                "mark_layer": Out(16),
                "tested": Out(1),
                "test_value": Out(1),
                "active": Out(1),
                "stall_array": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        m.submodules.commands = commands = Commands(config)
        m.submodules.program = program = Program(config)
        m.submodules.walker = walker = Walker(config)
        m.submodules.issuer = issuer = Issuer(config)
        m.submodules.pipeline = pipeline = Pipeline(config)
        m.submodules.fetch = fetch = Fetch(config)
        m.submodules.lanes = lanes = Lanes(config)
        m.submodules.store = store = Store(config)
        m.submodules.offsets = offsets = Offsets(config)
        streams = [StreamAddress() for _ in range(STREAMS)]
        for i, stream in enumerate(streams):
            m.submodules[f"stream_{i}"] = stream

        connect(m, flipped(self.commands), commands.commands)
        connect(m, flipped(self.lookahead), commands.lookahead)
        connect(m, commands.tokens, flipped(self.tokens))
        connect(m, store.write, flipped(self.write))

        # The command's fields go to everyone; the start signals say for whom they are.
        word = commands.word
        uop, bounds = layout(Opcode.VECTOR_UOP)(word), layout(Opcode.VECTOR_BOUNDS)(word)
        params, table = layout(Opcode.VECTOR_PARAM)(word), layout(Opcode.VECTOR_TABLE)(word)
        set_stream, dims = layout(Opcode.VECTOR_STREAM)(word), layout(Opcode.VECTOR_DIMS)(word)
        go, set_offsets = layout(Opcode.VECTOR_GO)(word), layout(Opcode.VECTOR_OFFSETS)(word)
        next_params = NextParams(config)
        m.submodules.next_params = next_params
        m.d.comb += [
            program.write_uop.eq(commands.write_uop),
            program.uop.eq(uop),
            program.write_bounds.eq(commands.write_bounds),
            program.bounds.eq(bounds),
            next_params.set.eq(commands.start_params),
            next_params.address.eq(params.address),
            next_params.bias.eq(params.bias),
            next_params.scale.eq(params.scale),
            next_params.paused.eq(walker.paused),
            next_params.quiet.eq(~issuer.busy & pipeline.empty & ~fetch.busy),
            walker.pauses.eq(go.next_params),
            walker.resume.eq(next_params.resume),
            fetch.start_params.eq(commands.start_params | next_params.start),
            fetch.start_table.eq(commands.start_table),
            fetch.start_test.eq(commands.start_test),
            fetch.address.eq(Mux(next_params.start, next_params.next_address, params.address)),
            fetch.bias.eq(Mux(next_params.start, next_params.next_bias, params.bias)),
            fetch.scale.eq(Mux(next_params.start, next_params.next_scale, params.scale)),
            fetch.start_offsets.eq(commands.start_offsets),
            fetch.entries.eq(table.entries),
            walker.start.eq(commands.start_go),
            store.configure.eq(commands.start_go),
            store.lanes.eq(go.lanes),
            store.tail_lanes.eq(go.tail_lanes),
            self.tested.eq(fetch.test_data),
            self.test_value.eq(self.read.data[:8].any()),
            self.mark.eq(commands.mark),
            self.mark_layer.eq(layout(Opcode.VECTOR_MARK)(word).layer),
        ]
        for name in ("vectors", "slots", "repeats", "body_start", "body_end", "uops"):
            m.d.comb += getattr(walker, name).eq(getattr(go, name))

        # Streams.
        elements = Array(Signal(Element, name=f"element_{i}") for i in range(STREAMS))
        splats = Array(Signal(name=f"splat_{i}") for i in range(STREAMS))
        indexed = [Signal(name=f"indexed_{i}") for i in range(STREAMS)]
        turns_low, turns_high = Signal(16), Signal(16)
        m.d.comb += [turns_low.eq(dims.count_low - 1), turns_high.eq(dims.count_high - 1)]
        for i, stream in enumerate(streams):
            m.d.comb += [
                stream.set_start.eq(commands.set_stream & (set_stream.stream == i)),
                stream.start.eq(set_stream.address),
                stream.set_dims.eq(commands.set_dims & (dims.stream == i)),
                # Until a GO is taken: then the cycle in which it is taken is the last one.
                stream.restart.eq(commands.complete),
                stream.turns_low.eq(turns_low),
                stream.turns_high.eq(turns_high),
            ]
            for name in ("pair", "stride_low", "stride_high"):
                m.d.comb += getattr(stream, name).eq(getattr(dims, name))
            with m.If(stream.set_start):
                m.d.sync += [elements[i].eq(set_stream.element), splats[i].eq(set_stream.splat)]
                m.d.sync += indexed[i].eq(set_stream.indexed)

        # One stream has the offsets; which one is settled before a GO, and so is whether there are enough.
        offsets_there = Signal(range(OFFSETS_MAX + 1))
        with m.If(commands.start_offsets):
            m.d.sync += offsets_there.eq(set_offsets.count)
        several = Cat(indexed[i] & indexed[k] for i in range(STREAMS) for k in range(i)).any()
        last_turn = Signal(16)
        beyond = Cat(indexed).any() & (last_turn >= offsets_there)
        for flag, stream in zip(indexed, streams, strict=True):
            with m.If(flag):
                m.d.comb += last_turn.eq(stream.last_turn)
                m.d.comb += [offsets.step.eq(stream.next_offset), stream.offset.eq(offsets.offset)]
        m.d.sync += [
            commands.streams_illegal.eq(several | beyond),
            commands.streams_settled.eq(~(commands.set_stream | commands.set_dims | commands.start_offsets)),
        ]
        m.d.comb += [
            offsets.last_turn.eq(last_turn),
            offsets.idle.eq(commands.complete),
            offsets.write.eq(fetch.offsets_data),
            offsets.word_address.eq(fetch.word),
            offsets.word.eq(self.read.data),
        ]

        # Walk and issue.
        m.d.comb += [
            program.issue_enable.eq(walker.running & issuer.advance),
            program.issue_index.eq(walker.index),
            walker.advance.eq(issuer.advance),
            issuer.fields.eq(program.issue),
            issuer.array_valid.eq(self.accumulators.valid),
            self.accumulators.ready.eq(issuer.array_ready),
            self.read.prepare.eq(1),
        ]
        m.d.sync += self.read.request.eq(issuer.load | fetch.request)
        for name in ("running", "index", "slot", "count", "iteration"):
            m.d.comb += getattr(issuer, name).eq(getattr(walker, name))
        loaded = program.issue.stream
        addresses = Array(stream.address for stream in streams[:STORE_STREAM])
        m.d.comb += self.read.address.eq(Mux(fetch.busy, fetch.read_address, addresses[loaded]))
        for i, stream in enumerate(streams[:STORE_STREAM]):
            m.d.comb += stream.step.eq(issuer.issue & program.issue.load & (loaded == i))

        # Pipeline and lanes.
        m.d.comb += [
            pipeline.issue.eq(issuer.issue),
            pipeline.fields.eq(program.issue),
            pipeline.index.eq(issuer.place_index),
            pipeline.slot.eq(issuer.place_slot),
            pipeline.iteration.eq(issuer.place_iteration),
            pipeline.element.eq(elements[loaded]),
            pipeline.splat.eq(splats[loaded]),
            lanes.loaded.eq(self.read.data),
            lanes.take_accumulators.eq(issuer.array_ready),
            lanes.accumulators.eq(self.accumulators.payload),
            lanes.word.eq(fetch.word),
        ]
        for name in ("immediate", "arithmetic", "out_zp", "finish", "limits"):
            m.d.comb += [
                getattr(program, f"{name}_enable").eq(getattr(pipeline, f"{name}_enable")),
                getattr(program, f"{name}_index").eq(getattr(pipeline, f"{name}_index")),
                getattr(pipeline, name).eq(getattr(program, name)),
            ]
        for name in ("bias_data", "multiplier_data", "shift_data", "table_data"):
            m.d.comb += getattr(lanes, name).eq(getattr(fetch, name))
        drive_control(m, lanes.control, LaneControl(config), pipeline.control)

        # Store.
        destination = streams[STORE_STREAM]
        m.d.comb += [
            store.pack.eq(pipeline.pack),
            store.results.eq(lanes.results),
            store.element.eq(elements[STORE_STREAM]),
            store.address.eq(destination.address),
            store.last.eq(destination.last),
            destination.step.eq(store.step),
        ]

        # A write in this cycle is seen by every read from the next one on: complete enough for the next command.
        m.d.comb += [
            commands.complete.eq(
                ~walker.running & ~walker.paused & ~issuer.busy & pipeline.empty & ~fetch.busy
            ),
            self.status.busy.eq(~commands.complete | self.write.request | commands.taken),
            self.status.progress.eq(issuer.issue | fetch.busy | ~pipeline.empty | commands.taken),
            self.status.error.eq(commands.error),
            self.status.code.eq(commands.code),
            self.active.eq(issuer.issue),
            self.stall_array.eq(issuer.stall_array),
        ]
        return m


__all__ = ["VectorUnit"]
