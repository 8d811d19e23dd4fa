"""The ARM cores beside the FPGA of a Zynq: how an accelerator is joined to them, once for Vivado and for Linux."""

import dataclasses

from tosaic.hw.config_text import get_config

from .board import Board, Family

SEGMENT_BYTES = 0x10000
"""Bytes of the processor's addresses for the registers: the smallest segment that every version of Vivado assigns."""
BUFFER_BYTES = 16 << 20
"""Bytes of external memory that the overlay asks u-dma-buf for."""
COHERENT = (7, 11, 15)
"""Values of AxCACHE with which a coherent port looks into the caches: write-back, with a place for what is missed."""
LEVEL_HIGH = 4
"""Type of an interrupt, in a device tree."""


@dataclasses.dataclass(frozen=True)
class Processor:
    """What Vivado and Linux call the parts of a processor system that an accelerator uses."""

    architecture: str
    """What bootgen calls it."""
    clock: str
    reset: str
    control_port: str
    data_port: str
    coherent_port: str
    interrupt: str
    """Pins and ports of Vivado's IP core."""
    widest_bits: int
    """Width of the data ports in bits, at most."""
    registers: int
    """Bus address of the accelerator's registers."""
    spi: int
    """Number of the interrupt among the shared peripheral interrupts of the GIC."""
    address_cells: int
    gic: str
    clock_source: str
    """Labels in Linux' device tree, and the clock's number there."""
    resets: str = ""

    def data_bits(self, board: Board) -> int:
        """Width of the data port: as wide as the accelerator's bus, if it can be; the ACP of a Zynq-7000 has one."""
        if self.port_of(board) == "S_AXI_ACP":
            return self.widest_bits
        return min(8 * get_config(board.config).bus_bytes, self.widest_bits)

    def port_of(self, board: Board) -> str:
        """The data port: one that looks into the processor's caches where the accelerator asks for a place there."""
        return self.coherent_port if is_coherent(board) else self.data_port


def is_coherent(board: Board) -> bool:
    """Whether AxCACHE asks for a place in the caches, for reads and for writes."""
    return get_config(board.config).axi_cache in COHERENT


PROCESSORS = {
    Family.ZYNQ7: Processor(
        architecture="zynq",
        clock="FCLK_CLK0",
        reset="FCLK_RESET0_N",
        control_port="M_AXI_GP0",
        data_port="S_AXI_HP0",
        coherent_port="S_AXI_ACP",
        interrupt="IRQ_F2P",
        widest_bits=64,
        registers=0x43C0_0000,
        spi=29,
        address_cells=1,
        gic="intc",
        clock_source="clkc 15",
    ),
    Family.ULTRASCALE: Processor(
        architecture="zynqmp",
        clock="pl_clk0",
        reset="pl_resetn0",
        control_port="M_AXI_HPM0_FPD",
        data_port="S_AXI_HP0_FPD",
        coherent_port="S_AXI_HPC0_FPD",
        interrupt="pl_ps_irq0",
        widest_bits=128,
        registers=0xA000_0000,
        spi=89,
        address_cells=2,
        gic="gic",
        clock_source="zynqmp_clk 71",
        resets="zynqmp_reset 116",
    ),
}

_OVERLAY = """\
/* {title}, configuration {config}.
 * Device-tree overlay: the bitstream, its clock, the width of its port to memory, its registers (generic-uio) and a
 * buffer (u-dma-buf).
 *   dtc -@ -I dts -O dtb -o tosaic.dtbo tosaic.dtso
 */
/dts-v1/;
/plugin/;

&fpga_full {{
	firmware-name = "tosaic.bit.bin";{resets}
}};

&amba {{
	#address-cells = <{cells}>;
	#size-cells = <{cells}>;

	tosaic_clock: tosaic-clock {{
		compatible = "xlnx,fclk";
		#clock-cells = <0>;
		clocks = <&{clock}>;
		assigned-clocks = <&{clock}>;
		assigned-clock-rates = <{hertz}>;
		clock-output-names = "fabric_clk";
	}};

{port}
	/* The driver compares clock-frequency with the machine's cycles, and warns. */
	tosaic: npu@{registers:x} {{
		compatible = "generic-uio";
		linux,uio-name = "tosaic";
		reg = <{where}>;
		interrupt-parent = <&{gic}>;
		interrupts = <0 {spi} {level}>;
		clocks = <&{clock}>;
		assigned-clocks = <&{clock}>;
		assigned-clock-rates = <{hertz}>;
		clock-frequency = <{hertz}>;
	}};

	tosaic-buffer {{
		compatible = "ikwzm,u-dma-buf";
		device-name = "udmabuf0";
		size = <0x{buffer:x}>;
		dma-mask = <{address_bits}>;{coherent}
	}};
}};
"""

_ZYNQ7_PORT = """\
	/* S_AXI_HP0, {bits} bits: 0 is 64, 1 is 32. */
	tosaic_port: afi@f8008000 {{
		compatible = "xlnx,zynq-afi-fpga";
		reg = <0xf8008000 0x1000>;
		xlnx,afi-width = <{code}>;
	}};
"""

_ULTRASCALE_PORT = """\
	/* {name}, {bits} bits, by its registers {afi}: 0 is 128, 1 is 64, 2 is 32. M_AXI_HPM0_FPD: 128 bits. */
	tosaic_port: afi {{
		compatible = "xlnx,afi-fpga";
		config-afi = <{first} {code}>, <{second} {code}>, <14 0xa00>;
	}};
"""


def overlay(board: Board) -> str:
    """Source of the device-tree overlay that loads the bitstream, in the manner of the vendor's generator."""
    processor = PROCESSORS[board.family]
    bits = processor.data_bits(board)
    coherent, config = is_coherent(board), get_config(board.config)
    port = _ULTRASCALE_PORT
    if board.family is Family.ZYNQ7:
        port = "" if coherent else _ZYNQ7_PORT
    first = 0 if coherent else 4
    where = (processor.registers, SEGMENT_BYTES)
    return _OVERLAY.format(
        title=board.title,
        config=config.name,
        resets=f"\n\tresets = <&{processor.resets}>;" if processor.resets else "",
        cells=processor.address_cells,
        clock=processor.clock_source,
        hertz=round(board.clock_hz),
        port=port.format(
            name=processor.port_of(board),
            bits=bits,
            first=first,
            second=first + 1,
            afi=f"{first} and {first + 1}",
            code=(processor.widest_bits // bits).bit_length() - 1,
        ),
        address_bits=config.address_bits,
        coherent="\n\t\tdma-coherent;" if coherent else "",
        registers=processor.registers,
        where=" ".join(f"{'0x0 ' * (processor.address_cells - 1)}0x{number:x}" for number in where),
        gic=processor.gic,
        spi=processor.spi,
        level=LEVEL_HIGH,
        buffer=BUFFER_BYTES,
    )


def overlay_files(board: Board) -> dict[str, str]:
    """What makes an application of the bitstream for fpgautil, PYNQ or xmutil, beside it."""
    files = {"tosaic.dtso": overlay(board), "tosaic.bif": "all:\n{\n  tosaic.bit\n}\n"}
    if board.family is Family.ULTRASCALE:
        files["shell.json"] = '{"shell_type": "XRT_FLAT", "num_slots": "1"}\n'
    return files
