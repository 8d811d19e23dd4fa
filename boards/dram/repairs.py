"""What is wrong with LiteDRAM 2024.12 for us, and is replaced before anything is generated."""

import functools
import types

import litedram.core.refresher
import litedram.frontend.adapter
import litedram.frontend.axi
from litedram.core.refresher import RefreshTimer
from litex.soc.interconnect import stream
from migen import If, Module, Signal


class DownConverter(Module):
    """Replaces LiteDRAMNativePortDownConverter, which lets a cycle go by between two commands of a wide port:
    it asks for four of five words of 16 bits that a port of 64 bits could have.
    """

    def __init__(self, port_from, port_to, reverse=False):
        ratio = port_from.data_width // port_to.data_width
        count = Signal(max=ratio)
        self.comb += [
            port_to.cmd.valid.eq(port_from.cmd.valid),
            port_to.cmd.we.eq(port_from.cmd.we),
            port_to.cmd.addr.eq(port_from.cmd.addr * ratio + count),
            port_from.cmd.ready.eq(port_to.cmd.ready & (count == ratio - 1)),
        ]
        self.sync += If(port_to.cmd.valid & port_to.cmd.ready, count.eq(count + 1))
        for source, sink in ((port_from.wdata, port_to.wdata), (port_to.rdata, port_from.rdata)):
            converter = stream.StrideConverter(source.description, sink.description, reverse=reverse)
            self.submodules += converter, stream.Pipeline(source, converter, sink)


class ShorterRefreshTimer(RefreshTimer):
    """Replaces RefreshTimer, whose cycles are rounded up: 8,192 refreshes, each a part of a cycle late, are
    not over in the 64 ms in which a chip wants them.
    """

    def __init__(self, trefi):
        super().__init__(trefi - 1)


AXI_STREAMS = types.SimpleNamespace(
    SyncFIFO=stream.SyncFIFO, Buffer=functools.partial(stream.Buffer, pipe_ready=True)
)
"""What LiteDRAM's AXI front takes of LiteX: its buffers of addresses say from a register that they are ready. Otherwise
the level of its FIFO of data goes through both arbiters into whoever asks: 26 ns on an ULX3S."""


def repair_litedram() -> None:
    """Repairs LiteDRAM in this process, for good."""
    litedram.frontend.adapter.LiteDRAMNativePortDownConverter = DownConverter
    litedram.frontend.axi.stream = AXI_STREAMS
    litedram.core.refresher.RefreshTimer = ShorterRefreshTimer
