"""Branches and loops. Loops are unrolled; what is decided at run time is computed, and then selected or not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.importers.lowering.allowance import MAX_LOOPED, MAX_TRIPS
from tosaic.compiler.ir import DType
from tosaic.errors import ModelError

Mask = str | bool
"""Whether layers take effect: known, or a tensor of one bool."""


@dataclass
class _Loop:
    """A running loop: whether it goes on, and whether this iteration does."""

    alive: Mask = True
    here: Mask = True


class CoreMlControlFlow:
    """Executes control-flow layers, and writes blobs under the conditions around them.

    Core ML's blobs have one scope: a layer in a branch or body writes blobs that others read. Under a condition
    that is known only at run time, a blob that was there keeps its old value where the condition does not hold.
    `blobs` are the importer's, and `run_layer` executes a layer message.
    """

    def __init__(
        self, low: Lowering, blobs: dict[str, CoreMlValue], run_layer: Callable[[Any], None]
    ) -> None:
        self.low, self.blobs, self.run_layer = low, blobs, run_layer
        self.branch: Mask = True
        self.loops: list[_Loop] = []
        self.count = 0
        self.masks: dict[tuple[str, str], str] = {}

    def takes(self, kind: str) -> bool:
        """Whether a kind of layer is control flow."""
        return kind in ("branch", "loop", "loopBreak", "loopContinue")

    def execute(self, node: CoreMlNode) -> None:
        """A control-flow layer."""
        if node.kind == "branch":
            self._branch(node)
        elif node.kind == "loop":
            self._loop(node)
        else:
            node.require(bool(self.loops), "it stands in no loop")
            mask = self._mask()
            loop = self.loops[-1]
            loop.here = self._and(loop.here, self._not(mask))
            if node.kind == "loopBreak":
                loop.alive = self._and(loop.alive, self._not(mask))

    def write(self, node: CoreMlNode, results: list[CoreMlValue]) -> None:
        """Names a layer's results. Outside of loops and branches only copy may write a name again."""
        mask = self._mask()
        inside = bool(self.loops) or self.branch is not True
        for name, blob in zip(node.output_names, results, strict=False):
            old = self.blobs.get(name)
            if old is not None and node.kind != "copy" and not inside:
                node.wrong(f"it writes {name!r}, which is there already; only copy may do that")
            if old is not None and mask is not True:
                blob = self._selected(node, name, mask, blob, old)
            self.blobs[name] = blob

    def _selected(
        self, node: CoreMlNode, name: str, mask: Mask, new: CoreMlValue, old: CoreMlValue
    ) -> CoreMlValue:
        if new.shape != old.shape:
            node.unsupported(
                f"under a condition that is computed at run time it changes the shape of {name!r} from "
                f"{list(old.shape)} to {list(new.shape)}",
                "TOSA's shapes are static: keep the shape",
            )
        assert isinstance(mask, str)
        tensors = [self.low.reshape(blob.tensor, blob.shape) for blob in (new, old)]
        return CoreMlValue(self.low.select(mask, *tensors), new.shape)

    # --- masks ----------------------------------------------------------------------------------------------

    def _mask(self) -> Mask:
        mask = self.branch
        for loop in self.loops:
            mask = self._and(mask, self._and(loop.alive, loop.here))
        return mask

    def _and(self, a: Mask, b: Mask) -> Mask:
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        if a == b:
            return a
        if (a, b) not in self.masks:
            self.masks[a, b] = self.low.op("LOGICAL_AND", a, b)
        return self.masks[a, b]

    def _not(self, a: Mask) -> Mask:
        return not a if isinstance(a, bool) else self.low.op("LOGICAL_NOT", a)

    def _condition(self, node: CoreMlNode, blob: CoreMlValue, name: str) -> Mask:
        """A blob of one number as a condition: anything but 0 is true."""
        tensor = self.low.reshape(blob.tensor, blob.shape)
        data = self.low.data(tensor)
        if blob.shape.count(1) != len(blob.shape):
            node.wrong(f"its condition {name!r} has shape {list(blob.shape)}, not one element")
        if data is not None:
            return bool(data.reshape(-1)[0])
        return self.low.cast(self.low.reshape(tensor, (1,)), DType.BOOL)

    # --- branch and loop ------------------------------------------------------------------------------------

    def _network(self, network: Any) -> None:
        """The layers of an inner network, as long as any of them may take effect."""
        for message in network.layers:
            if self._mask() is False:
                return
            self.count += 1
            if self.count > MAX_LOOPED:
                raise ModelError(f"its loops execute more than {MAX_LOOPED} layers; make them shorter")
            self.run_layer(message)

    def _branch(self, node: CoreMlNode) -> None:
        condition = self._condition(node, node.inputs[0], node.input_names[0])
        outer = self.branch
        for network, mask in (
            (node.params.ifBranch, condition),
            (node.params.elseBranch, self._not(condition)),
        ):
            self.branch = self._and(outer, mask)
            if self.branch is not False:
                self._network(network)
        self.branch = outer

    def _loop(self, node: CoreMlNode) -> None:
        """A while loop whose condition is known at import, or any loop with a number of trips that is."""
        p = node.params
        conditional = p.HasField("conditionNetwork") and bool(p.conditionNetwork.layers)
        trips = node.whole_numbers(0)[0] if node.inputs else int(p.maxLoopIterations)
        endless = conditional and not node.inputs and trips == 0
        loop = _Loop()
        self.loops.append(loop)
        trip = 0
        while endless or trip < trips:
            loop.here = True
            if conditional:
                self._network(p.conditionNetwork)
                loop.alive = self._and(loop.alive, self._loop_condition(node, endless))
            if loop.alive is False:
                break
            if trip == MAX_TRIPS:
                node.unsupported(f"it runs more than {MAX_TRIPS} times", "make the loop shorter")
            self._network(p.bodyNetwork)
            if loop.alive is False:
                break
            trip += 1
        self.loops.pop()

    def _loop_condition(self, node: CoreMlNode, endless: bool) -> Mask:
        name = node.params.conditionVar
        if name not in self.blobs:
            node.wrong(f"conditionVar {name!r} is written by no layer of conditionNetwork")
        condition = self._condition(node, self.blobs[name], name)
        if endless and isinstance(condition, str):
            node.unsupported(
                f"its condition {name!r} is computed at run time, and nothing bounds its trips",
                "give maxLoopIterations: such a loop is unrolled",
            )
        return condition
