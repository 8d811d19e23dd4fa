"""How a layer whose tensors are not resident is cut into stripes that fit the activation memory."""

import math

from tosaic.compiler.ir import Graph

from .kernels.elementwise import box_buffers, stripeable, tileable
from .kernels.geometry import Window
from .kernels.operands import WINDOW, StripeBuffer, stripe_buffers
from .lower.layers import Layer
from .memory import OutOfMemory
from .placer import Placer


class Striper:
    """Chooses stripes; the buffers come out of the placer's arena."""

    def __init__(self, graph: Graph, placer: Placer):
        self.graph, self.placer = graph, placer

    def stripes(
        self, layer: Layer, window: Window | None, reads: list[str], output: str
    ) -> tuple[int, dict[str, StripeBuffer], list[int]]:
        """(rows or elements per stripe, buffers, addresses to free) for tensors that are not resident."""
        external = [name for name in [*reads, output] if not self.placer.placements[name].resident]
        elements = math.prod(self.graph.tensors[layer.output].shape)
        whole = window.oh if window is not None else elements
        if not external:
            return whole, {}, []
        self.placer.release_pending()
        if window is None and not stripeable(self.graph, layer):
            if tileable(layer):
                return self._boxes(layer, external)
            sizes = {name: self.placer.placements[name].bytes for name in external}
            return whole, *stripe_buffers(self.placer.arena, sizes)
        step = 1 if window is not None else self.placer.config.columns
        low, high, best = 1, max(1, whole // step), None
        while low <= high:
            middle = (low + high) // 2
            try:
                buffers, taken = stripe_buffers(
                    self.placer.arena, self._stripe_sizes(layer, window, middle * step, external, output)
                )
            except OutOfMemory:
                high = middle - 1
                continue
            doubled = middle * step >= whole or all(len(b.addresses) == 2 for b in buffers.values())
            for address in taken:
                self.placer.arena.free(address)
            if doubled or best is None or middle == 1:
                best = middle
            if doubled:
                low = middle + 1
            else:
                high = middle - 1
        if best is None:
            raise OutOfMemory(
                f"{layer.root}: one row of {self.graph.tensors[layer.output]} and its inputs "
                "do not fit the activation memory"
            )
        sizes = self._stripe_sizes(layer, window, best * step, external, output)
        return best * step, *stripe_buffers(self.placer.arena, sizes)

    def _boxes(self, layer: Layer, external: list[str]) -> tuple[int, dict[str, StripeBuffer], list[int]]:
        """`stripes` of a layer that broadcasts: the largest boxes of the result that fit."""
        limit = math.prod(self.graph.tensors[layer.output].shape)
        # Smaller boxes would take ages; then rather let fewer tensors be resident.
        smallest = min(limit, self.placer.config.am_bytes // 64)
        while True:
            wanted = box_buffers(self.graph, layer, limit)
            sizes = {
                role + self.placer.storage[name]: size
                for role, name, size in wanted
                if self.placer.storage[name] in external
            }
            try:
                return limit, *stripe_buffers(self.placer.arena, sizes)
            except OutOfMemory:
                if limit == smallest:
                    raise
                limit = max(smallest, limit // 2)

    def _stripe_sizes(
        self, layer: Layer, window: Window | None, rows: int, external: list[str], output: str
    ) -> dict[str, int]:
        sizes = {}
        elements = math.prod(self.graph.tensors[layer.output].shape)
        extra = [self.placer.storage[load.tensor] for load in layer.program.loads[layer.program.body_loads :]]
        for name in external:
            whole = self.placer.placements[name].bytes
            if window is not None and name == window.view.storage:
                spans = [
                    window.input_span(0, *window.input_rows(oy, min(oy + rows, window.oh)))
                    for oy in range(0, window.oh, rows)
                ]
                sizes[WINDOW + name] = max(stop - start for start, stop in spans)
            if window is not None and (name == output or name in extra):
                sizes[name] = min(whole, rows * (whole // (window.n * window.oh)))
            elif window is None:
                sizes[name] = min(whole, rows * (whole // elements))
        return sizes
