"""The bytes of a delegated part: what backend.cpp reads, and the compiled program as a .tsc file."""

import struct

from tosaic.compiler.program import MAGIC, Port, Program
from tosaic.errors import UnsupportedError
from tosaic.hw.isa import ISA_HASH

BLOB_MAGIC = b"TOSAICX2"
UNREAD = 0xFFFFFFFF
"""The address of an input that the program does not need."""


def program_blob(program: Program, input_bytes: dict[str, int], outputs: list[str]) -> bytes:
    """A part whose inputs are those in `input_bytes`, in their order, and whose outputs are `outputs`.

    After the magic come little-endian words: ISA_HASH, CONFIG_HASH, bytes of memory, address and bytes of the program
    and of its boot part, numbers of decoded blocks, inputs and outputs, offset of the image in the .tsc file, bytes of
    the image; tensor, address, bytes and CRC-32 of each block; address, bytes and rank of each input and output, and
    its sizes and the order of its axes in memory, where that is not theirs; else the rank is 0.
    """
    if program.others:
        raise UnsupportedError("the C kit starts one core: choose a configuration with cores=1")
    if program.states:
        raise UnsupportedError("the part has TOSA variables: make each an input and its new value an output")
    ports = {port.name: port for port in (*program.inputs, *program.outputs)}
    program.inputs.sort(key=lambda port: list(input_bytes).index(port.name))
    program.outputs.sort(key=lambda port: outputs.index(port.name))
    file = program.to_bytes()
    image_at = len(MAGIC) + 4 + int.from_bytes(file[len(MAGIC) : len(MAGIC) + 4], "little")
    boot = program.boot
    words = [
        *(
            ISA_HASH,
            program.config.hash,
            program.memory_bytes,
            program.program_address,
            program.program_bytes,
        ),
        *((boot.program_address, boot.program_bytes, len(boot.blocks)) if boot else (0, 0, 0)),
        *(len(input_bytes), len(outputs), image_at, len(program.image)),
    ]
    for block in boot.blocks if boot else ():
        words += [block.tensor, block.address, block.bytes, block.crc32]
    for name, size in input_bytes.items():
        words += _place(ports[name]) if name in ports else [UNREAD, size, 0]
    for name in outputs:
        words += _place(ports[name])
    return BLOB_MAGIC + struct.pack(f"<{len(words)}I", *words) + file


def _place(port: Port) -> list[int]:
    turned = [*port.shape, *port.order] if port.order else []
    return [port.address, port.bytes, len(port.order), *turned]
