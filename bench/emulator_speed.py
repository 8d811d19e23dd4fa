"""Processor seconds per sample of the emulator: with its cycle model, and for a batch without it.

python bench/emulator_speed.py model.tosa --config base --samples 26
"""

import argparse
import time

import numpy as np

from tosaic.driver.session import Session


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--config", default="base")
    parser.add_argument("--samples", type=int, default=26)
    options = parser.parse_args()
    session = Session(options.model, "emulator", options.config)
    random = np.random.default_rng(1)
    inputs = {
        each.name: random.integers(
            each.type.min, each.type.max, (options.samples, *each.shape), endpoint=True
        ).astype(each.numpy)
        for each in session.inputs
    }
    for what in ("first run", "run again"):
        started = time.process_time()
        session.run({name: values[0] for name, values in inputs.items()})
        seconds = time.process_time() - started
        print(f"{what}: {seconds:.3f} s for {session.stats['cycles']:,} cycles")
    started = time.process_time()
    session.run_batch(inputs)
    seconds = (time.process_time() - started) / options.samples
    print(f"batch of {options.samples} without cycles: {seconds:.4f} s per sample")


if __name__ == "__main__":
    main()
