"""What the layers of a graph read, and as which part of a stored tensor."""

import collections
import itertools
from collections.abc import Collection

from tosaic.compiler.cost.vector import copy_cycles
from tosaic.compiler.fuse.indexed import plan_indexed
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.moves import move_sources
from tosaic.compiler.fuse.translate import RunTimeScales
from tosaic.compiler.ir import GraphIndex, Operator, data_inputs
from tosaic.compiler.legalize.strided import Strided, strided
from tosaic.compiler.machine import KIND, WINDOWED, Kind
from tosaic.compiler.place.geometry import View
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.place.strides import dense_strides
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.place.weights import StoredWeights
from tosaic.compiler.tile.elementwise import apart_beats, copied_vectors


class FoldedCopies:
    """The views of a graph's images and matrices. `placements` tells where resident images have their rows apart."""

    def __init__(self, tensors: Tensors, placements: dict[str, Placement]):
        self.tensors, self.placements = tensors, placements
        self._views: dict[str, View] = {}
        self._matrices: dict[str, Strided] = {}
        """Second operands of MATMULs that are read as another tensor's elements."""
        self.folded: set[int] = set()
        """Numbers of the operators that need no layer: SLICEs that are views or parts of what they cut, and TRANSPOSEs
        that are views."""
        operators, index_of = tensors.graph.operators, tensors.index
        parts: dict[str, Operator] = {}
        # Those that read come before those that they read from, so that a SLICE of a SLICE can be a part, too.
        for number, operator in reversed(list(enumerate(operators))):
            if operator.op != "SLICE":
                continue
            if self._is_view(operator, index_of.consumers(operator.outputs[0])):
                self._views[operator.outputs[0]] = self._slice(operator)
                self.folded.add(number)
            elif self._is_part(operator, index_of, parts):
                parts[operator.outputs[0]] = operator
                self.folded.add(number)
        for name, operator in reversed(parts.items()):
            tensors.put_inside(name, operator.inputs[0], self._start_bytes(operator))
        numbers = {id(operator): number for number, operator in enumerate(operators)}
        for operator in operators:
            for name in operator.inputs[:2] if operator.op == "MATMUL" else ():
                seen = self._transposed(name, operator, index_of)
                if seen is not None:
                    self.folded.add(numbers[id(seen.transpose)])

    def _is_view(self, operator: Operator, readers: list[Operator]) -> bool:
        """Whether a SLICE cuts an image in H and W, and only convolutions and pools are its `readers`."""
        graph = self.tensors.graph
        name, source = operator.outputs[0], self.tensors[operator.inputs[0]]
        if name in graph.outputs or not readers or source.data is not None:
            return False
        windows = all(
            KIND.get(reader.op) in WINDOWED
            and reader.inputs.index(name) == 0
            and reader.inputs.count(name) == 1
            for reader in readers
        )
        shape = self.tensors.shape(name)
        return windows and len(shape) == 4 and shape[3] == source.shape[3]

    def _is_part(self, operator: Operator, index_of: GraphIndex, parts: Collection[str]) -> bool:
        """Whether the elements of a SLICE follow each other in its source, and only elementwise operators read them,
        which can begin anywhere, and other `parts`."""
        tensors, graph = self.tensors, self.tensors.graph
        name, source = operator.outputs[0], tensors[operator.inputs[0]]
        names = tensors.sharing(name)
        if source.data is not None or not set(names).isdisjoint(graph.outputs):
            return False
        size = tensors.shape(name)
        behind = next((axis for axis, extent in enumerate(size, 1) if extent > 1), len(size))
        if size[behind:] != source.shape[behind:]:
            return False
        readers = [reader for other in names for reader in index_of.consumers(other)]
        return bool(readers) and all(
            reader.outputs[0] in parts
            or KIND.get(reader.op) is Kind.RENAMING
            or (KIND.get(reader.op) is Kind.ELEMENTWISE and _reads_elements(reader, names))
            for reader in readers
        )

    def read_in_place(self, layers: list[Layer]) -> list[Layer]:
        """The layers without those SLICEs whose elements elementwise layers read where they are, though they do not
        follow each other there."""
        readers: dict[str, list[Layer]] = {}
        for layer in layers:
            for name in dict.fromkeys(name for operator in layer.operators for name in operator.inputs):
                readers.setdefault(name, []).append(layer)
        cuts = {
            layer.output: layer.root
            for layer in layers
            if layer.root.op == "SLICE" and self._can_be_apart(layer, readers.get(layer.output, []))
        }
        sharing = collections.Counter(id(layer) for name in cuts for layer in readers[name])
        in_turn = {name for layer in layers for name in layer.program.turns}
        assert in_turn <= cuts.keys()
        for name, cut in list(cuts.items()):
            source = cut.inputs[0]
            # Vectors that end where the rows of one part do fit those of the others, too.
            longer = sum(
                apart_beats(self.tensors, layer, name, source) / sharing[id(layer)] for layer in readers[name]
            )
            if name in in_turn or longer < copy_cycles(copied_vectors(self.tensors, name)):
                self.tensors.put_apart(name, source, self._start_bytes(cut))
            else:
                del cuts[name]
        return [layer for layer in layers if layer.output not in cuts]

    def _can_be_apart(self, cut: Layer, readers: list[Layer]) -> bool:
        """Whether all that reads a SLICE are elementwise layers, which can read it in place."""
        tensors, name, source = self.tensors, cut.output, cut.root.inputs[0]
        if (
            tensors[source].data is not None
            or name in tensors.graph.outputs
            or tensors.sharing(name) != [name]
        ):
            return False
        users = tensors.index.consumers(name)
        inside = [operator for layer in readers for operator in layer.operators]
        elementwise = all(layer.base is None and KIND[layer.root.op] is Kind.ELEMENTWISE for layer in readers)
        if not readers or not elementwise or not all(any(user is each for each in inside) for user in users):
            return False
        return all(_reads_elements(user, [name]) for user in users)

    def _start_bytes(self, operator: Operator) -> int:
        """Bytes from the start of a SLICE's source to its first element."""
        source = operator.inputs[0]
        start = [int(v) for v in self.tensors.graph.operand_value(operator, "start")]
        strides = dense_strides(self.tensors.shape(source), self.tensors.element(source).bytes)
        return sum(s * stride for s, stride in zip(start, strides, strict=True))

    def _slice(self, operator: Operator) -> View:
        source = operator.inputs[0]
        strides = dense_strides(self.tensors.shape(source), self.tensors.element(source).bytes)
        return View(self.tensors.storage[source], self._start_bytes(operator), strides[1], strides[0])

    def _transposed(self, name: str, product: Operator, index_of: GraphIndex) -> Strided | None:
        """What a MATMUL reads instead of an operand that a TRANSPOSE makes for it alone; None where it cannot."""
        graph, tensors = self.tensors.graph, self.tensors
        seen = strided(graph, index_of, name)
        if seen is None or product.inputs.count(name) > 1 or tensors[seen.source].data is not None:
            return None
        for made, reader in itertools.pairwise((seen.transpose, *seen.between[::-1], product)):
            if made.outputs[0] in graph.outputs or index_of.consumers(made.outputs[0]) != [reader]:
                return None
        if name == product.inputs[1]:
            self._matrices[name] = seen
            return seen
        matrix, row, element = seen.strides
        if element != 1 and tensors.shape(name)[-1] != 1:
            return None
        self._views[name] = View(tensors.storage[seen.source], 0, row, matrix)
        return seen

    def matrix(self, operator: Operator) -> StoredWeights | None:
        """What a MATMUL reads instead of its second operand; None where it reads that."""
        seen = self._matrices.get(operator.inputs[1])
        return None if seen is None else StoredWeights(seen.source, seen.strides)

    def view(self, operator: Operator) -> View:
        """The image [N, H, W, C], or matrix [N, H, C], that a window slides over."""
        name = operator.inputs[0]
        if name in self._views:
            return self._views[name]
        storage = self.tensors.storage[name]
        shape = self.tensors.shape(name)
        placement = self.placements.get(storage)
        if placement is not None and placement.pitch:
            return View(storage, 0, placement.pitch, shape[1] * placement.pitch)
        strides = dense_strides(shape, self.tensors.element(name).bytes)
        return View(storage, 0, strides[1], strides[0])

    def reads(self, layer: Layer) -> list[str]:
        """Storage names of the tensors that a layer reads while it runs."""
        kind = KIND[layer.root.op]
        if kind is Kind.CONTROL_FLOW:
            return self.tensors.stored(layer.root.inputs)
        if kind is Kind.LAYOUT:
            return self.tensors.stored(move_sources(layer.root))
        if kind is Kind.GATHER_SCATTER:
            return self.tensors.stored(plan_indexed(self.tensors.graph, layer.root).run_time_sources())
        loads = [load for stream, load in enumerate(layer.program.loads) if stream not in layer.lines]
        names = [self.tensors.storage[load.tensor] for load in loads]
        if layer.base is not None and KIND[layer.base.op] is Kind.ARRAY:
            names.insert(0, self.view(layer.base).storage)
        elif layer.base is not None and KIND[layer.base.op] is Kind.POOL:
            names[0] = self.view(layer.base).storage
        return list(dict.fromkeys(names))

    def parameters(self, layer: Layer) -> list[str]:
        """Storage names of what a layer reads before it runs: weights that the machine packs, a table, scales."""
        names = [] if layer.table is None else [layer.table]
        if isinstance(layer.per_channel, RunTimeScales):
            names += [layer.per_channel.multipliers, layer.per_channel.shifts]
        if layer.base is not None and KIND[layer.base.op] is Kind.ARRAY:
            matrix = self.matrix(layer.base)
            names.append(layer.base.inputs[1] if matrix is None else matrix.name)
        return [self.tensors.storage[name] for name in names if self.tensors[name].data is None]


def _reads_elements(reader: Operator, names: Collection[str]) -> bool:
    """Whether an elementwise operator reads one of some tensors element by element, and none as a table or a scale."""
    return set(names).isdisjoint(reader.inputs[len(data_inputs(reader)) :])
