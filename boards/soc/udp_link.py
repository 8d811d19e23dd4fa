"""The bridge's line over Ethernet: a frame of the bridge's protocol in each UDP datagram."""

from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Mux, ResetSignal, Signal, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from tosaic.boards.ethernet.core import MODULE, WORD_BYTES
from tosaic.boards.ethernet.phy import Ethernet, Phy
from tosaic.hw.bridge.datagrams import COUNT_BITS, NUMBER_BYTES, UDP_PORT
from tosaic.hw.bridge.protocol import CRC_BYTES, FLAG, REQUEST_HEADER

BUFFER_BYTES = 2048
PAYLOAD_BYTES = 1472
"""The most of a datagram that fits an Ethernet frame; the core knows no fragments."""
DATA_BYTES = 512
"""The most data of a request: escaped, all of it is in one datagram."""
assert NUMBER_BYTES + 2 * (REQUEST_HEADER.size + DATA_BYTES + CRC_BYTES) + 2 <= PAYLOAD_BYTES <= BUFFER_BYTES


class PhyPins(wiring.Signature):
    """Pins to a PHY, from the FPGA's side. Names are those of LiteEth's core."""

    def __init__(self, phy: Phy):
        clock = Out(1) if phy is Phy.RGMII else In(1)
        pins: dict[str, Any] = {"clocks_tx": clock, "clocks_rx": In(1), "rst_n": Out(1)}
        if phy is Phy.MII:
            pins |= {"rx_dv": In(1), "rx_er": In(1), "tx_en": Out(1)}
        else:
            pins |= {"rx_ctl": In(1), "tx_ctl": Out(1)}
        super().__init__(pins | {"rx_data": In(4), "tx_data": Out(4)})


class UdpLink(wiring.Component):
    """Datagrams to UDP_PORT: a number of NUMBER_BYTES, little endian, and the bytes for the bridge, a whole frame.
    An answer begins with the number of its question and goes where that came from.

    A number is a session's, of SESSION_BITS, and COUNT_BITS that count. It must be greater than the last one of its
    session; another session begins with a count of 0. So a datagram that was repeated or held up on the way is dropped,
    however late it comes. One question is in work at a time; what comes meanwhile is lost, as is what the MAC found
    damaged.

    Ports:
        `pins`: to the PHY.
        `received`, `received_byte` (out): one cycle: a byte for the bridge.
        `listening` (in): the bridge takes bytes.
        `asked` (in): from the cycle after the end of a frame: it came from here, so `line` is its answer.
        `line` (stream of 8, in): the answer, a frame.
    """

    def __init__(self, ethernet: Ethernet):
        self.ethernet = ethernet
        super().__init__(
            {
                "pins": Out(PhyPins(ethernet.phy)),
                "received": Out(1),
                "received_byte": Out(8),
                "listening": In(1),
                "asked": In(1),
                "line": In(stream.Signature(8)),
            }
        )
        # A datagram that comes, and one that goes, as LiteEth's core has them.
        self.comes = {
            "valid": 1,
            "last": 1,
            "error": 1,
            "data": 32,
            "length": 16,
            "ip_address": 32,
            "src_port": 16,
        }
        self.source = {name: Signal(bits, name=f"source_{name}") for name, bits in self.comes.items()}
        self.first = Signal(init=1)
        """The next word that comes is the first one of a datagram."""
        self.sink_valid, self.sink_ready, self.sink_last = Signal(), Signal(), Signal()
        self.length = Signal(range(BUFFER_BYTES + 1))
        self.host_ip, self.host_port = Signal(32), Signal(16)
        self.index = Signal(range(BUFFER_BYTES))
        """Index of a byte of the buffer."""
        self.words = memory.Memory(shape=unsigned(8 * WORD_BYTES), depth=BUFFER_BYTES // WORD_BYTES, init=[])
        self.read, self.write = self.words.read_port(), self.words.write_port(granularity=8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = self.words
        m.submodules.core = self._core()
        m.d.comb += self.read.addr.eq(self.index[2:])
        with m.If(self.source["valid"]):
            m.d.sync += self.first.eq(self.source["last"])
        with m.FSM():
            self._receive(m)
            self._feed(m)
            self._answer(m)
        return m

    def _core(self) -> Instance:
        pins, kind = self.pins, self.ethernet.phy.value
        rest = (
            {f"i_{kind}_{name}": Const(0) for name in ("col", "crs")} if self.ethernet.phy is Phy.MII else {}
        )
        return Instance(
            MODULE,
            i_sys_clock=ClockSignal(),
            i_sys_reset=ResetSignal(),
            i_ip_address=Const(self.ethernet.ip_number, 32),
            **{
                f"{'o' if member.flow == Out else 'i'}_{kind}_{name}": getattr(pins, name)
                for name, member in pins.signature.members.items()
            },
            **rest,
            **{f"o_udp_source_{name}": value for name, value in self.source.items()},
            i_udp_source_ready=Const(1),
            i_udp_sink_valid=self.sink_valid,
            o_udp_sink_ready=self.sink_ready,
            i_udp_sink_last=self.sink_last,
            # Nothing before the last word may be marked, or the frame ends there.
            i_udp_sink_last_be=Cat(self.sink_last & (self.length[:2] == place) for place in (1, 2, 3, 0)),
            i_udp_sink_data=self.read.data,
            i_udp_sink_length=self.length,
            i_udp_sink_ip_address=self.host_ip,
            i_udp_sink_dst_port=self.host_port,
            i_udp_sink_src_port=Const(UDP_PORT, 16),
        )

    def _receive(self, m: Module) -> None:
        """The buffer gets a datagram, if it may come, and is passed on when all of it came whole."""
        source, index = self.source, self.index
        first, wanted = self.first, Signal()
        number, last_number = Signal(8 * NUMBER_BYTES), Signal(8 * NUMBER_BYTES)
        data, is_new = source["data"], Signal()
        known = data[COUNT_BITS:] == last_number[COUNT_BITS:]
        m.d.comb += is_new.eq(Mux(known, data > last_number, data[:COUNT_BITS] == 0))
        # Of a datagram that does not fit, or is shorter than it says, nothing is used.
        end = Signal(range(BUFFER_BYTES + WORD_BYTES + 1))
        m.d.comb += end.eq(index + WORD_BYTES)
        with m.State("RECEIVE"):
            m.d.comb += [self.write.addr.eq(index[2:]), self.write.data.eq(data)]
            with m.If(source["valid"] & first):
                m.d.sync += [
                    wanted.eq(self.listening & is_new),
                    number.eq(data),
                    self.length.eq(source["length"]),
                    self.host_ip.eq(source["ip_address"]),
                    self.host_port.eq(source["src_port"]),
                    index.eq(WORD_BYTES),
                ]
                m.d.comb += [self.write.addr.eq(0), self.write.en.eq(-1)]
                with m.If(source["length"] > BUFFER_BYTES):
                    m.d.sync += wanted.eq(0)
            with m.Elif(source["valid"] & wanted):
                m.d.comb += self.write.en.eq(-1)
                m.d.sync += index.eq(end)
                with m.If(end == BUFFER_BYTES):
                    m.d.sync += wanted.eq(0)
                with m.If(source["last"]):
                    m.d.sync += [wanted.eq(0), index.eq(NUMBER_BYTES)]
                    with m.If(~source["error"] & (self.length <= end) & (self.length > NUMBER_BYTES)):
                        m.d.sync += last_number.eq(number)
                        m.next = "FEED"

    def _feed(self, m: Module) -> None:
        """Gives the datagram's bytes to the bridge."""
        index = self.index
        with m.State("FEED"):
            m.next = "BYTE"
        with m.State("BYTE"):
            m.d.comb += [
                self.received.eq(1),
                self.received_byte.eq(self.read.data.word_select(index[:2], 8)),
            ]
            m.d.sync += index.eq(index + 1)
            m.next = "FEED"
            with m.If(index + 1 == self.length):
                m.next = "JUDGED"
        with m.State("JUDGED"):
            m.d.sync += index.eq(NUMBER_BYTES)
            m.next = "COLLECT"
            with m.If(self.listening | ~self.asked):
                # It was no frame.
                m.next = "RECEIVE"

    def _answer(self, m: Module) -> None:
        """The buffer gets the answer behind the number, which is sent when its length is known."""
        line, index = self.line, self.index
        with m.State("COLLECT"):
            m.d.comb += [
                line.ready.eq(1),
                self.write.addr.eq(index[2:]),
                self.write.data.eq(line.payload.replicate(WORD_BYTES)),
                self.write.en.eq(Mux(line.valid, 1 << index[:2], 0)),
            ]
            with m.If(line.valid):
                m.d.sync += index.eq(index + 1)
                with m.If((line.payload == FLAG) & (index != NUMBER_BYTES)):
                    m.d.sync += [self.length.eq(index + 1), index.eq(0)]
                    m.next = "FETCH"
        with m.State("FETCH"):
            m.next = "SEND"
        with m.State("SEND"):
            m.d.comb += [self.sink_valid.eq(1), self.sink_last.eq(index + WORD_BYTES >= self.length)]
            with m.If(self.sink_ready):
                # A word in every cycle: the PHY does not wait.
                m.d.comb += self.read.addr.eq(index[2:] + 1)
                m.d.sync += index.eq(index + WORD_BYTES)
                with m.If(self.sink_last):
                    m.next = "RECEIVE"
