"""Writes the handshakes of a run on the RTL into docs/timing.md: `python bench/handshakes.py`.

tests/rtl/test_rtl_handshakes.py holds the page against the RTL."""

import dataclasses
import pathlib
import tempfile

import numpy as np
import pywellen

import tosaic

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs/timing.md"
BEGIN, END = "<!-- handshakes -->\n", "<!-- end handshakes -->"
MODEL = ROOT / "examples/digits/digits_tiny.tosa"
CONFIG = "nano,cabac_engines=1"
INSIDE, PORT = "bench.accelerator.accelerator.", "bench.accelerator."
LATENCY_CYCLES = 12
CYCLE_TICKS = 10
SHOWN_CYCLES = 80

HEAD = f"""
## Handshakes, as the RTL makes them
`make docs` draws these lines from the waveform of `tosaic run digits_tiny.tosa --on sim --config {CONFIG}
--compress nnr-stream --memory-latency {LATENCY_CYCLES}`, and a test compares them. A character is a cycle:
`_` nothing is offered, `=` it is offered and waits, `#` it is taken. Signals have the names of `tosaic verilog`,
without `valid` and `ready`.
"""


@dataclasses.dataclass(frozen=True)
class Line:
    """A handshake: what it hands over, and its signals; of several `valid` all, None: always ready."""

    text: str
    valid: str
    ready: str | None = None


@dataclasses.dataclass(frozen=True)
class Picture:
    """The handshakes of a unit, from a little before the one called `since` is taken for the `turn`-th time."""

    title: str
    says: str
    lines: tuple[Line, ...]
    since: str
    turn: int = 1
    before_cycles: int = 8


PICTURES = (
    Picture(
        "Sequencer",
        "It asks for the program as soon as there is room, and hands each instruction to the queue of its unit.",
        (
            Line("address of the program", "sequencer.axi__arvalid", "sequencer.axi__arready"),
            Line("beat of the program", "sequencer.axi__rvalid"),
            Line("instruction", "sequencer.program__valid", "sequencer.out__ready"),
            Line("to LOAD", "sequencer.dispatch.load__valid", "sequencer.load__ready"),
            Line("to ARRAY", "sequencer.dispatch.array__valid", "sequencer.array__ready"),
            Line("to VECTOR", "sequencer.dispatch.vector__valid", "sequencer.vector__ready"),
            Line("to STORE", "sequencer.dispatch.store__valid", "sequencer.store__ready"),
        ),
        "beat of the program",
        before_cycles=15,
    ),
    Picture(
        "LOAD",
        "Bursts are asked for one after the other; the next GO is taken while their beats are under way.",
        (
            Line("command", "load.commands__valid", "load.commands__ready"),
            Line("burst", "load.bursts__valid", "load.bursts__ready"),
            Line("address", "read_arbiter.load__arvalid", "read_arbiter.load__arready"),
            Line("beat", "read_arbiter.load__rvalid", "read_arbiter.load__rready"),
            Line("SIGNAL", "load.signals__valid", "load.signals__ready"),
        ),
        "command",
        turn=8,
    ),
    Picture(
        "ARRAY",
        "The walker has a slot in each cycle, and the sums leave row by row.",
        (
            Line("command", "array.commands__valid", "array.commands__ready"),
            Line("GO to the walker", "array.jobs__valid", "array.jobs__ready"),
            Line("slot", "array.slots__valid", "array.slots__ready"),
            Line("sums for VECTOR", "array.accumulators__valid", "array.accumulators__ready"),
        ),
        "GO to the walker",
    ),
    Picture(
        "VECTOR",
        "It takes a vector of sums with the first micro-operation. What follows a GO waits until it is complete.",
        (
            Line("command", "vector.commands__valid", "vector.commands__ready"),
            Line("sums of ARRAY", "vector.array_valid", "vector.accumulators__ready"),
        ),
        "command",
        turn=5,
    ),
    Picture(
        "STORE",
        "The address comes 3 cycles after the GO and the first beat 8; the queue is free for the next one.",
        (
            Line("command", "store.commands__valid", "store.commands__ready"),
            Line("burst", "store.bursts__valid", "store.bursts__ready"),
            Line("address", "m_axi_awvalid", "m_axi_awready"),
            Line("beat", "store.axi__wvalid", "store.axi__wready"),
            Line("answer", "m_axi_bvalid", "m_axi_bready"),
        ),
        "command",
        turn=2,
    ),
    Picture(
        "AXI4, reads",
        f"LOAD and the program share the channel. Data come {LATENCY_CYCLES} cycles after their address, "
        "or behind what is asked for before.",
        (
            Line("AR", "m_axi_arvalid", "m_axi_arready"),
            Line("R", "m_axi_rvalid", "m_axi_rready"),
            Line("RLAST", "m_axi_rvalid m_axi_rlast", "m_axi_rready"),
        ),
        "AR",
        before_cycles=3,
    ),
    Picture(
        "AXI4, writes",
        f"The answer comes {LATENCY_CYCLES} cycles after the last beat.",
        (
            Line("AW", "m_axi_awvalid", "m_axi_awready"),
            Line("W", "m_axi_wvalid", "m_axi_wready"),
            Line("WLAST", "m_axi_wvalid m_axi_wlast", "m_axi_wready"),
            Line("B", "m_axi_bvalid", "m_axi_bready"),
        ),
        "AW",
    ),
    Picture(
        "CABAC decoder",
        "It takes a beat when it needs its bits, and hands on words of W weights.",
        (
            Line("beat of the block", "load.decoder.words__valid", "load.decoder.decoder.words__ready"),
            Line("word of weights", "load.decoded__valid", "load.decoded__ready"),
        ),
        "beat of the block",
    ),
)


class _Signals:
    """The bits of a waveform, cycle by cycle."""

    def __init__(self, path: pathlib.Path):
        self._found = {v.full_name: v for v in pywellen.Waveform(str(path)).all_vars()}

    def bits(self, names: str | None, cycles: int) -> np.ndarray:
        """bool [cycles]: where all of them are set."""
        set_ = np.ones(cycles, bool)
        for name in (names or "").split():
            set_ &= self._bit((PORT if name.startswith("m_axi") else INSIDE) + name, cycles)
        return set_

    def _bit(self, name: str, cycles: int) -> np.ndarray:
        seen = np.zeros(cycles, bool)
        for time, value in self._found[name].tv:
            if 0 <= time < cycles * CYCLE_TICKS:
                # What changes within a cycle is what it ends with.
                seen[time // CYCLE_TICKS :] = int(value)
        return seen


def _drawn(picture: Picture, signals: _Signals, cycles: int) -> list[str]:
    taken = {}
    rows = {}
    for line in picture.lines:
        valid, ready = signals.bits(line.valid, cycles), signals.bits(line.ready, cycles)
        taken[line.text] = np.flatnonzero(valid & ready)
        rows[line.text] = np.where(valid & ready, "#", np.where(valid, "=", "_"))
    first = max(int(taken[picture.since][picture.turn - 1]) - picture.before_cycles, 0)
    shown = min(SHOWN_CYCLES, cycles - first)
    ruler = "".join(f"{'|' + str(first + at):<10}" for at in range(0, shown, 10)).rstrip()
    width = max(len(line.text) for line in picture.lines) + 2
    drawn = [f"{'cycle':{width}}{ruler}"]
    drawn += [f"{text:{width}}{''.join(row[first : first + SHOWN_CYCLES])}" for text, row in rows.items()]
    return drawn


def handshakes() -> str:
    """The part of the page between its marks."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.vcd"
        session = tosaic.Session(
            MODEL, "sim", CONFIG, compress="nnr-stream", memory_latency=LATENCY_CYCLES, wave=path
        )
        shape = session.inputs[0].shape
        session.run(np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8), check=True)
        signals, cycles = _Signals(path), session.stats["cycles"]
        parts = [HEAD]
        for picture in PICTURES:
            names = "; ".join(f"{line.text}: `{_common(line)}`" for line in picture.lines)
            drawn = "\n".join(_drawn(picture, signals, cycles))
            parts.append(f"**{picture.title}.** {picture.says}\n\n```\n{drawn}\n```\n\n{names}\n")
    return "\n".join(parts)


def _common(line: Line) -> str:
    """A handshake's name in the Verilog: its `valid` without that."""
    return line.valid.split()[-1].removesuffix("valid").rstrip("_")


def page() -> str:
    """The page as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + handshakes() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
