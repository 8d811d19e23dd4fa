"""Cycles per second that the target `sim` simulates, of processor time: other work on the machine does not count.

python bench/simulation_speed.py model.tosa --config base

TOSAIC_SIMULATOR chooses between native code and WebAssembly.
"""

import argparse
import time

import numpy as np

from tosaic.driver.session import Session

RUNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--config", default="base")
    options = parser.parse_args()
    session = Session(options.model, "sim", options.config)
    inputs = {argument.name: np.zeros(argument.shape, argument.numpy) for argument in session.inputs}
    session.run(inputs)  # builds and loads the simulator
    for _ in range(RUNS):
        started = time.process_time()
        session.run(inputs)
        seconds = time.process_time() - started
        print(
            f"{session.stats['cycles']:,} cycles, {seconds:.3f} s, {session.stats['cycles'] / seconds:,.0f} cycles/s"
        )


if __name__ == "__main__":
    main()
