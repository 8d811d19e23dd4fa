"""What can be wrong with a board, in words."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class BoardFault:
    """A fault that the kit names."""

    name: str
    seen: str
    """What the kit saw."""
    meaning: str
    remedy: str


FAULTS: dict[str, BoardFault] = {
    fault.name: fault
    for fault in (
        BoardFault(
            "no-answer",
            "nothing answers on the link",
            "the bitstream is not loaded, another port was named, or the baud rate differs",
            "load the bitstream; look at the LED of the link; try the other port of the cable's chip",
        ),
        BoardFault(
            "noisy-link",
            "answers come, but some are damaged or lost",
            "a long or bad cable, a bad ground, or a baud rate that the adapter does not reach exactly",
            "shorten the cable, connect ground, build with a lower --baud",
        ),
        BoardFault(
            "other-design",
            "what answers is no machine of this version",
            "another bitstream is loaded, or one that another version of Tosaic built",
            "build and load the bitstream with the version that runs this kit",
        ),
        BoardFault(
            "other-configuration",
            "the machine has another configuration than the board's",
            "the bitstream was built with --config or --set",
            "give the same --config to this kit, or load the board's own bitstream",
        ),
        BoardFault(
            "memory-bit",
            "the same bit of a word is wrong wherever it is read",
            "a data line of the memory is open, shorted or samples at a wrong time",
            "check solder joints and the PLL's phase; with SDRAM try --with block_ram",
        ),
        BoardFault(
            "memory-address",
            "what was written at one place is read at another",
            "an address line of the memory is open or shorted, or the chip is smaller than the board's file says",
            "check solder joints and the chip's marking",
        ),
        BoardFault(
            "memory-loss",
            "what was written is there at first, and changes later",
            "the memory is not refreshed, or its supply is weak",
            "check the clock and the supply of the memory",
        ),
        BoardFault(
            "memory-data",
            "memory gives back other data, without a pattern",
            "the memory's clock is too fast, or it is not started",
            "build with a lower clock; with SDRAM try --with block_ram",
        ),
        BoardFault(
            "wrong-clock",
            "the clock is not the one that the bitstream was built for",
            "the crystal, the PLL or, on a Zynq, the overlay sets another clock",
            "load the overlay that was built with the bitstream; measure the crystal",
        ),
        BoardFault(
            "port-width",
            "of each bus word the machine sees a part only",
            "the port to the memory has another width than the bitstream was built for",
            "load the overlay that was built with the bitstream: it sets the width",
        ),
        BoardFault(
            "bus-error",
            "the memory answers the machine with an error",
            "the window lies where no memory is, or the port is not enabled",
            "check the buffer's address and size; load the overlay",
        ),
        BoardFault(
            "hang",
            "a program does not end",
            "the memory does not answer the machine, or its clock stands",
            "check that the port to the memory is enabled, and the reset",
        ),
        BoardFault(
            "load-store",
            "data change between memory and the machine's own memory",
            "the bus loses or mixes data, or a block RAM is bad",
            "build with another --seed or a lower clock",
        ),
        BoardFault(
            "vector",
            "the vector unit computes wrong numbers",
            "its logic does not reach the clock: it has the longest paths",
            "build with a lower clock or another --seed",
        ),
        BoardFault(
            "array",
            "the array computes wrong numbers, the vector unit right ones",
            "its logic does not reach the clock, or a multiplier is bad",
            "build with a lower clock or another --seed",
        ),
        BoardFault(
            "unsteady",
            "the same program gives other numbers from run to run",
            "the clock is at the limit, the supply is weak, or the chip is hot",
            "build with a lower clock; check the supply",
        ),
        BoardFault(
            "network",
            "all units are right alone, and a whole network is wrong",
            "nobody knows yet: a fault of the board, of the design, or of this kit",
            "send the bundle",
        ),
    )
}
"""Faults by name, in the order in which the kit looks for them."""


class FaultFound(Exception):
    """A step found a fault; `detail` says in one line what it saw."""

    def __init__(self, fault: str, detail: str) -> None:
        super().__init__(detail)
        self.fault, self.detail = FAULTS[fault], detail
