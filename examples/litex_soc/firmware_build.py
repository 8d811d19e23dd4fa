"""The SoC's firmware: models as C by the C kit, and what starts the board, compiled for VexRiscv by ziglang."""

import dataclasses
import pathlib
import subprocess
import sys

import numpy as np
from litex.soc.integration.export import get_csr_header, get_mem_header, get_soc_header

HERE = pathlib.Path(__file__).parent
SOURCES = HERE / "firmware"
STACK_BYTES = 2048
_MACHINE = ["-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m", "-fno-sanitize=all"]
_CODE = [
    "-std=gnu11",
    "-ffreestanding",
    "-Os",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-command-line-argument",
]
_LAYOUT = """\
ENTRY(_start)
stack_top = {sram} + {sram_bytes};
SECTIONS
{{
    . = {rom};
    .text : {{ *(.text.start) *(.text .text.* .rodata .rodata.* .srodata .srodata.*) . = ALIGN(4); }}
    data_image = .;
    ASSERT(. <= {rom} + {rom_bytes}, "the firmware does not fit into the ROM")
    . = {sram};
    .data : AT(data_image) {{ data_start = .; *(.data .data.* .sdata .sdata.*) . = ALIGN(4); data_end = .; }}
    .bss (NOLOAD) : {{ bss_start = .; *(.bss .bss.* .sbss .sbss.* COMMON) . = ALIGN(4); bss_end = .; }}
    ASSERT(. + {stack_bytes} <= stack_top, "variables and stack do not fit into the SRAM")
    /DISCARD/ : {{ *(.comment) *(.eh_frame*) *(.riscv.attributes) *(.note*) }}
}}
"""


@dataclasses.dataclass(frozen=True)
class Model:
    """A model that has one input, and what it is run on."""

    name: str
    """Name in C: DIGITS_INPUT_... begin with it."""
    path: pathlib.Path
    image: np.ndarray
    """Image with the batch."""


def build_firmware(soc, models: list[Model], config: str, folder: pathlib.Path) -> list[int]:
    """Words of the ROM of a SoC, which is finalized. Everything that was made stays in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        target = folder / f"{model.name}.c"
        command = [
            sys.executable,
            "-m",
            "tosaic",
            "compile",
            str(model.path),
            "--config",
            config,
            "-o",
            str(target),
        ]
        subprocess.run(command, check=True)
    (folder / "models.h").write_text(_models_header(models))
    regions = soc.mem_regions
    (folder / "mem.h").write_text(get_mem_header(regions))
    (folder / "soc.h").write_text(get_soc_header(soc.constants, with_access_functions=False))
    (folder / "csr.h").write_text(get_csr_header(soc.csr_regions, soc.constants, with_access_functions=False))
    layout = _LAYOUT.format(
        rom=regions["rom"].origin,
        rom_bytes=regions["rom"].size,
        sram=regions["sram"].origin,
        sram_bytes=regions["sram"].size,
        stack_bytes=STACK_BYTES,
    )
    (folder / "layout.ld").write_text(layout)
    sources = [*map(str, sorted(SOURCES.glob("*.c"))), *(f"{model.name}.c" for model in models)]
    runtime = ["tosaic.c", "tosaic_mapped.c"]
    link = ["-nostdlib", "-Wl,-T,layout.ld", "-o", "firmware.elf"]
    _zig(folder, "cc", *_MACHINE, *_CODE, "-I.", f"-I{SOURCES}", *sources, *runtime, *link)
    image = b""
    # What variables begin as lies behind the code.
    for section in ("text", "data"):
        _zig(folder, "objcopy", "-O", "binary", "-j", f".{section}", "firmware.elf", f"{section}.bin")
        image += (folder / f"{section}.bin").read_bytes()
        image += bytes(-len(image) % 4)
    return [int.from_bytes(image[at : at + 4], "little") for at in range(0, len(image), 4)]


def _models_header(models: list[Model]) -> str:
    includes = "".join(f'#include "{model.name}.h"\n' for model in models)
    inputs = "".join(
        f"static const uint8_t {model.name}_image[] __attribute__((aligned(4))) = "
        f"{{{', '.join(map(str, model.image.tobytes()))}}};\n"
        for model in models
    )
    entries = ", ".join(f"{{&{model.name}_program, {model.name}_image}}" for model in models)
    return (
        f"/* Generated. */\n{includes}\n"
        "struct model { const struct tosaic_program *program; const uint8_t *input; };\n"
        f"{inputs}static const struct model models[] = {{{entries}}};\n"
        f"#define MODEL_COUNT {len(models)}\n#define OUTPUT_BYTES 4096\n"
    )


def _zig(folder: pathlib.Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ziglang", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the firmware does not compile: {done.stderr.strip()}")
