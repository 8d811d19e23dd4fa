"""Random graphs on the firmware of the micro-coded machine, in a native build, against golden."""

import random

import numpy as np
from random_growth import random_graph

from tosaic.compiler.build import compile_graph
from tosaic.errors import UnsupportedError
from tosaic.hw.config import CONFIGS
from tosaic.hw.micro.firmware.native import NativeFirmware
from tosaic.sim.golden import evaluate


def test_random_graphs_on_the_firmware() -> None:
    config, ran = CONFIGS["nano"], 0
    firmware = NativeFirmware(config)
    for seed in range(3000, 3030):
        g = random_graph(random.Random(seed).randint)
        feeds = g.feeds(seed)
        try:
            program = compile_graph(g.graph, config)
        except UnsupportedError:
            continue
        memory = program.memory()
        for port in program.inputs:
            port.write(memory, feeds[port.name])
        result = firmware.run(memory, program.program_address, program.program_bytes)
        assert result.done, (seed, result)
        wanted = evaluate(g.graph, feeds)
        for port in program.outputs:
            np.testing.assert_array_equal(port.read(memory), wanted[port.name], err_msg=f"seed {seed}")
        ran += 1
    assert ran >= 20
