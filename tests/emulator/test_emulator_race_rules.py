"""What orders accesses, on the search for races alone: instructions and accesses are told by hand."""

import numpy as np
import pytest

from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FIELDS, Opcode, make
from tosaic.sim.emulator.faults import Fault
from tosaic.sim.emulator.hazards import AM, MEMORY, WM, Hazards

MEMORY_BYTES = 4096
LOAD, ARRAY, VECTOR, STORE = Opcode.LOAD_GO, Opcode.ARRAY_GO, Opcode.VECTOR_GO, Opcode.STORE_GO
SIGNALS = {
    LOAD: Opcode.LOAD_SIGNAL,
    ARRAY: Opcode.ARRAY_SIGNAL,
    VECTOR: Opcode.VECTOR_SIGNAL,
    STORE: Opcode.STORE_SIGNAL,
}
WAITS = {
    LOAD: Opcode.LOAD_WAIT,
    ARRAY: Opcode.ARRAY_WAIT,
    VECTOR: Opcode.VECTOR_WAIT,
    STORE: Opcode.STORE_WAIT,
}


class Told(Hazards):
    """Instructions 16 bytes apart."""

    def __init__(self, machine: str = "small"):
        super().__init__(get_config(machine), MEMORY_BYTES)
        self.offset = 0

    def next(self, opcode: Opcode, core: int = 0, **fields: int) -> None:
        self.begin(make(opcode, **{field.name: 0 for field in FIELDS[opcode]} | fields), self.offset, core)
        self.offset += 16

    def signal(self, unit: Opcode, semaphore: int = 0, count: int = 1, **fields: int) -> None:
        self.next(SIGNALS[unit], semaphore=semaphore, count=count, **fields)

    def wait(self, unit: Opcode, semaphore: int = 0, count: int = 1, **fields: int) -> None:
        self.next(WAITS[unit], semaphore=semaphore, count=count, **fields)

    def touches(self, how: str, first: int, last: int, name: str = AM) -> None:
        getattr(self, how)(name, np.arange(first, last))


def races(told: Told, how: str, first: int, last: int, said: str | None, name: str = AM) -> None:
    if said is None:
        told.touches(how, first, last, name)
        return
    with pytest.raises(Fault) as caught:
        told.touches(how, first, last, name)
    assert str(caught.value).endswith(f"{said}: no token orders the two")


@pytest.mark.parametrize(
    "first, second, said",
    [
        (
            "write",
            "read",
            "reads byte 12 of the activation memory, which may still be written by LOAD at program counter 0",
        ),
        (
            "write",
            "write",
            "writes byte 12 of the activation memory, which may still be written by LOAD at program counter 0",
        ),
        (
            "read",
            "write",
            "writes byte 12 of the activation memory, which may still be read by LOAD at program counter 0",
        ),
        ("read", "read", None),
    ],
)
def test_two_units_at_one_byte(first: str, second: str, said: str | None) -> None:
    told = Told()
    told.next(LOAD)
    told.touches(first, 12, 16)
    told.next(STORE)
    races(told, second, 8, 12, None)
    races(told, second, 10, 14, said)


def test_a_unit_comes_after_itself() -> None:
    told = Told()
    for how in ("write", "read", "write"):
        told.next(LOAD)
        told.touches(how, 0, 8)


@pytest.mark.parametrize("name, size", [(AM, "am_bytes"), (WM, "wm_bytes"), (MEMORY, None)])
def test_addresses_wrap_in_each_memory(name: str, size: str | None) -> None:
    told = Told()
    size_bytes = getattr(get_config("small"), size) if size else MEMORY_BYTES
    told.next(LOAD)
    told.touches("write", size_bytes, size_bytes + 1, name)
    told.next(STORE)
    races(told, "read", 1, size_bytes, None, name)
    races(
        told,
        "read",
        0,
        1,
        f"reads byte 0 of the {name}, which may still be written by LOAD at program counter 0",
        name,
    )


def test_a_token_orders_what_came_before_its_signal() -> None:
    told = Told()
    told.next(LOAD)
    told.touches("write", 0, 8)
    told.signal(LOAD)
    told.next(LOAD)
    told.touches("write", 8, 16)
    told.wait(VECTOR)
    told.next(VECTOR)
    races(told, "read", 0, 8, None)
    races(told, "read", 7, 9, "which may still be written by LOAD at program counter 32")


def test_tokens_are_taken_in_order_and_counted() -> None:
    """Three tokens of the first signal and one of the second: the fourth one orders what is between them."""
    told = Told()
    told.signal(LOAD, 2, 3)
    told.next(LOAD)
    told.touches("write", 0, 8)
    told.signal(LOAD, 2, 1)
    told.wait(STORE, 2, 3)
    told.next(STORE)
    with pytest.raises(Fault):
        told.touches("read", 0, 8)
    told.wait(STORE, 3, 4)
    told.next(STORE)
    with pytest.raises(Fault):
        told.touches("read", 0, 8)
    told.wait(STORE, 2, 5)
    told.next(STORE)
    told.touches("read", 0, 8)


def test_what_a_sender_knows_goes_on_with_its_token() -> None:
    told = Told()
    told.next(LOAD)
    told.touches("write", 0, 8)
    told.signal(LOAD)
    told.wait(ARRAY)
    told.signal(ARRAY, 1)
    told.wait(STORE, 1)
    told.next(STORE)
    told.touches("read", 0, 8)
    told.next(VECTOR)
    with pytest.raises(Fault):
        told.touches("read", 0, 8)


def test_a_branch_waits_for_all_units_of_its_core() -> None:
    told = Told("base,cores=2,bus_words=2")
    told.next(LOAD)
    told.touches("write", 0, 8)
    told.touches("write", 0, 8, MEMORY)
    told.next(LOAD, core=1)
    told.touches("write", 8, 16, MEMORY)
    told.next(Opcode.BRANCH)
    told.next(STORE)
    told.touches("read", 0, 8)
    told.touches("write", 0, 8, MEMORY)
    races(told, "read", 8, 9, "which may still be written by LOAD of core 1 at program counter 16", MEMORY)
    told.next(STORE, core=1)
    # Each core has an activation memory of its own, and the external memory is for all.
    told.touches("write", 0, 8)
    races(told, "read", 0, 1, "which may still be written by STORE of core 0 at program counter 48", MEMORY)


def test_a_signal_to_another_core() -> None:
    told = Told("base,cores=2,bus_words=2")
    told.next(STORE)
    told.touches("write", 0, 8, MEMORY)
    told.signal(STORE, 3, cores=2)
    told.wait(LOAD, 3)
    told.next(LOAD)
    with pytest.raises(Fault):
        told.touches("read", 0, 8, MEMORY)
    told.wait(LOAD, 3, core=1)
    told.next(LOAD, core=1)
    told.touches("read", 0, 8, MEMORY)


@pytest.mark.parametrize(
    "taken, ordered", [([3], False), ([4], True), ([5], True), ([2, 2], True), ([1, 2], False)]
)
def test_what_follows_the_last_vector_of_a_go_comes_after_it(taken: list[int], ordered: bool) -> None:
    """An ARRAY GO of four vectors and one of two; stores of the GO that takes the fourth may still be too early."""
    told = Told()
    told.next(ARRAY)
    told.touches("read", 0, 8)
    told.sent(4)
    told.next(ARRAY)
    told.sent(2)
    for count in taken:
        told.next(VECTOR)
        told.taken(count)
        with pytest.raises(Fault):
            told.touches("write", 0, 8)
    told.next(VECTOR)
    if ordered:
        told.touches("write", 0, 8)
    else:
        with pytest.raises(Fault):
            told.touches("write", 0, 8)


def test_what_waits_for_each_word_needs_no_token() -> None:
    told = Told()
    told.next(LOAD)
    told.touches("write", 0, 8, WM)
    told.next(ARRAY)
    told.read(WM, np.arange(8), ordered=True)
    with pytest.raises(Fault):
        told.read(WM, np.arange(8))
    told.next(LOAD)
    races(told, "write", 0, 8, "which may still be read by ARRAY at program counter 16", WM)
