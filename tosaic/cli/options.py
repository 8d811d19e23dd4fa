"""Options that several verbs share."""

import pathlib
import re
from typing import TYPE_CHECKING, Annotated

import typer

from tosaic.errors import InputError

if TYPE_CHECKING:
    from tosaic.compiler.importers.bindings import Bindings

Config = Annotated[
    str,
    typer.Option(
        "--config", help="Configuration: a name that `tosaic targets` lists, or a TOML file of sizes."
    ),
]
ConfigOrProgram = Annotated[
    str | None,
    typer.Option("--config", help="Configuration (default: base, or what a .tsc file was compiled for)."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=SIZE",
        help="Change a size of the configuration: rows=8, am_bytes=512K; may be repeated.",
    ),
]
On = Annotated[
    str,
    typer.Option(
        "--target",
        "--on",
        metavar="TARGET",
        help="golden, emulator, sim (Verilated RTL), cocotb, or a device's URI (serial:///dev/ttyUSB1).",
    ),
]
DropDeadChannels = Annotated[
    bool,
    typer.Option(
        "-O2", help="Also remove channels that carry nothing (exact; fewer multiplications are left)."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the traceback of an error.")]
Bandwidth = Annotated[
    float | None,
    typer.Option(
        "--memory-bandwidth",
        metavar="B",
        min=0.01,
        help="External memory, bytes per cycle, also 1.9 or 0.25 (default: the bus width).",
    ),
]
Latency = Annotated[
    int | None,
    typer.Option("--memory-latency", metavar="N", min=0, help="External memory, cycles (default: 50)."),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse inputs for which the specification leaves the outputs open."),
]
StatsFile = Annotated[
    pathlib.Path | None, typer.Option("--stats", metavar="FILE.json", help="Write measurements as JSON.")
]
ReportFile = Annotated[
    pathlib.Path | None, typer.Option("--report", metavar="FILE.html", help="Write a report page.")
]
Open = Annotated[
    bool,
    typer.Option("--open", help="Open the page in a browser; it is report.html, if you name no other."),
]
TraceFile = Annotated[
    pathlib.Path | None,
    typer.Option("--trace", metavar="FILE.json", help="Write a timeline of the units for ui.perfetto.dev."),
]
BundleFile = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--bundle",
        metavar="FILE.zip",
        help="Write all that the run was made of into one file; `tosaic run FILE.zip` makes the run again.",
    ),
]
MaxCycles = Annotated[
    int | None,
    typer.Option(
        "--max-cycles", metavar="N", min=1, help="End a run that takes longer: a loop may be endless."
    ),
]
Random = Annotated[
    int | None,
    typer.Option("--random", metavar="SEED", min=0, help="Make up the inputs that are missing."),
]
WaveFile = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--wave",
        metavar="FILE.fst|FILE.vcd",
        help="With --on sim: write the waveform of every signal, for GTKWave or Surfer.",
    ),
]
WaveCycles = Annotated[
    str | None,
    typer.Option("--wave-cycles", metavar="FIRST:END", help="Only these cycles of the run, from 0 on."),
]
WaveLayer = Annotated[
    str | None,
    typer.Option("--wave-layer", metavar="NAME", help="Only cycles in which a unit works on this layer."),
]
Compress = Annotated[
    str | None,
    typer.Option(
        "--compress",
        metavar="METHOD",
        help="nnr: store weights as NNR streams where that is smaller; the accelerator decodes them once. "
        "nnr-stream: it decodes them in every run. fast: pack weights that then load in fewer cycles at "
        "--memory-bandwidth.",
    ),
]
Batch = Annotated[
    int,
    typer.Option(
        "--batch",
        metavar="N",
        min=1,
        help="Samples at once, one after the other along the first axis of each array; one fetch of the weights serves "
        "all.",
    ),
]
_SHAPE_HELP = (
    "Of an imported model: size of a symbolic dimension (batch=1), or an input's shape (x=1,3,224,224); of a NumPy "
    "function (FILE.py:FUNCTION): an argument's type and shape (x=uint8[240,320,3])."
)
Shape = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        "--input",
        metavar="NAME=SIZES",
        help=_SHAPE_HELP,
    ),
]
RunShape = Annotated[list[str] | None, typer.Option("--shape", metavar="NAME=SIZES", help=_SHAPE_HELP)]
"""Option of a verb whose `--input` gives arrays."""
Value = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        metavar="NAME=NUMBERS",
        help="An input that always has this value (sr=16000): it becomes a constant, and unused operators are removed.",
    ),
]
CheckSource = Annotated[
    bool,
    typer.Option(
        "--check-source",
        help="Compare the outputs with those of the network that the model was made of; exit 3 where one is too far "
        "away: 3 dB below what quantize measured, or below DB with --check-source=DB.",
    ),
]
CheckSourceDb = Annotated[float | None, typer.Option("--check-source-db", metavar="DB", hidden=True)]
"""What `--check-source=DB` is made of before it is parsed: an option has a value always or never."""
Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="MODEL",
        help="The network to compare with, where the file beside the model (.quant.json) does not say.",
    ),
]

Processes = Annotated[int, typer.Option("-j", "--jobs", metavar="N", min=1, help="Number of jobs at a time.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Run on the workers of a Dask scheduler, as tcp://host:8786."
    ),
]
Records = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--records",
        metavar="FILE.jsonl",
        help="Keep what is done, a line for each job; a second run goes on where this one stops.",
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", min=0.1, help="Seconds that each job may take."),
]


def sized(config: str, sizes: list[str] | None) -> str:
    """The configuration with the sizes of `--set` options, as `find_config` takes it."""
    return ",".join([config, *(sizes or ())])


def bindings(shapes: list[str] | None, values: list[str] | None) -> "Bindings":
    """What `--shape` and `--value` options bind."""
    from tosaic.compiler.importers.bindings import Bindings

    return Bindings(_shapes(shapes), _values(values))


def typed_shape(text: str) -> bool:
    """Whether an option's value tells type and shape of a function's argument, as uint8[240,320,3]."""
    return re.fullmatch(r"(bool|u?int\d+)(\[[\d, ]*\])?", text) is not None


def _shapes(texts: list[str] | None) -> dict[str, int | list[int] | str]:
    """What `--shape` options bind: one number is a dimension, several are a shape, a type with sizes an argument."""
    found: dict[str, int | list[int] | str] = {}
    for text in texts or []:
        name, _, sizes = text.rpartition("=")
        if name and typed_shape(sizes):
            found[name] = sizes
            continue
        try:
            numbers = [int(size) for size in sizes.rstrip(",").split(",")]
        except ValueError:
            numbers = []
        if not name or not numbers or min(numbers) < 1:
            raise InputError(f"--shape {text}: write NAME=SIZE or NAME=SIZE,SIZE,... with positive sizes")
        found[name] = numbers if "," in sizes else numbers[0]
    return found


def _values(texts: list[str] | None) -> dict[str, list[float]]:
    """What `--value` options bind."""
    found: dict[str, list[float]] = {}
    for text in texts or []:
        name, _, numbers = text.rpartition("=")
        try:
            found[name] = [_number(number) for number in numbers.split(",")]
        except ValueError:
            name = ""
        if not name:
            raise InputError(f"--value {text}: write NAME=NUMBER or NAME=NUMBER,NUMBER,...")
    return found


def _number(text: str) -> float:
    # An integer stays one: floats do not hold all of int64.
    return int(text) if text.strip().lstrip("+-").isdigit() else float(text)
