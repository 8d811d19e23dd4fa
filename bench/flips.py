"""Flips one bit at a time in a run of the RTL and says what becomes of it, by place: a row of docs/trust.md.

    python bench/flips.py [--flips 500] [--seed 1] [--keep FILE] [--config nano] [--config nano,load_crc=1,...]

Each flip has a run of its own: the small digits network on random pixels, on a machine that has just been reset. A bit
of external memory has flipped before the run, in what is read of it; one of the machine flips in a random cycle of
the run, in the on-chip memories in bytes that the program writes. Afterwards

- detected: the run ends in an error
- hung: the watchdog ends it, or it breaks a rule of AXI
- silent: outputs are wrong, without an error
- masked: outputs are right

`--flips` is the number for each place. With `--keep FILE` outcomes are kept as they come, and those that are there are
not made again: a campaign goes on where it was ended, or with more flips.
"""

import argparse
import collections
import dataclasses
import functools
import hashlib
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from rtl_flips import CHOSEN_BITS, Cell, cells_of, chosen, flips_library

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir.tosa_file import read_tosa
from tosaic.compiler.program import Program
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Error, Opcode
from tosaic.sim.emulator.external_memory import ExternalBytes
from tosaic.sim.emulator.stepped import SteppedCore
from tosaic.sim.program import decode_program
from tosaic.sim.registers import Registers
from tosaic.sim.rtl.library import INTERRUPT, TIMEOUT, Harness
from tosaic.sim.rtl.verilog import cached_verilog

NETWORK = pathlib.Path(__file__).resolve().parents[1] / "examples" / "digits" / "digits_tiny.tosa"
PROTECTED = "nano,load_crc=1,memory_parity=1"
OUTCOMES = ("detected", "masked", "silent", "hung")
MEM_BASE = 1 << 28
WATCHDOG_CYCLES = 3000
MOST_CYCLES = 20_000


@dataclasses.dataclass(frozen=True)
class Flip:
    """`cycle` of the run in which a bit flips; before it in external memory, whose `number` is 0 and `row` a byte."""

    number: int
    row: int
    bit: int
    cycle: int = 0


class Machine:
    """Runs a program on the RTL, with a flip."""

    def __init__(self, config: Config, seed: int):
        self.config, self._library = config, flips_library(config)
        self.program: Program = compile_graph(read_tosa(NETWORK), config)
        self.memory = self.program.memory()
        """External memory before a run."""
        dice = np.random.default_rng(seed)
        for port in self.program.inputs:
            port.write(self.memory, dice.integers(-128, 128, port.shape).astype(port.numpy))
        self.cycles = 0
        """What a run without a flip gives."""
        _, self._right, self.cycles = self._run(None)

    def outcome(self, flip: Flip) -> str:
        """What becomes of it."""
        error, outputs, _ = self._run(flip)
        if error in (None, Error.WATCHDOG):
            return "hung"
        if error != Error.NONE:
            return "detected"
        return "masked" if outputs == self._right else "silent"

    def _run(self, flip: Flip | None) -> tuple[Error | None, list[bytes], int]:
        """Its error (None: it did not end), its outputs, and its cycles."""
        harness, memory = Harness(self._library), self.memory.copy()
        if flip and not flip.number:
            memory[flip.row] ^= 1 << flip.bit
        try:
            registers = Registers(harness, self.config.cores)
            harness.set_memory(memory, MEM_BASE)
            registers.start(MEM_BASE, len(memory), self.program.streams, WATCHDOG_CYCLES)
            begun, ended = harness.cycle, TIMEOUT
            if flip and flip.number:
                ended = harness.run(flip.cycle) if flip.cycle else TIMEOUT
                if ended == TIMEOUT:
                    harness.choose_mutants(chosen(flip.number, flip.row, flip.bit), CHOSEN_BITS)
                    ended = harness.run(1)
                    harness.choose_mutants([], CHOSEN_BITS)
            if ended == TIMEOUT:
                ended = harness.run(MOST_CYCLES)
            cycles = harness.cycle - begun
            if ended != INTERRUPT:
                return None, [], cycles
            error = (
                Error(registers.field("ERROR", "code")) if registers.field("STATUS", "error") else Error.NONE
            )
            return error, [port.read(memory).tobytes() for port in self.program.outputs], cycles
        finally:
            harness.close()


def _loaded(program: Program) -> list[int]:
    """Bytes of external memory that LOADs of constants bring."""
    (stream,) = program.streams
    code = decode_program(program.image[stream.address : stream.address + stream.bytes])
    found = set[int]()
    pitch = 0
    for go in code:
        if go.opcode == Opcode.LOAD_PITCH:
            pitch = go.memory_pitch
        elif go.opcode == Opcode.LOAD_GO and go.memory_address < stream.address:
            for row in range(go.rows):
                begin = go.memory_address + row * pitch
                found.update(range(begin, begin + go.row_bytes))
    return sorted(found)


def _written(machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of activation and of weight memory that the program writes: they do not depend on what was there."""
    config, found = machine.config, []
    on_chip = config.am_bytes + config.wm_bytes
    for fill in (0, 1):
        core = SteppedCore(config, ExternalBytes.of(machine.memory.copy()), machine.program.streams[0])
        cells = core.cells()
        cells[:on_chip] = fill
        core.place(cells)
        core.run()
        found.append(core.cells()[:on_chip])
    written = np.flatnonzero(found[0] == found[1])
    return written[written < config.am_bytes], written[written >= config.am_bytes] - config.am_bytes


Draw = Callable[[np.random.Generator], Flip]
OTHER_PLACES: tuple[tuple[str, Callable[[Cell], bool]], ...] = (
    (
        "instruction queues",
        lambda cell: cell.rows > 1 and ("_queue." in cell.module or "entries" in cell.module),
    ),
    ("semaphores", lambda cell: (cell.module, cell.name) == ("sequencer.semaphores", "counters")),
    ("other memories", lambda cell: cell.rows > 1),
    ("registers", lambda cell: True),
)
"""Names of places, and what belongs there of what belongs to none before."""


def places(machine: Machine) -> Iterator[tuple[str, Draw]]:
    """The places, and what draws a flip in each."""
    program, cells = machine.program, dict(enumerate(cells_of(machine.config), 1))
    (stream,) = program.streams
    yield "constants", _of_bytes(_loaded(program))
    yield "instructions", _of_bytes(range(stream.address, stream.address + stream.bytes))
    on_chip = {
        cell.module: number
        for number, cell in cells.items()
        if cell.rows > 1 and cell.module.startswith(("am.", "wm."))
    }
    activations, weights = _written(machine)
    yield "activation memory", _of_activations(machine, on_chip, activations)
    yield "weight memory", _of_weights(machine, on_chip["wm.words.words"], weights)
    rest = {number: cell for number, cell in cells.items() if number not in on_chip.values()}
    for name, belongs in OTHER_PLACES:
        own = {number: cell for number, cell in rest.items() if belongs(cell)}
        rest = {number: cell for number, cell in rest.items() if number not in own}
        yield name, _of_cells(own, machine.cycles)


def _of_activations(machine: Machine, memories: Mapping[str, int], addresses: np.ndarray) -> Draw:
    """Each byte's parity is as likely as each of its bits."""
    config = machine.config
    cell_bits = 8 + config.memory_parity

    def draw(dice: np.random.Generator) -> Flip:
        number, lane = divmod(int(dice.choice(addresses)), config.word_bytes)
        bank, row = divmod(number, config.am_bank_bytes // config.word_bytes)
        memory = memories[f"am.bank{bank}_{'odd' if row % 2 else 'even'}"]
        bit = cell_bits * lane + int(dice.integers(cell_bits))
        return Flip(memory, row // 2, bit, int(dice.integers(machine.cycles)))

    return draw


def _of_weights(machine: Machine, memory: int, addresses: np.ndarray) -> Draw:
    def draw(dice: np.random.Generator) -> Flip:
        row, lane = divmod(int(dice.choice(addresses)), machine.config.word_bytes)
        return Flip(memory, row, 8 * lane + int(dice.integers(8)), int(dice.integers(machine.cycles)))

    return draw


def _of_bytes(addresses: Sequence[int]) -> Draw:
    return lambda dice: Flip(0, int(dice.choice(addresses)), int(dice.integers(8)))


def _of_cells(cells: dict[int, Cell], cycles: int) -> Draw:
    """Every bit is as likely as every other."""
    numbers, sizes = list(cells), np.array([cell.bits * cell.rows for cell in cells.values()], float)

    def draw(dice: np.random.Generator) -> Flip:
        number = numbers[int(dice.choice(len(numbers), p=sizes / sizes.sum()))]
        cell = cells[number]
        return Flip(
            number, int(dice.integers(cell.rows)), int(dice.integers(cell.bits)), int(dice.integers(cycles))
        )

    return draw


class Kept:
    """Outcomes in a file, a line each: the Verilog, the seed, the place, the flip's number, the outcome."""

    def __init__(self, path: pathlib.Path | None):
        self._path, self._found = path, dict[tuple[str, ...], str]()
        if path and path.exists():
            for line in path.read_text().splitlines():
                *key, outcome = line.split("\t")
                # The last line may be half a one, where the campaign was ended.
                if outcome in OUTCOMES:
                    self._found[tuple(key)] = outcome

    def outcome(self, key: tuple[str, ...], make: Callable[[], str]) -> str:
        """The one that is there, or the one that is made."""
        if key not in self._found:
            self._found[key] = make()
            if self._path:
                with self._path.open("a") as file:
                    file.write("\t".join((*key, self._found[key])) + "\n")
        return self._found[key]


def campaign(
    config: Config, flips: int, seed: int, kept: Kept
) -> Iterator[tuple[str, collections.Counter[str]]]:
    """For each place, how many flips became what. Each flip is drawn from numbers of its own."""
    machine = Machine(config, seed)
    verilog = hashlib.sha256(cached_verilog(config).read_bytes()).hexdigest()[:12]
    for place, (name, draw) in enumerate(places(machine)):
        counts = collections.Counter[str]()
        for number in range(flips):
            flip = draw(np.random.default_rng((seed, place, number)))
            key = (config.name, verilog, str(seed), name, str(number))
            counts[kept.outcome(key, functools.partial(machine.outcome, flip))] += 1
        yield name, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flips", type=int, default=500, help="for each place")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--config", action="append")
    options = parser.parse_args()
    kept = Kept(options.keep)
    for name in options.config or ["nano", PROTECTED]:
        print(f"\n{name}, {options.flips} flips a place\n")
        print(f"| place | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * len(OUTCOMES)}")
        for place, counts in campaign(get_config(name), options.flips, options.seed, kept):
            print(f"| {place} | {' | '.join(str(counts[each]) for each in OUTCOMES)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
