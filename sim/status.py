"""What a machine that stopped with an error says, in words."""

from collections.abc import Mapping, Sequence

from tosaic.errors import DeviceError, MachineFault
from tosaic.hw.csr_map import REGISTER, of_core
from tosaic.hw.isa import INSTRUCTION_BYTES, Error, IllegalInstruction, Unit, decode
from tosaic.hw.nnr_streams import DecodeError


def device_error(registers: Mapping[str, int], codes: Sequence[bytes], cores: int = 1) -> DeviceError:
    """The error in the values of the registers: code, unit, core, program counter and instruction; for a watchdog where
    every unit stands. `codes` are the programs of cores 0, 1 ..."""
    error = REGISTER["ERROR"]
    reason = Error(error.field("code").extract(registers["ERROR"]))
    unit = Unit(error.field("unit").extract(registers["ERROR"]))
    core = error.field("core").extract(registers["ERROR"])
    counter = registers[of_core("PC", core)]
    fault = MachineFault(reason.name, unit.name, counter, core)
    where = f" of core {core}" if cores > 1 else ""
    text = f"{reason.name} in {unit.name}{where} at program counter {counter} ({_instruction(codes, core, counter)})"
    if reason == Error.DECODE:
        damaged = REGISTER["DECODE_ERROR"]
        why, stream, number = (
            damaged.field(name).extract(registers[of_core("DECODE_ERROR", core)])
            for name in ("code", "stream", "tensor")
        )
        position = registers[of_core("DECODE_POSITION", core)]
        text += f": {DecodeError(why).name} in stream {stream} at bit {position}"
        return DeviceError(text, tensor_number=number, fault=fault)
    if reason == Error.WATCHDOG:
        text += f"; {standing(registers, codes, cores)}"
    return DeviceError(text, fault=fault)


def standing(registers: Mapping[str, int], codes: Sequence[bytes], cores: int = 1) -> str:
    """Says where every unit is."""
    texts = []
    for core in range(cores):
        names = {unit: "PC" if unit == Unit.SEQUENCER else f"{unit.name}_PC" for unit in Unit}
        places = {unit: registers[of_core(name, core)] for unit, name in names.items()}
        where = ", ".join(
            f"{unit.name} at {pc} ({_instruction(codes, core, pc)})" for unit, pc in places.items()
        )
        of = f" of core {core}" if cores > 1 else ""
        texts.append(f"UNITS{of} is 0x{registers[of_core('UNITS', core)]:06x}, {where}")
    return "; ".join(texts)


def _instruction(codes: Sequence[bytes], core: int, offset: int) -> str:
    code = codes[core] if core < len(codes) else b""
    if offset >= len(code):
        return "beyond this program: left from an earlier one"
    try:
        return str(decode(code[offset : offset + INSTRUCTION_BYTES]))
    except IllegalInstruction as error:
        return str(error)
