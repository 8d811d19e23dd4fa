"""A compiled program as C: what is declared, and its data."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.program import Port, Program
from tosaic.driver.arguments import argument
from tosaic.driver.encodings import Encodings
from tosaic.hw.isa import ISA_HASH

from .names import c_constants, c_initializer, c_string

_IMAGE_COLUMNS = 32
_KINDS = {"b": "uint", "i": "int", "u": "uint"}


@dataclasses.dataclass(frozen=True)
class CModel:
    """A program with its name in C."""

    program: Program
    encodings: Encodings
    name: str
    """An identifier; what is declared begins with it."""

    def declarations(self) -> str:
        """Constants for every input, output and state: its index, and the type and number of its elements."""
        return "\n".join(_tensor_constants(self, side, ports) for side, ports in self._sides() if ports)

    def data(self, linkage: str) -> str:
        """The definition of `NAME_program`; `linkage` is `static ` or nothing."""
        program, name = self.program, self.name
        counts = {f"{side}s": len(ports) for side, ports in self._sides()}
        lists = {side: f"{name}_{side}" if count else "NULL" for side, count in counts.items()}
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
            **lists,
            **{f"{side[:-1]}_count": f"{count}u" for side, count in counts.items()},
        }
        fields = "".join(f"    .{field} = {value},\n" for field, value in values.items())
        parts = [_image(name, program.image), *self._tensor_lists()]
        return "\n".join([*parts, f"{linkage}const struct tosaic_program {name}_program = {{\n{fields}}};\n"])

    def _sides(self) -> list[tuple[str, Sequence[Port]]]:
        program = self.program
        return [("input", program.inputs), ("output", program.outputs), ("state", program.states)]

    def _tensor_lists(self) -> list[str]:
        lists = []
        for side, ports in self._sides():
            shapes = [f"{self.name}_{side}_{index}_shape" for index in range(len(ports))]
            lists += [
                f"static const uint32_t {shape}[] = {{{', '.join(map(str, port.shape))}}};"
                for shape, port in zip(shapes, ports, strict=True)
                if port.shape
            ]
            tensors = [
                _tensor(port, shape, self.encodings) for port, shape in zip(ports, shapes, strict=True)
            ]
            if side == "state":
                tensors = [
                    f"{{{tensor}, {self._initial(port.initial_address)}}}"
                    for tensor, port in zip(tensors, self.program.states, strict=True)
                ]
            if ports:
                kind = "tosaic_state" if side == "state" else "tosaic_tensor"
                rows = "".join(f"    {tensor},\n" for tensor in tensors)
                lists.append(f"static const struct {kind} {self.name}_{side}s[] = {{\n{rows}}};\n")
        return lists

    def _initial(self, address: int | None) -> str:
        return "NULL" if address is None else f"{self.name}_image.bytes + {address}"


def _image(name: str, image: bytes) -> str:
    """In a union, so that a host can copy it by words."""
    numbers = c_initializer(image, _IMAGE_COLUMNS)
    return (
        "static const union {\n"
        f"    uint8_t bytes[{len(image)}];\n"
        "    uint32_t aligned;\n"
        f"}} {name}_image = {{{numbers}}};\n"
    )


def _tensor(port: Port, shape: str, encodings: Encodings) -> str:
    encoding = argument(port, encodings).encoding
    scale, zero_point = (encoding.scale, encoding.zero_point) if encoding else (0.0, 0)
    return (
        f"{{{c_string(port.name)}, {c_string(port.dtype.spelling)}, {shape if port.shape else 'NULL'}, "
        f"{len(port.shape)}u, {port.address}u, {port.bytes}u, {float(scale)!r}, {zero_point}}}"
    )


def _tensor_constants(model: CModel, side: str, ports: Sequence[Port]) -> str:
    prefix, names = f"{model.name.upper()}_{side.upper()}", [port.name for port in ports]
    constants = c_constants(prefix, names, ("_TYPE", "_ELEMENTS"))
    lines = []
    for index, (constant, port) in enumerate(zip(constants, ports, strict=True)):
        lines += [
            f"#define {constant} {index}",
            f"#define {constant}_TYPE {_element(port.numpy)}",
            f"#define {constant}_ELEMENTS {port.bytes // port.numpy.itemsize}",
        ]
    return "\n".join([*lines, ""])


def _element(dtype: np.dtype) -> str:
    return f"{_KINDS[dtype.kind]}{8 * dtype.itemsize}_t"
