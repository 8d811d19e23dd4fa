"""Tcl for Vivado, run by whoever has it: `vivado -mode batch -source build.tcl` in the folder of the files."""

import dataclasses

from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import VERSION_VALUE

from .board import Board, Family
from .processor import PROCESSORS, SEGMENT_BYTES

_SERIAL = """\
# {title}: Vivado makes top.bit. vivado -mode batch -source build.tcl
create_project -in_memory -part {part}
read_verilog [glob rtl/*.v]
read_xdc top.xdc
synth_design -top top
opt_design
place_design
phys_opt_design
route_design
report_utilization -file utilization.txt
report_timing_summary -file timing.txt
write_bitstream -force top.bit
"""

_PACKAGE = """\
# {title}: packages the accelerator as an IP core, builds a block design with it and makes the bitstream.
#   vivado -mode batch -source build.tcl
# Registers: 0x{segment:x} bytes at 0x{registers:x} of the processor (AXI4-Lite). Data: {data_bits} bits, through
# {data_port}, to the processor's memory. tosaic.dtso, the device-tree overlay, tells Linux the same.
set part {part}

# 1. The IP core.
create_project -force package package -part $part
add_files [glob rtl/*.v]
set_property top tosaic [current_fileset]
ipx::package_project -root_dir ip -vendor tosaic -library tosaic -taxonomy /UserIP -import_files -force
set core [ipx::current_core]
set_property name tosaic $core
set_property display_name "Tosaic NPU ({config})" $core
set_property version {version} $core
ipx::infer_bus_interfaces xilinx.com:interface:aximm_rtl:1.0 $core
ipx::associate_bus_interfaces -busif s_axil -clock clk $core
ipx::associate_bus_interfaces -busif m_axi -clock clk $core
set reset [ipx::infer_bus_interface rst xilinx.com:signal:reset_rtl:1.0 $core]
set_property value ACTIVE_HIGH [ipx::add_bus_parameter POLARITY $reset]
ipx::infer_bus_interface irq xilinx.com:signal:interrupt_rtl:1.0 $core
ipx::update_checksums $core
ipx::save_core $core
close_project

# 2. The block design.
create_project -force board board -part $part
{board_part}set_property ip_repo_paths ip [current_project]
update_ip_catalog
create_bd_design system
create_bd_cell -type ip -vlnv tosaic:tosaic:tosaic:{version} npu
{processor}
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset:5.0 reset
connect_bd_net [get_bd_pins ps/{clock}] [get_bd_pins reset/slowest_sync_clk] [get_bd_pins npu/clk]
connect_bd_net [get_bd_pins ps/{reset}] [get_bd_pins reset/ext_reset_in]
connect_bd_net [get_bd_pins reset/peripheral_reset] [get_bd_pins npu/rst]
apply_bd_automation -rule xilinx.com:bd_rule:axi4 -config {{Master /ps/{control_port} Slave /npu/s_axil}} \\
  [get_bd_intf_pins npu/s_axil]
apply_bd_automation -rule xilinx.com:bd_rule:axi4 -config {{Master /npu/m_axi Slave /ps/{data_port}}} \\
  [get_bd_intf_pins ps/{data_port}]
connect_bd_net [get_bd_pins npu/irq] [get_bd_pins ps/{interrupt}]
assign_bd_address
foreach segment [get_bd_addr_segs -of_objects [get_bd_addr_spaces ps/Data]] {{
  set_property offset 0x{registers:x} $segment
  set_property range 0x{segment:x} $segment
}}
validate_bd_design
set hertz [get_property CONFIG.FREQ_HZ [get_bd_pins npu/clk]]
if {{abs($hertz - {hertz}.0) > 0.01 * {hertz}}} {{
  error "the clock of the block design is $hertz Hz, the overlay says {hertz}"
}}
make_wrapper -files [get_files system.bd] -top -import
set_property top system_wrapper [current_fileset]

# 3. The bitstream; tosaic.xsa and tosaic.hwh, which name addresses, clock and widths; tosaic.bit.bin for Linux.
launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
open_run impl_1
report_utilization -file utilization.txt
report_timing_summary -file timing.txt
write_hw_platform -fixed -include_bit -force -file tosaic.xsa
file copy -force board/board.runs/impl_1/system_wrapper.bit tosaic.bit
file copy -force [lindex [glob board/board.{{gen,srcs}}/sources_1/bd/system/hw_handoff/system.hwh] 0] tosaic.hwh
exec bootgen -image tosaic.bif -arch {architecture} -process_bitstream bin -w on >@ stdout
"""

_ZYNQ7 = """\
create_bd_cell -type ip -vlnv xilinx.com:ip:processing_system7:5.5 ps
apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 \\
  -config {{make_external "FIXED_IO, DDR"}} [get_bd_cells ps]
set_property -dict [list CONFIG.PCW_USE_M_AXI_GP0 1 CONFIG.PCW_USE_FABRIC_INTERRUPT 1 \\
  {data_port} \\
  CONFIG.PCW_IRQ_F2P_INTR 1 CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ {megahertz:g}] [get_bd_cells ps]"""

_ULTRASCALE = """\
create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e:3.5 ps
apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e -config {{apply_board_preset "1"}} [get_bd_cells ps]
set_property -dict [list CONFIG.PSU__USE__M_AXI_GP0 1 CONFIG.PSU__USE__M_AXI_GP1 0 CONFIG.PSU__USE__M_AXI_GP2 0 \\
  {data_port} CONFIG.PSU__MAXIGP0__DATA_WIDTH 128 \\
  CONFIG.PSU__USE__IRQ0 1 \\
  CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ {megahertz:g}] [get_bd_cells ps]"""


_DATA_PORTS = {
    "S_AXI_HP0": "CONFIG.PCW_USE_S_AXI_HP0 1 CONFIG.PCW_S_AXI_HP0_DATA_WIDTH {data_bits}",
    # AxUSER, which the accelerator does not have, is that of a coherent access.
    "S_AXI_ACP": "CONFIG.PCW_USE_S_AXI_ACP 1 CONFIG.PCW_USE_DEFAULT_ACP_USER_VAL 1",
    "S_AXI_HP0_FPD": "CONFIG.PSU__USE__S_AXI_GP2 1 CONFIG.PSU__SAXIGP2__DATA_WIDTH {data_bits}",
    "S_AXI_HPC0_FPD": "CONFIG.PSU__USE__S_AXI_GP0 1 CONFIG.PSU__SAXIGP0__DATA_WIDTH {data_bits}",
}
"""Properties of Vivado's IP core that open a data port."""


def serial_script(board: Board) -> str:
    """Synthesis to bitstream of a board with a UART."""
    return _SERIAL.format(title=board.title, part=board.part)


def zynq_script(board: Board) -> str:
    """IP core, block design, bitstream. The scripts were written by the vendor's manuals and have not been run here."""
    processor = PROCESSORS[board.family]
    bits, port = processor.data_bits(board), processor.port_of(board)
    template = _ZYNQ7 if board.family is Family.ZYNQ7 else _ULTRASCALE
    part = f"set_property board_part {board.vivado_board} [current_project]\n" if board.vivado_board else ""
    return _PACKAGE.format(
        title=board.title,
        part=board.part,
        board_part=part,
        config=get_config(board.config).name,
        version=f"{VERSION_VALUE >> 16}.{VERSION_VALUE >> 8 & 0xFF}",
        processor=template.format(
            megahertz=board.clock_hz / 1e6, data_port=_DATA_PORTS[port].format(data_bits=bits)
        ),
        hertz=round(board.clock_hz),
        segment=SEGMENT_BYTES,
        data_bits=bits,
        **dataclasses.asdict(processor) | {"data_port": port},
    )
