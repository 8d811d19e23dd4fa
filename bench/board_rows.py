"""Builds boards and writes their rows into docs/records/boards.md: `bench/board_rows.py [DESIGN ...]` (make boards).

A design is a board, BOARD/CONFIGURATION, or either with a part of the board in use: BOARD+PART/CONFIGURATION. What a
build gave is kept in bench/boards.csv with the commit and a hash of all that went into it: Verilog, constraints,
floorplan, tools. A design with the hash of its row is not built again; rows of other designs stay as they are.
`--stale` only lists what has changed since. Exit code 1 if a design does not fit, is not routed, or misses its clock.
"""

import argparse
import csv
import dataclasses
import hashlib
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).parent))

from commits import dated  # noqa: E402 (the path comes first)

from tosaic.boards.board import Board, Family  # noqa: E402
from tosaic.boards.catalogue import get_board  # noqa: E402
from tosaic.boards.ecp5.routing import BY_WIRE_LENGTH, SETTINGS  # noqa: E402
from tosaic.boards.ecpix5 import WIDE  # noqa: E402
from tosaic.boards.flow import SEED, Built, build_project  # noqa: E402
from tosaic.boards.project import Project, make_project  # noqa: E402
from tosaic.boards.tools import ToolError, check_tools, tool_version  # noqa: E402
from tosaic.boards.ulx3s import LEANER  # noqa: E402
from tosaic.hw.config_text import LEAN, get_config  # noqa: E402
from tosaic.sim.cache import make_cache_directory  # noqa: E402

DESIGNS = (
    "ulx3s-85f",
    "ulx3s-85f/small",
    f"ulx3s-85f+block_ram/small,{LEANER}",
    "ulx3s-45f",
    "ecpix5-85f",
    "ecpix5-85f/small",
    f"ecpix5-85f/base,{WIDE}",
    "icebreaker",
    "tang-nano-20k",
    "arty-a7-35t",
    "arty-a7-100t",
    "pynq-z2",
    f"pynq-z2/base,rows=8,am_bytes=128K,{LEAN}",
    "pynq-z2/small",
    "kv260",
    "de10-nano",
)
"""All that `make boards` builds."""
RECORDS = pathlib.Path("bench/boards.csv")
PAGE = pathlib.Path("docs/records/boards.md")
BEGIN, END = "<!-- make boards -->", "<!-- end of make boards -->"
HEAD = "| design | part | LUT | FF | multipliers | block RAM | clock | commit, day |\n|---|---|---|---|---|---|---|---|"
_TOOLS = {
    Family.ECP5: ("yosys", "nextpnr-ecp5"),
    Family.ICE40: ("yosys", "nextpnr-ice40"),
    Family.GOWIN: ("yosys", "nextpnr-himbaechel-gowin", "gowin_pack"),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the records; texts as in the file. `key`: hash of what was built, empty where nobody kept it. `ended`:
    in words, how far the tools came."""

    design: str
    commit: str
    key: str
    lut: str
    ff: str
    dsp: str
    ram_kbit: str
    fmax_mhz: str
    seed: str
    ended: str


FIELDS = tuple(field.name for field in dataclasses.fields(Row))


def board_of(design: str) -> Board:
    """ValueError for a board or a configuration that there is not."""
    names, _, config = design.partition("/")
    name, *parts = names.split("+")
    board = get_board(name).with_parts(*parts) if parts else get_board(name)
    return board.with_config(get_config(config).name) if config else board


def key_of(project: Project) -> str:
    """A hash of all that decides what a build gives."""
    board = project.board
    tools = [f"{tool} {tool_version(tool)}" for tool in _TOOLS.get(board.family, ("yosys",))]
    placement = (str(board.floorplan), str(board.logic_ps), str((SETTINGS, BY_WIRE_LENGTH)))
    parts = [*project.modules.values(), *project.files.values(), *placement, *tools]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def read_rows(path: pathlib.Path) -> dict[str, Row]:
    """Returns the rows by design, in the file's order."""
    with path.open(newline="") as file:
        return {line["design"]: Row(**line) for line in csv.DictReader(file)}


def write_rows(rows: dict[str, Row], path: pathlib.Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(dataclasses.asdict(row) for row in rows.values())


def table(rows: dict[str, Row]) -> str:
    """Markdown, one line for each row that has figures."""
    lines = []
    for row in rows.values():
        board = board_of(row.design)
        room = board.capacity
        what = "accelerator" if board.family.has_processor else "the whole board"
        used = [
            f"{int(count):,} ({100 * int(count) / there:.0f} %)"
            for count, there in ((row.lut, room.lut), (row.ff, room.ff), (row.dsp, room.dsp))
        ]
        used.append(f"{int(row.ram_kbit):,} of {room.ram_kbit:,} kbit")
        name, _, config = row.design.partition("/")
        title = f"`{name}`, {what}, `{config or board.config}`"
        lines.append(
            f"| {title} | {board.part} | {' | '.join(used)} | {_clock(row, board)} | {dated(row.commit)} |"
        )
    return "\n".join([HEAD, *lines])


def _clock(row: Row, board: Board) -> str:
    if not row.fmax_mhz:
        return row.ended
    fmax, wanted = float(row.fmax_mhz), board.clock_hz / 1e6
    slack = 1e3 / wanted - 1e3 / fmax
    ended = f"; {row.ended}" if row.ended else ""
    return f"**{fmax:.1f} MHz, slack {slack:.2f} ns at {wanted:g} MHz**, seed {row.seed}{ended}"


def page_with(text: str, rows: dict[str, Row]) -> str:
    """The page `text` with the table of `rows` in its place."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("designs", nargs="*", metavar="DESIGN", default=[])
    parser.add_argument("--stale", action="store_true")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--records", type=pathlib.Path, default=RECORDS)
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/boards"))
    chosen = parser.parse_args()
    failed = False
    for design in chosen.designs or DESIGNS:
        project = make_project(board_of(design))
        key, old = key_of(project), read_rows(chosen.records).get(design)
        if old is not None and (old.key, old.seed) == (key, str(chosen.seed)):
            print(f"{design}: as on commit {old.commit}")
        elif chosen.stale:
            print(f"{design}: {'has changed since' if old else 'not built yet'} {old.commit if old else ''}")
        else:
            try:
                row, good = _built(design, project, key, chosen.seed, chosen.output)
            except ToolError as error:
                print(f"{design}: {error}; its row stays")
                failed = True
                continue
            failed |= not good
            rows = read_rows(chosen.records)
            rows[design] = row
            write_rows(rows, chosen.records)
            print(f"{design}: {_clock(row, project.board)}", flush=True)
    if not chosen.stale:
        chosen.page.write_text(page_with(chosen.page.read_text(), read_rows(chosen.records)))
    return int(failed)


def _built(design: str, project: Project, key: str, seed: int, output: pathlib.Path) -> tuple[Row, bool]:
    """The design's new row, and whether it fits and is as fast as it must be."""
    folder = output / hashlib.sha256(design.encode()).hexdigest()[:8] / project.board.name
    folder.mkdir(parents=True, exist_ok=True)
    check_tools(project.board.family)
    said = ""

    def progress(what: str, detail: str) -> None:
        nonlocal said
        if what != said:
            print(f"{design}: {what} {detail}".rstrip(), flush=True)
        said = what

    built = build_project(project, folder, make_cache_directory() / "boards", progress, seed)
    return _row(design, built, project.board, key, seed)


def _row(design: str, built: Built, board: Board, key: str, seed: int) -> tuple[Row, bool]:
    usage = built.usage
    fast = usage.slack_ns is None or usage.slack_ns >= 0
    if not built.fits:
        ended = "synthesis; does not fit"
    elif built.bitstream is None:
        ended = "estimate of synthesis; Vivado places"
    else:
        ended = "" if fast else "too slow"
    commit = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    row = Row(
        design=design,
        commit=commit,
        key=key,
        lut=str(usage.lut),
        ff=str(usage.ff),
        dsp=str(usage.dsp),
        ram_kbit=str(usage.ram_kbit),
        fmax_mhz="" if usage.fmax_hz is None else f"{usage.fmax_hz / 1e6:.2f}",
        seed=str(seed),
        ended=ended,
    )
    return row, built.fits and fast


if __name__ == "__main__":
    sys.exit(main())
