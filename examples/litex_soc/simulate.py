"""The whole system in Verilator: it boots, runs its models and prints their classes. `make soc` calls this.

python examples/litex_soc/simulate.py build/soc [--model NAME=MODEL.tosa:INPUT.npy]...
"""

import argparse
import logging
import pathlib
import re
import sys

import numpy as np
from firmware_build import Model, build_firmware
from soc import CLOCK_HZ, NpuSoc, Platform

import tosaic.hw
from tosaic.boards.dram import MT48LC16M16
from tosaic.boards.dram.core import clean_verilog, core_versions
from tosaic.hw.config_text import get_config
from tosaic.hw.top import to_verilog
from tosaic.sim.board import BoardRtl, BoardSimulator
from tosaic.virtual import chip_setting

HERE = pathlib.Path(__file__).parent
DIGITS = HERE.parent / "digits"
CONFIG = "nano"
BIT_CYCLES = 8
MAX_CYCLES = 30_000_000
_WRAPPER = """\
module board (
  input clk, input rst, input uart_rx, output uart_tx, output led_busy, output led_link, output led_irq,
  output sdram__cke, output sdram__cs_n, output sdram__ras_n, output sdram__cas_n, output sdram__we_n,
  output [1:0] sdram__ba, output [12:0] sdram__a, output [1:0] sdram__dm, inout [15:0] sdram_dq
);
  assign led_busy = 0, led_link = 0, led_irq = 0;
  soc soc (
    .clk(clk), .rst(rst), .serial_rx(uart_rx), .serial_tx(uart_tx),
    .sdram_cke(sdram__cke), .sdram_cs_n(sdram__cs_n), .sdram_ras_n(sdram__ras_n), .sdram_cas_n(sdram__cas_n),
    .sdram_we_n(sdram__we_n), .sdram_ba(sdram__ba), .sdram_a(sdram__a), .sdram_dm(sdram__dm), .sdram_dq(sdram_dq)
  );
endmodule
"""


def make_soc(folder: pathlib.Path) -> tuple[NpuSoc, str]:
    """The SoC and its Verilog, whose memories begin with the files in `folder`. The NPU is in the form that simulates
    fastest; its modules are not those of `tosaic verilog`, its ports and cycles are."""
    platform = Platform()
    soc = NpuSoc(platform, [0], CONFIG, baud=CLOCK_HZ // BIT_CYCLES, verilog=False)
    soc.finalize()
    found = platform.get_verilog(soc, name="soc", regular_comb=False)
    for name, content in found.data_files.items():
        (folder / name).write_text(content)
    text = re.sub(r'readmemh\("', f'readmemh("{folder}/', clean_verilog(found.main_source, 16))
    others = [pathlib.Path(path).read_text() for path, *_ in platform.sources]
    return soc, "\n".join((_WRAPPER, text, *others, to_verilog(get_config(CONFIG), simulation=True)))


def simulator(folder: pathlib.Path, text: str) -> BoardSimulator:
    key = repr((str(folder), CONFIG, core_versions()))
    sources = (pathlib.Path(tosaic.hw.__path__[0]), HERE)
    chip = chip_setting(MT48LC16M16, CLOCK_HZ)
    return BoardSimulator(BoardRtl("soc", key, BIT_CYCLES, sources, lambda: text, chip))


def run(folder: pathlib.Path, models: list[Model]) -> str:
    """What the system prints."""
    folder.mkdir(parents=True, exist_ok=True)
    soc, text = make_soc(folder)
    words = build_firmware(soc, models, CONFIG, folder / "firmware")
    (folder / "soc_rom.init").write_text("".join(f"{word:08x}\n" for word in words))
    board, said = simulator(folder, text), b""
    while not said.endswith((b"done\n", b"\n")) or b"done" not in said and b"stopped" not in said:
        if board.cycle > MAX_CYCLES:
            raise SystemExit(f"nothing more came in {MAX_CYCLES} cycles; until then: {said.decode()!r}")
        said += board.run(100_000)
    print(f"{board.cycle:,} cycles from the reset on; the SDRAM's controller broke no rule", file=sys.stderr)
    board.close()
    return said.decode()


def digits() -> list[Model]:
    """The example's network, on the first of its images."""
    with np.load(DIGITS / "images.npz") as archive:
        return [Model("digits", DIGITS / "digits.tosa", archive["inputs"][:1])]


def named(text: str) -> Model:
    """NAME=MODEL.tosa:INPUT.npy."""
    name, _, files = text.partition("=")
    path, _, image = files.rpartition(":")
    return Model(name, pathlib.Path(path), np.load(image))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "--model", action="append", default=[], help="NAME=MODEL.tosa:INPUT.npy; may be repeated"
    )
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    print(run(arguments.folder.resolve(), digits() + [named(text) for text in arguments.model]), end="")


if __name__ == "__main__":
    main()
