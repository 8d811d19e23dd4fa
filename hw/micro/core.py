"""The core of the micro-coded machine: picorv32, whose Verilog comes from a package."""

import re

from amaranth.hdl import ClockSignal, Const, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .coprocessor import CoprocessorPort
from .packages import CORE, find_package

MODULE = "picorv32"
_OPTIONS = {
    "ENABLE_COUNTERS": 0,
    "ENABLE_COUNTERS64": 0,
    "ENABLE_REGS_DUALPORT": 1,
    "BARREL_SHIFTER": 1,
    "COMPRESSED_ISA": 1,
    "CATCH_MISALIGN": 0,
    "CATCH_ILLINSN": 0,
    "ENABLE_PCPI": 1,
    "ENABLE_IRQ": 0,
    "PROGADDR_RESET": Const(0, 32),
}


def core_verilog() -> str:
    """The core's Verilog, module `picorv32`; PackageMissing where its package is not installed.

    Without its time scale: Verilator warns where one module has one and others have not."""
    text = (find_package(CORE) / "verilog" / f"{MODULE}.v").read_text()
    return re.sub(r"^`timescale .*\n", "", text, flags=re.MULTILINE)


class CoreBus(wiring.Signature):
    """Memory accesses, from the core's side; every one is taken.

    `read` or `write` with `address` (the low two bits are 0), `write_data` and `mask` (a bit per byte) is an access. It
    is over in the first cycle after it with `ready`, in which `read_data` is the word of a read; until then there is no
    other one.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "read": Out(1),
                "write": Out(1),
                "address": Out(32),
                "write_data": Out(32),
                "mask": Out(4),
                "read_data": In(32),
                "ready": In(1, init=1),
            }
        )


class Core(wiring.Component):
    """RV32IC with a coprocessor; it starts at address 0.

    Ports:
        `run`: while low, the core is in reset.
        `bus`, `coprocessor`: see there.
    """

    run: In(1)
    bus: Out(CoreBus())
    coprocessor: Out(CoprocessorPort())

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, coprocessor = self.bus, self.coprocessor
        # The look-ahead signals come a cycle before the access itself: the word of a RAM is there when that begins.
        m.submodules.picorv32 = Instance(
            MODULE,
            **{f"p_{name}": value for name, value in _OPTIONS.items()},
            i_clk=ClockSignal(),
            i_resetn=self.run,
            o_mem_la_read=bus.read,
            o_mem_la_write=bus.write,
            o_mem_la_addr=bus.address,
            o_mem_la_wdata=bus.write_data,
            o_mem_la_wstrb=bus.mask,
            i_mem_ready=bus.ready,
            i_mem_rdata=bus.read_data,
            o_pcpi_valid=coprocessor.valid,
            o_pcpi_insn=coprocessor.instruction,
            o_pcpi_rs1=coprocessor.rs1,
            o_pcpi_rs2=coprocessor.rs2,
            i_pcpi_wr=coprocessor.write,
            i_pcpi_rd=coprocessor.result,
            i_pcpi_wait=Const(0),
            i_pcpi_ready=coprocessor.ready,
            i_irq=Const(0, 32),
        )
        return m
