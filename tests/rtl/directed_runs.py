"""Programs that follow each other on one machine, each with the conditions of its run: those of the decoder, the
sequencer, the transfers, the hosts, and of what VECTOR's programs may leave out."""

from collections.abc import Iterator

from directed_bits import wrong_bits
from directed_branches import branch_runs
from directed_decoder import decoder_programs
from directed_distance import distance_runs
from directed_hosts import host_runs
from directed_loops import loop_programs
from directed_numbers import number_programs
from directed_sequencer import sequencer_runs
from directed_transfers import transfer_runs
from directed_vector import (
    lengths,
    missing_parameters,
    missing_parts,
    missing_tables,
    parts_in_turn,
    too_many_turns,
    vector_programs,
)
from one_machine import Conditions

from tosaic.hw.config import Config
from tosaic.sim.stimulus import Stimulus

TOGETHER = 24
"""Runs that end in an error, on one machine."""
QUICK = Conditions(latency_cycles=3)


def all_runs(config: Config) -> Iterator[tuple[str, list[tuple[Stimulus, Conditions]]]]:
    """The runs of each name follow one another."""
    wrong = [(program, QUICK) for _, program in decoder_programs(config)]
    begins = [(program, QUICK) for _, program in wrong_bits(config)]
    for name, runs in (
        ("bits that no field has", wrong),
        ("bits of a begin", begins),
        ("missing parts", list(missing_parts(config))),
        ("parts in turn", list(parts_in_turn(config))),
        ("missing parameters", list(missing_parameters(config))),
        ("missing tables", list(missing_tables(config))),
        ("lengths of micro-programs", list(lengths(config))),
        ("turns for offsets", list(too_many_turns(config))),
    ):
        for first in range(0, len(runs), TOGETHER):
            yield f"{name} {first}", runs[first : first + TOGETHER]
    yield from sequencer_runs(config)
    yield from branch_runs(config)
    yield from transfer_runs(config)
    yield from host_runs(config)
    yield from distance_runs(config)


def more_programs(config: Config) -> Iterator[tuple[str, Stimulus]]:
    """Yields programs that run alone, and end well."""
    yield from vector_programs(config)
    yield from number_programs(config)
    yield from loop_programs(config)


__all__ = ["all_runs", "more_programs"]
