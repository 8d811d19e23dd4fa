"""Constants of any size up to what instructions address: an address is a region and an offset, and no number tells by
its size where it belongs."""

import dataclasses

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.emit.commands import command
from tosaic.compiler.ir import DType
from tosaic.compiler.place.external import LARGEST_BYTES, ExternalMemory
from tosaic.compiler.schedule.image import lay_out
from tosaic.driver.session import Session
from tosaic.errors import UnsupportedError
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, Space, decode

LARGE_BYTES = (1 << 28) + (1 << 20)


@pytest.mark.long
def test_constants_beyond_256_mib_are_read_where_they_are() -> None:
    build = LayerBuilder(1)
    values = np.zeros(LARGE_BYTES, np.int8)
    values[-64:] = np.arange(64)
    table = build.constant(values, DType.INT8)
    start, size = (build.constant(np.array([n]), DType.SHAPE) for n in (LARGE_BYTES - 64, 64))
    end = build.add("SLICE", [table, start, size])
    build.output(build.add("CLAMP", [end], min_val=7, max_val=50))
    (result,) = Session(build.finish(), "emulator", "nano").run({}).values()
    np.testing.assert_array_equal(result, np.clip(values[-64:], 7, 50))


@pytest.mark.long
def test_data_lies_after_constants_of_any_size() -> None:
    memory = ExternalMemory()
    far = memory.add_later(LARGE_BYTES, lambda: bytes(LARGE_BYTES), "zeros") + (LARGE_BYTES - 64)
    data = memory.reserve(64)
    loads = [
        command(Opcode.LOAD_GO, address, space=Space.AM, local_address=0, row_bytes=64, rows=1)
        for address in (far, data)
    ]
    image = lay_out(loads, [], memory)
    code = b"".join(image.parts)[image.program_address :]
    first, second = (
        decode(code[i * INSTRUCTION_BYTES : (i + 1) * INSTRUCTION_BYTES]).memory_address for i in range(2)
    )
    assert first == LARGE_BYTES - 64
    assert second == image.memory_bytes - 4096
    assert second > LARGE_BYTES


def test_more_than_instructions_address_is_refused_with_its_name() -> None:
    memory = dataclasses.replace(ExternalMemory(), constants_bytes=LARGEST_BYTES - 100)
    with pytest.raises(
        UnsupportedError, match=r"^the weights 'w' of 128 bytes does not fit the 4 GiB .*split the network$"
    ):
        memory.add_weights("w", 128, lambda: bytes(128))
    memory = dataclasses.replace(ExternalMemory(), constants_bytes=LARGEST_BYTES - 4096)
    with pytest.raises(UnsupportedError, match="^the program needs 4294971392 bytes of external memory"):
        lay_out([command(Opcode.END)] * 300, [], memory)
