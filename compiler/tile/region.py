"""The layers of one graph, emitted one after the other. A graph that control flow runs is a region of its own."""

import dataclasses
import functools
from collections.abc import Callable

from tosaic.compiler.emit.control_flow import ControlFlow
from tosaic.compiler.emit.convolution import (
    ConvolutionPlan,
    box_work,
    convolution_boxes,
    emit_convolution,
    plan_convolution,
)
from tosaic.compiler.emit.elementwise import channel_tile, emit_elementwise
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.indexed import IndexedKernel
from tosaic.compiler.emit.operands import Arrival, Operands, Placement
from tosaic.compiler.emit.placed_params import PlacedParams
from tosaic.compiler.emit.pool import emit_pool, pool_boxes, pool_lanes
from tosaic.compiler.fuse.indexed import INDEXED, plan_indexed
from tosaic.compiler.fuse.layers import ARRAY_OPERATORS, CONTROL_FLOW, POOLS, Fuser, Layer
from tosaic.compiler.fuse.moves import MOVES, move_sources, plan_move
from tosaic.compiler.fuse.translate import ELEMENT
from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.legalize.normalise import storage_names
from tosaic.compiler.place.compression import WeightCoder
from tosaic.compiler.place.geometry import View, Window, window_of
from tosaic.compiler.place.packer import Packer
from tosaic.compiler.place.params import ParamBlock, pack_params, pack_table
from tosaic.compiler.place.placer import Memories, Placer
from tosaic.compiler.place.row_pairs import paired_pitches
from tosaic.compiler.place.strides import dense_strides
from tosaic.compiler.program import LayerInfo
from tosaic.compiler.tile.stripes import Striper
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import FieldRangeError

_PIECE_BYTES = 4096
_MOST_PIECES = 8
"""A layer whose input arrives from external memory is cut into so many boxes, of at least so many input bytes."""


class FieldOverflow(Exception):
    """A layer is so large that a count does not fit its field; with shorter stripes it may."""


@dataclasses.dataclass
class Context:
    """What all regions of a program share."""

    config: Config
    emitter: Emitter
    memories: Memories
    optimize: bool
    digits: bool = False
    """int32 tensors between array layers may lie as digits, see `lower/digits.py`."""
    coder: WeightCoder | None = None
    """Codes constant weights."""
    infos: list[LayerInfo] = dataclasses.field(default_factory=list)
    """The program's layers so far; VECTOR_MARK has their index."""


class Region:
    """One graph on its way into the program. `names` are the model's tensors: what decompositions put in between is
    not among them. `keep` leaves every layer's output in external memory. The results of a region that is `nested` in
    another one stay where they are until `placer.close()`."""

    def __init__(
        self, graph: Graph, names: set[str], context: Context, *, keep: bool = False, nested: bool = False
    ):
        self.graph, self.names, self.context = graph, names, context
        self.keep, self.nested = keep, nested
        self.config, self.emitter = context.config, context.emitter
        self.storage = storage_names(graph)
        self.placer = Placer(graph, self.config, self.emitter, self.storage, context.memories)
        self.striper = Striper(graph, self.placer)
        self.packer = Packer(graph, self.placer, context.coder)
        self.kept: list[str] = []
        """Outputs of layers that stay in external memory."""
        renaming = {i for i, op in enumerate(graph.operators) if op.op in ("RESHAPE", "IDENTITY")}
        self.views, folded = self._folded_slices(renaming)
        self.layers = Fuser(graph, self.config, fuse=context.optimize, digits=context.digits).layers(
            renaming | folded
        )
        self.placer.last_use = self._last_uses()
        if not keep and not nested:
            self.placer.pitches = paired_pitches(graph, self.layers, self.storage, self.config)

    def emit(self, on_layer: Callable[[str, int, int], None] | None = None) -> None:
        """Emits every layer. Those of graphs that control flow runs are listed before the operator that runs them, and
        marked every time they run."""
        infos = self.context.infos
        for index, layer in enumerate(self.layers):
            if on_layer:
                on_layer(layer.name, index, len(self.layers))
            try:
                macs = self._layer(index, layer)
            except FieldRangeError as error:
                tensor = self.graph.tensors[layer.output]
                raise FieldOverflow(f"{layer.root}: {tensor} needs an instruction whose {error}") from error
            self.emitter.mark(len(infos))
            names = tuple(op.name for op in layer.operators)
            name = self.shown(layer.output)
            infos.append(LayerInfo(name, (layer.base or layer.root).op, macs, name, names))
            # What a decomposition puts in between is not in the model, so golden does not know it.
            if self.keep:
                self.kept += [output for output in layer.root.outputs if self.shown(output) in self.names]
        self.placer.release_pending()

    def _nested(self, graph: Graph) -> "Region":
        return Region(graph, set(), self.context, nested=True)

    def result(self, index: int) -> Placement:
        """Where an output of the graph is."""
        name = self.graph.outputs[index]
        return self.placer.locate(self.storage[name])

    def shown(self, name: str) -> str:
        """The model's name for a tensor: normalisation may have made it under another one."""
        if name in self.names:
            return name
        same = (other for other, root in self.storage.items() if root == self.storage[name])
        # Behind several unary operators the RESHAPE makes only the last result; the others keep their bytes.
        return next((other for other in same if other in self.names), name.removesuffix("'"))

    # --- tensors

    def _last_uses(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for index, layer in enumerate(self.layers):
            for name in [*self._reads(layer), *self._weights(layer)]:
                last[name] = index
            last.setdefault(self.storage[layer.output], index)
        if self.nested:
            last |= {self.storage[name]: len(self.layers) for name in self.graph.outputs}
        return last

    def _reads(self, layer: Layer) -> list[str]:
        """Storage names a layer reads."""
        if layer.root.op in CONTROL_FLOW:
            return list(dict.fromkeys(self.storage[name] for name in layer.root.inputs))
        if layer.root.op in MOVES:
            return list(dict.fromkeys(self.storage[name] for name in move_sources(layer.root)))
        if layer.root.op in INDEXED:
            sources = plan_indexed(self.graph, layer.root).run_time_sources()
            return list(dict.fromkeys(self.storage[name] for name in sources))
        names = [self.storage[load.tensor] for load in layer.program.loads]
        if layer.base is not None and layer.base.op in ARRAY_OPERATORS:
            names.insert(0, self._view(layer.base).storage)
        elif layer.base is not None and layer.base.op in POOLS:
            names[0] = self._view(layer.base).storage
        return list(dict.fromkeys(names))

    def _weights(self, layer: Layer) -> list[str]:
        """Storage names of the weights that a layer packs on the machine."""
        if layer.base is None or layer.base.op not in ARRAY_OPERATORS:
            return []
        name = layer.base.inputs[1]
        return [self.storage[name]] if self.graph.const(name) is None else []

    # --- views

    def _folded_slices(self, renaming: set[int]) -> tuple[dict[str, View], set[int]]:
        """SLICEs of images in H and W that only convolutions and pools read become views of their source."""
        graph, views, folded = self.graph, {}, set()
        for index, operator in enumerate(graph.operators):
            if operator.op != "SLICE" or index in renaming:
                continue
            name, source = operator.outputs[0], graph.tensors[operator.inputs[0]]
            readers = graph.consumers(name)
            windows = all(
                r.op in (*ARRAY_OPERATORS, *POOLS) and r.inputs.index(name) == 0 and r.inputs.count(name) == 1
                for r in readers
            )
            if name in graph.outputs or not readers or not windows or source.data is not None:
                continue
            start = [int(v) for v in graph.operand_value(operator, "start")]
            shape = graph.tensors[name].shape
            if len(shape) != 4 or shape[3] != source.shape[3]:
                continue
            size = ELEMENT[source.dtype].bytes
            strides = dense_strides(source.shape, size)
            offset = sum(s * stride for s, stride in zip(start, strides, strict=True))
            views[name] = View(self.storage[operator.inputs[0]], offset, strides[1], strides[0])
            folded.add(index)
        return views, folded

    def _view(self, operator: Operator) -> View:
        name = operator.inputs[0]
        if name in self.views:
            return self.views[name]
        tensor = self.graph.tensors[name]
        strides = dense_strides(tensor.shape, ELEMENT[tensor.dtype].bytes)
        # Of an image [N, H, W, C], or of a matrix [N, H, C].
        placement = self.placer.placements.get(self.storage[name])
        if placement is not None and placement.pitch:
            return View(self.storage[name], 0, placement.pitch, tensor.shape[1] * placement.pitch)
        return View(self.storage[name], 0, strides[1], strides[0])

    # --- one layer

    def _layer(self, index: int, layer: Layer) -> int:
        """Emits a layer; its multiply-accumulates."""
        if layer.root.op in CONTROL_FLOW:
            self.placer.release_pending()
            flow = ControlFlow(self.graph, self.storage, self.placer, self.emitter, self._nested)
            flow.emit(layer.root)
            self.placer.free_after(index, [])
            return 0
        if layer.root.op in (*MOVES, *INDEXED):
            return self._move(index, layer)
        graph, base = self.graph, layer.base
        window: Window | None = None
        plan: ConvolutionPlan | None = None
        macs = 0
        arrivals: dict[str, Arrival] = {}
        if base is not None and base.op in (*ARRAY_OPERATORS, *POOLS):
            arrivals = self._arriving(layer)
            window = window_of(graph, base, self._view(base))
            if base.op in ARRAY_OPERATORS:
                plan = plan_convolution(graph, layer, window, self.config, self.packer.pack)
                window, macs = plan.window, plan.macs
            else:
                size = ELEMENT[graph.tensors[base.inputs[0]].dtype].bytes
                window = dataclasses.replace(window, ic=window.ic * size)
        params, table = self._params(layer, plan)
        temporary = plan.weights.buffers() if plan is not None else []
        placed = self._placed(params, temporary)
        param_bytes = params.tile_bytes if placed.constant_address is not None else 0
        table_place = None
        if table is not None:
            table_place = (self.placer.temporary(table[0], temporary), table[1])
        reads = self._reads(layer)
        for name in reads:
            self.placer.bring(name)
        output = self.storage[layer.output]
        self.placer.place_output(layer.output, output, reads)
        if window is not None:
            if plan is not None:
                cut = convolution_boxes(plan, self.config)
            else:
                cut = pool_boxes(graph, layer, window, pool_lanes(graph, layer, self.config))
            extent, buffers, taken = self.striper.image_boxes(
                layer,
                cut,
                reads,
                output,
                param_bytes,
                functools.partial(box_work, plan, self.config) if plan is not None else None,
            )
            if arrivals and not buffers:
                extent = dataclasses.replace(
                    extent, rows=min(extent.rows, self._rows_while_arriving(window, plan, arrivals))
                )
        else:
            count, buffers, taken = self.striper.stripes(layer, reads, output, param_bytes)
        operands = Operands(self.emitter, self.placer.placements, buffers)
        operands.arrivals = arrivals
        if plan is not None:
            emit_convolution(
                graph, layer, plan, operands, self.emitter, extent, placed, table_place, self.storage
            )
        elif window is not None:
            emit_pool(graph, layer, window, operands, self.emitter, extent, table_place, self.storage)
        else:
            emit_elementwise(graph, layer, operands, self.emitter, count, placed, table_place, self.storage)
        operands.arrive_fully()
        self._finish(layer)
        self.placer.free_after(index, temporary + taken)
        return macs

    def _arriving(self, layer: Layer) -> dict[str, Arrival]:
        """The image that a window slides over, if it comes from external memory now: the first rows are worked on
        while the others come."""
        assert layer.base is not None
        name = self._view(layer.base).storage
        loads = layer.program.loads[layer.program.body_loads :]
        image = len(self.graph.tensors[name].shape) == 4 and layer.base.inputs[0] == name
        if not image or any(self.storage[load.tensor] == name for load in loads):
            return {}
        arrival = self.placer.bring_by_rows(name)
        return {name: arrival} if arrival else {}

    def _rows_while_arriving(
        self, window: Window, plan: ConvolutionPlan | None, arrivals: dict[str, Arrival]
    ) -> int:
        """Output rows per box, so that a box's input is a few KiB; one box if the weights would come twice."""
        if plan is not None and sum(tile.bytes for tile in plan.tiles) > self.config.wm_bytes // 2:
            return window.oh
        size = max(arrival.source.bytes for arrival in arrivals.values()) // window.n
        # Each box of the depthwise mode fills its delay line anew.
        most = _MOST_PIECES // 2 if plan is not None and plan.layout.depthwise else _MOST_PIECES
        pieces = min(most, max(1, size // _PIECE_BYTES))
        return -(-window.oh // pieces)

    def _placed(self, params: ParamBlock, temporary: list[int]) -> PlacedParams:
        """Brings parameters in, unless they are so many that each box brings its own."""
        if len(params.data) > self.config.am_bytes // 4:
            return PlacedParams(params, 0, self.emitter.add_constant(params.data))
        return PlacedParams(params, self.placer.temporary(params.data, temporary))

    def _move(self, index: int, layer: Layer) -> int:
        """Emits an operator that only moves elements."""
        reads, output = self._reads(layer), self.storage[layer.output]
        for name in reads:
            self.placer.bring(name, beside_bytes=self.placer.size_bytes(layer.output))
        self.placer.place_output(layer.output, output, reads)
        size = ELEMENT[self.graph.tensors[layer.output].dtype].bytes
        self.placer.release_pending()
        if layer.root.op in INDEXED:
            kernel = IndexedKernel(
                self.emitter,
                self.placer.placements,
                self.storage,
                size,
                self.placer.allocate_high,
                self.placer.arena.free,
            )
            buffers = kernel.emit(plan_indexed(self.graph, layer.root), layer.output)
        else:
            move = plan_move(self.graph, layer.root)
            work = self.placer.mover(size).start(move, self.placer.placements[output])
            work.emit()
            buffers = work.addresses()
        self._finish(layer)
        self.placer.free_after(index, buffers)
        return 0

    def _finish(self, layer: Layer) -> None:
        """Stores a resident result that the host or a check wants."""
        placement = self.placer.placements[self.storage[layer.output]]
        if placement.resident and (self.keep or self._leaves(self.storage[layer.output])):
            port = self.placer.external_copy(layer.output)
            self.emitter.store(placement.address, port.address, port.bytes)

    def _leaves(self, output: str) -> bool:
        return not self.nested and any(self.storage[name] == output for name in self.graph.outputs)

    def _params(
        self, layer: Layer, plan: ConvolutionPlan | None
    ) -> tuple[ParamBlock, tuple[bytes, int] | None]:
        columns = self.config.columns
        if plan is not None:
            per_tile = plan.tiles[0].blob.channels
            bias = plan.bias if layer.program.bias else None
            scales = layer.per_channel and layer.per_channel.repeated(plan.pixels)
            params = pack_params(plan.channels, per_tile, columns, bias, scales)
        elif layer.per_channel is not None:
            tile = channel_tile(self.graph, layer, self.config)
            channels = self.graph.tensors[layer.output].shape[-1]
            params = pack_params(channels, tile, columns, None, layer.per_channel)
        else:
            params = ParamBlock(b"", 0, False, False)
        table = None
        if layer.table is not None:
            values = self.graph.const(layer.table)
            if values is None:
                raise UnsupportedError(
                    f"{layer.root}: the table {self.graph.tensors[layer.table]} is computed at run time"
                )
            table = pack_table(values)
        return params, table
