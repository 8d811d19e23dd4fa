"""The C kit compiled for RISC-V, executed by a PicoRV32 under Verilator, on the accelerator's RTL."""

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest
from c_programs import STRICT, run
from device_programs import GRAPH, loading, tiny

from tosaic.driver.c_kit import write_c_kit
from tosaic.driver.transports import RtlTransport
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import Error, Unit
from tosaic.hw.micro.firmware.elf import elf_section
from tosaic.hw.micro.packages import CORE, find_package
from tosaic.sim.golden import evaluate
from tosaic.sim.rtl.build import verilate

pytestmark = pytest.mark.xdist_group("nano")
HERE = Path(__file__).parent
RAM_BYTES, MAILBOX, WINDOW_BYTES = 64 << 10, 0xC000, 64 << 10
REGISTERS, WINDOW = 0x40000000, 0x80000000
RUNS, MAX_CYCLES = 2, 20_000_000
MACHINE_FAULT = 10
"""Value of `enum tosaic_result`."""
ZIG = [sys.executable, "-m", "ziglang"]
MACHINE = [
    "-target",
    "riscv32-freestanding-none",
    "-mcpu=generic_rv32",
    "-fno-sanitize=all",
    "-ffreestanding",
]
LAYOUT = """\
ENTRY(_start)
SECTIONS
{
    . = 0;
    .text : {
        KEEP(*(.text.start)) *(.text .text.*)
        *(.rodata .rodata.* .srodata .srodata.*) *(.data .data.* .sdata .sdata.*)
    }
    .bss : { *(.bss .bss.* .sbss .sbss.* COMMON) }
    /DISCARD/ : { *(.comment) *(.eh_frame*) *(.riscv.attributes) *(.note*) }
}
"""


class Mailbox(ctypes.Structure):
    """What the firmware and the test share (riscv_app.c)."""

    _fields_ = [
        ("images", ctypes.c_int8 * 64 * RUNS),
        ("scores", ctypes.c_int8 * 12 * RUNS),
        ("cycles", ctypes.c_uint32 * RUNS),
        ("results", ctypes.c_uint32 * RUNS),
        ("last_result", ctypes.c_uint32),
        ("fault", ctypes.c_uint32),
        ("unit", ctypes.c_uint32),
        ("pc", ctypes.c_uint32),
    ]


@pytest.fixture
def transport():
    made = RtlTransport(get_config("nano"), memory_bytes=WINDOW_BYTES)
    yield made
    made.close()


def firmware(folder: Path, memory_base: int) -> bytes:
    """The program in the core's memory, from address 0 on."""
    write_c_kit(folder / "digits.c", tiny("nano"), {})
    write_c_kit(folder / "far.c", loading("nano", 1 << 20), {})
    (folder / "layout.ld").write_text(LAYOUT)
    places = {"MAILBOX": MAILBOX, "MEMORY_BASE": memory_base, "MEMORY_BYTES": WINDOW_BYTES}
    defined = [f"-D{name}=0x{value:x}u" for name, value in places.items()]
    sources = [str(HERE / "riscv_app.c"), "digits.c", "far.c", "tosaic.c", "tosaic_mapped.c"]
    link = ["-nostdlib", "-Wl,-T,layout.ld", "-o", "app.elf"]
    run([*ZIG, "cc", *MACHINE, *STRICT, "-Os", "-I.", *defined, *sources, *link], folder)
    return elf_section((folder / "app.elf").read_bytes(), ".text")


def core_library(folder: Path) -> ctypes.CDLL:
    options = [
        "--cc",
        "--top-module",
        "picorv32",
        "--prefix",
        "Vcore",
        "-O3",
        "--no-assert",
        "--no-timing",
        "-Wno-fatal",
    ]
    options += ["-Wno-lint", f"-GSTACKADDR=32'h{RAM_BYTES:x}"]
    verilog = find_package(CORE) / "verilog" / "picorv32.v"
    verilate([verilog], HERE / "riscv_core.cpp", folder / "core.so", options=options)
    return ctypes.CDLL(str(folder / "core.so"))


def bus(transport: RtlTransport):
    """What the core reads and writes outside its memory: the machine's registers, and the window."""

    @ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)
    def read(address):
        if address < WINDOW:
            return transport.read_registers(address - REGISTERS, 1)[0]
        return int.from_bytes(transport.read_memory(address - WINDOW, 4), "little")

    @ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
    def write(address, word, strobes):
        if address < WINDOW:
            transport.write_register(address - REGISTERS, word)
            return
        for byte, value in enumerate(word.to_bytes(4, "little")):
            if strobes >> byte & 1:
                transport.write_memory(address - WINDOW + byte, bytes([value]))

    return read, write


def test_firmware_runs_models(tmp_path, transport):
    program = firmware(tmp_path, transport.identity.memory_base)
    assert len(program) < MAILBOX - 4096
    ram = np.zeros(RAM_BYTES, np.uint8)
    ram[: len(program)] = np.frombuffer(program, np.uint8)
    mailbox = Mailbox.from_buffer(ram, MAILBOX)
    images = np.random.default_rng(3).integers(-128, 128, (RUNS, 64), dtype=np.int8)
    np.asarray(mailbox.images)[:] = images
    read, write = bus(transport)
    core = core_library(tmp_path)
    ended = core.core_run(
        ram.ctypes.data_as(ctypes.c_void_p), RAM_BYTES, read, write, ctypes.c_uint64(MAX_CYCLES)
    )
    assert ended == 1
    assert list(mailbox.results) == [0, 0]
    for image, scores in zip(images, np.asarray(mailbox.scores), strict=True):
        wanted = evaluate(GRAPH, {"image": image.reshape(1, 8, 8, 1)})["scores"]
        np.testing.assert_array_equal(scores[:10], wanted[0])
    assert mailbox.cycles[0] == mailbox.cycles[1] > 0
    assert mailbox.last_result == MACHINE_FAULT
    assert (Error(mailbox.fault), Unit(mailbox.unit), mailbox.pc) == (Error.MEMORY_RANGE, Unit.LOAD, 16)
    assert transport.read_registers(REGISTER["STATUS"].offset, 1) == [REGISTER["STATUS"].field("idle").mask]
