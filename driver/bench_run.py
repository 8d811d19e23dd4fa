"""A network with made-up inputs as a run of the Verilog testbench (`tosaic verilog --network`)."""

import pathlib

import numpy as np

from tosaic.errors import InputError
from tosaic.hw.config import Config
from tosaic.hw.verilog.bench_run import BenchRun

from .arguments import made_up
from .session import Progress, Session

SEED = 0
_CYCLES_FACTOR, _CYCLES_MORE = 4, 100_000
"""The bench's memory is slower than the one that cycles are predicted for: one burst at a time."""


def bench_run(model: str | pathlib.Path, config: Config, progress: Progress | None = None) -> BenchRun:
    """The program of `model` for `config`, inputs of a generator with SEED, and golden's outputs, which the emulator's
    are compared with first. InputError where the bench cannot run it: several cores, floats, a wrong model."""
    if config.cores > 1:
        raise InputError(
            f"the testbench starts one core, and {config.name} has {config.cores}: leave out --network, or use "
            "`tosaic run --on sim`, which runs them all"
        )
    with Session(model, "emulator", config, progress=progress) as session:
        generator = np.random.default_rng(SEED)
        inputs = {each.name: made_up(generator, each) for each in session.inputs}
        state = dict(session.state)
        if progress is not None:
            progress(f"run {model}", 0, 1)
        outputs = session.run(inputs, check=True)
        program, result = session.program, session.result
        assert program is not None and result is not None
        memory = program.memory()
        for port in (*program.inputs, *program.states):
            port.write(memory, (inputs | state)[port.name])
        return BenchRun(
            memory.tobytes(),
            program.program_address,
            program.program_bytes,
            tuple((port.address, port.stored(outputs[port.name]).tobytes()) for port in program.outputs),
            _CYCLES_FACTOR * result.cycles + _CYCLES_MORE,
        )
