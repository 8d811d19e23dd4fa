"""The accelerator as a peripheral of a LiteX SoC with SDRAM, in one line behind `add_sdram`:

from tosaic.boards.litex_soc import Tosaic

self.npu = Tosaic(self, "small")

The import repairs LiteDRAM (`dram/repairs.py`), so that the accelerator's port of the controller has all its bandwidth.
"""

import json
import pathlib
from typing import Any

from litedram.frontend.axi import LiteDRAMAXI2Native
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal, Signal

from tosaic.boards.dram.repairs import repair_litedram
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import LEAST_ADDRESS_BITS, WINDOW_ALIGNMENT, WINDOW_BYTES
from tosaic.hw.interfaces import bus_id_bits
from tosaic.hw.isa import ISA_HASH
from tosaic.hw.verilog import write_folder

repair_litedram()

# Of AXI4's channels: what the accelerator drives, and what it is driven by.
_ADDRESS = (("id", "addr", "len", "size", "burst", "valid"), ("ready",))
_CHANNELS = {
    "ar": _ADDRESS,
    "r": (("ready",), ("id", "data", "resp", "last", "valid")),
    "aw": _ADDRESS,
    "w": (("data", "strb", "last", "valid"), ("ready",)),
    "b": (("ready",), ("id", "resp", "valid")),
}
_LITE_CHANNELS = {
    "ar": (("ready",), ("addr", "prot", "valid")),
    "r": (("data", "resp", "valid"), ("ready",)),
    "aw": (("ready",), ("addr", "prot", "valid")),
    "w": (("ready",), ("data", "strb", "valid")),
    "b": (("resp", "valid"), ("ready",)),
}


class Tosaic(LiteXModule):
    """Registers on the SoC's bus, an interrupt, data on a port of the SDRAM's own, and a region of that memory.

    config: a name or a `Config`.
    name: that of the SoC's attribute; the regions NAME and NAME_memory, the interrupt NAME and CSRs have it.
    memory_bytes: of NAME_memory, the end of main_ram, which the accelerator's window (MEM_BASE) is to lie in; None: a
        quarter of main_ram.
    verilog: a folder that `tosaic verilog --config CONFIG -o FOLDER` wrote. True: build/tosaic-CONFIG, written when it
        is missing or of another version; False: the design has the modules already.

    Raises ValueError where the SoC cannot take it.

    A processor that caches the SDRAM does not see what the accelerator writes: have no data cache, or clean and forget
    its lines (tosaic_mapped.h), or map the region uncached, as u-dma-buf does under Linux.
    """

    def __init__(
        self,
        soc: Any,
        config: str | Config = "small",
        *,
        name: str = "npu",
        memory_bytes: int | None = None,
        verilog: str | pathlib.Path | bool = True,
    ):
        chosen = get_config(config) if isinstance(config, str) else config
        if chosen.address_bits != LEAST_ADDRESS_BITS or chosen.axi_cache or chosen.axi_prot:
            raise ValueError(
                "LiteDRAM's port has 32 bits of address and no caches: address_bits must be 32, axi_cache, axi_prot 0"
            )
        region = _memory_region(soc, memory_bytes)
        self.control = AXILiteInterface(data_width=32, address_width=32)
        self.memory = AXIInterface(
            data_width=8 * chosen.bus_bytes, address_width=32, id_width=bus_id_bits(chosen)
        )
        self.ev = EventManager()
        self.ev.done = EventSourceLevel(description="A run has ended.")
        self.ev.finalize()
        self.idle = Signal()
        self.specials += Instance(
            "tosaic",
            i_clk=ClockSignal(),
            i_rst=ResetSignal(),
            o_irq=self.ev.done.trigger,
            o_idle=self.idle,
            **_ports("m_axi_", self.memory, _CHANNELS),
            **_ports("s_axil_", self.control, _LITE_CHANNELS),
        )
        if verilog is not False:
            for path in sorted((_verilog_folder(chosen, verilog) / "rtl").glob("tosaic*.v")):
                soc.platform.add_source(str(path))
        soc.bus.add_slave(name, self.control, region=SoCRegion(size=WINDOW_BYTES, mode="rw", cached=False))
        soc.irq.add(name, use_loc_if_exists=True)
        soc.bus.add_region(f"{name}_memory", region)
        port = soc.sdram.crossbar.get_port(data_width=self.memory.data_width)
        self.dma = LiteDRAMAXI2Native(self.memory, port, base_address=soc.bus.regions["main_ram"].origin)


def _memory_region(soc: Any, memory_bytes: int | None) -> SoCRegion:
    """The end of main_ram; ValueError for a SoC that has none by LiteDRAM, or has a cache in front of it."""
    if not hasattr(soc, "sdram"):
        raise ValueError("the SoC has no SDRAM: call add_sdram before Tosaic")
    if hasattr(soc, "l2_cache"):
        raise ValueError(
            "the SoC's L2 cache does not see what the accelerator writes: add_sdram(..., l2_cache_size=0)"
        )
    whole = soc.bus.regions["main_ram"]
    size = whole.size // 4 if memory_bytes is None else memory_bytes
    if not 0 < size <= whole.size or size % WINDOW_ALIGNMENT:
        raise ValueError(
            f"memory_bytes must be a multiple of {WINDOW_ALIGNMENT} up to main_ram's {whole.size}, not {size}"
        )
    return SoCRegion(origin=whole.origin + whole.size - size, size=size, mode="rw", linker=True)


def _verilog_folder(config: Config, given: str | pathlib.Path | bool) -> pathlib.Path:
    """The folder with the accelerator's Verilog; written by itself where none was given. ValueError for that of another
    configuration or version."""
    if not isinstance(given, bool):
        folder = pathlib.Path(given)
        if _is_of(config, folder):
            return folder
        command = f"tosaic verilog --config {config.name} -o {folder}"
        raise ValueError(f"{folder} does not hold the Verilog of {config.name}: {command}")
    folder = pathlib.Path("build", f"tosaic-{config.identifier}")
    if not _is_of(config, folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_folder(config, folder)
    return folder


def _is_of(config: Config, folder: pathlib.Path) -> bool:
    """Whether `tosaic verilog` wrote the folder for this configuration, in this version of the instruction set."""
    try:
        registers = json.loads((folder / "registers.json").read_text())["registers"]
        resets = {each["name"]: each["reset"] for each in registers}
    except (OSError, ValueError, LookupError):
        return False
    return (resets.get("CONFIG_HASH"), resets.get("ISA_HASH")) == (config.hash, ISA_HASH)


def _ports(
    prefix: str, bus: Any, channels: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
) -> dict[str, Any]:
    """Ports of the Instance: those that it drives, and those that the bus drives."""
    ports = {}
    for channel, (driven, seen) in channels.items():
        record = getattr(bus, channel)
        for direction, names in (("o", driven), ("i", seen)):
            for name in names:
                signal = 0 if name == "prot" else getattr(record, name)
                ports[f"{direction}_{prefix}{channel}{name}"] = signal
    return ports
