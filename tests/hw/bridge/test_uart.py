"""The UART: bit times, tolerance, spikes, missing stop bits."""

import pytest
from amaranth.sim import Simulator

from tosaic.hw.bridge.uart import UartReceiver, UartTransmitter, bit_cycles

DATA = bytes([0x00, 0xFF, 0x55, 0xAA, 0x7E, 0x01, 0x80])


def test_bit_cycles():
    assert bit_cycles(25e6, 1_000_000) == 25
    assert bit_cycles(48e6, 115_200) == 417
    with pytest.raises(ValueError, match=r"^baud must be at most clock_hz / 4 = 3e\+06, not 4000000$"):
        bit_cycles(12e6, 4_000_000)
    with pytest.raises(ValueError, match=r"^baud 921600 is 7.0% off at 6e\+06 Hz, more than 2%; try 857143$"):
        bit_cycles(6e6, 921_600)
    for block in (UartReceiver, UartTransmitter):
        with pytest.raises(ValueError, match=r"^cycles must be an integer of at least 4, not 3$"):
            block(3)


def transmit(cycles, data):
    """The line, one value per cycle."""
    dut, line = UartTransmitter(cycles), []

    async def process(ctx):
        for byte in data:
            ctx.set(dut.data.payload, byte)
            ctx.set(dut.data.valid, 1)
            taken = False
            while not taken:
                taken = ctx.get(dut.data.ready)
                line.append(ctx.get(dut.pin))
                await ctx.tick()
        ctx.set(dut.data.valid, 0)
        while ctx.get(dut.busy):
            line.append(ctx.get(dut.pin))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(process)
    simulator.run()
    return line


def receive(cycles, line):
    """The bytes in a line."""
    dut, found = UartReceiver(cycles), []

    async def process(ctx):
        for level in [*line, *[1] * 12 * cycles]:
            ctx.set(dut.pin, level)
            _, _, valid, byte = await ctx.tick().sample(dut.valid, dut.data)
            if valid:
                found.append(byte)

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(process)
    simulator.run()
    return bytes(found)


def ideal(bit_time, data):
    """The line of a sender with its own idea of a bit's length in cycles."""
    bits = [1, 1]
    for byte in data:
        bits += [0, *(byte >> i & 1 for i in range(8)), 1]
    return [bits[min(int(t / bit_time), len(bits) - 1)] for t in range(int(bit_time * len(bits)))]


@pytest.mark.parametrize("cycles", [4, 5, 25])
def test_what_is_sent_is_received(cycles):
    line = transmit(cycles, DATA)
    assert receive(cycles, line) == DATA
    runs = "".join(map(str, line)).strip("1")
    # The first byte is 0: start bit and eight data bits.
    assert runs.index("1") == 9 * cycles


@pytest.mark.parametrize("error", [-0.03, 0.0, 0.03])
def test_the_other_end_may_be_slower_or_faster(error):
    assert receive(25, ideal(25 * (1 + error), DATA)) == DATA


def test_3_megabaud_at_50_megahertz():
    """17 cycles per bit for 16.67 of the other end, which samples in the middle of its own bits."""
    cycles, theirs = bit_cycles(50e6, 3_000_000), 50 / 3
    assert cycles == 17
    assert receive(cycles, ideal(theirs, DATA)) == DATA
    line, at, heard = [*transmit(cycles, DATA), 1], 0, []
    while 0 in line[at:]:
        at = line.index(0, at)
        bits = [line[int(at + (bit + 0.5) * theirs)] for bit in range(10)]
        assert (bits[0], bits[9]) == (0, 1)
        heard.append(sum(bit << place for place, bit in enumerate(bits[1:9])))
        at = int(at + 9.5 * theirs)
    assert bytes(heard) == DATA


def test_spikes_and_broken_bytes_are_dropped():
    good = ideal(8, b"A")
    assert receive(8, [1] * 8 + [0, 0] + [1] * 20 + good) == b"A"
    broken = [0] * 8 * 10 + [1] * 8
    assert receive(8, [1] * 8 + broken + good) == b"A"
