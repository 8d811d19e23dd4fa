"""cocotb test: one program on one memory window; `run.py` is at the other end of the files."""

import json
from typing import Any

import cocotb
import numpy as np

from .machine import BenchMachine
from .memory import GuardedMemory
from .simulation import exchange_folder


@cocotb.test()
async def program(dut: Any) -> None:
    """Runs the program of request.json; writes the window and what the machine and the bench have to say."""
    folder = exchange_folder()
    request = json.loads((folder / "request.json").read_text())
    memory = GuardedMemory(np.load(folder / "window.npy"), len(dut.m_axi_wstrb))
    machine = BenchMachine(dut, memory, request["seed"], request["stalls"], request["cores"])
    await machine.reset()
    (address, size), *others = request["streams"]
    ended = await machine.run(address, size, request["max_cycles"], others)
    result = {
        "ended": ended,
        "registers": await machine.registers(),
        "marks": await machine.marks(),
        "beats_read": machine.monitor.beats_read,
        "beats_written": machine.monitor.beats_written,
        "faults": machine.faults(),
    }
    np.save(folder / "window.npy", memory.window)
    (folder / "result.json").write_text(json.dumps(result))
