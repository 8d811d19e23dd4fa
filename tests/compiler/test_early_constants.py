"""Which loads of a share come before a wait for another core."""

from tosaic.compiler.cores.early_constants import early_constants
from tosaic.compiler.emit.commands import Work, command
from tosaic.compiler.place.address import Address, Region, Span
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, Space, Unit

BASE = get_config("base,cores=2,bus_words=2")
STEP = BASE.rows * BASE.columns
WAIT = Work(Unit.LOAD, [command(Opcode.LOAD_WAIT, semaphore=12, count=1)], waits_for_core=True)
GO = Work(Unit.ARRAY, [command(Opcode.NOP)])


def load(region: Region, start: int, size: int, *, local: int = 0, space: Space = Space.WM) -> Work:
    source = Address(region, start)
    go = command(Opcode.LOAD_GO, source, space=space, local_address=local, row_bytes=size, rows=1, streamed=1)
    return Work(Unit.LOAD, [go], reads=[source.span(size)], writes=[Span(Region.WEIGHT, local, local + size)])


ROWS = load(Region.DATA, 0, 64, space=Space.AM)
PARAMETERS = load(Region.CONSTANTS, 0, 128, space=Space.AM)


def test_constants_come_before_the_wait():
    weights = load(Region.CONSTANTS, 128, 4 * STEP)
    found = early_constants([PARAMETERS, WAIT, ROWS, weights, GO], 1 << 20, BASE)
    assert found == [PARAMETERS, weights, WAIT, ROWS, GO]


def test_a_row_without_a_wait_stays_as_it_is():
    weights = load(Region.CONSTANTS, 128, STEP)
    work = [ROWS, weights, GO, WAIT]
    assert early_constants(work, 1 << 20, BASE) == work


def test_weights_for_which_there_is_no_time_come_behind_the_operands():
    weights = load(Region.CONSTANTS, 128, 4 * STEP)
    work = [WAIT, ROWS, weights, GO]
    assert early_constants(work, 0, BASE) == work
    # Each byte counts once, whatever row it is in.
    again = [WAIT, ROWS, load(Region.CONSTANTS, 4096, 4 * STEP), GO]
    found = early_constants([*work, *again], 4 * STEP, BASE)
    assert found == [weights, WAIT, ROWS, GO, *again]


def test_weights_are_divided_at_whole_steps():
    """The second part goes on where the first one ends, also over the end of the weight memory."""
    place = BASE.wm_bytes - STEP
    weights = load(Region.CONSTANTS, 128, 4 * STEP, local=place)
    first, wait, rows, rest = early_constants([WAIT, ROWS, weights], 2 * STEP - 1, BASE)
    assert (wait, rows) == (WAIT, ROWS)
    assert [span.end - span.start for span in (*first.reads, *rest.reads)] == [2 * STEP, 2 * STEP]
    assert rest.reads[0].start == first.reads[0].end == 128 + 2 * STEP
    assert first.writes == [Span(Region.WEIGHT, place, BASE.wm_bytes), Span(Region.WEIGHT, 0, STEP)]
    assert rest.writes == [Span(Region.WEIGHT, STEP, 3 * STEP)]
    fields = rest.commands[0].instruction.fields
    assert (fields["local_address"], fields["row_bytes"], fields["streamed"]) == (STEP, 2 * STEP, 1)


def test_what_is_packed_or_has_pitches_is_not_divided():
    packed = load(Region.CONSTANTS, 0, 4 * STEP)
    packed.commands[0].instruction.fields["packed"] = 1
    pitched = load(Region.CONSTANTS, 0, 4 * STEP)
    pitched.commands.insert(0, command(Opcode.NOP))
    for weights in (packed, pitched):
        assert early_constants([WAIT, ROWS, weights], 1, BASE) == [weights, WAIT, ROWS]
