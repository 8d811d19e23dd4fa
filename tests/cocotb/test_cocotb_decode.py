"""Compressed weights on the cocotb bench: every channel stalls at random, two decoders side by side."""

import numpy as np
import pytest
from copy_program import CONFIG
from rest_nightly import first_of

from tosaic.errors import DeviceError
from tosaic.hw.isa import Opcode, Space
from tosaic.sim.assembler import Assembler
from tosaic.sim.bench import CocotbBench
from tosaic.sim.coded_block import code_block, emit_decode
from tosaic.sim.emulator import Emulator

pytestmark = pytest.mark.xdist_group("cocotb")
OUTPUT, PROGRAM, WINDOW_BYTES = 2048, 4096, 8192


def program():
    """Two blocks are decoded to AM, an ordinary load between them, and stored; where the last one begins, its bytes,
    and what the output must be."""
    rng = np.random.default_rng(7)
    window, assembler = rng.integers(0, 256, WINDOW_BYTES).astype(np.uint8), Assembler(CONFIG)
    wanted, address = bytearray(512), 0
    block = b""
    for streams, count, local in ((2, 150, 0), (1, 41, 160)):
        weights = np.where(rng.random(count) < 0.5, 0, rng.integers(-128, 128, count))
        coded = code_block(weights, streams, 2, CONFIG.word_bytes)
        block = coded.data
        window[address : address + len(block)] = np.frombuffer(block, np.uint8)
        settings = {"space": Space.AM, "unary_length": 2, "tensor": streams}
        emit_decode(assembler, coded, address, local, **settings)
        padded = -(-count // CONFIG.word_bytes) * CONFIG.word_bytes
        wanted[local : local + padded] = weights.astype(np.int8).tobytes() + bytes(padded - count)
        if streams == 2:
            assembler.emit(Opcode.LOAD_GO, memory_address=1000, local_address=99, row_bytes=61, rows=1)
            wanted[99:160] = window[1000:1061].tobytes()
            address = 512
    assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
    assembler.emit(Opcode.STORE_GO, memory_address=OUTPUT, local_address=0, row_bytes=204, rows=1)
    return window, assembler.place(window, PROGRAM), len(block), bytes(wanted[:204])


@pytest.mark.parametrize("seed", first_of([11, 12], 1))
def test_weights_are_decoded_in_order(seed):
    window, size, _, wanted = program()
    emulated = window.copy()
    predicted = Emulator(CONFIG).run(emulated, PROGRAM, size)
    measured = CocotbBench(CONFIG, seed=seed).run(window, PROGRAM, size)
    assert window[OUTPUT : OUTPUT + len(wanted)].tobytes() == wanted
    np.testing.assert_array_equal(window, emulated)
    # The bus is late for a byte now and then.
    assert measured.counters["decode_active"] >= 0.99 * predicted.counters["decode_active"]


def test_damage_ends_in_an_error_and_no_hang():
    window, size, block_bytes, _ = program()
    window[512 : 512 + block_bytes] = 0xFF
    with pytest.raises(DeviceError, match=r"^DECODE in LOAD at .*: START in stream 0 at bit \d+$") as caught:
        CocotbBench(CONFIG, seed=3).run(window, PROGRAM, size)
    assert caught.value.tensor_number == 1
