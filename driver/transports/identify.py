"""Is a machine one of this version of Tosaic, and which?"""

from tosaic.errors import DeviceError
from tosaic.hw.csr_map import ID_VALUE, REGISTER, VERSION_PATCH_BITS, VERSION_VALUE
from tosaic.hw.isa import ISA_HASH

from .base import Transport


def configuration_hash(transport: Transport) -> int:
    """The hash of the machine's configuration; DeviceError unless it is a machine of this version of Tosaic."""
    return _configuration_of(transport.name, *transport.read_registers(REGISTER["ID"].offset, 4))


def look_at(transport: Transport) -> tuple[int, bool]:
    """The configuration's hash, and whether the machine is idle: all that a run begins with."""
    status = REGISTER["STATUS"]
    with transport.together():
        asked = transport.ask_registers(REGISTER["ID"].offset, 4)
        state = transport.ask_registers(status.offset, 1)
        found = _configuration_of(transport.name, *asked())
        return found, bool(status.field("idle").extract(state()[0]))


def _configuration_of(name: str, identity: int, version: int, isa: int, config: int) -> int:
    if identity != ID_VALUE:
        raise DeviceError(f"{name}: no machine of Tosaic answers: register ID is 0x{identity:08x}")
    if version >> VERSION_PATCH_BITS != VERSION_VALUE >> VERSION_PATCH_BITS:
        raise DeviceError(
            f"{name}: its register map has version {_version(version)}, this driver knows "
            f"{_version(VERSION_VALUE)}: install the matching tosaic, or load the board with this one's bitstream"
        )
    if isa != ISA_HASH:
        raise DeviceError(
            f"{name}: it executes another instruction set (ISA_HASH 0x{isa:08x}, this compiler's is "
            f"0x{ISA_HASH:08x}): load the board with this version's bitstream"
        )
    return config


def _version(value: int) -> str:
    return f"{value >> 16}.{value >> 8 & 255}.{value & 255}"
