"""LiteEth's generator of standalone cores, repaired.

`python -m tosaic.boards.ethernet.generator ARGUMENTS`: in a process of its own, because it changes its library.
"""

import liteeth.core.udp
import liteeth.gen

from tosaic.hw.bridge.datagrams import UDP_PORT


def repair_liteeth() -> None:
    """What is wrong with LiteEth 2024.12 for us.

    - A raw port takes the datagrams that are for the port to which it sends. A board is asked at one port, and answers
      to whatever port the question came from.
    - With words of 32 bits the preamble is looked for at multiples of four bytes, but a PHY may bring fewer bytes of
      it than were sent: so it is looked for byte by byte, in the PHY's clock, and words are made behind that.
    """
    get_port = liteeth.core.udp.LiteEthUDPCrossbar.get_port
    udp_core = liteeth.gen.LiteEthUDPIPCore

    def get_own_port(crossbar, sent_to, dw=8, cd="sys"):
        return get_port(crossbar, UDP_PORT, dw, cd)

    def by_bytes(phy, **options):
        return udp_core(phy, **options | {"with_sys_datapath": False})

    liteeth.core.udp.LiteEthUDPCrossbar.get_port = get_own_port
    liteeth.gen.LiteEthUDPIPCore = by_bytes


def main() -> None:
    """The arguments are those of liteeth_gen."""
    repair_liteeth()
    liteeth.gen.main()


if __name__ == "__main__":
    main()
