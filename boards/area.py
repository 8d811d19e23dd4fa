"""What a configuration takes of a part, before synthesis: a linear model of each unit, fitted to syntheses.

`area_samples.csv` has LUTs, flip-flops and block RAM of units of small configurations, each synthesised by itself by
`bench/area_samples.py` (yosys). A unit's figure is a sum of a few numbers that the configuration gives, weighted
so that the relative errors are least. Multipliers and the RAM of activation and weight memory are computed.
"""

import csv
import dataclasses
import enum
import functools
import importlib.resources
import math
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

from .board import Board, Capacity, Family
from .report import Usage, parse_stat, usage_of_cells
from .tools import check_tool, extra_of, run_tool


class LutFabric(enum.Enum):
    """What LUTs are like."""

    XC7 = "xc7"
    """Six inputs; also a rough guide to UltraScale+."""
    ECP5 = "ecp5"
    """Four inputs."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A device without a board."""

    name: str
    fabric: LutFabric
    capacity: Capacity


PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part("ecp5-25f", LutFabric.ECP5, Capacity(24_288, 24_288, 28, 56 * 18)),
        Part("ecp5-45f", LutFabric.ECP5, Capacity(43_848, 43_848, 72, 108 * 18)),
        Part("ecp5-85f", LutFabric.ECP5, Capacity(83_640, 83_640, 156, 208 * 18)),
        Part("xc7a35t", LutFabric.XC7, Capacity(20_800, 41_600, 90, 50 * 36)),
        Part("xc7a100t", LutFabric.XC7, Capacity(63_400, 126_800, 240, 135 * 36)),
        Part("xc7z020", LutFabric.XC7, Capacity(53_200, 106_400, 220, 140 * 36)),
    )
}
"""Parts by the names that `tosaic explore --part` takes."""
NARROW_LANE_BITS = 34
"""Bits at most of a lane whose product has four parts instead of six."""
SHALLOW_QUEUE = 16
"""Commands of a queue that fit LUT RAM which is deep once."""
PARITY = "parity"
"""The unit of samples that tell what `memory_parity` adds to activation and weight memory; `load_row_check` is what
`load_crc` adds to LOAD. The samples of `load`, `am` and `wm` are without them."""
WHOLE = "whole"
"""The unit of samples that are whole accelerators: the model is held against them, not fitted to them."""
_SYNTHESIS = {LutFabric.XC7: "synth_xilinx -family xc7 -flatten", LutFabric.ECP5: "synth_ecp5"}
_FAMILY = {LutFabric.XC7: Family.XILINX7, LutFabric.ECP5: Family.ECP5}
_FABRIC = {
    Family.ECP5: LutFabric.ECP5,
    **dict.fromkeys((Family.XILINX7, Family.ZYNQ7, Family.ULTRASCALE), LutFabric.XC7),
}
_RAM_KBIT, _RAM_BYTES_DEEP = 18, 2048
"""A block RAM, one byte wide."""


def fits(usage: Usage, part: Part) -> bool:
    """Whether the part has as much."""
    room = part.capacity
    return (
        usage.lut <= room.lut
        and usage.ff <= room.ff
        and usage.dsp <= room.dsp
        and usage.ram_kbit <= room.ram_kbit
    )


def estimate(config: Config, fabric: LutFabric) -> Usage:
    """The accelerator without bridge, PLL and external memory."""
    lut, ff, ram = (_fitted(config, fabric, name) for name in ("lut", "ff", "ram"))
    return Usage(
        lut=round(lut),
        ff=round(ff),
        dsp=config.macs_per_cycle + lane_multipliers(config) * config.lanes * config.cores,
        ram_kbit=round(ram) + _memory_kbit(config) * config.cores,
    )


def board_estimate(board: Board) -> Usage | None:
    """The accelerator of a board; None for a fabric without samples, or a micro-coded machine."""
    if board.machine != "array" or board.family not in _FABRIC:
        return None
    return estimate(get_config(board.config), _FABRIC[board.family])


def _fitted(config: Config, fabric: LutFabric, figure: str) -> float:
    """Returns the sum over all units: each core has its own, and several share what is between them."""
    fits_of = _fits(fabric, figure)
    return sum(
        fit.of(config) * (config.cores if unit in _OF_A_CORE else 1)
        for unit, fit in fits_of.items()
        if config.cores > 1 or unit not in _BETWEEN_CORES
    )


def lane_multipliers(config: Config) -> int:
    """Blocks of a vector lane, one for its table and the others for a product; a PE has one."""
    return 5 if config.vector_bits <= NARROW_LANE_BITS else 7


def _memory_kbit(config: Config) -> int:
    """Returns the kilobits of a core. Activation memory: a RAM for each byte of a word and bank, of half a
    block where that is enough. Weight memory: parity is wasted.
    """
    depth = config.am_bank_bytes // config.columns
    # Parity of activation memory is a block's ninth bit; weight memory has a bit for each word.
    parity = config.memory_parity * _RAM_KBIT * math.ceil(config.wm_words / (8 * _RAM_BYTES_DEEP))
    blocks = math.ceil(depth / _RAM_BYTES_DEEP)
    each = _RAM_KBIT * blocks if depth > _RAM_BYTES_DEEP // 4 else _RAM_KBIT // 2
    return config.columns * config.am_banks * each + math.ceil(config.wm_bytes * 9 / 1024) + parity


# --- the fit

Features = Callable[[Config], Sequence[float]]
_OF_A_CORE: dict[str, Features] = {
    "am": lambda c: (1, c.columns, c.columns * c.am_banks, c.columns * math.log2(c.columns)),
    "array": lambda c: (
        1,
        c.columns,
        c.rows,
        c.rows * c.columns,
        c.columns * bool(c.partial_sums),
        c.columns * (c.most_row_parts > 1),
    ),
    "load": lambda c: (1, c.columns, c.columns * bool(c.cabac_engines), c.cabac_engines),
    "load_row_check": lambda c: (c.load_crc, c.load_crc * c.columns),
    PARITY: lambda c: (c.memory_parity * c.columns,),
    "read_arbiter": lambda c: (1,),
    "sequencer": lambda c: (1, c.queue_commands > SHALLOW_QUEUE, c.cores > 1),
    "store": lambda c: (1, c.columns),
    "vector": lambda c: (1, c.lanes, c.lanes * c.columns, c.columns * math.log2(c.columns)),
    "wm": lambda c: (c.columns, c.columns * (c.most_row_parts > 1), c.columns * (c.most_row_parts > 2)),
}
_OF_THE_MACHINE: dict[str, Features] = {
    "control_port": lambda c: (1, c.cores - 1),
    "soft_reset": lambda c: (1,),
}
_BETWEEN_CORES: dict[str, Features] = {
    "reads": lambda c: (c.cores, c.cores * c.bus_bytes, c.cores * c.bus_bytes * (c.bus_words > 1)),
    "writes": lambda c: (c.cores, c.cores * c.bus_bytes, c.cores * c.bus_bytes * (c.bus_words > 1)),
    "tokens": lambda c: (c.cores * (c.cores - 1),),
    "reports": lambda c: (c.cores,),
}
_FEATURES = {**_OF_A_CORE, **_OF_THE_MACHINE, **_BETWEEN_CORES}
"""What a unit's size depends on."""


@dataclasses.dataclass(frozen=True)
class _Fit:
    unit: str
    weights: tuple[float, ...]

    def of(self, config: Config) -> float:
        return max(0.0, float(np.dot(self.weights, _FEATURES[self.unit](config))))


@dataclasses.dataclass(frozen=True)
class Sample:
    """A unit of a configuration after synthesis."""

    fabric: LutFabric
    config: Config
    unit: str
    lut: int
    ff: int
    ram: int
    """Kilobits of block RAM; 0 for activation and weight memory, which are computed."""


@functools.cache
def samples() -> tuple[Sample, ...]:
    """What the model is fitted to."""
    text = importlib.resources.files(__package__).joinpath("area_samples.csv").read_text()
    return tuple(
        Sample(
            LutFabric(line["fabric"]),
            get_config(line["config"]),
            line["unit"],
            *(int(line[name]) for name in ("lut", "ff", "ram")),
        )
        for line in csv.DictReader(text.splitlines())
    )


@functools.cache
def _fits(fabric: LutFabric, figure: str) -> dict[str, _Fit]:
    return {unit: _fit(unit, figure, [s for s in samples() if s.fabric is fabric]) for unit in _FEATURES}


def _fit(unit: str, figure: str, known: Sequence[Sample]) -> _Fit:
    own = [each for each in known if each.unit == unit]
    wanted = np.array([getattr(each, figure) for each in own], float)
    features = np.array([_FEATURES[unit](each.config) for each in own], float)
    scale = 1 / np.maximum(wanted, 1.0)
    # The least weights where the samples leave some open.
    found = np.linalg.lstsq(features * scale[:, None], wanted * scale, rcond=1e-6)[0]
    return _Fit(unit, tuple(found))


# --- how far it is from syntheses


def errors(fabric: LutFabric) -> list[float]:
    """Relative errors of the LUTs of whole accelerators, which the fit does not see."""
    wholes = [each for each in samples() if each.unit == WHOLE and each.fabric is fabric]
    return [estimate(each.config, fabric).lut / each.lut - 1 for each in wholes]


def error_told(fabric: LutFabric) -> str:
    """The errors in words."""
    found = errors(fabric)
    own = sum(each.fabric is fabric and each.unit != WHOLE for each in samples())
    told = " to ".join(f"{share:+.1%}" for share in sorted({min(found), max(found)})) if found else ""
    span = f"{told} of synthesis, {len(found)} tried" if found else "not tried"
    return f"estimated by a model of {own} syntheses of units ({fabric.value}); LUTs of whole accelerators: {span}"


def synthesize(config: Config, fabric: LutFabric, folder: pathlib.Path, unit: str | None = None) -> Usage:
    """Yosys' count of the accelerator, or of one unit by itself; `folder` takes the files in between. ToolError where
    Yosys is missing or fails."""
    check_tool("yosys", extra_of(_FAMILY[fabric]))
    # Imported here: an estimate needs the samples alone.
    from tosaic.hw.top import VERILOG_NAME, VerilogTop
    from tosaic.hw.verilog import convert

    modules = convert(VerilogTop(config), VERILOG_NAME)
    top = VERILOG_NAME if unit is None else f"{VERILOG_NAME}_{unit}"
    own = [name for name in modules if name == top or name.startswith(f"{top}_")]
    for name in own:
        (folder / f"{name}.v").write_text(modules[name])
    sources = " ".join(f"{name}.v" for name in own)
    script = f"read_verilog {sources}; {_SYNTHESIS[fabric]} -top {top}; tee -q -o cells.json stat -json"
    run_tool("yosys", ("-p", script), folder, folder / "synthesis.log", lambda step: None)
    return usage_of_cells(parse_stat((folder / "cells.json").read_text()), _FAMILY[fabric])
