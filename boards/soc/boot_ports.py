"""Two users of memory and registers, one after the other; and the registers that tell of a boot."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.hw.bridge.boot_image import BOOT_CODE, BOOT_CRC, BootCode
from tosaic.hw.bridge.byte_port import BytePort
from tosaic.hw.csr_map import RESP_OKAY
from tosaic.hw.interfaces import AxiLite


class BootPorts(wiring.Component):
    """What the bridge asks of memory and registers waits while `busy`, but for BOOT_CODE and BOOT_CRC, which are here.

    Ports:
        `bridge_memory`, `bridge_registers`, `boot_memory`, `boot_registers` (in): the users, each with one access of
            registers at a time.
        `memory`, `registers` (out).
        `busy` (in): the boot's turn. `code`, `crc32` (in): what BOOT_CODE and BOOT_CRC read as.
        `leave` (out): one cycle: BOOT_CODE was written, with whatever.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "bridge_memory": In(BytePort()),
                "bridge_registers": In(AxiLite()),
                "boot_memory": In(BytePort()),
                "boot_registers": In(AxiLite()),
                "memory": Out(BytePort()),
                "registers": Out(AxiLite()),
                "busy": In(1),
                "code": In(BootCode),
                "crc32": In(32),
                "leave": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bridge, boot, machine = self.bridge_registers, self.boot_registers, self.registers
        reads_here, writes_here = Signal(), Signal()
        m.d.comb += [
            reads_here.eq((bridge.araddr == BOOT_CODE) | (bridge.araddr == BOOT_CRC)),
            writes_here.eq(bridge.awaddr == BOOT_CODE),
        ]
        with m.If(self.busy):
            wiring_pass(m, self.boot_memory, self.memory)
            wiring_pass(m, boot, machine)
        with m.Else():
            wiring_pass(m, self.bridge_memory, self.memory)
            wiring_pass(m, bridge, machine)
            with m.If(reads_here):
                m.d.comb += machine.arvalid.eq(0)
            with m.If(writes_here):
                m.d.comb += [machine.awvalid.eq(0), machine.wvalid.eq(0)]
        self._here(m, reads_here, writes_here)
        return m

    def _here(self, m: Module, reads: Signal, writes: Signal) -> None:
        """Answers of the registers of the boot, whosever turn it is."""
        bridge = self.bridge_registers
        read, written = Signal(), Signal()
        with m.If(reads):
            m.d.comb += [
                bridge.arready.eq(~read),
                bridge.rvalid.eq(read),
                bridge.rresp.eq(RESP_OKAY),
                bridge.rdata.eq(Mux(bridge.araddr == BOOT_CRC, self.crc32, self.code)),
            ]
            m.d.sync += read.eq((bridge.arvalid | read) & ~(read & bridge.rready))
        with m.If(writes):
            m.d.comb += [
                bridge.awready.eq(~written),
                bridge.wready.eq(~written),
                bridge.bvalid.eq(written),
                bridge.bresp.eq(RESP_OKAY),
                self.leave.eq(written & bridge.bready),
            ]
            m.d.sync += written.eq((bridge.awvalid & bridge.wvalid | written) & ~(written & bridge.bready))


def wiring_pass(m: Module, user: wiring.FlippedInterface, target: wiring.PureInterface) -> None:
    """Everything of `user`, seen from its subordinate's side, is `target`'s in this branch."""
    for name, member in target.signature.members.items():
        here, there = getattr(user, name), getattr(target, name)
        m.d.comb += there.eq(here) if member.flow is Out else here.eq(there)
