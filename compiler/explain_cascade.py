"""Shows a cascade in plain words: what its layers read, and which rows each stripe computes, keeps and brings back."""

from collections.abc import Iterator

from tosaic.compiler.place.address import Address
from tosaic.compiler.place.placement import Buffer, BufferKey, Placement
from tosaic.compiler.tile.cascade import Rows
from tosaic.compiler.tile.cascade_tiles import body_of, row_bytes
from tosaic.compiler.tile.work import CascadeWork, LayerWork, Step, Stripe


def cascade(work: CascadeWork) -> Iterator[str]:
    """Lines of text."""
    turns, members = list(_turns(work)), {step.number: step for step in work.members}
    first, last = work.members[0].number, work.members[-1].number
    yield (
        f"layers {first} to {last}: a cascade in {len(turns)} stripes of rows; what one layer hands to the next is "
        "never there as a whole"
    )
    for step in work.members:
        yield from _member(step, work)
    for number, turn in enumerate(turns, 1):
        yield f"    stripe {number}"
        for stripe in turn:
            yield from _stripe(stripe, members[stripe.number].work)


def placement(found: Placement) -> str:
    """Where a tensor is."""
    pitch = f", rows {found.pitch} bytes apart" if found.pitch else ""
    return f"{found.bytes} bytes at {address(found.address)}{pitch}"


def address(found: Address) -> str:
    """An address as its region and what is added to it."""
    return f"{found.region.name.lower()}+{found.offset}"


def buffer(key: BufferKey, found: Buffer) -> str:
    """What a buffer is for, and where its blocks are."""
    addresses = " and ".join(map(str, found.addresses))
    return f"for {key.role.name.lower()} {key.tensor}: {found.size_bytes} bytes at {addresses}"


def _turns(work: CascadeWork) -> Iterator[list[Stripe]]:
    """What runs for one stripe of the last layer, stripe by stripe."""
    turn: list[Stripe] = []
    for stripe in work.stripes:
        turn.append(stripe)
        if stripe.number == work.members[-1].number:
            yield turn
            turn = []


def _member(step: Step, work: CascadeWork) -> Iterator[str]:
    """A layer, and where that is which it reads or writes as a whole."""
    assert isinstance(step.work, LayerWork)
    between = {each.work.output for each in work.members[:-1] if isinstance(each.work, LayerWork)}
    yield f"    layer {step.number}: {step.info.output}"
    for name, place in step.work.placements.items():
        if name not in between:
            yield f"        {'writes' if name == step.work.output else 'reads'} {name}: {placement(place)}"
    for copy in step.work.preloads:
        yield f"        brings in {copy.size_bytes} bytes from {address(copy.source)} to {address(copy.target)} once"
    # Those of all stripes are the same, but for whose turn it is.
    began = next(stripe.work for stripe in work.stripes if stripe.number == step.number)
    for key, found in began.buffers.items():
        yield f"        buffer {buffer(key, found)}"


def _stripe(stripe: Stripe, member: object) -> Iterator[str]:
    """The rows of one layer in one stripe."""
    assert isinstance(member, LayerWork)
    work, cut = stripe.work, body_of(stripe.work).cut
    assert cut.rows is not None
    for copy in work.preloads:
        if copy not in member.preloads:
            yield (
                f"        brings back {copy.size_bytes} bytes of rows from {address(copy.source)} to "
                f"{address(copy.target)}"
            )
    place = work.placements[work.output]
    begin = place.address + cut.rows[0] * (place.pitch or row_bytes(work))
    yield f"        layer {stripe.number} computes {_rows(cut.rows)} of {cut.window.oh}, to {address(begin)}"
    if work.result is not None:
        bytes_sent = work.result.size_bytes - work.result.first_byte
        yield f"        sends {bytes_sent} bytes of them to {address(work.result.target + work.result.first_byte)}"
    for copy in work.saved:
        yield (
            f"        keeps {copy.size_bytes} bytes of rows that the next stripe reads, too: {address(copy.source)} to "
            f"{address(copy.target)}"
        )


def _rows(rows: Rows) -> str:
    """Names rows by the numbers of the first and the last one."""
    return f"row {rows[0]}" if rows[1] - rows[0] == 1 else f"rows {rows[0]} to {rows[1] - 1}"
