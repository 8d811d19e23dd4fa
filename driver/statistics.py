"""The figures of a run, as `--stats` writes them."""

from typing import Any

from tosaic.compiler.program import Program
from tosaic.errors import ModelError
from tosaic.hw.config import Config
from tosaic.hw.csr_map import MARKS
from tosaic.sim.result import RunResult

from .boot import boot_figures
from .units import unit_figures


def statistics_of(program: Program | None, config: Config, result: RunResult | None) -> dict[str, Any]:
    """Cycles, multiplications, bytes and layers of a run; None for what golden does not have.

    Raises ModelError where a program marks layers that it does not list."""
    stats: dict[str, Any] = {
        "config": config.name,
        "macs_per_cycle": config.macs_per_cycle,
        "cycles": None,
        "macs": program.macs if program else None,
        "mac_utilization": None,
        "dram_read_bytes": None,
        "dram_write_bytes": None,
        "layers": [],
    }
    if result is None or program is None:
        return stats
    # Layers of a loop come as often as they ran, those of a branch that was not taken do not come.
    layers: list[dict[str, Any]] = []
    last = 0
    # Layers of a cascade: the cycles and the number of the parts so far.
    begun: dict[int, tuple[int, int]] = {}
    for index, end in result.marks:
        if index >= len(program.layers):
            raise ModelError(
                f"the program marks layer {index}, it lists {len(program.layers)}; compile the model again"
            )
        layer = program.layers[index]
        cycles, parts = begun.pop(index, (0, 0))
        cycles, parts, last = cycles + end - last, parts + 1, end
        if parts < layer.parts:
            begun[index] = cycles, parts
            continue
        layers.append({"name": layer.name, "op": layer.op, "cycles": cycles, "macs": layer.macs})
    if len(result.marks) == MARKS:
        layers.append({"name": f"after {MARKS} layers", "op": "", "cycles": result.cycles - last, "macs": 0})
    # Of many turns there are no marks for all.
    macs = program.macs if program.turns > 1 else sum(layer["macs"] for layer in layers)
    stats |= {
        "cycles": result.cycles,
        "macs": macs,
        "mac_utilization": macs / max(result.cycles, 1) / config.macs_per_cycle,
        "dram_read_bytes": result.dram_read_bytes,
        "dram_write_bytes": result.dram_write_bytes,
        "layers": layers,
        "counters": result.counters,
        "units": {
            figures.unit: {"bytes": figures.bytes, "cycles": {s.label: s.cycles for s in figures.shares}}
            for figures in unit_figures(result.counters, result.cycles * config.cores, config.word_bytes)
        },
        "weights": {
            "tensors": len(program.weights),
            "compressed_tensors": sum(weights.coded for weights in program.weights),
            "bytes": sum(weights.bytes for weights in program.weights),
            "stored_bytes": sum(weights.stored_bytes for weights in program.weights),
            "load_bytes": result.counters.get("load_beats", 0) * config.word_bytes,
            "decode_cycles": result.counters.get("decode_active", 0),
            "hidden_decode_cycles": result.counters.get("decode_hidden", 0),
        },
        "boot": boot_figures(program, result),
    }
    return stats
