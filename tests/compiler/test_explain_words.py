"""What `explain` says of places, and of the parts of a cascade, word by word."""

from types import SimpleNamespace
from typing import Any

import pytest

from tosaic.compiler import explain_cascade
from tosaic.compiler.explain_cascade import address, buffer, cascade, placement
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.placement import Buffer, BufferKey, Copy, Placement, Role, Sent, resident
from tosaic.compiler.tile.work import CascadeWork, LayerWork, Step, Stripe


def outside(offset: int) -> Address:
    return Address(Region.DATA, offset)


def inside(offset: int) -> Address:
    return Address(Region.ACTIVATION, offset)


def test_places() -> None:
    assert address(outside(64)) == "data+64"
    assert placement(Placement(Address(Region.CONSTANTS, 0), 12)) == "12 bytes at constants+0"
    assert placement(resident(32, 100, 20)) == "100 bytes at activation+32, rows 20 bytes apart"
    key = BufferKey(Role.WINDOW, "x")
    assert buffer(key, Buffer((0,), 50)) == "for window x: 50 bytes at 0"
    assert buffer(key, Buffer((0, 64), 50)) == "for window x: 50 bytes at 0 and 64"


def work(output: str, places: dict[str, Placement], rows: tuple[int, int] | None, **parts: Any) -> LayerWork:
    tensors = SimpleNamespace(storage={output: output})
    body = SimpleNamespace(cut=SimpleNamespace(rows=rows, window=SimpleNamespace(oh=8)))
    whole = dict(preloads=[], result=None, placements=places) | parts
    return LayerWork(tensors, SimpleNamespace(output=output), body, **whole)  # type: ignore[arg-type]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two layers in two stripes: 8 rows of 10 bytes, of which the first layer computes 5 and then the other 3."""
    monkeypatch.setattr(explain_cascade, "body_of", lambda work: work.body)
    monkeypatch.setattr(explain_cascade, "row_bytes", lambda work: 10)
    weights, rows = Copy(outside(500), inside(900), 40), Copy(outside(700), inside(100), 20)
    first = {"x": Placement(outside(0), 80), "m": resident(100, 50, 16)}
    last = {"m": resident(100, 50, 16), "y": Placement(outside(800), 80)}
    double = {BufferKey(Role.WINDOW, "x"): Buffer((0, 64), 50)}
    kept = Copy(inside(140), outside(700), 20)
    sent = Sent(inside(300), outside(1000), 80, 50)
    members = [
        Step(3, SimpleNamespace(output="m"), None, work("m", first, None, preloads=[weights])),  # type: ignore[arg-type]
        Step(4, SimpleNamespace(output="y"), None, work("y", last, None)),  # type: ignore[arg-type]
    ]
    stripes = [
        Stripe(3, work("m", first, (0, 5), preloads=[weights], buffers=double, saved=[kept])),
        Stripe(4, work("y", last, (0, 4))),
        Stripe(3, work("m", first, (5, 8), preloads=[weights, rows], buffers=double)),
        Stripe(4, work("y", last, (7, 8), result=sent)),
    ]
    return list(cascade(CascadeWork(members, stripes)))


def test_a_cascade(told: list[str]) -> None:
    assert told == [
        "layers 3 to 4: a cascade in 2 stripes of rows; what one layer hands to the next is never there as a whole",
        "    layer 3: m",
        "        reads x: 80 bytes at data+0",
        "        brings in 40 bytes from data+500 to activation+900 once",
        "        buffer for window x: 50 bytes at 0 and 64",
        "    layer 4: y",
        "        writes y: 80 bytes at data+800",
        "    stripe 1",
        "        layer 3 computes rows 0 to 4 of 8, to activation+100",
        "        keeps 20 bytes of rows that the next stripe reads, too: activation+140 to data+700",
        "        layer 4 computes rows 0 to 3 of 8, to data+800",
        "    stripe 2",
        "        brings back 20 bytes of rows from data+700 to activation+100",
        "        layer 3 computes rows 5 to 7 of 8, to activation+180",
        "        layer 4 computes row 7 of 8, to data+870",
        "        sends 30 bytes of them to data+1050",
    ]
