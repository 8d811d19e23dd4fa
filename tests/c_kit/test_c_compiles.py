"""The C kit's files and the manual's example: strict compilers take them, on this machine and for RISC-V."""

import fcntl
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from c_programs import CC, STRICT, run
from device_programs import tiny

from tosaic.driver.c_kit import RUNTIME_FILES, write_c_kit
from tosaic.driver.c_kit.folder import SOURCES
from tosaic.hw.csr_map import REGISTER

PAGE = Path(__file__).parents[2] / "docs" / "c_kit.md"
HOW_TO = PAGE.with_name("howto_c.md")
RISCV = [sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-freestanding-none", "-fno-sanitize=all"]
RUNTIME = ("tosaic", "tosaic_mapped")
LINES_MAX = 1000


@pytest.fixture
def kit(tmp_path):
    """The folder with digits for nano."""
    write_c_kit(tmp_path / "digits.c", tiny("nano"), {})
    return tmp_path


def example() -> str:
    """The first program in the manual."""
    return re.search(r"```c\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]


def test_the_runtime_is_small_and_takes_nothing():
    texts = {name: (SOURCES / name).read_text() for name in RUNTIME_FILES if (SOURCES / name).exists()}
    assert sum(text.count("\n") for text in texts.values()) <= LINES_MAX
    own = "".join(texts[f"{stem}{suffix}"] for stem in RUNTIME for suffix in (".c", ".h"))
    assert set(re.findall(r"#include <(.*)>", own)) == {"stddef.h", "stdint.h"}
    assert not re.search(r"\b(malloc|printf|memcpy|float)\(", own)


@pytest.mark.parametrize("source", ["tosaic.c", "tosaic_mapped.c", "tosaic_uio.c", "digits.c"])
def test_this_machines_compiler(kit, source):
    run([*CC, *STRICT, "-Wshadow", "-Wconversion", "-O2", "-c", source, "-o", "out.o"], kit)


def test_the_manuals_example_links_for_riscv_without_a_library(kit):
    """-nostdlib: whatever it calls has to be in these files."""
    (kit / "app.c").write_text(example())
    sources = ["app.c", "digits.c", *(f"{stem}.c" for stem in RUNTIME)]
    options = ["-nostdlib", "-Os", "-Wl,-e,classify", "-Wl,--no-undefined"]
    run([*RISCV, *STRICT, *options, *sources, "-o", "app.elf"], kit)
    assert (kit / "app.elf").read_bytes()[:6] == b"\x7fELF\x01\x01"


def test_the_how_to_on_a_chip(kit):
    """Its lines for mapped registers, and its command for Linux; test_c_desk.py has the rest of the page."""
    text = HOW_TO.read_text()
    (kit / "chip.c").write_text(re.findall(r"```c\n(.*?)```", text, re.DOTALL)[1])
    run([*CC, *STRICT, "-Wno-error=int-to-pointer-cast", "-c", "chip.c", "-o", "chip.o"], kit)
    (command,) = re.findall(r"^cc .*$", text, re.MULTILINE)
    assert shlex.split(command)[-1] == "classify"
    run([*CC, *shlex.split(command)[1:]], kit)


def test_the_model_in_one_header(tmp_path):
    write_c_kit(tmp_path / "digits.h", tiny("nano"), {})
    assert not (tmp_path / "digits.c").exists()
    (tmp_path / "app.c").write_text(example())
    run([*CC, *STRICT, "-c", "app.c", "-o", "app.o"], tmp_path)


def test_the_headers_in_cpp(kit):
    compiler = os.environ.get("CXX", "c++").split()
    (kit / "use.cpp").write_text('#include "digits.h"\n#include "tosaic_mapped.h"\nint at = TOSAIC_STATUS;\n')
    run([*compiler, "-Wall", "-Werror", "-c", "use.cpp", "-o", "use.o"], kit)


def test_the_example_for_linux(kit):
    """It runs on files in place of /dev/uio0 and /dev/udmabuf0: a machine that has always just ended its program."""
    program = tiny("nano")
    sources = ["example_uio.c", "tosaic_uio.c", "tosaic_mapped.c", "tosaic.c", "digits.c"]
    model = ['-DMODEL="digits.h"', "-DPROGRAM=digits_program"]
    run([*CC, *STRICT, *model, *sources, "-o", "example"], kit)
    folder = kit / "class" / "udmabuf0"
    folder.mkdir(parents=True)
    (folder / "phys_addr").write_text("0x10000000\n")
    (folder / "size").write_text("65536\n")
    registers = np.memmap(kit / "uio0", np.uint32, "w+", shape=1024)
    memory = np.memmap(kit / "udmabuf0", np.uint8, "w+", shape=65536)
    status = REGISTER["STATUS"]
    known = {"ID": REGISTER["ID"].reset, "VERSION": REGISTER["VERSION"].reset, "CYCLES": 1234}
    known["STATUS"] = status.field("idle").mask | status.field("done").mask
    for name, value in known.items():
        registers[REGISTER[name].offset // 4] = value
    command = ["./example", "uio0", "udmabuf0", "class"]
    image = np.arange(64, dtype=np.int8)
    with pytest.raises(AssertionError, match="^WRONG_INSTRUCTION_SET: it executes another instruction set: "):
        run(command, kit, input=image.tobytes())
    header = (kit / "tosaic_registers.h").read_text()
    for name in ("ISA_HASH", "CONFIG_HASH"):
        value = re.search(rf"TOSAIC_{name}_VALUE (0x\w+)u", header)[1]
        registers[REGISTER[name].offset // 4] = int(value, 0)
    (port,) = program.outputs
    memory[port.address : port.address + port.bytes] = range(10)
    done = run(command, kit, input=image.tobytes())
    assert (list(done.stdout), done.stderr) == (list(range(10)), b"1234 cycles\n")
    (port,) = program.inputs
    assert memory[port.address : port.address + port.bytes].tobytes() == image.tobytes()
    assert memory[: len(program.image)].tobytes() == program.image
    written = {
        "MEM_BASE": 0x10000000,
        "MEM_SIZE": program.memory_bytes,
        "PROGRAM_ADDRESS": program.program_address,
        "PROGRAM_BYTES": program.program_bytes,
        "CONTROL": 5,
    }
    assert {name: int(registers[REGISTER[name].offset // 4]) for name in written} == written
    with open(kit / "udmabuf0") as taken:
        fcntl.flock(taken, fcntl.LOCK_EX)
        with pytest.raises(AssertionError, match="^udmabuf0: Resource temporarily unavailable"):
            run(command, kit, input=image.tobytes())
    (folder / "phys_addr").unlink()
    with pytest.raises(AssertionError, match="^class: No such file or directory"):
        run(command, kit, input=image.tobytes())
