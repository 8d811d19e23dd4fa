"""Networks that are cut at random and run on several cores of the emulator."""

import random

import numpy as np

from tosaic.compiler import build
from tosaic.compiler.cores.choice import Chooser, Segment
from tosaic.compiler.cores.cores_plan import CoresPlan, plan_cores
from tosaic.compiler.cores.grids import ONE_CORE, grids
from tosaic.compiler.ir import Graph
from tosaic.compiler.search import Choices, plans_of, task_of
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate


def dice(seed: int) -> type[Chooser]:
    """A chooser of segments and grids at random, among those that fit."""

    class Dice(Chooser):
        def segments(self) -> list[Segment]:
            rng, found, first = random.Random(seed), [], 0
            count = len(self.planner.network.layers)
            while first < count:
                for _ in range(10):
                    last = min(count, first + rng.choice((1, 1, 2, 3, 5)))
                    segment = self.segment(first, last, rng.choice(list(grids(self.cores))))
                    if segment is not None:
                        break
                else:
                    segment = self.segment(first, first + 1, ONE_CORE)
                if segment is None:
                    raise UnsupportedError(f"layer {first} of the network does not fit a core")
                found.append(segment)
                first = segment.last
            return found

    return Dice


def assert_cut_equals_golden(
    graph: Graph, config: Config, feeds: dict[str, np.ndarray], seed: int
) -> CoresPlan | None:
    """Runs `graph` with cuts that the seed tells; every result is golden's, and tokens order all accesses. None where
    the network is not split."""
    task = task_of(graph, Choices(config))
    plan = plan_cores(task, dice(seed))
    if plan is None:
        return None
    program = build.program_of_cores(plan, next(plans_of(task)), graph, config)
    memory, wanted = program.memory(), evaluate(graph, feeds)
    for port in program.inputs:
        port.write(memory, feeds[port.name])
    emulator = Emulator(config, check_hazards=True)
    emulator.run(memory, program.program_address, program.program_bytes, others=program.others)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name], err_msg=port.name)
    return plan
