"""Tosaic beside other tools on the same networks: cycles of its own integers and of theirs, and Arm Vela's estimates.

    python bench/peers                                 # the networks of bench/topologies; writes docs/records/peers.md
    python bench/peers conformer more.py:mnv3          # some, and functions of yours that return a module and shapes

Each network becomes integers in three ways, of the same 3 samples: `tosaic quantize`, ONNX Runtime's static
quantization (QDQ, int8, a scale per channel), and Google's converter and quantizer (int8 TFLite). Tosaic runs them on
`base` (256 multipliers, 16 bytes per cycle, emulated), and the TFLite file on two cores, too (512 multipliers). Vela
estimates that file's cycles on Ethos-U machines. The environments of the other tools are made in build/peers.
"""

import argparse
import csv
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import venv
from collections.abc import Sequence

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
sys.path.append(str(ROOT / "bench/topologies"))

from commits import dated  # noqa: E402 (the paths come first)
from edge_networks import NETWORKS  # noqa: E402
from network_files import SAMPLES, network_of, write_network  # noqa: E402

FOLDER, PAGE = ROOT / "build/peers", ROOT / "docs/records/peers.md"
TOSAIC = ROOT / ".venv/bin/tosaic"
REQUIREMENTS = {
    "litert": ["litert-torch==0.10.0", "ai-edge-quantizer==0.10.0"],
    "vela": ["ethos-u-vela==5.2.0"],
}
MACHINES = {
    "U55-256": ("ethos-u55-256", "Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "U85-256": ("ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
    "U65-512": ("ethos-u65-512", "Ethos_U65_Client_Server", "Dedicated_Sram_384KB"),
    "U85-512": ("ethos-u85-512", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
}
"""Of each machine Vela's names of the accelerator, of the system and of its memory."""
CORES = ("base", "base,cores=2")


@dataclasses.dataclass
class Row:
    """The cycles of one network; None where a tool refuses it."""

    network: str
    own: int | None = None
    qdq: int | None = None
    tflite: int | None = None
    tflite_two_cores: int | None = None
    estimates: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """By machine Vela's estimate: of the whole, and of the NPU alone."""
    refusals: list[str] = dataclasses.field(default_factory=list)


class Refused(Exception):
    """A tool ended with an error; the text is its last line."""


def call(words: Sequence[object]) -> None:
    """Runs a command; Refused with its last line if it fails."""
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise Refused(lines[-1].replace(f"{FOLDER}/", "")[:300])


def environment(name: str) -> pathlib.Path:
    """The folder of commands of an environment of build/peers, made if it is not there. The converter's also finds the
    packages of this project's environment (PyTorch)."""
    folder = FOLDER / name
    if not (folder / "made").exists():
        venv.create(folder, with_pip=True, clear=True)
        if name == "litert":
            ours = [path for path in sys.path if path.endswith("site-packages")]
            (site,) = folder.glob("lib/python*/site-packages")
            (site / "project.pth").write_text("\n".join(ours))
        call([folder / "bin/python", "-m", "pip", "install", "-q", *REQUIREMENTS[name]])
        (folder / "made").touch()
    return folder / "bin"


class _Samples(CalibrationDataReader):
    def __init__(self, network: pathlib.Path) -> None:
        arrays = np.load(network.with_suffix(".npz"))
        self.left = [
            {name: np.split(arrays[name], SAMPLES)[sample] for name in arrays} for sample in range(SAMPLES)
        ]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def write_qdq(network: pathlib.Path) -> pathlib.Path:
    """Quantizes with ONNX Runtime; the file."""
    prepared, result = network.with_suffix(".prepared.onnx"), network.with_suffix(".qdq.onnx")
    quant_pre_process(str(network.with_suffix(".onnx")), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(result),
        _Samples(network),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    onnx.checker.check_model(str(result))
    return result


def run(model: pathlib.Path, config: str = "base") -> int:
    """Tosaic's cycles, on outputs that equal golden's."""
    stats = model.with_suffix(".json")
    call(
        [
            TOSAIC,
            "run",
            model,
            "--random",
            1,
            "--on",
            "emulator",
            "--config",
            config,
            "--check",
            "--stats",
            stats,
        ]
    )
    return int(json.loads(stats.read_text())["cycles"])


def estimate(model: pathlib.Path, machine: str) -> tuple[int, int]:
    """Vela's estimate of cycles: of the whole, and of the NPU alone."""
    accelerator, system, memory = MACHINES[machine]
    folder = FOLDER / f"{model.stem}.{machine}"
    options = ["--accelerator-config", accelerator, "--system-config", system, "--memory-mode", memory]
    call([environment("vela") / "vela", model, *options, "--output-dir", folder])
    (summary,) = folder.glob("*_summary_*.csv")
    with summary.open(newline="") as file:
        (row,) = csv.DictReader(file)
    return int(float(row["cycles_total"])), int(float(row["cycles_npu"]))


def measure(place: str) -> Row:
    """Makes the integers of a network in each way, and runs them."""
    row = Row(place.rpartition(":")[2])
    network = FOLDER / row.network
    if not network.with_suffix(".onnx").exists():
        write_network(*network_of(place), network.with_suffix(".onnx"))
    samples, own, tflite = (network.with_suffix(end) for end in (".npz", ".tosa", ".tflite"))

    def of_own() -> None:
        call([TOSAIC, "quantize", network.with_suffix(".onnx"), "-c", samples, "-o", own])
        row.own = run(own)

    def of_qdq() -> None:
        row.qdq = run(write_qdq(network))

    def of_tflite() -> None:
        if not tflite.exists():
            python = environment("litert") / "python"
            call([python, pathlib.Path(__file__).with_name("convert.py"), place, samples, tflite])
        row.tflite, row.tflite_two_cores = (run(tflite, config) for config in CORES)

    def of_vela() -> None:
        if tflite.exists():
            for machine in MACHINES:
                row.estimates[machine] = estimate(tflite, machine)

    for way in (of_own, of_qdq, of_tflite, of_vela):
        try:
            way()
        except Refused as error:
            row.refusals.append(f"{way.__name__[3:]}: {error}")
    return row


def _head() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _number(cycles: int | None) -> str:
    return "" if cycles is None else f"{cycles:,}"


def _page(rows: Sequence[Row], command: str) -> str:
    ours = [
        f"| {row.network} | {_number(row.own)} | {_number(row.qdq)} | {_number(row.tflite)} | "
        f"{_number(row.tflite_two_cores)} |"
        for row in rows
    ]
    theirs = []
    for row in rows:
        cells = []
        for machine in MACHINES:
            own = row.tflite if machine.endswith("256") else row.tflite_two_cores
            found = row.estimates.get(machine)
            cells.append(f"{found[0] / own:.2f} ({found[1] / own:.2f})" if found and own else "")
        theirs.append(f"| {row.network} | {' | '.join(cells)} |")
    refusals = [f"- {row.network}, {each}" for row in rows for each in row.refusals]
    return "\n".join(
        [
            "# Beside other tools",
            "",
            f"`{command}`, {dated(_head())}. Each network becomes integers in three ways, of {SAMPLES} samples.",
            "Tosaic runs them on `base` (256 multipliers, 16 bytes per cycle, emulated).",
            "",
            "| network | `tosaic quantize` | ONNX Runtime QDQ | int8 TFLite | the same, two cores |",
            "|---|--:|--:|--:|--:|",
            *ours,
            "",
            "Vela's estimate divided by Tosaic's cycles, both for the TFLite file with equally many multipliers (two",
            "cores beside 512); in brackets the NPU's cycles alone, which is the fairer figure where memories differ.",
            "Above 1 Tosaic takes fewer cycles.",
            "",
            f"| network | {' | '.join(MACHINES)} |",
            f"|---|{'--:|' * len(MACHINES)}",
            *theirs,
            "",
            *(["Refused:", "", *refusals, ""] if refusals else []),
        ]
    )


def main() -> int:
    """Measures the networks and writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "networks", nargs="*", help="names of bench/topologies, or FILE.py:NAME; all names, if none"
    )
    chosen = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    rows = []
    for name in chosen.networks or [maker.__name__ for maker in NETWORKS]:
        place = name if ":" in name else f"{ROOT / 'bench/topologies/edge_networks.py'}:{name}"
        rows.append(measure(place))
        print(rows[-1], flush=True)
    PAGE.write_text(_page(rows, " ".join(["python bench/peers", *chosen.networks])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
