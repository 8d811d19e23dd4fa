"""The array's sequence: the address generator's slots are those of the loops that the instruction set's text tells, for
each class of loops, from reset to the end of a job and into the next one. Bounded: the loops have few turns, starts and
steps are 0..3, and the slots are held up at most twice; the array is `nano`'s, of 2 rows and 4 columns.

What is read for a slot, and that its sums are delivered in their turns, is proved in test_prove_array.py.
"""

import dataclasses

import pytest
from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from proving import implies, inputs_of, prove_from_reset

from tosaic.hw.array.address_generator import AddressGenerator
from tosaic.hw.array.layouts import ArrayJob
from tosaic.hw.config import CONFIGS

pytestmark = pytest.mark.nightly
NANO = CONFIGS["nano"]
ROWS, COLUMNS = NANO.rows, NANO.columns
STALLS = 2
"""Cycles in which the slots are held up."""


@dataclasses.dataclass(frozen=True)
class Loops:
    """Turns of a job's loops, and what it does with the sums."""

    pixels: int = 1
    width: int = 2
    ky_count: int = 1
    run_count: int = 1
    chunks: int = 1
    more_blocks: int = 0
    accumulate: int = 0
    drain: int = 1

    @property
    def slots(self) -> int:
        """Slots of the job."""
        steps = self.ky_count * self.run_count * self.chunks
        return -(-self.pixels // ROWS) * (1 + self.more_blocks) * steps * COLUMNS


CLASSES = {
    "one step": Loops(),
    "a full tile": Loops(pixels=ROWS, width=1),
    "tiles": Loops(pixels=2 * ROWS + 1, width=ROWS + 1),
    "tiles of steps": Loops(pixels=ROWS + 1, chunks=2),
    "kernel": Loops(pixels=ROWS, ky_count=2, run_count=2, chunks=2),
    "rows of a kernel": Loops(ky_count=3),
    "runs": Loops(pixels=ROWS, run_count=3),
    "blocks": Loops(pixels=ROWS, more_blocks=2),
    "blocks of steps": Loops(pixels=1, more_blocks=1, run_count=2),
    "sums go on": Loops(pixels=ROWS, accumulate=1),
    "sums stay": Loops(pixels=ROWS, drain=0, ky_count=2),
    "sums go on and stay": Loops(pixels=1, accumulate=1, drain=0, chunks=2),
}


class Nest:
    """The loops, as the text tells them, of the slot that comes next: tiles of rows of pixels; for each tile its blocks;
    for each of these the kernel's rows, their runs, and their chunks of W bytes; for each of these W slots."""

    def __init__(self, m, job, loops):
        self.m, self.job, self.loops = m, job, loops
        self.there = Signal(name="there")
        for name in ("slot", "chunk", "run", "ky", "block", "tile", "x"):
            setattr(self, name, Signal(8, name=f"nest_{name}"))
        # Where the slot's pixel, and the tile's first one, begin; and what the step adds.
        self.pixel, self.first = (
            {part: Signal(32, name=f"{whose}_{part}") for part in ("column", "line", "base")}
            for whose in ("pixel", "first")
        )
        self.first_x = Signal(8, name="first_x")
        self.step = {part: Signal(32, name=f"step_{part}") for part in ("column", "line", "base")}
        self.run_column, self.weights = Signal(32), Signal(20)

    def last_of(self, name, turns):
        return getattr(self, name) == turns - 1

    def rows(self):
        """Pixels of the tile."""
        tiles = -(-self.loops.pixels // ROWS)
        return Mux(self.last_of("tile", tiles), self.loops.pixels - ROWS * (tiles - 1), ROWS)

    def ends(self):
        """Whether the slot ends its step, its block, and its tile."""
        loops = self.loops
        step = self.last_of("slot", COLUMNS)
        block = (
            step
            & self.last_of("chunk", loops.chunks)
            & self.last_of("run", loops.run_count)
            & self.last_of("ky", loops.ky_count)
        )
        return step, block, block & self.last_of("block", loops.more_blocks + 1)

    def begin(self, given):
        """A job's first slot comes next."""
        self.m.d.sync += [self.there.eq(1), self.job.eq(given), self.weights.eq(given.weights)]
        for name in ("slot", "chunk", "run", "ky", "block", "tile", "x", "first_x"):
            self.m.d.sync += getattr(self, name).eq(0)
        self.m.d.sync += [self.run_column.eq(0), *(part.eq(0) for part in self.step.values())]
        start = {"column": given.window.x_start, "line": given.window.y_start}
        start["base"] = given.input.address - given.window.x_start
        for place in (self.pixel, self.first):
            self.m.d.sync += [place[part].eq(value) for part, value in start.items()]

    def go_on(self):
        """The next slot."""
        m, job, window, kernel = self.m, self.job, self.job.window, self.job.kernel
        step, block, tile = self.ends()
        m.d.sync += [self.slot.eq(self.slot + 1), self.weights.eq(self.weights + 1)]
        following = {
            "column": self.pixel["column"] + window.x_step,
            "line": self.pixel["line"],
            "base": self.pixel["base"],
        }
        wraps = self.last_of("x", self.loops.width)
        with m.If(self.slot < ROWS):
            m.d.sync += [self.x.eq(Mux(wraps, 0, self.x + 1))]
            m.d.sync += [self.pixel[part].eq(value) for part, value in following.items()]
            with m.If(wraps):
                m.d.sync += [
                    self.pixel["column"].eq(window.x_start),
                    self.pixel["line"].eq(self.pixel["line"] + window.y_step),
                    self.pixel["base"].eq(self.pixel["base"] + window.y_step_bytes),
                ]
        with m.If(step):
            m.d.sync += [self.slot.eq(0), self.chunk.eq(self.chunk + 1)]
            m.d.sync += self.step["column"].eq(self.step["column"] + COLUMNS)
            # The next step walks the tile's pixels again.
            m.d.sync += [
                self.x.eq(self.first_x),
                *(self.pixel[part].eq(self.first[part]) for part in self.pixel),
            ]
            with m.If(self.last_of("chunk", self.loops.chunks)):
                run = self.run_column + kernel.run_step
                m.d.sync += [self.chunk.eq(0), self.run.eq(self.run + 1)]
                m.d.sync += [self.run_column.eq(run), self.step["column"].eq(run)]
                with m.If(self.last_of("run", self.loops.run_count)):
                    m.d.sync += [self.run.eq(0), self.run_column.eq(0), self.step["column"].eq(0)]
                    m.d.sync += [
                        self.ky.eq(self.ky + 1),
                        self.step["line"].eq(self.step["line"] + kernel.ky_step),
                    ]
                    m.d.sync += self.step["base"].eq(self.step["base"] + kernel.ky_step_bytes)
        with m.If(block):
            m.d.sync += [
                self.ky.eq(0),
                self.step["line"].eq(0),
                self.step["base"].eq(0),
                self.block.eq(self.block + 1),
            ]
        with m.If(tile):
            m.d.sync += [self.block.eq(0), self.tile.eq(self.tile + 1), self.weights.eq(job.weights)]
            # It begins where the tile's moves have led.
            m.d.sync += [self.x.eq(self.x), self.first_x.eq(self.x)]
            m.d.sync += [
                place[part].eq(self.pixel[part]) for place in (self.pixel, self.first) for part in place
            ]
        with m.If(tile & self.last_of("tile", -(-self.loops.pixels // ROWS))):
            m.d.sync += self.there.eq(0)


class Turns:
    """Which row delivers in a slot: after the last slot of a block, and with it, the tile's rows in turn."""

    def __init__(self, m, takes, drains, rows):
        self.left, self.row = Signal(8, name="rows_left"), Signal(8, name="next_row")
        self.delivers = drains | (self.left != 0)
        self.now = Mux(drains, 0, self.row)
        with m.If(takes & drains):
            m.d.sync += [self.left.eq(rows - 1), self.row.eq(1)]
        with m.Elif(takes & (self.left != 0)):
            m.d.sync += [self.left.eq(self.left - 1), self.row.eq(self.row + 1)]


def assumed_of(given, loops):
    """A legal job of these loops."""
    turns = {"pixels": given.count, "width": given.window.width}
    turns |= {name: given.kernel[name] for name in ("ky_count", "run_count", "chunks")}
    turns |= {name: given[name] for name in ("more_blocks", "accumulate", "drain")}
    free = [
        given.input.address,
        given.weights,
        given.kernel.run_step,
        given.kernel.ky_step,
        given.kernel.ky_step_bytes,
    ]
    free += [given.window[name] for name in ("x_start", "x_step", "y_start", "y_step", "y_step_bytes")]
    return [
        ~given.is_depthwise,
        *(field[2:] == 0 for field in free),
        *(field == getattr(loops, name) for name, field in turns.items()),
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_the_array_walks_its_loops(name, tmp_path):
    """In every slot: the word of the image and of the weights, whether sums begin or go on, and which row delivers.
    Every job has exactly its slots, of which the last one says so; between jobs only rows that have a turn left move."""
    loops, m = CLASSES[name], Module()
    m.submodules.dut = dut = AddressGenerator(NANO)
    given, slot = dut.jobs.payload, dut.slots.payload
    job, stalls = Signal(ArrayJob(), name="job"), Signal(8)
    nest = Nest(m, job, loops)
    takes_job, takes = dut.jobs.valid & dut.jobs.ready, dut.slots.valid & dut.slots.ready
    _, ends_block, ends_tile = nest.ends()
    tiles = -(-loops.pixels // ROWS)
    ends_job = ends_tile & nest.last_of("tile", tiles)
    with m.If(takes & nest.there):
        nest.go_on()
    with m.If(takes_job):
        nest.begin(given)
    turns = Turns(m, takes, nest.there & ends_block & bool(loops.drain), nest.rows())
    there, control = dut.slots.valid & nest.there, slot.control
    m.d.sync += stalls.eq(stalls + ~dut.slots.ready)
    first_of_block = (nest.slot == 0) & (nest.chunk == 0) & (nest.run == 0) & (nest.ky == 0)
    place = {part: slot[part].as_unsigned() for part in ("column", "line", "base")}
    m.d.comb += [
        *(Assume(fact) for fact in assumed_of(given, loops)),
        Assume(stalls + ~dut.slots.ready <= STALLS),
        Assert(implies(nest.there, dut.slots.valid)),
        Assert(implies(takes_job, ~nest.there | (takes & ends_job))),
        Assert(implies(there, slot.read == (nest.slot < nest.rows()))),
        *(
            Assert(implies(there & slot.read, port == (nest.pixel[part] + nest.step[part])[: len(port)]))
            for part, port in place.items()
        ),
        Assert(
            implies(
                there, slot.read_weights & control.mac & ~control.depthwise & ~control.stream & ~control.load
            )
        ),
        Assert(implies(there, slot.weights == nest.weights[: len(slot.weights)])),
        Assert(implies(there, slot.streamed == (job.streamed & (nest.tile == 0)))),
        Assert(implies(there, control.start == (nest.slot == 0))),
        Assert(implies(there, control.clear == (first_of_block & (not loops.accumulate)))),
        Assert(implies(there, slot.last == ends_job)),
        Assert(
            implies(
                dut.slots.valid & ~nest.there, ~slot.read & ~slot.read_weights & ~control.mac & ~slot.last
            )
        ),
        Assert(implies(dut.slots.valid, control.deliver == turns.delivers)),
        Assert(implies(dut.slots.valid & control.deliver, control.row == turns.now)),
        Assert(implies(turns.left != 0, dut.slots.valid)),
        *(
            Assert(implies(there, slot[field] == job.input[field]))
            for field in ("row_bytes", "height", "input_zp", "weight_zp", "unsigned_input")
        ),
    ]
    prove_from_reset(m, tmp_path, inputs_of(dut), loops.slots + COLUMNS + STALLS + 2)
