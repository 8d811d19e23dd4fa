"""A run of a network for the testbench: memory before it, what its outputs must be, and the bench's parameters."""

import dataclasses
import pathlib

from ..config import Config
from ..csr_map import LEAST_ADDRESS_BITS

BENCH = "tosaic_bench.v"
MEMORY, EXPECTED = "memory.hex", "expected.hex"


@dataclasses.dataclass(frozen=True)
class BenchRun:
    """What `tosaic_bench.v` runs and compares by itself."""

    memory: bytes
    """The whole window before the run: program, constants, inputs."""
    program_address: int
    program_bytes: int
    expected: tuple[tuple[int, bytes], ...]
    """Address in the window and bytes of each output."""
    max_cycles: int
    """Where the bench gives up."""

    def files(self) -> dict[str, str]:
        """The two memory files, in the form of $readmemh; bit 8 of an expected byte says that it is compared."""
        expected = []
        for address, data in self.expected:
            expected += [f"@{address:x}", *(f"1{byte:02x}" for byte in data)]
        return {
            MEMORY: "".join(f"{byte:02x}\n" for byte in self.memory),
            EXPECTED: "".join(f"{line}\n" for line in expected),
        }


def bench_text(config: Config, run: BenchRun | None) -> str:
    """The testbench for a configuration, and for a run of it, if there is one."""
    values = {"WORD_BYTES": str(config.bus_bytes), "ADDRESS_BITS": str(config.address_bits)}
    if config.address_bits > LEAST_ADDRESS_BITS:
        values["MEM_BASE"] = "64'h1_1000_0000"
    if run is not None:
        values |= {
            "MEMORY_BYTES": str(len(run.memory)),
            "PROGRAM_ADDRESS": str(run.program_address),
            "PROGRAM_BYTES": str(run.program_bytes),
            "MAX_CYCLES": str(run.max_cycles),
            "MEMORY_FILE": f'"{MEMORY}"',
            "EXPECTED_FILE": f'"{EXPECTED}"',
        }
    text = (pathlib.Path(__file__).parent / BENCH).read_text()
    if config.axi_cache or config.axi_prot:
        ports = (f".m_axi_{channel}{port}()" for channel in ("ar", "aw") for port in ("cache", "prot"))
        text = text.replace("    .m_axi_arid(", f"    {', '.join(ports)},\n    .m_axi_arid(")
    for name, value in values.items():
        head, parameter, rest = text.partition(f"\n  parameter {name} = ")
        assert parameter, name
        text = f"{head}{parameter}{value}{rest[rest.index(';') :]}"
    return text
