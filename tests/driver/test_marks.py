"""What a host makes of layer marks."""

import pytest

from tosaic.errors import DeviceError
from tosaic.hw.csr_map import MARKS, REGISTER
from tosaic.sim.registers import Registers


class Port:
    """A machine that answers every read with the same value, but MARK_INDEX with what was written."""

    def __init__(self, value: int):
        self.value, self.written = value, list[tuple[int, int]]()

    def read_registers(self, offset: int, count: int) -> list[int]:
        values = [self.value] * count
        if offset == REGISTER["MARK_INDEX"].offset:
            values[0] = self.written[-1][1]
        return values

    def write_register(self, offset: int, value: int) -> None:
        self.written.append((offset, value))


def test_as_many_as_a_machine_keeps() -> None:
    port = Port(MARKS)
    assert Registers(port).marks() == [(MARKS, MARKS)] * MARKS
    assert port.written == [(REGISTER["MARK_INDEX"].offset, index) for index in range(MARKS)]


def test_more_than_a_machine_keeps_end_the_run() -> None:
    """A machine whose MARK_COUNT had a bit stuck at 1 kept its host busy for hours."""
    port = Port(1 << 31)
    text = "^the accelerator says that it has 2147483648 layer marks, but it keeps 1024$"
    with pytest.raises(DeviceError, match=text):
        Registers(port).marks()
    assert port.written == []
