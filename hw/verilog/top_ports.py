"""What the ports of the module `tosaic` are, as the comment at the head of its file."""

from collections.abc import Iterator

from ..config import Config
from ..csr_map import LEAST_ADDRESS_BITS

_CHANNELS = """\
// Ports (every signal belongs to the rising edge of clk):
//   clk, rst     clock; reset, synchronous, active high, two cycles or longer. Memories keep their contents.
//   irq          interrupt, level: CONTROL.irq_enable and any bit of IRQ (registers.md).
//   idle         no program runs and the bus owes nothing: clk may stop while no access of s_axil_* is under way.
//   s_axil_*     AXI4-Lite subordinate, 32 bits of data, a window of 4 KiB: the registers. Every access is
//                answered; SLVERR for an offset without a register. awprot and arprot are ignored.
//   m_axi_ar*/r* AXI4 manager, reads. ID 0: data (LOAD), ID 1: the program. Answers of one ID come in order;
//                the two may be interleaved. Up to 32 bursts of ID 0 are under way.
//   m_axi_aw*/w*/b*  AXI4 manager, writes (STORE), ID 0. Up to 32 bursts are under way. bready is always high.
{more}// Every burst is INCR, of whole words of {bits} bits (size {size}), of at most 32 beats, and crosses no 4 KiB.
// Addresses are multiples of {word} and lie within MEM_BASE and MEM_BASE + MEM_SIZE. Bytes of a write that are not
// wanted have their strobe low.
"""

_CORES = """\
//                {cores} cores share the port: twice a core's number is added to its IDs. rready is always high.
"""


_ATTRIBUTES = """\
//                arcache and awcache are {config.axi_cache}, arprot and awprot {config.axi_prot}.
"""

_HIGH = """\
//                Addresses have {config.address_bits} bits; those above 32 are MEM_BASE_HIGH's.
"""


def _more(config: Config) -> Iterator[str]:
    """What some configurations have."""
    if config.address_bits > LEAST_ADDRESS_BITS:
        yield _HIGH.format(config=config)
    if config.axi_cache or config.axi_prot:
        yield _ATTRIBUTES.format(config=config)
    if config.cores > 1:
        yield _CORES.format(cores=config.cores)


def top_comment(config: Config) -> str:
    """Configuration and ports."""
    return (
        f"// The Tosaic NPU, configuration {config.name}: {config.rows} x {config.columns} multipliers,\n"
        f"// {config.am_bytes >> 10} KiB of activation memory, {config.wm_bytes >> 10} KiB of weight memory.\n"
        f"// Configuration hash 0x{config.hash:08X}.\n//\n"
        + _CHANNELS.format(
            bits=8 * config.bus_bytes,
            size=config.bus_bytes.bit_length() - 1,
            word=config.bus_bytes,
            more="".join(_more(config)),
        )
    )
