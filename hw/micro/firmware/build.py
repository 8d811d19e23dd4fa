"""Compiles the firmware for the core, with the C compiler that the Python package ziglang brings."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile

from tosaic.hw.config import Config

from ..memory_map import ROM_BASE, ROM_BYTES, MemoryMap
from ..packages import find_package
from .elf import elf_section
from .header import machine_header
from .stack import StackError, deepest_path, functions

SOURCES = pathlib.Path(__file__).parent
PACKAGE = "ziglang"
STACK_BYTES = 640
"""What is left for the stack; a build whose deepest calls take more fails."""
START = "serve"
"""The function that never returns, with the stack pointer at the top."""
AGAIN = {"let_move": 2}
"""Functions that may be under way more than once: VECTOR, that waits for the array, lets all units but itself move."""

_MACHINE = ["-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+c+zmmul"]
_LANGUAGE = ["-std=gnu11", "-ffreestanding", "-fno-strict-aliasing", "-fwrapv", "-fno-sanitize=all"]
_CODE = ["-Os", "-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument"]

_LINK = ["-Wl,-T,layout.ld"]

_LAYOUT = """\
ENTRY(_start)
rom_base = {rom_base};
data_base = {data_base};
stack_top = {stack_top};
SECTIONS
{{
    . = rom_base;
    .text : {{ *(.text.start) *(.text .text.* .rodata .rodata.* .srodata .srodata.* .data .data.* .sdata .sdata.*) }}
    ASSERT(. <= rom_base + {rom_bytes}, "the firmware does not fit into the block RAM")
    . = data_base;
    .bss (NOLOAD) : {{ *(.bss .bss.* .sbss .sbss.* COMMON) }}
    ASSERT(. + {stack_bytes} <= stack_top, "variables and stack do not fit into the RAM")
    /DISCARD/ : {{ *(.comment) *(.eh_frame*) *(.riscv.attributes) *(.note*) }}
}}
"""


class FirmwareError(Exception):
    """The firmware does not compile or does not fit; the message is the compiler's."""


def build_firmware(config: Config, external_bytes: int = 0) -> bytes:
    """What the core's block RAM holds from ROM_BASE on: code and constants, whole words, at most ROM_BYTES.
    `external_bytes`: see MemoryMap.

    PackageMissing where the compiler is not installed; FirmwareError where code, data or stack do not fit. The compiler
    caches what it compiled.
    """
    find_package(PACKAGE)
    places = MemoryMap(config, external_bytes)
    layout = _LAYOUT.format(
        rom_base=ROM_BASE,
        rom_bytes=ROM_BYTES,
        data_base=places.data_base,
        stack_top=places.registers_base,
        stack_bytes=STACK_BYTES,
    )
    header = machine_header(config, external_bytes=external_bytes)
    texts = (header, layout, *(path.read_text() for path in sorted(SOURCES.glob("*.[ch]"))))
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "machine.h").write_text(header)
        (path / "layout.ld").write_text(layout)
        # The compiler's cache may take a machine.h of another folder for this one: the command must differ, too.
        sources = ["-I.", f"-DDIGEST=0x{digest}", str(SOURCES / "firmware.c")]
        _zig(path, "cc", *_MACHINE, *_LANGUAGE, *_CODE, "-S", *sources, "-o", "firmware.s")
        _check_stack((path / "firmware.s").read_text())
        _zig(
            path,
            "cc",
            *_MACHINE,
            "-nostdlib",
            "firmware.s",
            f"-DDIGEST=0x{digest}",
            *_LINK,
            "-o",
            "firmware.elf",
        )
        image = elf_section((path / "firmware.elf").read_bytes(), ".text")
    return image + bytes(-len(image) % 4)


def _check_stack(assembly: str) -> None:
    """FirmwareError where the deepest calls take more than STACK_BYTES: nothing watches the stack when it runs."""
    try:
        size_bytes, path = deepest_path(functions(assembly, but="_start"), START, AGAIN)
    except StackError as error:
        raise FirmwareError(str(error)) from None
    if size_bytes > STACK_BYTES:
        raise FirmwareError(
            f"the firmware's deepest calls take {size_bytes} bytes of stack, more than {STACK_BYTES}: {', '.join(path)}"
        )


def _zig(folder: pathlib.Path, *arguments: str) -> None:
    command = [sys.executable, "-m", PACKAGE, *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if result.returncode:
        raise FirmwareError(result.stderr.strip())
