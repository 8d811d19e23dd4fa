"""Compiles a network for a batch of samples: all at once, or some of them in each turn of a loop."""

from typing import Any

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.batched import batched
from tosaic.compiler.machine_numbers import BATCH_PROGRAM_BYTES
from tosaic.compiler.program import Program
from tosaic.hw.config import Config


def compile_batch(single: Graph, samples: int, config: Config, **options: Any) -> Program:
    """Compiles a graph for `samples` samples, which lie one after the other along the first axis of inputs and outputs;
    `options` are those of `compile_graph`. A program that would be large for all of them runs over some at a time."""
    whole, turns = batched(single, samples), 1
    if samples > 1 and config.cores == 1 and not single.states and not options.get("keep_layers"):
        turns = _turns(single, samples, config, options)
    if turns == 1:
        return compile_graph(whole, config, **options)
    program = compile_graph(batched(single, samples // turns), config, **options, turns=turns)
    program.labels, program.declared = dict(whole.labels), dict(whole.declared)
    program.turns = turns
    return program


def _turns(single: Graph, samples: int, config: Config, options: dict[str, Any]) -> int:
    """The fewest turns, of equally many samples, whose program is no larger than it should be; 1 where one for all is
    less than twice as large."""
    how = {name: options[name] for name in ("optimize", "drop_dead_channels", "speed") if name in options}
    one = compile_graph(single, config, **how).program_bytes
    if samples * one < 2 * BATCH_PROGRAM_BYTES:
        return 1
    parts = (count for count in range(1, samples + 1) if samples % count == 0)
    return next((turns for turns in parts if samples // turns * one <= BATCH_PROGRAM_BYTES), samples)
