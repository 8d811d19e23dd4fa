"""program.md: what a driver must know of programs."""

from ..config import Config
from ..isa import ISA_HASH

_PAGE = """\
# Programs

For those who write a driver. This machine: configuration {name}, configuration hash 0x{config_hash:08X}, instruction
set 0x{isa_hash:08X}, memory word {word} bytes. `registers.md` has the registers, `isa.md` the instructions.

## In memory
The machine sees one window of the bus, MEM_BASE to MEM_BASE + MEM_SIZE. All addresses in a program count from MEM_BASE,
so a program runs wherever its window lies. `tosaic compile MODEL -o FILE.tsc` makes the content:

| part of FILE.tsc | bytes |
|---|---|
| magic | 8: `{magic}` |
| length of the header | 4, little endian |
| header, JSON | as many |
| image: the first bytes of the window (constants, program) | up to the CRC |
| CRC-32 of everything before it (polynomial of zlib) | 4, little endian |

Of the header a driver needs `isa_hash`, `config_hash` (compare them with the registers), `memory_bytes` (the window's
size), `program_address`, `program_bytes`, and of each of `inputs` and `outputs`: `name`, `shape`, `dtype`, `address`,
`bytes`. Tensors lie row-major and little endian: int8 1 byte per element, int16 2, int32 4, int48 8 (sign-extended),
bool 1.

## A run
1. Read ID, ISA_HASH and CONFIG_HASH and compare.
2. Write the image to the window, zeros behind it, and every input at its address. MEM_BASE is a multiple of 32.
   Caches: make what you wrote visible to the bus.
3. Write MEM_BASE, MEM_SIZE, PROGRAM_ADDRESS, PROGRAM_BYTES, then 1 to CONTROL (start).
4. Wait for STATUS.done or STATUS.error, or for the interrupt.
5. After an error read ERROR, PC, UNITS and the units' PCs, write 2 to CONTROL (soft_reset), wait until STATUS.resetting
   is 0. The next run starts at 2.
6. Read every output at its address. Constants and program are still there: the next input needs only steps 2 (input),
   3 and 4.

`tosaic_bench.v` does all this in Verilog:

    iverilog -g2005 -s tosaic_bench -o bench -f tosaic.f tosaic_bench.v
    vvp bench +memory=memory.hex +program_address=N +program_bytes=N +result=result.hex

With `tosaic verilog --network MODEL` the files of a run are there, and the bench compares its outputs with the golden
model's: `vvp bench` without arguments ends with PASS, or with FAIL and exit code 1.
"""


def program_markdown(config: Config) -> str:
    """The page for one configuration."""
    return _PAGE.format(
        name=config.name,
        config_hash=config.hash,
        isa_hash=ISA_HASH,
        word=config.bus_bytes,
        magic="TOSAIC\\0\\1",
    )
