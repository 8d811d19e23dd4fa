"""`tosaic targets`: what a network runs on: kinds of targets, configurations, boards; `boards` and `configs`: parts of
that list."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tosaic.errors import InputError
from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.config_text import get_config
from tosaic.hw.spelling import meant

if TYPE_CHECKING:
    from tosaic.boards.board import Board

COLUMNS = 80
_RESOURCES = ("LUT", "multipliers", "RAM")
_ESTIMATE = "an estimate, without link and memory"
_ROW = Sequence[str]


def targets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A configuration or a board, to tell all that is known of it."),
    ] = None,
) -> None:
    """List what a network runs on: targets, configurations and boards; or tell all of one of them."""
    from tosaic.boards.catalogue import known_boards
    from tosaic.driver.targets import TARGETS

    if name is None:
        print(f"targets (--on): {', '.join(TARGETS)}, or a device's URI\n\nconfigurations (--config)")
        configs()
        print("\nboards (build, verilog --board)")
        boards()
        print("\nnext: tosaic targets NAME")
        return
    known = known_boards()
    if name in known:
        _tell(f"{name}: {known[name].title}", _of_board(known[name]))
        print(f"next: tosaic build {name} -o {name}/")
    elif name in CONFIGS:
        _tell(f"{name}: a configuration", _of_config(CONFIGS[name]))
        print(f"next: tosaic verilog --config {name} -o {name}/")
    else:
        there = [*CONFIGS, *known]
        raise InputError(
            f"there is no configuration or board {name!r}; {meant(name, there)}there are {', '.join(there)}"
        )


def configs() -> None:
    """List the configurations: multipliers, memories, bus, and what reads compressed weights."""
    rows = [("name", "array", "MAC/cycle", "activations", "weights", "bus", "decoders")]
    rows += [
        (
            config.name,
            f"{config.rows}x{config.columns}",
            str(config.macs_per_cycle),
            f"{config.am_bytes >> 10} KiB",
            f"{config.wm_bytes >> 10} KiB",
            f"{8 * config.word_bytes} bit",
            _decoders(config),
        )
        for config in CONFIGS.values()
    ]
    _print_table(rows, right=range(1, 6))


def boards() -> None:
    """List the boards: configuration, multipliers, clock, memory, tools; what has been routed, and the fit."""
    from tosaic.boards.catalogue import known_boards

    rows = [("name", "config", "MAC/cycle", "clock", "memory", "tools")]
    rows += [
        (
            board.name,
            _base(board.config),
            str(get_config(board.config).macs_per_cycle) if board.machine == "array" else "firmware",
            f"{board.clock_hz / 1e6:g} MHz",
            board.memory,
            board.family.tools,
        )
        for board in known_boards().values()
    ]
    _print_table(rows, right=(2, 3))
    if any(config.endswith("+") for _, config, *_ in rows):
        print("+: with sizes of its own, which `tosaic targets NAME` tells")
    print()
    placed = [(name, _placed(board)) for name, board in known_boards().items()]
    _print_table([("name", "the whole board by `tosaic build NAME`"), *placed], right=())
    print(f"\nthe accelerator in the part ({_ESTIMATE})")
    fits = [(name, *_fit(board)) for name, board in known_boards().items()]
    _print_table([("name", *_RESOURCES), *(row for row in fits if len(row) > 1)], right=())


def _placed(board: "Board") -> str:
    """Whether this design has been placed and routed by anybody."""
    routed = board.routed
    return f"routed at {routed.mhz} MHz, {routed.day}" if routed else "never placed"


def _fit(board: "Board") -> list[str]:
    """A bar for each of _RESOURCES; nothing of a board of which there is no estimate."""
    from tosaic.boards.area import board_estimate
    from tosaic.boards.report import fit_bar

    usage, room = board_estimate(board), board.capacity
    if usage is None:
        return []
    return [
        fit_bar(usage.lut, room.lut),
        fit_bar(usage.dsp, room.dsp),
        fit_bar(usage.ram_kbit, room.ram_kbit),
    ]


def _base(config: str) -> str:
    """A configuration's name; of one with sizes of its own that of the one that it changes, and a plus sign."""
    name, _, sizes = config.partition(",")
    return f"{name}+" if sizes else name


def _decoders(config: Config) -> str:
    """What a machine reads compressed weights with."""
    engines = config.cabac_engines
    found = [f"NNR, {engines} engine{'s' * (engines > 1)}"] if engines else []
    found += ["unpacker"] if config.unpackers else []
    return "; ".join(found) or "none"


def _of_config(config: Config) -> list[tuple[str, str]]:
    return [
        ("array", f"{config.rows}x{config.columns} multipliers, {config.macs_per_cycle} MAC/cycle"),
        ("memories", f"{config.am_bytes >> 10} KiB activations, {config.wm_bytes >> 10} KiB weights"),
        ("bus", f"{8 * config.word_bytes} bit"),
        ("decoders", _decoders(config)),
    ]


def _of_board(board: "Board") -> list[tuple[str, str]]:
    part = board.capacity
    return [
        ("part", board.part),
        (
            "has",
            f"{part.lut:,} LUT, {part.ff:,} flip-flops, {part.dsp} multipliers, {part.ram_kbit:,} kbit RAM",
        ),
        ("config", board.config.replace(",", ", ")),
        *_fit_facts(board),
        *(_of_config(get_config(board.config)) if board.machine == "array" else [("machine", board.machine)]),
        ("clock", f"{board.clock_hz / 1e6:g} MHz" + (f"; {board.notes}" if board.notes else "")),
        ("memory", board.memory),
        ("device", board.transport),
        ("bitstream", f"{board.family.bitstream_by}; {_placed(board)}"),
    ]


def _fit_facts(board: "Board") -> list[tuple[str, str]]:
    bars = _fit(board)
    lines = [("", f"{name:12}{bar}") for name, bar in zip(_RESOURCES, bars, strict=True)] if bars else []
    return [("fit", _ESTIMATE), *lines] if lines else []


def _tell(title: str, facts: Sequence[tuple[str, str]]) -> None:
    print(title)
    width = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        print(
            textwrap.fill(
                value,
                COLUMNS,
                initial_indent=f"  {name:{width}}",
                subsequent_indent=" " * (width + 2),
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def _print_table(rows: Sequence[_ROW], right: Sequence[int]) -> None:
    """Columns as wide as their cells, those of `right` to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (
            f"{cell:>{width}}" if column in right else f"{cell:{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join(cells).rstrip())
