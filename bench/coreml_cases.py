"""Apple's own NumPy cases of Core ML layers (in the package coremltools) through the importer and golden.

    pip install coremltools torch pytest
    python bench/coreml_cases.py [--only PART_OF_A_NAME] [--skip PART_OF_A_NAME] [--limit N] [--list-failures]

The tests of coremltools build a model, and compare what macOS computes with NumPy. Here the comparison is replaced:
the model is imported, and golden's outputs are compared with the expected ones, with the test's own tolerance.
"""

import argparse
import collections
import contextlib
import functools
import importlib
import io
import sys
import unittest
from typing import Any
from unittest import mock

import numpy as np

from tosaic.compiler.importers.coreml import import_coreml
from tosaic.errors import Error, UnsupportedError
from tosaic.sim.golden import evaluate

_MODULE = "coremltools.test.neural_network.test_numpy_nn_layers"


class Tally:
    """Outcomes of cases by layer kind."""

    def __init__(self, every: int, limit: int) -> None:
        self.every, self.limit, self.seen = every, limit, collections.Counter[str]()
        self.outcomes: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.notes: dict[str, str] = {}
        self.test = ""

    def case(self, model: Any, inputs: dict[str, Any], expected: dict[str, Any], **options: Any) -> None:
        """Stands for CorrectnessTest._test_model."""
        self.seen[self.test] += 1
        if self.seen[self.test] > self.limit:
            raise unittest.SkipTest("enough cases")
        if self.seen[self.test] % self.every:
            return
        network = getattr(model, model.WhichOneof("Type"))
        kinds = sorted({layer.WhichOneof("layer") for layer in network.layers})
        outcome, note = self._outcome(model, inputs, expected, options)
        for kind in kinds:
            self.outcomes[kind][outcome] += 1
        self.outcomes["all cases"][outcome] += 1
        if outcome != "pass":
            self.notes.setdefault(f"{outcome}: {self.test}", note)

    def _outcome(self, model: Any, inputs: Any, expected: Any, options: Any) -> tuple[str, str]:
        if any(np.prod(np.shape(value)) == 0 for value in (*inputs.values(), *expected.values())):
            return "empty tensors", ""
        values = {name: np.asarray(value) for name, value in inputs.items()}
        try:
            graph = _imported(model, values)
            feeds = {
                name: values[name].reshape(graph.tensors[name].shape).astype(graph.tensors[name].dtype.numpy)
                for name in graph.inputs
            }
            with np.errstate(all="ignore"):
                got = evaluate(graph, feeds)
        except UnsupportedError as error:
            return "unsupported", str(error)
        except Error as error:
            return "error", str(error)
        except Exception as error:
            return "crash", repr(error)
        for name, wanted in expected.items():
            wrong = _difference(np.asarray(wanted), got[name], options)
            if wrong:
                return "differs", f"{name}: {wrong}"
        return "pass", ""


def _imported(model: Any, values: dict[str, np.ndarray]) -> Any:
    """The graph; inputs that decide shapes, which the tests feed, become constants in front of the layers."""
    data = model.SerializeToString()
    while True:
        try:
            return import_coreml(data, _flexible(model, values))
        except UnsupportedError as error:
            name = next((n for n in values if f"input {n!r} is computed at run time" in str(error)), None)
            inputs = model.description.input
            index = next((i for i, feature in enumerate(inputs) if feature.name == name), None)
            if name is None or index is None:
                raise
            copy = type(model)()
            copy.CopyFrom(model)
            model = copy
            del model.description.input[index]
            network = getattr(model, model.WhichOneof("Type"))
            layer = type(network.layers[0])(name=f"constant {name}", output=[name])
            layer.loadConstantND.shape.extend(np.atleast_1d(values[name]).shape)
            layer.loadConstantND.data.floatValue.extend(np.asarray(values[name], float).reshape(-1))
            network.layers.insert(0, layer)
            data = model.SerializeToString()


def _flexible(model: Any, values: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs that are declared with others."""
    bound = {}
    for feature in model.description.input:
        shape = values[feature.name].shape or (1,)
        if tuple(feature.type.multiArrayType.shape) != shape:
            bound[feature.name] = shape
    return bound


def _difference(wanted: np.ndarray, got: np.ndarray, options: dict[str, Any]) -> str:
    if options.get("output_name_shape_dict"):
        wanted = wanted.reshape(got.shape) if wanted.size == got.size else wanted
    if np.squeeze(wanted).shape != np.squeeze(got).shape:
        return f"shape {got.shape}, not {wanted.shape}"
    if options.get("validate_shapes_only"):
        return ""
    flat, found = wanted.reshape(-1).astype(np.float64), got.reshape(-1).astype(np.float64)
    if options.get("test_metric") == "SNR":
        noise = np.mean((flat - found) ** 2) + 1e-7
        ratio = 10 * np.log10(np.mean(flat**2) / noise)
        return "" if ratio >= options.get("SNR", 30) else f"SNR {ratio:.1f} dB"
    scale = np.maximum(np.abs(flat), 1.0)
    error = np.abs(flat - found) / scale
    error = np.where((flat == found) | (np.isnan(flat) & np.isnan(found)), 0, error)
    worst = np.max(error, initial=0)
    return "" if worst <= options.get("delta", 0.01) else f"off by {worst:.3g} of the value"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="tests whose name contains this")
    parser.add_argument("--skip", default="-", help="but not those whose name contains this")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth case of a test")
    parser.add_argument(
        "--limit", type=int, default=10**9, metavar="N", help="only the first N cases of a test"
    )
    parser.add_argument("--list-failures", action="store_true")
    arguments = parser.parse_args()
    tally = Tally(arguments.every, arguments.limit)
    with (
        contextlib.redirect_stderr(io.StringIO()),
        mock.patch("coremltools.models.utils._is_macos", lambda: True),
        mock.patch("coremltools.models.utils._macos_version", lambda: (14, 0)),
    ):
        module = importlib.import_module(_MODULE)

    def test_model(self: Any, model: Any, input: Any, expected: Any, *rest: Any, **options: Any) -> None:
        tally.test = self.id().removeprefix(f"{_MODULE}.")
        tally.case(model, input, expected, **options)

    module.CorrectnessTest._test_model = test_model
    # Random layers compare moments of many predictions; the shapes are enough of them here.
    module.CorrectnessTest._compare_moments = staticmethod(lambda *_, **__: None)
    # Expected orders come from argsort, which is stable in older NumPy for such small arrays: ties count here too.
    np.argsort = functools.partial(np.argsort, kind="stable")
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    run = other = 0
    for group in suite:
        for test in group:
            if arguments.only not in test.id() or arguments.skip in test.id():
                continue
            result = unittest.TestResult()
            test.run(result)
            run += 1
            for _, trace in (*result.errors, *result.failures):
                other += 1
                print(
                    f"{test.id().removeprefix(_MODULE)}: {trace.strip().splitlines()[-1][:150]}",
                    file=sys.stderr,
                )
    names = sorted({name for counts in tally.outcomes.values() for name in counts})
    print(f"{run} tests, {other} of them ended early; cases by layer kind:")
    for kind, counts in sorted(tally.outcomes.items(), key=lambda item: (item[0] == "all cases", item[0])):
        print(f"{kind:24}" + "  ".join(f"{name} {counts[name]}" for name in names if counts[name]))
    if arguments.list_failures:
        for name, note in tally.notes.items():
            print(f"{name}\n    {note[:300]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
