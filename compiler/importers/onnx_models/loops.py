"""Unrolls Loop and Scan with a known number of trips."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.allowance import MAX_LOOPED, MAX_TRIPS
from tosaic.compiler.importers.onnx_models.errors import RunTimeValueError
from tosaic.compiler.importers.onnx_models.reader import node_label
from tosaic.compiler.importers.onnx_models.values import OnnxValue, constant_value
from tosaic.errors import UnsupportedError

Branch = Callable[[Any, Sequence[OnnxValue]], list[OnnxValue]]


class Unroller:
    """Copies of loops' bodies, one after the other. `branch` gives a nested graph's outputs for inputs."""

    def __init__(self, low: Lowering, branch: Branch, tensor: Callable[[OnnxValue], str]) -> None:
        self.low, self.branch, self.tensor = low, branch, tensor
        self.looped_nodes = 0

    def loop(self, node: Any, inputs: Sequence[OnnxValue | None], body: Any) -> list[OnnxValue]:
        """A loop whose number of trips is known."""
        label = node_label(node)
        trips, condition, *state = inputs
        if trips is not None and trips.data is None:
            raise RunTimeValueError(
                f"{label}: its trip count {trips.name!r} is computed at run time; only loops with a known one can be "
                "unrolled: make it an initializer",
                trips.name,
            )
        limit = int(trips.data.reshape(-1)[0]) if trips is not None and trips.data is not None else None
        carried = [value for value in state if value is not None]
        current = condition or constant_value("", np.array(True))
        scans: list[list[OnnxValue]] = [[] for _ in body.output[1 + len(carried) :]]
        trip = 0
        while limit is None or trip < limit:
            if current.data is None:
                raise RunTimeValueError(
                    f"{label}: its condition {current.name!r} is computed at run time; only loops with a known number "
                    "of trips can be unrolled",
                    current.name,
                )
            if not current.data.reshape(-1)[0]:
                break
            self._count(label, trip, body)
            counter = constant_value("", np.array(trip, np.int64))
            current, *results = self.branch(body, [counter, current, *carried])
            carried = results[: len(carried)]
            for scan, value in zip(scans, results[len(carried) :], strict=True):
                scan.append(value)
            trip += 1
        if scans and not trip:
            raise UnsupportedError(f"{label}: it never runs, and TOSA has no empty tensors; remove the loop")
        return [*carried, *(self._stacked(scan, 0) for scan in scans)]

    def scan(
        self, node: Any, inputs: Sequence[OnnxValue | None], attributes: dict[str, Any], opset: int
    ) -> list[OnnxValue]:
        """A body over the elements of sequences, forwards or backwards."""
        label, body = node_label(node), attributes["body"]
        if opset < 9:
            raise UnsupportedError(
                f"{label}: Scan of opset 8 has a batch axis; export the model with opset 9"
            )
        given = [value for value in inputs if value is not None]
        sequences = given[len(given) - attributes["num_scan_inputs"] :]
        carried = given[: len(given) - len(sequences)]
        axes = _axes(attributes.get("scan_input_axes"), [len(each.shape) for each in sequences])
        backwards = attributes.get("scan_input_directions") or [0] * len(sequences)
        lengths = {each.shape[axis] for each, axis in zip(sequences, axes, strict=True)}
        if len(lengths) != 1:
            raise ValueError(f"its sequences have lengths {sorted(lengths)}")
        length = lengths.pop()
        made: list[list[OnnxValue]] = [[] for _ in body.output[len(carried) :]]
        for trip in range(length):
            self._count(label, trip, body)
            elements = [
                self._element(each, axis, length - 1 - trip if back else trip)
                for each, axis, back in zip(sequences, axes, backwards, strict=True)
            ]
            results = self.branch(body, [*carried, *elements])
            carried = results[: len(carried)]
            for parts, value in zip(made, results[len(carried) :], strict=True):
                parts.append(value)
        ranks = [len(parts[0].shape) + 1 for parts in made]
        places = _axes(attributes.get("scan_output_axes"), ranks)
        turned = attributes.get("scan_output_directions") or [0] * len(made)
        stacked = [
            self._stacked(parts[::-1] if back else parts, axis)
            for parts, axis, back in zip(made, places, turned, strict=True)
        ]
        return [*carried, *stacked]

    def _count(self, label: str, trip: int, body: Any) -> None:
        if trip == MAX_TRIPS:
            raise UnsupportedError(f"{label}: it runs more than {MAX_TRIPS} times; make the loop shorter")
        self.looped_nodes += len(body.node)
        if self.looped_nodes > MAX_LOOPED:
            raise UnsupportedError(
                f"{label}: loops execute more than {MAX_LOOPED:,} nodes in all; make them shorter"
            )

    def _element(self, value: OnnxValue, axis: int, index: int) -> OnnxValue:
        shape = value.shape[:axis] + value.shape[axis + 1 :]
        if value.data is not None:
            return constant_value("", np.take(value.data, index, axis))
        part = self.low.slice_axis(self.tensor(value), axis, index, 1)
        return OnnxValue("", value.kind, shape, None, self.low.reshape(part, shape))

    def _stacked(self, parts: list[OnnxValue], axis: int) -> OnnxValue:
        shape = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
        whole = self.low.concat([self.low.reshape(self.tensor(part), shape) for part in parts], axis)
        return OnnxValue("", parts[0].kind, self.low.shape(whole), None, whole)


def _axes(given: Sequence[int] | None, ranks: Sequence[int]) -> list[int]:
    return [axis % rank for axis, rank in zip(given or [0] * len(ranks), ranks, strict=True)]
