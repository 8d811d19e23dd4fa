"""LiteDRAM's generator of standalone cores, repaired.

`python -m tosaic.boards.dram.generator ARGUMENTS`: in a process of its own, because it changes its libraries for good.
"""

import litedram.gen
from litex.build.generic_platform import GenericPlatform
from litex.build.gowin.platform import GowinPlatform
from litex.build.lattice import LatticePlatform

from .repairs import repair_litedram


def platform_of(device: str, io: list, toolchain: str) -> GenericPlatform:
    """Returns the platform of a part, in the place of LatticePlatform, whose arguments these are."""
    if device.startswith("GW"):
        return GowinPlatform(device, io, toolchain="apicula", devicename=device)
    return LatticePlatform(device, io=io, toolchain=toolchain)


def main() -> None:
    """The arguments are those of litedram_gen."""
    repair_litedram()
    # It knows one vendor for this kind of memory.
    litedram.gen.LatticePlatform = platform_of
    litedram.gen.main()


if __name__ == "__main__":
    main()
