"""What the nightly has beside its tests: long jobs, cut into parts that start from nothing.

A part takes at most 8 minutes on two cores. What cannot be cut (a board's routing) is `whole`: `make nightly` runs it,
a slice never does.
"""

import dataclasses
import os
import pathlib
import tomllib

import suite_extensions
from board_rows import DESIGNS

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = ".venv/bin/python"
JOBS = int(os.environ.get("JOBS", 2))
"""Processes of a part, and of the tests."""
SUITE_BATCHES = (
    "conv2d",
    "conv3d",
    "depthwise_conv2d",
    "transpose_conv2d",
    "rescale",
    "avg_pool2d max_pool2d",
    "pad concat reverse slice",
    "reshape resize transpose tile",
    "reduce_all reduce_any reduce_max reduce_min reduce_sum argmax",
    "cond_if while_loop cast",
    "add arithmetic_right_shift bitwise_and bitwise_or bitwise_xor clamp clz const equal gather greater greater_equal "
    "identity intdiv abs bitwise_not",
    "logical_and logical_left_shift logical_not logical_or logical_right_shift logical_xor matmul maximum minimum mul "
    "negate scatter select sub table",
)
"""Operators of TOSA's conformance suite, by names of its generator: some 200 to 500 tests each."""
FUZZ_MINUTES = 4
GRAPH_SEEDS, CONFIG_PARTS, CONFIGS_EACH = 6, 20, 10


@dataclasses.dataclass(frozen=True)
class Part:
    """A piece of a long job."""

    name: str
    """The job and its piece, as `zoo/silero_vad`."""
    command: str
    """Command for a shell, at the root."""
    covers: tuple[str, ...]
    """Folders whose changes make it due."""
    needs: tuple[str, ...] = ()
    """Targets of the Makefile that install what it needs."""
    whole: bool = False
    """Whether it cannot be cut to 8 minutes."""


def parts() -> list[Part]:
    """All parts, in the order in which `make nightly` runs them."""
    return [
        *_pages(),
        *(_suite(number, operators) for number, operators in enumerate(SUITE_BATCHES)),
        *_random(),
        *_certificates(),
        *_fuzzing(),
        *_zoo(),
        *_verilog(),
    ]


def _pages() -> list[Part]:
    return [
        Part("site", "make site", ("docs", "bench"), (".venv/installed-site",)),
        Part(
            "weak_spots", f"{PYTHON} bench/weak_spots.py --check", ("compiler/quantizer", "driver/quantize")
        ),
        Part("soc", "make soc", ("examples/litex_soc", "boards/litex_soc.py", "hw", "driver/c_kit")),
        Part(
            "torch",
            "make test-torch",
            ("compiler/importers/torch_models", "driver/quantize", "integrations/executorch"),
            (".venv/installed-torch",),
        ),
    ]


def _suite(number: int, operators: str) -> Part:
    """Generates the tests of some operators and runs them on golden, against the reference model, and on the RTL."""
    folder = f"build/suite-{number}"
    extensions = " ".join(suite_extensions.options("int"))
    generate = (
        f"{PYTHON} bench/generate_suite.py --operators {operators} --profile tosa-pro-int --extension {extensions} "
        "--unit-tests operator --test-type both --tosa-version 1.0.2 --output-type binary "
        f"--ref-model-path .venv/bin/tosa_reference_model --build-directory {folder}/work "
        f"--output-directory {folder}/suite -j {JOBS}"
    )
    # The model makes a backtrace of each of its errors, 2 s a time, where there is a gdb.
    gdb = f"mkdir -p {folder}/bin && printf '#!/bin/sh\\n' > {folder}/bin/gdb && chmod +x {folder}/bin/gdb"
    run = f"tosaic conformance {folder}/suite -j {JOBS} --time-limit 600"
    command = (
        f"rm -rf {folder} && {gdb} && PATH=$PWD/{folder}/bin:$PATH && {generate} && {run} --bake --on golden && "
        f"{run} --on sim"
    )
    return Part(f"conformance/{number}", command, ("compiler", "sim", "hw"))


def _certificates() -> list[Part]:
    """Returns parts that certify every program that tests compile, by the first letters of their files."""
    return [
        Part(
            f"certificates/{letters}",
            f"TOSAIC_CERTIFY=all {PYTHON} -m pytest -n 2 tests/compiler/test_[{letters}]*.py",
            ("compiler", "sim"),
        )
        for letters in ("ab", "c", "d-h", "i-k", "l-o", "p", "q-r", "s", "t-z")
    ]


def _random() -> list[Part]:
    graphs = [
        Part(
            f"random_graphs/{seed}",
            f"{PYTHON} bench/random_graphs.py --minutes {FUZZ_MINUTES} --seed {seed} --on emulator,sim --config base",
            ("compiler", "sim", "hw"),
        )
        for seed in range(1, GRAPH_SEEDS + 1)
    ]
    programs = Part(
        "hostile_programs", f"{PYTHON} bench/hostile_programs.py --programs 1000 -j {JOBS}", ("sim", "hw")
    )
    configs = [
        Part(
            f"random_configs/{seed}",
            f"{PYTHON} bench/random_configs.py --configs {CONFIGS_EACH} --graphs 2 --seed {seed} -j {JOBS} "
            "--on emulator,sim",
            ("compiler", "sim", "hw"),
        )
        for seed in range(1, CONFIG_PARTS + 1)
    ]
    return [*graphs, programs, *configs]


def _fuzzing() -> list[Part]:
    folders = {
        "nnr": ("nnr",),
        "onnx": ("compiler/importers/onnx_models", "compiler/importers/lowering"),
        "tflite": ("compiler/importers/tflite", "compiler/importers/lowering"),
        "nnef": ("compiler/importers/nnef", "compiler/importers/lowering"),
        "coreml": ("compiler/importers/coreml", "compiler/importers/lowering"),
    }
    return [
        Part(f"fuzz/{name}", f"{PYTHON} bench/{name}_fuzz.py --minutes {FUZZ_MINUTES}", covered)
        for name, covered in folders.items()
    ]


def _zoo() -> list[Part]:
    networks = tomllib.loads((ROOT / "bench/zoo/networks.toml").read_text())["network"]
    return [
        Part(
            f"zoo/{each['name']}",
            f"{PYTHON} bench/zoo {each['name']} --folder build/zoo-part --page build/zoo-part.md",
            ("compiler", "bench/zoo"),
        )
        for each in networks
    ]


def _verilog() -> list[Part]:
    cliffs = Part(
        "cliffs", f"{PYTHON} bench/cliffs.py --against bench/cliffs.csv", ("compiler", "sim/emulator")
    )
    tools = [
        Part(
            f"verilog_tools/{name}",
            f"{PYTHON} bench/verilog_tools.py -o build/verilog --config {name}",
            ("hw",),
        )
        for name in ("nano", "small", "base")
    ]
    boards = [
        Part(f"board/{name}", f"{PYTHON} bench/board_rows.py '{name}'", ("boards", "hw"), whole=True)
        for name in DESIGNS
    ]
    return [cliffs, *tools, *boards]
