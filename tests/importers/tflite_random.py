"""Random TFLite graphs of 3 to 7 operators on int8, uint8 or int16, judged against LiteRT's reference kernels."""

import collections
import dataclasses
import pathlib

import numpy as np
import tflite_steps  # noqa: F401 (it registers the operators)
from tflite_builder import Builder, litert
from tflite_operator_cases import agree, bits

import tosaic
from tosaic.compiler.importers import import_model
from tosaic.sim.golden import evaluate


@dataclasses.dataclass
class Outcome:
    """What came of one graph."""

    verdict: str
    """equal, differs, or refused."""
    reason: str
    operators: list[str]


def random_graph(seed: int, number: int) -> Builder:
    """Graph `number` of a seed."""
    random = np.random.default_rng([seed, number])
    builder = Builder(random)
    for _ in range(int(random.integers(3, 8))):
        builder.grow()
    return builder


def judged(builder: Builder, path: pathlib.Path, emulated: bool = False) -> Outcome:
    """Our results against LiteRT's; leaves the file at `path`."""
    data, feeds = builder.packed(), builder.feeds
    path.write_bytes(data)
    kinds = [case.kind for case, _, _ in builder.operators]
    interpreter = litert(data, feeds)
    assert interpreter is not None
    wanted = [interpreter.get_tensor(details["index"]) for details in interpreter.get_output_details()]
    try:
        graph = import_model(path)
    except tosaic.Error as error:
        return Outcome("refused", str(error), kinds)
    inputs = dict(zip(graph.inputs, map(bits, feeds), strict=True))
    found = evaluate(graph, inputs)
    wrong = [
        name for name, value in zip(graph.outputs, wanted, strict=True) if not agree(found[name], bits(value))
    ]
    if wrong:
        return Outcome("differs", f"outputs {wrong}", kinds)
    if emulated and not any(tensor.dtype.is_float for tensor in graph.tensors.values()):
        given = tosaic.Session(path, target="emulator").run(inputs)
        if not all(np.array_equal(given[name], found[name]) for name in graph.outputs):
            return Outcome("differs", "on the emulator", kinds)
    return Outcome("equal", "", kinds)


def campaign(
    seed: int, first: int, count: int, folder: pathlib.Path, emulate_each: int = 0
) -> tuple[collections.Counter[str], list[str]]:
    """Judges graphs `first` to `first + count - 1`: counts of verdicts, and a line for each that is not equal."""
    counts: collections.Counter[str] = collections.Counter()
    lines = []
    for number in range(first, first + count):
        path = folder / f"graph_{seed}_{number}.tflite"
        outcome = judged(random_graph(seed, number), path, bool(emulate_each) and number % emulate_each == 0)
        counts[outcome.verdict] += 1
        if outcome.verdict != "equal":
            lines.append(f"{path.name} {outcome.verdict}: {outcome.reason} [{' '.join(outcome.operators)}]")
        if outcome.verdict != "differs":
            path.unlink()
    return counts, lines
