"""Samples the accelerator's AXI ports at every clock edge and hands them to the rules of `protocol`."""

from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from .protocol import AcceptedBurst, Handshake, ReadBursts, Violations, WriteBursts, check_burst


class _Channel:
    """One channel's signals."""

    def __init__(self, dut: Any, prefix: str, payload: tuple[str, ...]):
        self._valid = getattr(dut, f"{prefix}valid")
        self._ready = getattr(dut, f"{prefix}ready")
        self._payload = [getattr(dut, prefix + name) for name in payload]

    def sample(self) -> tuple[bool, bool, tuple[int, ...]]:
        """Returns valid, ready, and with valid the payload."""
        valid = bool(self._valid.value)
        payload = tuple(int(signal.value) for signal in self._payload) if valid else ()
        return valid, bool(self._ready.value), payload


class Monitor:
    """Checks every cycle from its making on. `violations.found` tells what was broken, `beats_read` and
    `beats_written` count transfers on the memory bus."""

    def __init__(self, dut: Any):
        attributes = [name for name in ("cache", "prot") if hasattr(dut, f"m_axi_ar{name}")]
        address = ("id", "addr", "len", "size", "burst", *attributes)
        self.violations = violations = Violations()
        self._clock, self._reset = dut.clk, dut.rst
        self._bus_bytes = len(dut.m_axi_wstrb)
        self._ar, self._aw = (_Channel(dut, f"m_axi_{name}", address) for name in ("ar", "aw"))
        self._w = _Channel(dut, "m_axi_w", ("data", "strb", "last"))
        self._r, self._b = (_Channel(dut, f"m_axi_{name}", ("id", "resp")) for name in ("r", "b"))
        self._lite_r = _Channel(dut, "s_axil_r", ("data", "resp"))
        self._lite_b = _Channel(dut, "s_axil_b", ("resp",))
        names = ("m_axi_ar", "m_axi_aw", "m_axi_w", "s_axil_r", "s_axil_b")
        self._rules = {name: Handshake(name, violations) for name in names}
        self._writes, self._reads = WriteBursts(violations), ReadBursts(violations)
        self.beats_read = 0
        cocotb.start_soon(self._watch())

    @property
    def beats_written(self) -> int:
        return self._rules["m_axi_w"].transfers

    def check_idle(self) -> None:
        """Add a violation for every burst under way: to be called when the machine says that it is idle."""
        self._writes.check_idle()
        self._reads.check_idle()

    async def _watch(self) -> None:
        edge = RisingEdge(self._clock)
        while True:
            await edge
            if not self._reset.value:
                self._step()
            self.violations.cycle += 1

    def _step(self) -> None:
        rules = self._rules
        sample = self._ar.sample()
        if rules["m_axi_ar"].step(*sample):
            self._address("m_axi_ar", sample[2])
            self._reads.address(sample[2][0], sample[2][2] + 1)
        sample = self._aw.sample()
        if rules["m_axi_aw"].step(*sample):
            self._writes.address(self._address("m_axi_aw", sample[2]))
        sample = self._w.sample()
        if rules["m_axi_w"].step(*sample):
            self._writes.data(bool(sample[2][2]))
        valid, ready, payload = self._r.sample()
        if valid and ready:
            self.beats_read += 1
            self._reads.data(payload[0])
        valid, ready, _ = self._b.sample()
        if valid and ready:
            self._writes.response()
        rules["s_axil_r"].step(*self._lite_r.sample())
        rules["s_axil_b"].step(*self._lite_b.sample())

    def _address(self, name: str, payload: tuple[int, ...]) -> AcceptedBurst:
        _, address, length, size, kind, *_ = payload
        burst = AcceptedBurst(address, length + 1, 1 << size, kind)
        check_burst(name, burst, self._bus_bytes, self.violations)
        return burst
