"""The proofs see faults: each of these one-line changes of the RTL makes the proof that is named with it fail."""

import inspect
import textwrap

import pytest
import test_prove_axi as axi
import test_prove_control as control
import test_prove_dma as dma
import test_prove_lane as lane
from proving import NotProvedError

from tosaic.hw.control.axi_lite import AxiLiteSubordinate
from tosaic.hw.control.reset import SoftReset
from tosaic.hw.dma.bursts import BurstSplitter
from tosaic.hw.dma.load import LoadUnit
from tosaic.hw.dma.store import StoreUnit
from tosaic.hw.isa import Op
from tosaic.hw.sequencer.arbiter import ReadArbiter
from tosaic.hw.sequencer.fetch import Fetch
from tosaic.hw.sequencer.semaphores import Semaphores
from tosaic.hw.skid import SkidBuffer
from tosaic.hw.vector import multiplier
from tosaic.hw.vector.alu import Alu
from tosaic.hw.vector.pipeline import Pipeline

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
        *(BurstSplitter, "_check_row", ">= self.mem_size", "> self.mem_size"),
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
        *(Alu, "_product", "Mux(nudged, ~s6_negative, guard)", "nudged"),
        lambda tmp, monkeypatch: lane.test_scaled_product(monkeypatch, tmp),
    ),
    "double rounding is forgotten": (
        *(Alu, "_product", "Mux(nudged, ~s6_negative, guard)", "guard"),
        lambda tmp, monkeypatch: lane.test_rescale(1, monkeypatch, tmp),
    ),
    "MIN is MAX": (
        *(
            Pipeline,
            "_arithmetic",
            "s4.choose_less.eq(op[3] == Op.MIN)",
            "s4.choose_less.eq(op[3] == Op.MAX)",
        ),
        lambda tmp, _: lane.test_operation(Op.MIN, tmp),
    ),
    "a wide result is clamped by its low bits": (
        *(Alu, "_limit", "s8_clamp & Mux(wide, y[-1], low)", "s8_clamp & low"),
        lambda tmp, _: lane.test_limits(tmp),
    ),
    "the sign of a part is dropped": (
        *(multiplier, "partial_sums", "crossed[-1].replicate", "C(0, 1).replicate"),
        lambda tmp, monkeypatch: lane.test_the_parts_make_the_product(monkeypatch, tmp),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault, monkeypatch, tmp_path):
    owner, name, line, changed, prove = FAULTS[fault]
    plant(monkeypatch, owner, name, line, changed)
    with pytest.raises(NotProvedError):
        prove(tmp_path, monkeypatch)
