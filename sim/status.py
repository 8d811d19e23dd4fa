"""What a machine that stopped with an error says, in words."""

from collections.abc import Mapping

from tosaic.errors import DeviceError, MachineFault
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import INSTRUCTION_BYTES, Error, IllegalInstruction, Unit, decode
from tosaic.hw.nnr_streams import DecodeError


def device_error(registers: Mapping[str, int], code: bytes) -> DeviceError:
    """The error in the values of the registers: code, unit, program counter and instruction; for a watchdog where
    every unit stands. `code` is the program."""
    error = REGISTER["ERROR"]
    reason = Error(error.field("code").extract(registers["ERROR"]))
    unit = Unit(error.field("unit").extract(registers["ERROR"]))
    fault = MachineFault(reason.name, unit.name, registers["PC"])
    text = f"{reason.name} in {unit.name} at program counter {registers['PC']} ({_instruction(code, registers['PC'])})"
    if reason == Error.DECODE:
        damaged = REGISTER["DECODE_ERROR"]
        why, stream, number = (
            damaged.field(name).extract(registers["DECODE_ERROR"]) for name in ("code", "stream", "tensor")
        )
        text += f": {DecodeError(why).name} in stream {stream} at bit {registers['DECODE_POSITION']}"
        return DeviceError(text, tensor_number=number, fault=fault)
    if reason == Error.WATCHDOG:
        text += f"; {standing(registers, code)}"
    return DeviceError(text, fault=fault)


def standing(registers: Mapping[str, int], code: bytes) -> str:
    """Where every unit is."""
    places = {unit: registers["PC" if unit == Unit.SEQUENCER else f"{unit.name}_PC"] for unit in Unit}
    where = ", ".join(f"{unit.name} at {pc} ({_instruction(code, pc)})" for unit, pc in places.items())
    return f"UNITS is 0x{registers['UNITS']:06x}, {where}"


def _instruction(code: bytes, offset: int) -> str:
    if offset >= len(code):
        return "beyond this program: left from an earlier one"
    try:
        return str(decode(code[offset : offset + INSTRUCTION_BYTES]))
    except IllegalInstruction as error:
        return str(error)
