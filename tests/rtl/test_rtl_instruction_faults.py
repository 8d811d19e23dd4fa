"""The comparison instruction by instruction sees faults: each of these one-line changes of the emulator, in the row
that is named with it."""

import inspect
import textwrap

import pytest
from test_rtl_instructions import SAMPLES, compare

from tosaic.hw.isa import Opcode
from tosaic.sim.emulator import array, execution, streams, transfer

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("nano")]

EMULATOR_FAULTS = {
    "rows follow the pitch of the other memory": (
        *(transfer, "rows_of", "number * local_pitch", "number * memory_pitch"),
        (Opcode.STORE_PITCH, "local_pitch", "many"),
    ),
    "rows of a kernel see the next line": (
        *(array, "_convolution_steps", "ky * kernel.ky_step,", "ky,"),
        (Opcode.ARRAY_KERNEL, "ky_step", "few"),
    ),
    "runs of a kernel see the same bytes": (
        *(array, "_convolution_steps", "run * kernel.run_step + chunk", "chunk"),
        (Opcode.ARRAY_KERNEL, "run_step", "negative"),
    ),
    "offsets follow the turns of another dimension": (
        *(streams.Stream, "turns", "% self.counts[1]", "% self.counts[2]"),
        (Opcode.VECTOR_STREAM, "indexed", "1"),
    ),
    "the first turn is taken for the last": (
        *(streams.Stream, "at_last_turn", "== self.counts[0] - 1", "== 0"),
        (Opcode.VECTOR_GO, "tail_lanes", "few"),
    ),
    "a clear flag is taken for a set one": (
        *(execution.Execution, "_branch", "IF_CLEAR: not self", "IF_CLEAR: self"),
        (Opcode.BRANCH, "condition", "1"),
    ),
}


@pytest.mark.parametrize("name", EMULATOR_FAULTS)
def test_a_fault_of_the_emulator_is_seen(name, monkeypatch):
    owner, function, piece, changed, row = EMULATOR_FAULTS[name]
    original = getattr(owner, function)
    source = textwrap.dedent(inspect.getsource(original))
    assert source.count(piece) == 1
    made = {}
    exec(compile(source.replace(piece, changed), name, "exec"), original.__globals__, made)
    compare("nano", row, SAMPLES)
    monkeypatch.setattr(owner, function, made[function])
    with pytest.raises(AssertionError):
        compare("nano", row, SAMPLES)
