"""What the benches of weights share: a network on random inputs, compared with golden."""

import numpy as np

from tosaic.compiler.ir import Graph
from tosaic.driver.session import Session


def random_inputs(session: Session) -> dict[str, np.ndarray]:
    """Bytes at random for each input, the same in every run."""
    generator = np.random.default_rng(1)
    return {
        argument.name: generator.integers(-128, 128, argument.shape).astype(argument.numpy)
        for argument in session.inputs
    }


def checked_run(graph: Graph, config: str, target: str, bandwidth: int, compress: str | None) -> dict:
    """The statistics of a run that gives golden's outputs."""
    session = Session(graph, target, config, memory_bandwidth=bandwidth, compress=compress)
    session.run(random_inputs(session), check=True)
    return session.stats
