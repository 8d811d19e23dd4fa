"""Widths of ports come from the instruction set."""

import pytest

from tosaic.hw.isa import FIELDS, Opcode, layout, width


@pytest.mark.parametrize("opcode", Opcode)
def test_width_is_that_of_the_layout(opcode):
    members = layout(opcode)
    for field in FIELDS[opcode]:
        assert width(opcode, field.name) == members[field.name].width == field.bits


def test_width_of_an_unknown_field():
    with pytest.raises(KeyError, match="LOAD_GO has no field pixels"):
        width(Opcode.LOAD_GO, "pixels")
