"""A board's RTL as a shared library: bytes go in at one pin of its UART and come out at the other."""

import ctypes
import dataclasses
import hashlib
import pathlib
from collections.abc import Callable

from tosaic.errors import DeviceError

from ..cache import cached, progress
from ..rtl.build import (
    COMMON_FLAGS,
    FAST_FLAGS,
    SLOW_FLAGS,
    VERILOG_BYTES_PER_SECOND,
    compiler_version,
    verilate,
)
from ..rtl.packages import simulator_package
from ..rtl.verilog import check_sources, source_digest
from .chip import BrokenC, ChipReport, ChipSetting, ChipSettingC, report_of

HERE = pathlib.Path(__file__).parent
BENCH, HARNESS, HEADERS = "board_bench.v", "harness.cpp", ("sdram_chip.h", "phy.h", "flash_chip.h")
CELLS = {"RGMII": "ecp5_cells.v", "MII": "xilinx_cells.v"}
"""Models of a part's cells, by what needs them; those of an SDRAM's controller are the board's."""
VERILATOR_FLAGS = (
    *("--cc", "--top-module", "board_bench", "--prefix", "Vboard"),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "--no-timing"),
    *("-Wno-lint", "-Wno-ALWNEVER", "-Wno-fatal", "--output-split", "20000"),
)
_ROOM = 1 << 16


@dataclasses.dataclass(frozen=True)
class BoardRtl:
    """What to simulate: Verilog of a module `board` with the ports of BoardTop.

    `key` names everything the Verilog depends on beside the sources of this package; `verilog()` makes it, which takes
    a while and happens only when the simulator is not in the cache.
    """

    name: str
    key: str
    bit_cycles: int
    """Clock cycles per bit of its UART."""
    sources: tuple[pathlib.Path, ...]
    """Folders with the Python sources of the hardware."""
    verilog: Callable[[], str]
    chip: ChipSetting | None = None
    """The SDRAM beside the FPGA, whose pins the module has, too."""
    chip_cells: str = "ecp5_cells.v"
    """Models of the cells that the SDRAM's controller names."""
    phy: str = ""
    """Interface of the PHY beside the FPGA, mii or rgmii, whose pins the module has, too."""

    has_flash: bool = False
    """It has the pins of an SPI flash."""

    @property
    def defined(self) -> tuple[str, ...]:
        """Definitions of the board's pins for bench and harness."""
        return (
            *(("SDRAM", f"SDRAM_BITS={self.chip.data_bits}") if self.chip else ()),
            *((self.phy.upper(),) if self.phy else ()),
            *(("FLASH",) if self.has_flash else ()),
        )


def board_library(rtl: BoardRtl) -> pathlib.Path:
    """The shared library of a board; built when it is not in the cache, which takes a minute or so."""

    def elaborate(path: pathlib.Path) -> None:
        with progress(f"writing the Verilog of the board {rtl.name}, once"):
            path.write_text(rtl.verilog())
            check_sources(rtl.sources)

    key = source_digest(rtl.key, rtl.sources)
    verilog_path = cached("board-verilog", rtl.name, key, ".v", elaborate)
    verilog = verilog_path.read_bytes()
    digest = hashlib.sha256(verilog)
    chip_cells = (rtl.chip_cells,) if rtl.chip else ()
    cells = sorted({*chip_cells, *(CELLS[name] for name in rtl.defined if name in CELLS)})
    for name in (BENCH, HARNESS, *HEADERS, *cells):
        digest.update((HERE / name).read_bytes())
    options = (*VERILATOR_FLAGS, *(f"+define+{name}" for name in rtl.defined))
    flags = (options, FAST_FLAGS, SLOW_FLAGS, COMMON_FLAGS)
    digest.update(repr((flags, simulator_package("verilator"), compiler_version())).encode())
    seconds = max(len(verilog) // VERILOG_BYTES_PER_SECOND, 10)

    def make(path: pathlib.Path) -> None:
        with progress(f"building the simulator of the board {rtl.name}, about {seconds} s, once"):
            verilate(
                [HERE / BENCH, verilog_path, *(HERE / name for name in cells)],
                HERE / HARNESS,
                path,
                options=options,
                definitions=(f"-I{HERE}", *(f"-D{name}" for name in rtl.defined)),
            )

    return cached("board", rtl.name, digest.hexdigest()[:20], ".so", make)


_HANDLE, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_SIGNATURES = {
    "create": ([_U32, ctypes.POINTER(ChipSettingC)], _HANDLE),
    "destroy": ([_HANDLE], None),
    "reset": ([_HANDLE], None),
    "send": ([_HANDLE, ctypes.c_char_p, _U64], None),
    "run": ([_HANDLE, _U64, ctypes.c_char_p, _U64], _U64),
    "cycle": ([_HANDLE], _U64),
    "leds": ([_HANDLE], _U32),
    "chip": ([_HANDLE, ctypes.POINTER(BrokenC), _U64 * 4], None),
    "peek": ([_HANDLE, _U64, ctypes.c_char_p, _U64], None),
    "flash": ([_HANDLE, ctypes.c_char_p, _U64], None),
    "frame": ([_HANDLE, ctypes.c_char_p, _U64], None),
    "take_frame": ([_HANDLE, ctypes.c_char_p, _U64], _U64),
    "poke": ([_HANDLE, _U64, ctypes.c_char_p, _U64], None),
}


class BoardSimulator:
    """One board, just out of reset. Its clock runs only inside `run`. Calls release the GIL.

    An SDRAM whose rules its controller breaks is a DeviceError: a real one would lose data.
    """

    def __init__(self, rtl: BoardRtl):
        self.rtl = rtl
        self._functions = ctypes.CDLL(str(board_library(rtl)))
        for name, (arguments, result) in _SIGNATURES.items():
            function = getattr(self._functions, f"board_{name}")
            function.argtypes, function.restype = arguments, result
        self._received = ctypes.create_string_buffer(_ROOM)
        setting = ChipSettingC(*dataclasses.astuple(rtl.chip)) if rtl.chip else None
        self._handle = self._functions.board_create(rtl.bit_cycles, setting)

    def close(self) -> None:
        """Free the simulator; it cannot be used any more."""
        if self._handle:
            self._functions.board_destroy(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def reset(self) -> None:
        """Press the board's reset button."""
        self._functions.board_reset(self._handle)

    def send(self, data: bytes) -> None:
        """Bytes that the host puts on the line, one after the other, from now on."""
        self._functions.board_send(self._handle, data, len(data))

    def run(self, max_cycles: int) -> bytes:
        """Returns what the host receives in `max_cycles`; ends early when all is sent and an answer is complete, or a
        frame has come, which `frames` brings."""
        count = self._functions.board_run(self._handle, max_cycles, self._received, _ROOM)
        if self.rtl.chip and (chip := self.chip).broken:
            raise DeviceError(
                f"the virtual board {self.rtl.name}: its memory controller breaks a rule of the SDRAM, {chip.broken} "
                f"times; the first one: {chip.first}"
            )
        return self._received.raw[:count]

    def write_flash(self, content: bytes) -> None:
        """Sets the contents of the SPI flash from its first byte on, for the next reset; after them it is erased."""
        self._functions.board_flash(self._handle, content, len(content))

    def send_frame(self, frame: bytes) -> None:
        """A frame on the cable to the board's PHY, from the preamble to the check sequence."""
        self._functions.board_frame(self._handle, frame, len(frame))

    def frames(self) -> list[bytes]:
        """The frames that the PHY has put on the cable since the last look."""
        found = []
        while count := self._functions.board_take_frame(self._handle, self._received, _ROOM):
            found.append(self._received.raw[: min(count, _ROOM)])
        return found

    @property
    def cycle(self) -> int:
        """Clock cycles since the board was made."""
        return self._functions.board_cycle(self._handle)

    @property
    def leds(self) -> dict[str, bool]:
        """The lamps."""
        lit = self._functions.board_leds(self._handle)
        return {name: bool(lit >> bit & 1) for bit, name in enumerate(("busy", "link", "irq"))}

    @property
    def chip(self) -> ChipReport:
        """The commands that the SDRAM has seen, and the rules that were broken, on a board that has one."""
        broken, commands = BrokenC(), (_U64 * 4)()
        self._functions.board_chip(self._handle, broken, commands)
        return report_of(broken, commands)

    def peek(self, address: int, count: int) -> bytes:
        """Bytes of the SDRAM; the board does not notice. ValueError outside of it."""
        self._check(address, count)
        content = ctypes.create_string_buffer(count)
        self._functions.board_peek(self._handle, address, content, count)
        return content.raw

    def poke(self, address: int, data: bytes) -> None:
        """Change bytes of the SDRAM; the board does not notice. ValueError outside of it."""
        self._check(address, len(data))
        self._functions.board_poke(self._handle, address, data, len(data))

    def _check(self, address: int, count: int) -> None:
        size = self.rtl.chip.memory_bytes if self.rtl.chip else 0
        if not 0 <= address <= address + count <= size:
            raise ValueError(f"{count} bytes at {address:#x} leave the SDRAM's {size}")
