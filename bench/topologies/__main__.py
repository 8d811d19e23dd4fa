"""Cycles of ten networks in the topologies of today's edge models, as `tosaic quantize` makes them of 3 samples.

    python bench/topologies                         # all; exit 1 where outputs are not golden's
    python bench/topologies conformer net.onnx      # some, and files of yours with their samples beside them (net.npz)
    python bench/topologies --write                 # writes the column `now`
    python bench/topologies --write --tosaic ../old/.venv/bin/tosaic --column before

On `base`, 16 bytes per cycle, latency 50, emulated. The geometric mean tells how many times fewer cycles `now` has than
`before`, which commit bd7f7b0 of November 2026 took for the same files. Needs the extras torch and onnx.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys

import edge_networks
from network_files import network_of, write_network

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/topologies"
TABLE = pathlib.Path(__file__).with_name("cycles.csv")
NAMES = tuple(maker.__name__ for maker in edge_networks.NETWORKS)


def network_file(name: str) -> pathlib.Path:
    """The path of the network as an ONNX file, which is written unless it is there."""
    path = FOLDER / f"{name}.onnx"
    if not path.with_suffix(".npz").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        write_network(*network_of(f"{pathlib.Path(edge_networks.__file__)}:{name}"), path)
    return path


def cycles_of(network: pathlib.Path, tosaic: str, folder: pathlib.Path) -> tuple[int, int]:
    """Cycles and multiplications when quantized; SystemExit where a command fails or outputs are not golden's."""
    folder.mkdir(parents=True, exist_ok=True)
    integers, stats = folder / f"{network.stem}.tosa", folder / f"{network.stem}.json"
    samples = network.with_suffix(".npz")
    quantize = ["quantize", network, "-c", samples, "-o", integers]
    run = [
        "run",
        integers,
        "--random",
        "1",
        "--on",
        "emulator",
        "--config",
        "base",
        "--check",
        "--stats",
        stats,
    ]
    for words in (quantize, run):
        command = [tosaic, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(
                f"{' '.join(command)} ends with {done.returncode}:\n{done.stdout[-800:]}{done.stderr[-800:]}"
            )
    found = json.loads(stats.read_text())
    return found["cycles"], found["macs"]


def read_table() -> dict[str, dict[str, str]]:
    """The rows of cycles.csv by network."""
    if not TABLE.exists():
        return {}
    with TABLE.open(newline="") as file:
        return {row["network"]: row for row in csv.DictReader(file)}


def write_table(rows: dict[str, dict[str, str]]) -> None:
    """Writes the rows in the order of the networks."""
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["network", "multiplications", "before", "now"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[name] for name in NAMES if name in rows)


def main() -> int:
    """Prints a row for each network and the geometric mean of before over now."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help="names, or ONNX files; all names, if none is given")
    parser.add_argument("--tosaic", default=str(ROOT / ".venv/bin/tosaic"), help="the command to measure")
    parser.add_argument("--column", choices=["before", "now"], default="now")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    rows, gains = read_table(), []
    for name in chosen.networks or NAMES:
        network = network_file(name) if name in NAMES else pathlib.Path(name)
        cycles, multiplications = cycles_of(network, chosen.tosaic, FOLDER / chosen.column)
        row = {"network": name, "multiplications": str(multiplications), "before": "", "now": ""}
        row = rows.get(name, row) | {chosen.column: str(cycles)}
        if name in NAMES:
            rows[name] = row
        if row["before"] and row["now"]:
            gains.append(int(row["before"]) / int(row["now"]))
        print(
            f"{name}: {cycles:,} cycles, {multiplications / 256 / cycles:.0%} of the multipliers", flush=True
        )
    if chosen.write:
        write_table(rows)
    if gains:
        print(f"geometric mean of before / now over {len(gains)}: {math.prod(gains) ** (1 / len(gains)):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
