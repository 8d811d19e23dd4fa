"""LiteDRAM's generator of standalone cores, repaired.

`python -m tosaic.boards.dram.generator ARGUMENTS`: in a process of its own, because it changes its libraries for good.
"""

import litedram.gen

from .repairs import repair_litedram


def main() -> None:
    """The arguments are those of litedram_gen."""
    repair_litedram()
    litedram.gen.main()


if __name__ == "__main__":
    main()
