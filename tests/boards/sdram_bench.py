"""A board's memory behind LiteDRAM's own controller, with the chip of virtual boards, cycle by cycle."""

import ctypes
import dataclasses
import re
from collections.abc import Callable, Generator
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import IOPort

import tosaic.sim.board
from tosaic.boards.dram import MT48LC16M16, core_verilog
from tosaic.boards.soc import SdramMemory
from tosaic.hw.config import CONFIGS
from tosaic.sim.board.chip import RULES, BrokenC, ChipSetting, ChipSettingC
from tosaic.sim.rtl.build import verilate
from tosaic.virtual import chip_setting

BASE, CLOCK_HZ = 0x1000_0000, 50e6
CONFIG = CONFIGS["small"]
WIDTH = CONFIG.word_bytes
CHIPS = Path(tosaic.sim.board.__file__).parent
OPTIONS = (
    *("--cc", "--top-module", "memory", "--prefix", "Vmemory", "-O3", "--no-assert", "--no-timing"),
    *("-Wno-lint", "-Wno-COMBDLY", "-Wno-fatal", "--pins-inout-enables"),
)
SETTING = chip_setting(MT48LC16M16, CLOCK_HZ)
START_CYCLES = 11_300
"""What the start takes, from the reset on."""
_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64


class Inputs(ctypes.Structure):
    _fields_ = [
        *((name, _U32) for name in ("rst", "arvalid", "araddr", "arlen", "arid", "rready")),
        *(
            (name, _U32)
            for name in ("awvalid", "awaddr", "awlen", "awid", "wvalid", "wlast", "wstrb", "bready")
        ),
        *((name, _U32) for name in ("host_request", "host_write", "host_address", "host_write_data")),
        ("wdata", _U64),
    ]


class Outputs(ctypes.Structure):
    _fields_ = [
        *((name, _U32) for name in ("arready", "rvalid", "rlast", "rid", "rresp")),
        *((name, _U32) for name in ("awready", "wready", "bvalid", "bid", "bresp")),
        *((name, _U32) for name in ("host_done", "host_error", "host_read_data", "broken")),
        ("rdata", _U64),
    ]


def build(folder: Path) -> ctypes.CDLL:
    """The library, with the chip's setting still open."""
    memory = SdramMemory(
        CONFIG, MT48LC16M16, base=BASE, clock_hz=CLOCK_HZ, data_pins=IOPort(16, name="sdram_dq")
    )
    core = core_verilog(MT48LC16M16, "LFE5U-85F-6BG381C", CLOCK_HZ, WIDTH)
    # Verilator writes two underscores of a name in another way.
    text = re.sub(
        r"\b(read|write|host|pins)__", r"\1_", verilog.convert(memory, name="memory", emit_src=False)
    )
    (folder / "memory.v").write_text(text + core)
    sources = [folder / "memory.v", CHIPS / "ecp5_cells.v"]
    harness, library = Path(__file__).parent / "memory_bench.cpp", folder / "memory.so"
    verilate(sources, harness, library, options=OPTIONS, definitions=(f"-I{CHIPS}",))
    found = ctypes.CDLL(str(library))
    found.bench_create.restype, found.bench_writes.restype = ctypes.c_void_p, _U64
    return found


Process = Generator[None, None, None]
"""Drives inputs, yields once per cycle, and then sees the outputs that this cycle had with these inputs."""
Burst = tuple[int, int, int]
"""Address, beats, id."""


class Bench:
    """One memory, in its reset. `now` counts cycles."""

    def __init__(self, library: ctypes.CDLL, setting: ChipSetting = SETTING):
        self._library = library
        self._handle = ctypes.c_void_p(
            library.bench_create(ctypes.byref(ChipSettingC(*dataclasses.astuple(setting))))
        )
        self.inputs, self.outputs, self.now = Inputs(), Outputs(), 0
        self.reset()

    def close(self) -> None:
        self._library.bench_destroy(self._handle)

    def step(self, cycles: int = 1) -> None:
        self._library.bench_step(
            self._handle, ctypes.byref(self.inputs), ctypes.byref(self.outputs), _U64(cycles)
        )
        self.now += cycles

    def reset(self) -> None:
        """A reset as long as the bridge's; whatever was asked for is asked no more."""
        self.inputs = Inputs(rst=1)
        self.step(16)
        self.inputs.rst = 0
        self.step(1)

    def run(self, *processes: Process) -> None:
        """Runs the processes until all have ended."""
        alive = list(processes)
        while alive:
            for process in list(alive):
                if next(process, "ended") == "ended":
                    alive.remove(process)
            self.step()

    @property
    def broken(self) -> str:
        """The first rule that was broken."""
        broken = BrokenC()
        self._library.bench_broken(self._handle, ctypes.byref(broken))
        return RULES[broken.rule] if broken.count else ""

    @property
    def chip_writes(self) -> int:
        """WRITEs that the chip has seen."""
        return self._library.bench_writes(self._handle)

    # --- requesters

    def host(self, address: int, value: int | None, ended: Callable[[int, int], None]) -> Process:
        """`ended(byte, error)`."""
        i, o = self.inputs, self.outputs
        i.host_request, i.host_address = 1, address
        i.host_write, i.host_write_data = value is not None, value or 0
        yield
        while not o.host_done:
            yield
        i.host_request = 0
        ended(o.host_read_data, o.host_error)

    def read_addresses(self, bursts: list[Burst]) -> Process:
        """Asked for one after the other, whatever has been answered."""
        i, o = self.inputs, self.outputs
        for i.araddr, beats, i.arid in bursts:
            i.arlen, i.arvalid = beats - 1, 1
            yield
            while not o.arready:
                yield
        i.arvalid = 0

    def write_addresses(self, bursts: list[Burst]) -> Process:
        i, o = self.inputs, self.outputs
        for i.awaddr, beats, i.awid in bursts:
            i.awlen, i.awvalid = beats - 1, 1
            yield
            while not o.awready:
                yield
        i.awvalid = 0

    def write_data(self, bursts: list[list[tuple[int, int]]], pause: Callable[[], int]) -> Process:
        """Beats (word, strobes) of each burst."""
        i, o = self.inputs, self.outputs
        for beats in bursts:
            for number, (word, strobes) in enumerate(beats):
                i.wvalid = 0
                for _ in range(pause()):
                    yield
                i.wdata, i.wstrb, i.wlast, i.wvalid = word, strobes, number == len(beats) - 1, 1
                yield
                while not o.wready:
                    yield
        i.wvalid = 0

    def read_answers(self, count: int, ready: Callable[[], bool], got: Callable[..., None]) -> Process:
        """Calls `got(cycle, word, id, response, last)` for each of `count` beats."""
        i, o = self.inputs, self.outputs
        while count:
            i.rready = ready()
            yield
            if i.rready and o.rvalid:
                got(self.now, o.rdata, o.rid, o.rresp, o.rlast)
                count -= 1
        i.rready = 0

    def write_answers(self, count: int, ready: Callable[[], bool], got: Callable[..., None]) -> Process:
        """Calls `got(cycle, id, response)` for each of `count` bursts."""
        i, o = self.inputs, self.outputs
        while count:
            i.bready = ready()
            yield
            if i.bready and o.bvalid:
                got(self.now, o.bid, o.bresp)
                count -= 1
        i.bready = 0
