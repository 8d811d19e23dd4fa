"""Draws the pictures of the how-tos: `python bench/how_to_pictures.py` writes docs/figures/howto_*.svg.

A picture is boxes on a grid and arrows between them. A test compares the files with what this script draws.
"""

import pathlib
from dataclasses import dataclass, field
from html import escape

FOLDER = pathlib.Path(__file__).parents[1] / "docs/figures"
_WIDTH, _HEIGHT, _GAP, _RISE, _EDGE = 172, 58, 40, 30, 12
"""Pixels: a box, the space between columns and between rows, and the margin."""
_STYLE = (
    "rect{stroke-width:1.5}.page{fill:#fff}.file{fill:#faf1de;stroke:#c08a2b}.tool{fill:#e3ebf5;stroke:#2f6fb3}"
    ".part{fill:#eef1f4;stroke:#6b7c8c}.good{fill:#e2f2e6;stroke:#3a8f55}"
    "path{stroke:#6b7c8c;stroke-width:2;fill:none;marker-end:url(#head)}.back{marker-start:url(#tail)}"
    "text{fill:#44525f;text-anchor:middle;font-size:12px}.title{font-weight:600;font-size:14px;fill:#22405f}"
)
_HEADS = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    '<path d="M0 0L8 4L0 8z" style="fill:#6b7c8c;stroke:none;marker-end:none"/></marker>'
    '<marker id="tail" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
    '<path d="M8 0L0 4L8 8z" style="fill:#6b7c8c;stroke:none;marker-end:none"/></marker>'
)

_BACK = ' class="back"'


@dataclass(frozen=True)
class Box:
    """A box: its column and row, its kind (file, tool, part or good), its title and up to two lines of text."""

    column: float
    row: float
    kind: str
    title: str
    lines: tuple[str, ...] = ()
    columns: int = 1

    @property
    def left(self) -> float:
        """Pixels from the left edge."""
        return _EDGE + self.column * (_WIDTH + _GAP)

    @property
    def width(self) -> float:
        """Pixels, over all its columns."""
        return self.columns * (_WIDTH + _GAP) - _GAP

    @property
    def top(self) -> float:
        """Pixels from the upper edge."""
        return _EDGE + self.row * (_HEIGHT + _RISE)

    def drawn(self) -> str:
        """The box as SVG."""
        middle = self.left + self.width / 2
        first = self.top + _HEIGHT / 2 + 5 - 8 * len(self.lines)
        texts = [f'<text class="title" x="{middle:g}" y="{first:g}">{escape(self.title)}</text>']
        texts += [
            f'<text x="{middle:g}" y="{first + 17 + 14 * place:g}">{escape(line)}</text>'
            for place, line in enumerate(self.lines)
        ]
        shape = f'<rect class="{self.kind}" x="{self.left:g}" y="{self.top:g}" width="{self.width:g}" '
        return f'{shape}height="{_HEIGHT}" rx="7"/>' + "".join(texts)


@dataclass(frozen=True)
class Picture:
    """Boxes by name, and arrows `from>to`, or `from<>to` for both ways."""

    about: str
    boxes: dict[str, Box]
    arrows: tuple[str, ...] = field(default=())

    def drawn(self) -> str:
        """The picture as an SVG file."""
        wide = max(box.left + box.width for box in self.boxes.values()) + _EDGE
        high = max(box.top + _HEIGHT for box in self.boxes.values()) + _EDGE
        parts = [_arrow(self.boxes, arrow) for arrow in self.arrows]
        parts += [box.drawn() for box in self.boxes.values()]
        size = f'width="{wide:g}" height="{high:g}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {wide:g} {high:g}" role="img" '
            f'font-family="system-ui,sans-serif"><title>{escape(self.about)}</title>\n'
            f'<style>{_STYLE}</style><defs>{_HEADS}</defs><rect class="page" {size}/>\n'
            + "\n".join(parts)
            + "\n</svg>\n"
        )


def _arrow(boxes: dict[str, Box], arrow: str) -> str:
    """A line from one box to another: straight where they share a row or a column, else with two corners."""
    both = "<>" in arrow
    start, end = (boxes[name] for name in arrow.split("<>" if both else ">"))
    from_middle, to_middle = start.top + _HEIGHT / 2, end.top + _HEIGHT / 2
    if start.row == end.row or end.left > start.left + start.width:
        if end.left > start.left:
            across, target = start.left + start.width, end.left
        else:
            across, target = start.left, end.left + end.width
        bend = (across + target) / 2
        path = f"M{across:g} {from_middle:g}H{bend:g}V{to_middle:g}H{target:g}"
    else:
        narrow = min(start, end, key=lambda box: box.width)
        middle = narrow.left + narrow.width / 2
        down = end.row > start.row
        path = f"M{middle:g} {start.top + (_HEIGHT if down else 0):g}V{end.top + (0 if down else _HEIGHT):g}"
    return f'<path{_BACK if both else ""} d="{path}"/>'


PICTURES = {
    "onnx": Picture(
        "From net.onnx and calibration data to integers, a report and an accuracy",
        {
            "net": Box(0, 0, "file", "net.onnx", ("floats",)),
            "calib": Box(0, 1, "file", "calib.npz", ("samples, to find ranges",)),
            "quantize": Box(1, 0, "tool", "tosaic quantize", ("SQNR by layer",)),
            "tosa": Box(2, 0, "file", "net.tosa", ("integers",)),
            "run": Box(3, 0, "tool", "tosaic run --check", ("compares with golden",)),
            "report": Box(4, 0, "good", "report.html", ("cycles, slow layers",)),
            "test": Box(2, 1, "file", "test.npz", ("other samples, labels",)),
            "evaluate": Box(3, 1, "tool", "tosaic evaluate", ("against net.onnx",)),
            "accuracy": Box(4, 1, "good", "accuracy", ("integers and floats",)),
        },
        ("net>quantize", "calib>quantize", "quantize>tosa", "tosa>run", "run>report", "tosa>evaluate")
        + ("test>evaluate", "evaluate>accuracy"),
    ),
    "pytorch": Picture(
        "What from_torch makes of a module, and what a session gives",
        {
            "module": Box(0, 0, "file", "torch.nn.Module", ("your network",)),
            "example": Box(0, 1, "file", "example inputs", ("fix the shapes",)),
            "samples": Box(0, 2, "file", "calibration", ("finds the ranges",)),
            "from": Box(1, 1, "tool", "tosaic.from_torch", ("exports, quantizes,", "compiles")),
            "session": Box(2, 1, "part", "Session", ("reals in, reals out",)),
            "run": Box(3, 0, "good", "outputs", ("of emulator, RTL or board",)),
            "stats": Box(3, 1, "good", "session.stats", ("cycles, bytes, layers",)),
            "report": Box(3, 2, "good", "report.html", ("which layers are slow",)),
        },
        ("module>from", "example>from", "samples>from", "from>session", "session>run", "session>stats")
        + ("session>report",),
    ),
    "tflite": Picture(
        "A quantized TFLite model runs as it is; a float one is quantized first",
        {
            "int8": Box(0, 0, "file", "net.tflite", ("integers",)),
            "run": Box(3, 0, "tool", "tosaic run --check", ("its own integers",)),
            "float": Box(0, 1, "file", "net.tflite", ("floats",)),
            "calib": Box(0, 2, "file", "calib.npz", ("samples",)),
            "quantize": Box(1, 1, "tool", "tosaic quantize"),
            "tosa": Box(2, 1, "file", "net.tosa", ("integers",)),
            "cycles": Box(4, 0, "good", "cycles", ("bit-exact with golden",)),
            "evaluate": Box(3, 1, "tool", "tosaic evaluate", ("against LiteRT",)),
            "accuracy": Box(4, 1, "good", "accuracy", ("on your data",)),
        },
        ("int8>run", "float>quantize", "calib>quantize", "quantize>tosa", "tosa>run", "tosa>evaluate")
        + ("run>cycles", "evaluate>accuracy"),
    ),
    "accuracy": Picture(
        "Ways to more accuracy, from cheap to dear",
        {
            "samples": Box(0, 0, "good", "better samples", ("costs nothing",)),
            "ranges": Box(1, 0, "good", "--method", ("other ranges: nothing",)),
            "layer": Box(2, 0, "file", "--keep-int16", ("one layer: its cycles",)),
            "target": Box(3, 0, "file", "--target-sqnr", ("as many layers as needed",)),
            "all": Box(4, 0, "tool", "--activations int16", ("about twice the cycles",)),
        },
        ("samples>ranges", "ranges>layer", "layer>target", "target>all"),
    ),
    "board": Picture(
        "A board: the host's link, the bridge, the accelerator and its memory, and who makes them",
        {
            "host": Box(0, 0, "part", "host", ("tosaic run, or C",)),
            "bridge": Box(1, 0, "part", "bridge", ("UART, Ethernet",)),
            "npu": Box(2, 0, "good", "accelerator", ("registers: AXI4-Lite",)),
            "memory": Box(3, 0, "file", "external memory", ("AXI4: SDRAM, block RAM",)),
            "verilog": Box(2, 1, "tool", "tosaic verilog", ("for your own design",)),
            "build": Box(1, 2, "tool", "tosaic build BOARD", ("makes all three, as a bitstream",), 3),
            "virtual": Box(0, 1, "tool", "virtual://BOARD", ("the board, simulated",)),
        },
        ("host<>bridge", "bridge<>npu", "npu<>memory", "verilog>npu", "virtual>host"),
    ),
    "board_not_listed": Picture(
        "Three ways to a board that is not listed",
        {
            "explore": Box(0, 1, "tool", "tosaic explore", ("what fits the part?",)),
            "config": Box(1, 1, "file", "--config", ("a machine that fits",)),
            "verilog": Box(2, 0, "part", "only the Verilog", ("AXI4 in your design",)),
            "package": Box(2, 1, "part", "your own package", ("one Board, an entry point",)),
            "here": Box(2, 2, "part", "this repository", ("a file in boards/",)),
            "driver": Box(3, 0, "good", "UIO or the C kit", ("you connect the bus",)),
            "build": Box(3, 1.5, "good", "tosaic build", ("and virtual://NAME",)),
        },
        ("explore>config", "config>verilog", "config>package", "config>here", "verilog>driver")
        + ("package>build", "here>build"),
    ),
    "c": Picture(
        "From a network to a C program that runs it",
        {
            "model": Box(0, 0, "file", "digits.tosa"),
            "compile": Box(1, 0, "tool", "tosaic compile", ("-o digits.c",)),
            "data": Box(2, 0, "file", "digits.c, digits.h", ("program and weights",)),
            "runtime": Box(2, 1, "file", "tosaic.c", ("runtime, no malloc",)),
            "app": Box(2, 2, "file", "app.c", ("yours",)),
            "cc": Box(3, 1, "tool", "cc", ("any C99 compiler",)),
            "chip": Box(4, 1, "good", "app", ("writes, runs, reads",)),
        },
        ("model>compile", "compile>data", "data>cc", "runtime>cc", "app>cc", "cc>chip"),
    ),
    "ci": Picture(
        "A test with the fixture cosim in CI",
        {
            "push": Box(0, 0, "part", "git push"),
            "test": Box(1, 0, "tool", "fixture cosim", ("in your pytest",)),
            "golden": Box(2, 0, "part", "golden"),
            "target": Box(2, 1, "part", "emulator or RTL"),
            "equal": Box(3, 0, "good", "equal?", ("else one line: where",)),
            "cycles": Box(3, 1, "good", "slower?", ("tosaic-cycles.json",)),
            "cache": Box(1, 1, "file", "TOSAIC_CACHE", ("kept simulators",)),
        },
        ("push>test", "test>golden", "test>target", "cache>target", "golden>equal", "target>equal")
        + ("target>cycles",),
    ),
    "compressed": Picture(
        "Three ways to load compressed weights: what --compress may be",
        {
            "nnr": Box(0, 0, "tool", "nnr", ("small file",)),
            "boot": Box(1, 0, "part", "boot part", ("decodes once",)),
            "memory": Box(2, 0, "file", "external memory", ("streams and weights",)),
            "run": Box(3, 0, "good", "each run", ("as fast as ever",)),
            "stream": Box(0, 1, "tool", "nnr-stream", ("small memory",)),
            "coded": Box(2, 1, "file", "external memory", ("streams only",)),
            "slow": Box(3, 1, "part", "each run", ("decodes all: slower",)),
            "fast": Box(0, 2, "tool", "fast", ("slow memory",)),
            "packed": Box(2, 2, "file", "external memory", ("packed weights",)),
            "load": Box(3, 2, "good", "each run", ("unpacks as they come",)),
        },
        ("nnr>boot", "boot>memory", "memory>run", "stream>coded", "coded>slow", "fast>packed", "packed>load"),
    ),
    "shared_board": Picture(
        "Clients take turns at a board that tosaic serve shares",
        {
            "first": Box(0, 0, "part", "client", ("--on tcp://host:7626",)),
            "second": Box(0, 1, "part", "client", ("needs the token, too",)),
            "serve": Box(1, 0.5, "tool", "tosaic serve", ("one turn after the other",)),
            "board": Box(2, 0.5, "good", "board", ("erased between clients",)),
        },
        ("first<>serve", "second<>serve", "serve<>board"),
    ),
}
"""Pictures by the page's name: docs/howto_NAME.md."""


def main() -> None:
    """Writes all pictures."""
    for name, picture in PICTURES.items():
        (FOLDER / f"howto_{name}.svg").write_text(picture.drawn())


if __name__ == "__main__":
    main()
