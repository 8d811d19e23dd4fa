"""What `explain` says of places, word by word. tests/explained has what it says of a cascade."""

from tosaic.compiler.explain_cascade import address, buffer, placement
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.placement import Buffer, BufferKey, Placement, Role, resident


def test_places() -> None:
    assert address(Address(Region.DATA, 64)) == "data+64"
    assert placement(Placement(Address(Region.CONSTANTS, 0), 12)) == "12 bytes at constants+0"
    assert placement(resident(32, 100, 20)) == "100 bytes at activation+32, rows 20 bytes apart"
    key = BufferKey(Role.WINDOW, "x")
    assert buffer(key, Buffer((0,), 50)) == "for window x: 50 bytes at 0"
    assert buffer(key, Buffer((0, 64), 50)) == "for window x: 50 bytes at 0 and 64"
