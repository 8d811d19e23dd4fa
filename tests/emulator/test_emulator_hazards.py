"""Races that program order hides: every pair of units, with and without the token that orders them."""

import numpy as np
import pytest
from rtl_configs import on_rtl

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import STORE_STREAM, Opcode, Source, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator
from tosaic.sim.rtl import RtlSimulator
from tosaic.sim.stimulus import KINDS, random_program

CONFIG = CONFIGS["small"]
WAITS = {
    "load": Opcode.LOAD_WAIT,
    "array": Opcode.ARRAY_WAIT,
    "vector": Opcode.VECTOR_WAIT,
    "store": Opcode.STORE_WAIT,
}
SIGNALS = {
    "load": Opcode.LOAD_SIGNAL,
    "array": Opcode.ARRAY_SIGNAL,
    "vector": Opcode.VECTOR_SIGNAL,
    "store": Opcode.STORE_SIGNAL,
}


def load(assembler, space=Space.AM, memory_address=0, size=64):
    assembler.emit(Opcode.LOAD_GO, memory_address=memory_address, space=space, row_bytes=size, rows=1)


def store(assembler, memory_address=0):
    assembler.emit(Opcode.STORE_GO, memory_address=memory_address, row_bytes=64, rows=1)


def array(assembler, address=0, pixels=8, row_bytes=64):
    assembler.emit(Opcode.ARRAY_INPUT, address=address, row_bytes=row_bytes, height=1)
    assembler.emit(Opcode.ARRAY_WINDOW, x_step=8, width=8)
    assembler.emit(Opcode.ARRAY_KERNEL, ky_count=1, run_count=1, chunks=1)
    assembler.emit(Opcode.ARRAY_GO, pixels=pixels)


def vector(assembler, source=Source.LOAD, address=0, output=0, vectors=8):
    assembler.emit(Opcode.VECTOR_UOP, a_source=source, to_memory=1)
    assembler.emit(Opcode.VECTOR_STREAM, stream=0, address=address)
    for stream, start in ((0, address), (STORE_STREAM, output)):
        assembler.emit(Opcode.VECTOR_STREAM, stream=stream, address=start)
        assembler.emit(Opcode.VECTOR_DIMS, stream=stream, count_low=vectors, stride_low=8, count_high=1)
    lanes = {"lanes": 8, "tail_lanes": 8}
    assembler.emit(Opcode.VECTOR_GO, vectors=vectors, slots=8, repeats=1, uops=1, **lanes)


def run(assembler):
    memory = np.zeros(16384, np.uint8)
    size = assembler.place(memory, 8192)
    Emulator(CONFIG).run(memory.copy(), 8192, size)
    Emulator(CONFIG, check_hazards=True).run(memory, 8192, size)


RACES = {
    # name: (first, its unit, second, its unit, what is said)
    "read of a load": (
        load,
        "load",
        lambda a: vector(a, output=1024),
        "vector",
        "reads byte 0 of the activation memory",
    ),
    "weights of a load": (
        lambda a: load(a, Space.WM),
        "load",
        lambda a: array(a, address=512, row_bytes=64),
        "array",
        "reads byte 0 of the weight memory",
    ),
    "pixels of a load": (load, "load", array, "array", "reads byte 0 of the activation memory"),
    "store of a load": (load, "load", store, "store", "reads byte 0 of the activation memory"),
    "load over what the array reads": (
        array,
        "array",
        load,
        "load",
        "writes byte 0 of the activation memory",
    ),
    "load over weights in use": (
        array,
        "array",
        lambda a: load(a, Space.WM),
        "load",
        "writes byte 0 of the weight memory",
    ),
    "load over what is being stored": (
        store,
        "store",
        lambda a: load(a, memory_address=1024),
        "load",
        "writes byte 0 of the activation memory",
    ),
    "load over what the vector unit reads": (
        lambda a: vector(a, output=1024),
        "vector",
        load,
        "load",
        "writes byte 0 of the activation memory",
    ),
    "vector unit over what the array reads": (
        array,
        "array",
        lambda a: vector(a, address=1024),
        "vector",
        "writes byte 0 of the activation memory",
    ),
    "load of what is being stored": (
        lambda a: store(a, 4096),
        "store",
        lambda a: load(a, memory_address=4100),
        "load",
        "reads byte 4100 of the external memory",
    ),
    "store over what is being loaded": (
        lambda a: load(a, memory_address=4100),
        "load",
        lambda a: a.emit(Opcode.STORE_GO, memory_address=4096, local_address=512, row_bytes=64, rows=1),
        "store",
        "writes byte 4100 of the external memory",
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_race_is_found_without_a_token_and_not_with_one(name):
    first, first_unit, second, second_unit, said = RACES[name]
    assembler = Assembler(CONFIG)
    first(assembler)
    second(assembler)
    with pytest.raises(
        DeviceError, match=f"{said}, which may still be .* by {first_unit.upper()} at"
    ) as caught:
        run(assembler)
    assert str(caught.value).startswith("PROGRAM at program counter ")
    ordered = Assembler(CONFIG)
    first(ordered)
    ordered.pass_token(SIGNALS[first_unit], WAITS[second_unit], 3)
    second(ordered)
    run(ordered)


def test_tokens_hand_on_what_their_sender_waited_for():
    assembler = Assembler(CONFIG)
    load(assembler)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
    assembler.pass_token(Opcode.STORE_SIGNAL, Opcode.ARRAY_WAIT, 1)
    array(assembler)
    run(assembler)


def test_a_token_sent_too_early_orders_nothing():
    assembler = Assembler(CONFIG)
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 0)
    load(assembler)
    array(assembler)
    with pytest.raises(DeviceError, match="reads byte 0 of the activation memory"):
        run(assembler)


def test_vectors_of_the_array_order_what_follows_but_not_the_stores_of_the_same_go():
    def program(output):
        assembler = Assembler(CONFIG)
        array(assembler)
        assembler.instructions[-1].fields["drain"] = 1
        vector(assembler, source=Source.ARRAY, output=output)
        vector(assembler, address=1024, output=0)
        return assembler

    run(program(output=1024))
    with pytest.raises(DeviceError, match="writes byte 0 of the activation memory"):
        run(program(output=0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_random_programs_have_no_races(kind, seed):
    stimulus = random_program(CONFIG, kind, seed)
    Emulator(CONFIG, check_hazards=True).run(
        stimulus.memory, stimulus.program_address, stimulus.program_bytes
    )


def streamed_load(assembler, word, words=8):
    fields = {"local_address": word * CONFIG.columns, "row_bytes": words * CONFIG.columns, "rows": 1}
    assembler.emit(Opcode.LOAD_GO, space=Space.WM, streamed=1, **fields)


def streamed_array(assembler, weights, blocks=1):
    array(assembler, address=512)
    assembler.instructions.pop()
    more = {"more_blocks": blocks - 1, "streamed": 1, "drain": 1}
    assembler.emit(Opcode.ARRAY_GO, weights=weights, pixels=8, **more)


def test_streamed_weights_need_no_token():
    assembler = Assembler(CONFIG)
    streamed_load(assembler, 0, 16)
    streamed_array(assembler, 0, 2)
    vector(assembler, Source.ARRAY, output=1024, vectors=16)
    run(assembler)


def test_streamed_weights_that_do_not_come():
    assembler = Assembler(CONFIG)
    streamed_load(assembler, 0, 8)
    streamed_array(assembler, 0, 2)
    with pytest.raises(
        DeviceError, match="reads 16 streamed words of weights; earlier loads bring 8: deadlock"
    ):
        run(assembler)


def test_streamed_weights_in_another_order():
    assembler = Assembler(CONFIG)
    streamed_load(assembler, 8)
    streamed_load(assembler, 0)
    streamed_array(assembler, 0)
    with pytest.raises(
        DeviceError, match="reads word 0 of the weight memory, when the next streamed one is 8"
    ):
        run(assembler)


def tail_program(config, stored_lanes, output=1024):
    """VECTOR copies the last two bytes of the activation memory, and what follows them from its start on, while LOAD
    writes there."""
    assembler = Assembler(config)
    assembler.emit(
        Opcode.LOAD_GO,
        memory_address=64,
        space=Space.AM,
        local_address=config.am_bytes - 2,
        row_bytes=2,
        rows=1,
    )
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 0)
    load(assembler)
    vector(assembler, address=config.am_bytes - 2, output=output, vectors=1)
    lanes = {"lanes": config.columns, "tail_lanes": stored_lanes}
    assembler.instructions.pop()
    assembler.emit(Opcode.VECTOR_GO, vectors=1, slots=1, repeats=1, uops=1, **lanes)
    assembler.pass_token(Opcode.VECTOR_SIGNAL, Opcode.STORE_WAIT, 1)
    assembler.emit(
        Opcode.STORE_GO, memory_address=4096, local_address=output, row_bytes=config.columns, rows=1
    )
    memory = np.arange(16384).astype(np.uint8)
    return memory, 8192, assembler.place(memory, 8192)


def test_lanes_that_are_not_stored_may_be_read_from_anywhere():
    """They lie behind the memory's end, where addresses wrap to what LOAD writes at the same time."""
    memory, start, size = tail_program(CONFIG, stored_lanes=2)
    Emulator(CONFIG, check_hazards=True).run(memory, start, size)
    assert memory[4096:4104].tolist() == [64, 65, 0, 0, 0, 0, 0, 0]
    with pytest.raises(DeviceError, match="VECTOR_GO .* reads byte 0 of the activation memory"):
        Emulator(CONFIG, check_hazards=True).run(*tail_program(CONFIG, stored_lanes=3))


@pytest.mark.parametrize("name", [on_rtl("nano"), on_rtl("small")])
def test_the_rtl_stores_the_same_lanes(name):
    config = CONFIGS[name]
    memory, start, size = tail_program(config, stored_lanes=2)
    wanted = memory.copy()
    Emulator(config, check_hazards=True).run(wanted, start, size)
    RtlSimulator(config).run(memory, start, size)
    assert memory.tobytes() == wanted.tobytes()


def carried_program(stored_lanes):
    """The first GO leaves a register of which only two lanes were stored; the second one stores it."""
    assembler = Assembler(CONFIG)
    assembler.emit(Opcode.VECTOR_UOP, index=0, a_source=Source.LOAD)
    assembler.emit(Opcode.VECTOR_UOP, index=1, a_source=Source.REGISTER, to_memory=1)
    for stream, start in ((0, 0), (STORE_STREAM, 1024)):
        assembler.emit(Opcode.VECTOR_STREAM, stream=stream, address=start)
        assembler.vector_dims(stream)
    fields = {"vectors": 1, "slots": 1, "repeats": 1, "lanes": 8}
    assembler.emit(Opcode.VECTOR_GO, uops=2, tail_lanes=2, **fields)
    assembler.emit(Opcode.VECTOR_UOP, index=0, a_source=Source.REGISTER, to_memory=1)
    assembler.emit(Opcode.VECTOR_GO, uops=1, tail_lanes=stored_lanes, **fields)
    return assembler


def test_lanes_that_were_not_stored_stay_undefined():
    run(carried_program(2))
    with pytest.raises(DeviceError, match="stores 3 lanes of a register of which only 2 are defined"):
        run(carried_program(3))
