"""A compiled program as C: what is declared, and its data."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.ir import CurvedEncoding
from tosaic.compiler.program import BootPart, Port, Program
from tosaic.driver.arguments import argument
from tosaic.driver.encodings import Encodings
from tosaic.hw.isa import ISA_HASH

from .names import c_constants, c_initializer, c_string

_IMAGE_COLUMNS = 32
_KINDS = {"b": "uint", "i": "int", "u": "uint"}


@dataclasses.dataclass(frozen=True)
class _TensorList:
    """Inputs, outputs or states, as C names them."""

    name: str
    """The name in the singular."""
    ports: Sequence[Port]
    struct: str = "tosaic_tensor"
    """The C type of an entry."""
    initials: Sequence[str] | None = None
    """What each begins as, the second field of a `tosaic_state`."""


@dataclasses.dataclass(frozen=True)
class CModel:
    """A program with its name in C."""

    program: Program
    encodings: Encodings
    name: str
    """An identifier; what is declared begins with it."""

    def declarations(self) -> str:
        """Constants for every input, output and state: its index, and the type and number of its elements."""
        return "\n".join(_tensor_constants(self.name, each) for each in self._lists() if each.ports)

    def data(self, linkage: str) -> str:
        """The definition of `NAME_program`; `linkage` is `static ` or nothing."""
        program, name, lists = self.program, self.name, self._lists()
        values = {
            "name": c_string(name),
            "configuration": c_string(program.config.name),
            "isa_hash": f"0x{ISA_HASH:08X}u",
            "config_hash": f"0x{program.config.hash:08X}u",
            "image": f"{name}_image.bytes",
            "image_bytes": f"{len(program.image)}u",
            "memory_bytes": f"{program.memory_bytes}u",
            "program_address": f"{program.program_address}u",
            "program_bytes": f"{program.program_bytes}u",
            "boot_address": f"{program.boot.program_address if program.boot else 0}u",
            "boot_bytes": f"{program.boot.program_bytes if program.boot else 0}u",
            "blocks": f"{name}_blocks" if program.boot else "NULL",
            "block_count": f"{len(program.boot.blocks) if program.boot else 0}u",
            **{f"{each.name}s": f"{name}_{each.name}s" if each.ports else "NULL" for each in lists},
            **{f"{each.name}_count": f"{len(each.ports)}u" for each in lists},
        }
        fields = "".join(f"    .{field} = {value},\n" for field, value in values.items())
        parts = [_image(name, program.image), *(self._entries(each) for each in lists if each.ports)]
        if program.boot is not None:
            parts.append(_blocks(name, program.boot))
        return "\n".join([*parts, f"{linkage}const struct tosaic_program {name}_program = {{\n{fields}}};\n"])

    def _lists(self) -> list[_TensorList]:
        program = self.program
        initials = [self._initial(port.initial_address) for port in program.states]
        return [
            _TensorList("input", program.inputs),
            _TensorList("output", program.outputs),
            _TensorList("state", program.states, "tosaic_state", initials),
        ]

    def _initial(self, address: int | None) -> str:
        return "NULL" if address is None else f"{self.name}_image.bytes + {address}"

    def _entries(self, tensors: _TensorList) -> str:
        """The array of a list, and before it the shapes and orders that it points to."""
        prefix = f"{self.name}_{tensors.name}"
        shapes = [f"{prefix}_{index}_shape" for index in range(len(tensors.ports))]
        entries = [_tensor(*each, self.encodings) for each in zip(tensors.ports, shapes, strict=True)]
        if tensors.initials is not None:
            entries = [f"{{{', '.join(each)}}}" for each in zip(entries, tensors.initials, strict=True)]
        lines = [
            f"static const uint32_t {name}[] = {{{', '.join(map(str, numbers))}}};"
            for port, shape in zip(tensors.ports, shapes, strict=True)
            for name, numbers in ((shape, port.shape), (_order(port, shape), port.order))
            if numbers
        ]
        rows = "".join(f"    {entry},\n" for entry in entries)
        return "\n".join([*lines, f"static const struct {tensors.struct} {prefix}s[] = {{\n{rows}}};\n"])


def _image(name: str, image: bytes) -> str:
    """Writes the image in a union, so that a host can copy it by words."""
    numbers = c_initializer(image, _IMAGE_COLUMNS)
    return (
        "static const union {\n"
        f"    uint8_t bytes[{len(image)}];\n"
        "    uint32_t aligned;\n"
        f"}} {name}_image = {{{numbers}}};\n"
    )


def _blocks(name: str, boot: BootPart) -> str:
    """What the boot part decodes."""
    rows = "".join(
        f"    {{{block.tensor}u, {block.address}u, {block.bytes}u, 0x{block.crc32:08X}u}},\n"
        for block in boot.blocks
    )
    return f"static const struct tosaic_block {name}_blocks[] = {{\n{rows}}};\n"


def _tensor(port: Port, shape: str, encodings: Encodings) -> str:
    encoding = argument(port, encodings).encoding
    scale, zero_point = (encoding.scale, encoding.zero_point) if encoding else (0.0, 0)
    curve = "NULL, 0.0, 0.0"
    if isinstance(encoding, CurvedEncoding):
        curve = f"{c_string(encoding.curve.kind)}, {encoding.step!r}, {encoding.curve.unit!r}"
    return (
        f"{{{c_string(port.name)}, {c_string(port.dtype.spelling)}, {shape if port.shape else 'NULL'}, "
        f"{len(port.shape)}u, {port.address}u, {port.bytes}u, {float(scale)!r}, {zero_point}, "
        f"{_order(port, shape)}, {curve}}}"
    )


def _order(port: Port, shape: str) -> str:
    """The name of the array with the order of a port's axes, beside that of its shape."""
    return f"{shape.removesuffix('_shape')}_order" if port.order else "NULL"


def _tensor_constants(model: str, tensors: _TensorList) -> str:
    prefix = f"{model}_{tensors.name}".upper()
    constants = c_constants(prefix, [port.name for port in tensors.ports], ("_TYPE", "_ELEMENTS"))
    lines = []
    for index, (constant, port) in enumerate(zip(constants, tensors.ports, strict=True)):
        lines += [
            f"#define {constant} {index}",
            f"#define {constant}_TYPE {_element(port.numpy)}",
            f"#define {constant}_ELEMENTS {port.bytes // port.numpy.itemsize}",
        ]
    return "\n".join([*lines, ""])


def _element(dtype: np.dtype) -> str:
    return f"{_KINDS[dtype.kind]}{8 * dtype.itemsize}_t"
