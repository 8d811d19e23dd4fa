"""What a driver does against bits that flip in a machine: it compares what must stay, and computes twice."""

from collections.abc import Sequence

import numpy as np

from tosaic.compiler.program import Port, Program
from tosaic.errors import DeviceError
from tosaic.hw.isa import CoreProgram

from .boot import require_decoded
from .transports import Transport


def require_intact(transport: Transport, program: Program) -> None:
    """Raises DeviceError unless the machine's memory still holds the program's image and what its boot part decoded."""
    image = program.image
    wanted = np.frombuffer(image, np.uint8)
    found = np.frombuffer(transport.read_memory(0, len(image)), np.uint8)
    wrong = np.flatnonzero(found != wanted)
    if wrong.size:
        first = int(wrong[0])
        streams = [*program.streams]
        if program.boot is not None:
            streams.append(CoreProgram(program.boot.program_address, program.boot.program_bytes))
        is_code = any(address <= first < address + size for address, size in streams)
        raise DeviceError(
            f"{transport.name}: bytes of the program have changed in the machine's memory: {wrong.size}, the first at "
            f"0x{first:x} in its {'instructions' if is_code else 'constants'}: 0x{found[first]:02x}, not "
            f"0x{wanted[first]:02x}; what was computed since the last check may be wrong. The next run sends the "
            "program anew; if this comes again, `tosaic bring-up` tests the memory"
        )
    for block in program.boot.blocks if program.boot is not None else ():
        require_decoded(f"{transport.name}: ", block, transport.read_memory(block.address, block.bytes))


def require_same(name: str, ports: Sequence[Port], first: np.ndarray, second: np.ndarray) -> None:
    """Raises DeviceError unless both windows hold the same tensors."""
    for port in ports:
        place = slice(port.address, port.address + port.bytes)
        if wrong := int(np.count_nonzero(first[place] != second[place])):
            raise DeviceError(
                f"{name}: {wrong} of {port.bytes} bytes of {port.name!r} differ between two runs on the same inputs: a "
                "bit has flipped in one of them; run again. If this comes again, `tosaic bring-up` tests the machine"
            )
