"""The proofs see faults: each of these one-line changes of the RTL makes the proof that is named with it fail."""

import inspect
import textwrap

import pytest
import test_prove_array as array
import test_prove_axi as axi
import test_prove_cabac as cabac
import test_prove_completion as completion
import test_prove_control as control
import test_prove_cores as cores
import test_prove_dma as dma
import test_prove_lane as lane
import test_prove_memory as memory
import test_prove_queues as queues
import test_prove_unpack as unpack
from proving import NotProvedError

from tosaic.hw.array.commands import ArrayCommands
from tosaic.hw.array.delivery_counter import DeliveryCounter
from tosaic.hw.array.drain import Drain
from tosaic.hw.array.part_sums import PartSums
from tosaic.hw.array.slot_issue import SlotIssue
from tosaic.hw.cabac.engine import Engine
from tosaic.hw.cabac.levels import WeightPacker
from tosaic.hw.control.axi_lite import AxiLiteSubordinate
from tosaic.hw.control.reset import SoftReset
from tosaic.hw.cores.read_share import CoreReader, ReadShare
from tosaic.hw.cores.token_exchange import TokenExchange
from tosaic.hw.cores.write_share import CoreWriter, WriteShare
from tosaic.hw.dma.bursts import BurstSplitter
from tosaic.hw.dma.completion import Completion
from tosaic.hw.dma.issue import CommandIssue
from tosaic.hw.dma.load import LoadUnit
from tosaic.hw.dma.store import StoreUnit
from tosaic.hw.dma.unpack import Unpacker, UnpackLane
from tosaic.hw.isa import Op, Unit
from tosaic.hw.memory.activation import ActivationMemory
from tosaic.hw.sequencer.arbiter import ReadArbiter
from tosaic.hw.sequencer.dispatch import Dispatch
from tosaic.hw.sequencer.fetch import Fetch
from tosaic.hw.sequencer.queue import CommandQueue
from tosaic.hw.sequencer.semaphores import Semaphores
from tosaic.hw.skid import SkidBuffer
from tosaic.hw.vector import multiplier
from tosaic.hw.vector.alu import Alu
from tosaic.hw.vector.pipeline import Pipeline
from tosaic.hw.wishbone.memory import MemoryBridge

pytestmark = pytest.mark.nightly


def plant(monkeypatch, owner, name, line, fault):
    """Replaces a piece of the text of a function or method."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(line) == 1
    made = {}
    exec(compile(source.replace(line, fault), f"{name} with a fault", "exec"), function.__globals__, made)
    monkeypatch.setattr(owner, name, made[name])


FAULTS = {
    "the window is a byte longer": (
        *(BurstSplitter, "_check_row", "(self.mem_size, ", "(self.mem_size + 1, "),
        lambda tmp, _: dma.test_bursts_stay_in_the_window(tmp),
    ),
    "a burst that is not the last ends its row": (
        *(BurstSplitter, "_next_burst", "left[BEAT_BITS:] == 0", "left[BEAT_BITS:] <= 1"),
        lambda tmp, _: dma.test_bursts_stay_in_a_page(tmp),
    ),
    "an offered burst changes": (
        *(BurstSplitter, "elaborate", "self.bursts.valid & self.bursts.ready", "self.bursts.valid"),
        lambda tmp, _: dma.test_an_offered_burst_stays(tmp),
    ),
    "an address is offered for one cycle": (
        *(StoreUnit, "_issue_writes", "m.Elif(write.awready)", "m.Else()"),
        lambda tmp, _: axi.test_store_offers_writes(tmp),
    ),
    "data change while they wait": (
        *(StoreUnit, "_send", "write.wdata.eq(self.output.data)", "write.wdata.eq(self.am.data)"),
        lambda tmp, _: axi.test_store_offers_data(tmp),
    ),
    "a read begins within a word": (
        *(
            LoadUnit,
            "_issue_reads",
            "address.eq(burst.address)",
            "address.eq(burst.address + burst.first_lane)",
        ),
        lambda tmp, _: axi.test_load_offers_reads(tmp),
    ),
    "the program is read to the next boundary": (
        *(Fetch, "_request", "entries_left < to_boundary, entries_left", "entries_left == 0, entries_left"),
        lambda tmp, _: dma.test_the_program_is_read_within_its_bounds(tmp),
    ),
    "two units get the same tokens": (
        *(Semaphores, "elaborate", " & ~taken & ~clears", " & ~clears"),
        lambda tmp, _: control.test_tokens_are_never_negative_nor_lost(control.NANO, tmp),
    ),
    "a signal is lost beside a grant": (
        *(Semaphores, "elaborate", "counts[unit] & ~granted", "counts[unit]"),
        lambda tmp, _: control.test_tokens_are_never_negative_nor_lost(control.NANO, tmp),
    ),
    "a buffer loses what it holds": (
        *(SkidBuffer, "elaborate", "spare_valid | self.input.valid", "self.input.valid"),
        lambda tmp, _: control.test_a_buffer_keeps_order(tmp),
    ),
    "the program always goes first": (
        *(ReadArbiter, "elaborate", "self.fetch_low | ~fetch_was_last", "~fetch_was_last | 1"),
        lambda tmp, _: control.test_reads_take_turns(tmp),
    ),
    "an answer is taken back": (
        *(AxiLiteSubordinate, "elaborate", "m.If(axi.rvalid & axi.rready)", "m.If(axi.rvalid)"),
        lambda tmp, _: control.test_every_register_access_is_answered_once(tmp),
    ),
    "a reset does not wait for the bus": (
        *(SoftReset, "elaborate", "settled & idle | given_up", "settled | given_up"),
        lambda tmp, _: control.test_a_soft_reset_ends(tmp),
    ),
    "a rounding shift does not round": (
        *(Alu, "_shifted", "Mux(nudged, ~negative, guard)", "nudged"),
        lambda tmp, monkeypatch: lane.test_scaled_product(48, monkeypatch, tmp),
    ),
    "double rounding is forgotten": (
        *(Alu, "_shifted", "Mux(nudged, ~negative, guard)", "guard"),
        lambda tmp, monkeypatch: lane.test_rescale(1, 48, monkeypatch, tmp),
    ),
    "MIN is MAX": (
        *(
            Pipeline,
            "_arithmetic",
            "s4.choose_less.eq(op[3] == Op.MIN)",
            "s4.choose_less.eq(op[3] == Op.MAX)",
        ),
        lambda tmp, _: lane.test_operation(Op.MIN, 48, tmp),
    ),
    "a wide result is clamped by its low bits": (
        *(Alu, "_limit", "s9_clamp & Mux(wide, y[-1], low)", "s9_clamp & low"),
        lambda tmp, _: lane.test_limits(48, tmp),
    ),
    "the sign of a part is dropped": (
        *(multiplier, "partial_sums", "crossed[-1].replicate", "C(0, 1).replicate"),
        lambda tmp, monkeypatch: lane.test_the_parts_make_the_product(48, monkeypatch, tmp),
    ),
    "a top part that ends below the product's end has no sign": (
        *(
            multiplier,
            "partial_sums",
            "sign_extend(products[2, 0], PRODUCT_BITS - _PAIR_BITS).as_unsigned()",
            "products[2, 0].as_unsigned()[: PRODUCT_BITS - _PAIR_BITS]",
        ),
        lambda tmp, monkeypatch: lane.test_the_parts_make_the_product(40, monkeypatch, tmp),
    ),
    "a command that waits is lost": (
        *(CommandQueue, "elaborate", "fifo.r_en.eq(moves)", "fifo.r_en.eq(1)"),
        lambda tmp, monkeypatch: queues.test_a_command_reaches_its_unit(Unit.LOAD, monkeypatch, tmp),
    ),
    "an instruction goes by the place of the next one": (
        *(Dispatch, "_take", "self.index.eq(self.taken)", "self.index.eq(self.taken + 1)"),
        lambda tmp, _: queues.test_dispatch_hands_over_in_order(tmp),
    ),
    "a place is promised twice": (
        *(Drain, "elaborate", "(reserved == self._depth - 1)", "(reserved == self._depth)"),
        lambda tmp, monkeypatch: queues.test_a_vector_finds_its_place(monkeypatch, tmp),
    ),
    "a burst begins with the number of the one before": (
        *(StoreUnit, "_read", "index.eq(Mux(is_last, 0, index + 1))", "index.eq(index + 1)"),
        lambda tmp, monkeypatch: axi.test_store_ends_its_bursts(monkeypatch, tmp),
    ),
    "a beat is read without a place for it": (
        *(
            StoreUnit,
            "_read",
            "wanted.eq(pending.r_rdy & (credit != self.prepared))",
            "wanted.eq(pending.r_rdy)",
        ),
        lambda tmp, monkeypatch: axi.test_store_has_a_place_for_every_beat(monkeypatch, tmp),
    ),
    "more is requested than there is room for": (
        *(LoadUnit, "_issue_reads", "Mux(issues, two_fit, one_fits)", "one_fits"),
        lambda tmp, _: axi.test_load_asks_for_no_more_than_it_may(tmp),
    ),
    "a read ends a beat early": (
        *(MemoryBridge, "elaborate", "read.rlast.eq(left == 0)", "read.rlast.eq(left == 1)"),
        lambda tmp, _: axi.test_the_wishbone_bridge_answers_bursts(tmp),
    ),
    "a burst's data end before they are taken": (
        *(WriteShare, "elaborate", "bus.wvalid & bus.wready & beat.last", "bus.wvalid & beat.last"),
        lambda tmp, monkeypatch: cores.test_shared_writes(monkeypatch, tmp),
    ),
    "strobes stay for the next wide beat": (
        *(CoreWriter, "_put_together", "Mux(fills, 0, Cat(*strobes))", "Cat(*strobes)"),
        lambda tmp, monkeypatch: cores.test_words_become_wide_beats(monkeypatch, tmp),
    ),
    "a core's request is taken while the port is not free": (
        *(
            ReadShare,
            "elaborate",
            "turns.next.eq(free & turns.asks.any())",
            "turns.next.eq(turns.asks.any())",
        ),
        lambda tmp, monkeypatch: cores.test_shared_reads(monkeypatch, tmp),
    ),
    "every wide beat begins where its burst did": (
        *(CoreReader, "_take_apart", "begins[of_program].eq(head.last)", "begins[of_program].eq(1)"),
        lambda tmp, monkeypatch: cores.test_wide_beats_become_words(monkeypatch, tmp),
    ),
    "tokens come to a core that has no place": (
        *(TokenExchange, "elaborate", "bit & ~port.full", "bit"),
        lambda tmp, _: control.test_exchanged_tokens_arrive(tmp),
    ),
    "the tokens of two units are taken at once": (
        *(
            Semaphores,
            "_send",
            "self.foreign.taken & first[unit].replicate(self._mask_bits)",
            "self.foreign.taken",
        ),
        lambda tmp, _: control.test_tokens_for_other_cores_arrive_once(tmp),
    ),
    "a wait for the last token is not heard": (
        *(Semaphores, "elaborate", "(seen.data >= port.count)", "(seen.data > port.count)"),
        lambda tmp, _: control.test_tokens_that_are_there_are_given(tmp),
    ),
    "two reads have a bank at once": (
        *(
            ActivationMemory,
            "elaborate",
            '& ~blocks(read["vector"], self.vector_read, read["store"])',
            "",
        ),
        lambda tmp, _: memory.test_a_read_gives_what_was_written_last(tmp),
    ),
    "what was kept is added to every row": (
        *(PartSums, "elaborate", "kept.eq(Mux(self.add, read.data, 0))", "kept.eq(read.data)"),
        lambda tmp, _: array.test_parts_are_added_up(tmp),
    ),
    "a part of the rows is a slot early": (
        *(SlotIssue, "_read_for_parts", "history[part * apart - 1]", "history[part * apart - 2]"),
        lambda tmp, _: array.test_parts_read_what_the_first_one_read(tmp),
    ),
    "the last part does not add": (
        *(DeliveryCounter, "_gather", "self.add.eq(~is_first)", "self.add.eq(~is_last)"),
        lambda tmp, _: array.test_rows_of_parts_take_turns(tmp),
    ),
    "a full FIFO takes a weight": (
        *(UnpackLane, "elaborate", "self.push & (self.keep_all | ~full)", "self.push"),
        lambda tmp, _: unpack.test_a_lane_is_a_fifo(tmp),
    ),
    "a palette's lanes take turns": (
        *(Unpacker, "_output", "Mux(self.mode == WeightCoding.MASK, self.turn, 0)", "self.turn"),
        lambda tmp, monkeypatch: unpack.test_every_word_comes_out(monkeypatch, tmp),
    ),
    "codes are read behind a row's end": (
        *(Unpacker, "_words", "(ends_code & (self.words_left != 1))", "ends_code"),
        lambda tmp, monkeypatch: unpack.test_every_beat_is_used_for_what_it_is(monkeypatch, tmp),
    ),
    "a context is read before it is written": (
        *(Engine, "_sig", "Mux(same_again, self.adapt0.after, contexts.sig[0])", "contexts.sig[0]"),
        lambda tmp, monkeypatch: cabac.test_every_bin_has_its_context(monkeypatch, tmp),
    ),
    "the remainder is added to the ones before it": (
        *(Engine, "_greater", "self.size.eq(Mux(is_last, 1, self.size + 1))", "self.size.eq(self.size + 1)"),
        lambda tmp, monkeypatch: cabac.test_every_level_is_the_one_of_the_text(monkeypatch, tmp),
    ),
    "a stream ends a level early": (
        *(Engine, "_pack_level", "self.level_count == 3", "self.level_count == 4"),
        lambda tmp, monkeypatch: cabac.test_every_level_is_the_one_of_the_text(monkeypatch, tmp),
    ),
    "dependent quantization forgets its state": (
        *(WeightPacker, "_make_level", "(size << 1) - parts.odd", "size << 1"),
        lambda tmp, _: cabac.test_a_level_becomes_a_weight(tmp),
    ),
    "the rows of a GO follow the pitch of the other memory": (
        *(
            CommandIssue,
            "_make_transfer",
            '"local_pitch": self.local_pitch',
            '"local_pitch": self.memory_pitch[:24]',
        ),
        lambda tmp, _: completion.test_commands_become_transfers_in_order(Unit.LOAD, tmp),
    ),
    "a row begins a few bytes further in on-chip memory": (
        *(BurstSplitter, "_begin_row", "row.local_address - start[:lane_bits]", "row.local_address"),
        lambda tmp, _: completion.test_bursts_carry_each_byte_once("row", tmp),
    ),
    "a SIGNAL passes the last row before it": (
        *(BurstSplitter, "_take_rows", "given.purpose.is_signal | (given.rows == 1)", "given.rows <= 2"),
        lambda tmp, _: completion.test_bursts_carry_each_byte_once("order", tmp),
    ),
    "a SIGNAL does not wait for compressed weights": (
        *(Completion, "elaborate", "~burst_distance[-1] & ~block_distance[-1]", "~burst_distance[-1]"),
        lambda tmp, monkeypatch: completion.test_a_signal_fires_when_all_before_it_is_complete(
            monkeypatch, tmp
        ),
    ),
    "a SIGNAL is forgotten that waits while many bursts pass": (
        *(Completion, "elaborate", "& ~crowded", ""),
        lambda tmp, monkeypatch: completion.test_a_signal_fires_when_all_before_it_is_complete(
            monkeypatch, tmp
        ),
    ),
    "a store is complete when its data are sent": (
        *(StoreUnit, "_send", "completed.eq(write.bvalid)", "completed.eq(self.sent & write.wlast)"),
        lambda tmp, monkeypatch: completion.test_store_signals_what_was_answered(monkeypatch, tmp),
    ),
    "an answer that nobody decoded is not an error": (
        *(StoreUnit, "_report", "(write.bresp != 0)", "(write.bresp == 2)"),
        lambda tmp, monkeypatch: completion.test_store_signals_what_was_answered(monkeypatch, tmp),
    ),
    "a load is complete before its last write is granted": (
        *(
            LoadUnit,
            "_retire_beats",
            "completed.eq(ended_burst & self.leaves)",
            "completed.eq(self.retires & self.ends_burst)",
        ),
        lambda tmp, monkeypatch: completion.test_load_signals_what_is_written(monkeypatch, tmp),
    ),
    "a beat that came with an error is written": (
        *(LoadUnit, "_write", "halted | self.bad | head", "halted | head"),
        lambda tmp, monkeypatch: completion.test_load_signals_what_is_written(monkeypatch, tmp),
    ),
    "a SIGNAL of the array is forgotten that waits while many jobs pass": (
        *(ArrayCommands, "_signal", "== MOST_BEHIND", "== 2 * MOST_BEHIND + 2"),
        lambda tmp, monkeypatch: array.test_a_signal_waits_for_the_jobs_before_it(monkeypatch, tmp),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault, monkeypatch, tmp_path):
    owner, name, line, changed, prove = FAULTS[fault]
    plant(monkeypatch, owner, name, line, changed)
    with pytest.raises(NotProvedError):
        prove(tmp_path, monkeypatch)
