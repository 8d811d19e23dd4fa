"""Faults planted in passes of the compiler, and graphs whose certificates show them.

A row of faulty_compiler.csv: a file, lines that occur once in it and what they become, and the graph that shows it.

    PYTHONPATH=tests/compiler python tests/certify/faulty_compiler.py 40 [seed]

adds faults until there are 40; those whose lines are gone go.
"""

import ast
import csv
import functools
import gc
import itertools
import os
import pathlib
import random
import resource
import sys
import types
from collections.abc import Callable, Iterator

import numpy as np
from changed_certified import network
from layer_graphs import LayerBuilder

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_suffix(".csv")
PASSES = ("legalize", "fuse", "cut", "tile", "place", "emit", "schedule")
CONFIG = "nano"
SEEN, SECONDS = "DIFFERENT", 4
Fault = tuple[str, str, str]
"""A file of the compiler, some lines, and what they become."""


def windows() -> Graph:
    """Strided and dilated convolutions, an average, TRANSPOSE."""
    build = LayerBuilder(5)
    x = build.input("x", (1, 9, 8, 6), DType.INT8)
    y = build.rescale(build.conv(x, 12, (3, 2), stride=(2, 1), pad=(1, 1, 1, 1)), DType.INT8, output_zp=3)
    y = build.rescale(build.conv(y, 1, (3, 3), depthwise=True, pad=(1, 1, 1, 1), input_zp=3), DType.INT8)
    zeros = [build.zero_point(DType.INT8), build.zero_point(DType.INT8)]
    window = {"kernel": [2, 3], "stride": [2, 2], "pad": [0, 1, 0, 0], "acc_type": DType.INT32}
    y = build.add("AVG_POOL2D", [y, *zeros], **window)
    build.output(build.add("TRANSPOSE", [y], perms=[0, 3, 1, 2]))
    return build.finish()


def words() -> Graph:
    """int16, in planes of bytes, and reductions of int32."""
    build = LayerBuilder(6)
    operands = [
        build.input("x", (1, 3, 5, 4), DType.INT16),
        build.random_constant((7, 2, 3, 4), DType.INT8, -128, 127),
        build.random_constant((7,), DType.INT48, -5000, 5000),
        build.zero_point(DType.INT16),
        build.zero_point(DType.INT8),
    ]
    window = {"pad": [1, 0, 1, 1], "stride": [1, 1], "dilation": [1, 1]}
    y = build.add("CONV2D", operands, **window, acc_type=DType.INT48, local_bound=False)
    scale = [build.constant(np.array([20000]), DType.INT16), build.constant(np.array([30]), DType.INT8)]
    zeros = [build.zero_point(DType.INT48), build.zero_point(DType.INT16)]
    kinds = {"scale32": False, "per_channel": False, "rounding_mode": "SINGLE_ROUND"}
    signs = {"input_unsigned": False, "output_unsigned": False}
    build.output(build.add("RESCALE", [y, *scale, *zeros], dtype=DType.INT16, **kinds, **signs))
    z = build.rescale(build.input("z", (2, 33, 6), DType.INT8), DType.INT32)
    build.output(build.add("REVERSE", [build.add("REDUCE_SUM", [z], axis=1)], axis=2))
    build.output(build.add("REDUCE_MAX", [z], axis=2))
    return build.finish()


def moved() -> Graph:
    """Data that move: CONCAT, PAD, SLICE, TILE, GATHER by constants, ARGMAX, MATMUL."""
    build = LayerBuilder(7)
    x, y = build.input("x", (2, 5, 6), DType.INT8), build.input("y", (2, 6, 7), DType.INT8)
    zeros = [build.zero_point(DType.INT8, 3), build.zero_point(DType.INT8, -2)]
    product = build.rescale(build.add("MATMUL", [x, y, *zeros]), DType.INT8)
    both = build.add("CONCAT", [product, build.add("REVERSE", [product], axis=1)], axis=2)
    part = build.add("SLICE", [both, build.shape((0, 1, 2)), build.shape((2, 3, 9))])
    wide = build.add("PAD", [part, build.shape((0, 0, 1, 2, 0, 3)), build.zero_point(DType.INT8, 5)])
    build.output(build.add("TILE", [wide, build.shape((1, 2, 1))]))
    build.output(build.add("ARGMAX", [both], axis=2))
    indices = build.constant(np.array([[4, 0, 2], [1, 1, 3]]), DType.INT32)
    build.output(build.add("GATHER", [both, indices]))
    return build.finish()


def chained() -> Graph:
    """Elementwise operators of int32 and bool that are fused."""
    build = LayerBuilder(8)
    x, y = (build.input(name, (3, 40), DType.INT32) for name in "xy")
    low = build.constant(np.full((1, 1), -1000), DType.INT32)
    high = build.constant(np.full((1, 1), 1000), DType.INT32)
    x, y = (build.add("MINIMUM", [build.add("MAXIMUM", [each, low]), high]) for each in (x, y))
    row = build.random_constant((1, 40), DType.INT32, -500, 500)
    total = build.add("SUB", [build.add("ADD", [x, row]), y])
    product = build.add("MUL", [total, x, build.constant(np.array([0]), DType.INT8)])
    larger = build.add("GREATER", [product, y])
    picked = build.add("SELECT", [larger, build.add("ABS", [total]), y])
    build.output(build.add("BITWISE_XOR", [picked, row]))
    build.output(build.add("REDUCE_ANY", [larger], axis=1))
    return build.finish()


GRAPHS: dict[str, Callable[[], Graph]] = {
    "chained": chained,
    "moved": moved,
    "words": words,
    "windows": windows,
    "network": network,
}


def read_table() -> list[tuple[Fault, str]]:
    """Faults, each with the graph that shows it."""
    with TABLE.open(newline="") as file:
        return [((row["file"], row["old"], row["new"]), row["graph"]) for row in csv.DictReader(file)]


def source(fault: Fault) -> str | None:
    """The file's text with the fault; None where its line is gone."""
    file, old, new = fault
    path = ROOT / file
    text = path.read_text() if path.exists() else ""
    return text.replace(f"\n{old}\n", f"\n{new}\n") if text.count(f"\n{old}\n") == 1 else None


_path = functools.lru_cache(os.path.realpath)


def plant(fault: Fault) -> bool:
    """Gives the functions of this process the fault; whether there is one to give it to."""
    changed, pending = (
        dict[tuple[str, int], types.CodeType](),
        [compile(source(fault) or "", fault[0], "exec")],
    )
    while pending:
        for constant in pending.pop().co_consts:
            if isinstance(constant, types.CodeType):
                changed[constant.co_qualname, constant.co_firstlineno] = constant
                pending.append(constant)
    planted = False
    # A command keeps what it imported from the collector, which would not tell of it.
    gc.unfreeze()
    for function in [each for each in gc.get_objects() if type(each) is types.FunctionType]:
        old = function.__code__
        if _path(old.co_filename) != str(ROOT / fault[0]):
            continue
        new = changed.get((old.co_qualname, old.co_firstlineno))
        if new is not None and new.co_freevars == old.co_freevars and new.co_code != old.co_code:
            function.__code__, planted = new, True
        elif new is not None and new.co_freevars == old.co_freevars and new.co_consts != old.co_consts:
            function.__code__, planted = new, True
    return planted


def in_fork(judge: Callable[[], str]) -> str:
    """What `judge` says in a process of its own; the name of an exception, "" if it takes too long."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        try:
            said = judge()
        except BaseException as error:
            said = type(error).__name__
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return said


@functools.cache
def compiled(name: str) -> bytes:
    """The image of a graph's program, by a compiler without a fault."""
    return bytes(compile_graph(GRAPHS[name](), get_config(CONFIG)).image)


def verdict(fault: Fault, name: str) -> str:
    """What the certificate of a graph says that is compiled by a compiler with the fault."""

    def judge() -> str:
        graph, right = GRAPHS[name](), compiled(name)
        if not plant(fault):
            return "not planted"
        program = compile_graph(graph, get_config(CONFIG))
        if program.image == right:
            return "the same program"
        return tosaic.certify(graph, program, keyed=False).verdict

    return in_fork(judge)


def executed(name: str) -> set[tuple[str, int]]:
    """Files and lines of the passes that compiling a graph executes."""
    graph, found = GRAPHS[name](), set[tuple[str, int]]()
    root = str(ROOT / "compiler")

    def trace(frame: types.FrameType, event: str, _: object) -> object:
        path = _path(frame.f_code.co_filename)
        if not path.startswith(root):
            return None
        lines = found.add

        def line(inner: types.FrameType, what: str, _: object) -> object:
            lines((path, inner.f_lineno))
            return line

        return line

    sys.settrace(trace)
    try:
        compile_graph(graph, get_config(CONFIG))
    finally:
        sys.settrace(None)
    return found


def drawn(seed: int, lines: list[tuple[str, int]]) -> Iterator[tuple[Fault, int]]:
    """Small changes of random ones of these lines: an operator, a number, a condition."""
    rng = random.Random(seed)
    swaps = [
        (" + ", " - "),
        (" - ", " + "),
        (" < ", " <= "),
        (" > ", " >= "),
        (" == ", " != "),
        ("[0]", "[-1]"),
    ]
    swaps += [(" * ", " + "), (" // ", " * "), ("if ", "if not "), (" and ", " or "), ("min(", "max(")]
    while True:
        path, number = rng.choice(lines)
        text = pathlib.Path(path).read_text().split("\n")
        line, (old, new) = text[number - 1], rng.choice(swaps)
        if line.count(old) != 1 or text.count(line) != 1 or not any(f"/{part}/" in path for part in PASSES):
            continue
        fault = str(pathlib.Path(path).relative_to(ROOT)), line, line.replace(old, new)
        try:
            ast.parse(source(fault) or "(")
        except SyntaxError:
            continue
        yield fault, number


def known() -> Iterator[tuple[Fault, int]]:
    """Those of bench/faults.csv, and the number of the line that each changes."""
    with (ROOT / "bench/faults.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            fault = row["file"], row["old"], row["new"]
            if row["file"].split("/")[1] in PASSES and (text := source(fault)) is not None:
                pairs = zip((ROOT / fault[0]).read_text().split("\n"), text.split("\n"), strict=True)
                yield fault, next(number for number, (old, new) in enumerate(pairs, 1) if old != new)


def main() -> None:
    """Fills the table."""
    wanted, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rows = [(fault, graph) for fault, graph in (read_table() if TABLE.exists() else []) if source(fault)]
    reached = {name: executed(name) for name in GRAPHS if compiled(name)}
    lines = sorted(set().union(*reached.values()))
    for fault, number in itertools.chain(known(), drawn(seed, lines)):
        if len(rows) >= wanted:
            break
        if any(fault[:2] == each[:2] for each, _ in rows):
            continue
        for name in [name for name in GRAPHS if (str(ROOT / fault[0]), number) in reached[name]][:2]:
            said = verdict(fault, name)
            print(
                f"{name}: {said or 'too long'}: {fault[0]}: {fault[2].splitlines()[-1].strip()}", flush=True
            )
            if said == SEEN:
                rows.append((fault, name))
                with TABLE.open("w", newline="") as file:
                    writer = csv.writer(file, lineterminator="\n")
                    writer.writerow(("file", "old", "new", "graph"))
                    writer.writerows((*fault, graph) for fault, graph in rows)
            if said not in ("EQUAL", "the same program"):
                break


if __name__ == "__main__":
    main()
