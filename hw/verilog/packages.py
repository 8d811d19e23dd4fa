"""The folder for tools that put systems together: a FuseSoC core (CAPI2) and an IP-XACT component (IEEE 1685-2014)."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from .. import csr_map
from ..config import Config
from .bench_run import BENCH
from .module import Signal

_NAMESPACE = "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"
_WINDOW, _MEMORY = "s_axil", "m_axi"

_CORE = """\
CAPI=2:
name: tosaic:npu:{name}:{version}
description: Tosaic NPU, configuration {config}

filesets:
  rtl:
    files:
{files}
    file_type: verilogSource
  bench:
    files:
      - {bench}
    file_type: verilogSource
  lint:
    files:
      - lint.vlt
    file_type: vlt

targets:
  default: &default
    filesets: [rtl]
    toplevel: tosaic
  sim:
    <<: *default
    description: Runs the program of +memory, +program_address and +program_bytes, or the network of this folder
    default_tool: icarus
    filesets: [rtl, bench]
    toplevel: tosaic_bench
    tools:
      icarus:
        iverilog_options: [-g2005]
  lint:
    <<: *default
    default_tool: verilator
    filesets: [lint, rtl]
    tools:
      verilator:
        mode: lint-only
        verilator_options: [-Wall]
"""


def fusesoc_core(config: Config, modules: list[str]) -> str:
    """tosaic.core: the modules, the testbench (target sim) and Verilator's lint."""
    return _CORE.format(
        name=f"tosaic_{config.identifier}",
        version=csr_map.version_text(),
        config=config.name,
        bench=BENCH,
        files="\n".join(f"      - rtl/{module}.v" for module in modules),
    )


def ip_xact(config: Config, ports: Sequence[Signal], modules: list[str]) -> str:
    """component.xml; `ports` are those of the top module, `modules` are the names of all."""
    root = ET.Element("ipxact:component", {"xmlns:ipxact": _NAMESPACE})
    _fill(
        root,
        vendor="tosaic",
        library="npu",
        name=f"tosaic_{config.identifier}",
        version=csr_map.version_text(),
    )
    interfaces = _add(root, "busInterfaces")
    _bus_interface(interfaces, _WINDOW, "AXI4-Lite", ports)
    _bus_interface(interfaces, _MEMORY, "AXI4", ports)
    space = _add(_add(root, "addressSpaces"), "addressSpace")
    _fill(space, name=_MEMORY, range="'h100000000", width=str(8 * config.bus_bytes))
    _memory_map(_add(root, "memoryMaps"), config)
    model = _add(root, "model")
    view = _add(_add(model, "views"), "view")
    _fill(view, name="verilog", envIdentifier="::", componentInstantiationRef="verilog")
    made = _add(_add(model, "instantiations"), "componentInstantiation")
    _fill(made, name="verilog", language="verilog", moduleName="tosaic")
    _fill(_add(made, "fileSetRef"), localName="rtl")
    listed = _add(model, "ports")
    for port in ports:
        wire = _named(listed, "port", port.name, "wire")
        _fill(wire, direction=port.direction.removesuffix("put"))
        if port.bits > 1:
            _fill(_add(_add(wire, "vectors"), "vector"), left=str(port.bits - 1), right="0")
    files = _named(_add(root, "fileSets"), "fileSet", "rtl")
    for module in modules:
        _fill(_add(files, "file"), name=f"rtl/{module}.v", fileType="verilogSource")
    _fill(root, description=f"Tosaic NPU, configuration {config.name}: clk, rst (active high), irq (level)")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _bus_interface(interfaces: ET.Element, prefix: str, kind: str, ports: Sequence[Signal]) -> None:
    interface = _named(interfaces, "busInterface", prefix)
    library = {"vendor": "amba.com", "library": "AMBA4", "version": "r0p0_0"}
    _add(interface, "busType", **library, name=kind)
    abstraction = _add(_add(interface, "abstractionTypes"), "abstractionType")
    _add(abstraction, "abstractionRef", **library, name=f"{kind}_rtl")
    maps = _add(abstraction, "portMaps")
    for logical, physical in (("ACLK", "clk"), *_signals(prefix, ports)):
        pair = _add(maps, "portMap")
        _fill(_add(pair, "logicalPort"), name=logical)
        _fill(_add(pair, "physicalPort"), name=physical)
    if prefix == _MEMORY:
        _add(_add(interface, "master"), "addressSpaceRef", addressSpaceRef=_MEMORY)
    else:
        _add(_add(interface, "slave"), "memoryMapRef", memoryMapRef="registers")


def _signals(prefix: str, ports: Sequence[Signal]) -> list[tuple[str, str]]:
    """The signals of a bus: (AMBA's name, the port's)."""
    named = [port.name for port in ports if port.name.startswith(f"{prefix}_")]
    return [(name.removeprefix(f"{prefix}_").upper(), name) for name in named]


def _memory_map(maps: ET.Element, config: Config) -> None:
    block = _named(_named(maps, "memoryMap", "registers"), "addressBlock", "registers")
    _fill(block, baseAddress="0", range=str(csr_map.WINDOW_BYTES), width="32")
    for register in csr_map.registers_of(config.cores, config.address_bits):
        entry = _named(block, "register", register.name)
        _fill(entry, description=register.doc, addressOffset=f"'h{register.offset:x}", size="32")
        for field in register.fields:
            part = _named(entry, "field", field.name)
            _fill(part, description=field.doc, bitOffset=str(field.lsb))
            if register.reset is not None:
                _fill(_add(_add(part, "resets"), "reset"), value=str(field.extract(register.reset)))
            access, modified = csr_map.BUS_ACCESS[field.access]
            _fill(part, bitWidth=str(field.bits), access=access)
            if modified:
                _fill(part, modifiedWriteValue=modified)
    _fill(maps[0], addressUnitBits="8")


def _add(parent: ET.Element, tag: str, **attributes: str) -> ET.Element:
    return ET.SubElement(parent, f"ipxact:{tag}", attributes)


def _fill(parent: ET.Element, **texts: str) -> None:
    """Children with a text each, in this order, which the schema wants."""
    for tag, text in texts.items():
        _add(parent, tag).text = text


def _named(parent: ET.Element, tag: str, name: str, into: str = "") -> ET.Element:
    """A child with a name; or what is added into it."""
    child = _add(parent, tag)
    _fill(child, name=name)
    return _add(child, into) if into else child
