"""The compiler: a TOSA integer graph to a program."""

import dataclasses
import itertools
import math
from collections.abc import Callable

from tosaic.compiler.ir import Graph, Operator, validate
from tosaic.compiler.ir.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, ISA_HASH, Instruction, Opcode, encode, make

from .integers import require_integers
from .kernels.convolution import ConvolutionPlan, emit_convolution, plan_convolution
from .kernels.elementwise import box_buffers, emit_elementwise, stripeable, tileable
from .kernels.emitter import DATA_REGION, Emitter
from .kernels.geometry import View, Window, window_of
from .kernels.move import MoveKernel
from .kernels.operands import WINDOW, Operands, Placement, StripeBuffer, stripe_buffers
from .kernels.params import ParamBlock, pack_params, pack_table
from .kernels.pool import emit_pool
from .kernels.strides import dense_strides
from .lower.decompose import decompose
from .lower.layers import ARRAY_OPERATORS, POOLS, Fuser, Layer
from .lower.moves import MOVES, move_sources, plan_move
from .lower.translate import ELEMENT
from .memory import Arena, OutOfMemory
from .normalise import normalise, storage_names
from .program import LayerInfo, Port, Program
from .schedule.interleave import interleave

_LARGEST_MEMORY_BYTES = (1 << 32) - DATA_REGION
"""Of inputs, outputs and spilled tensors; instructions have 32-bit addresses, the rest is for constants."""
_RESIDENCY = (0.75, 0.5, 0.25, 0.125, 0.0)
"""Largest share of the activation memory one tensor may occupy, tried in turn until every layer fits."""

_LINGER_LAYERS = 6
"""Layers for which a layer's parameters keep their memory after it, see `_free_after`."""


def compile_graph(
    graph: Graph,
    config: Config,
    *,
    optimize: bool = True,
    keep_layers: bool = False,
    on_layer: Callable[[str, int, int], None] | None = None,
) -> Program:
    """Compiles `graph` for `config`.

    `optimize=False` gives every operator a layer of its own, `keep_layers` leaves every layer's output in external
    memory (Program.kept). Raises ModelError for an illegal graph and UnsupportedError for a legal one that this
    accelerator does not run.
    """
    validate(graph)
    require_integers(graph)
    names, graph = set(graph.tensors), normalise(decompose(normalise(graph)))
    problem: OutOfMemory | FieldOverflow | None = None
    for residency in _RESIDENCY:
        try:
            return _Builder(graph, names, config, residency, optimize, keep_layers, on_layer).build()
        except (OutOfMemory, FieldOverflow) as error:
            problem = error
    assert problem is not None
    if isinstance(problem, FieldOverflow):
        raise UnsupportedError(f"{problem}; split the tensor into smaller ones")
    raise UnsupportedError(f"{problem}; use a configuration with more activation memory than {config.name!r}")


class FieldOverflow(Exception):
    """A layer is so large that a count does not fit its field; with shorter stripes it may."""


class _Builder:
    def __init__(
        self,
        graph: Graph,
        names: set[str],
        config: Config,
        residency: float,
        optimize: bool,
        keep: bool,
        on_layer: Callable[[str, int, int], None] | None,
    ):
        self.graph, self.config, self.keep, self.on_layer = graph, config, keep, on_layer
        self.names = names
        self.limit_bytes = int(config.am_bytes * residency)
        self.storage = storage_names(graph)
        self.emitter = Emitter(config)
        self.arena = Arena(config.am_bytes, config.columns)
        self.data_bytes = 0
        self.placements: dict[str, Placement] = {}
        self.ports: dict[str, Port] = {}
        renaming = {i for i, op in enumerate(graph.operators) if op.op in ("RESHAPE", "IDENTITY")}
        self.views, folded = self._folded_slices(renaming)
        self.layers = Fuser(graph, config, fuse=optimize).layers(renaming | folded)
        self.last_use = self._last_uses()
        self.pending_free: list[list[int]] = []

    # --- whole program

    def build(self) -> Program:
        graph = self.graph
        for name in graph.inputs:
            self._external(name)
        infos, kept = [], []
        for index, layer in enumerate(self.layers):
            if self.on_layer:
                self.on_layer(layer.name, index, len(self.layers))
            try:
                macs = self._layer(index, layer)
            except ValueError as error:
                tensor = graph.tensors[layer.output]
                raise FieldOverflow(f"{layer.root}: {tensor} needs an instruction whose {error}") from error
            self.emitter.mark(index)
            names = tuple(op.name for op in layer.operators)
            name = self._shown(layer.output)
            infos.append(LayerInfo(name, (layer.base or layer.root).op, macs, name, names))
            # What a decomposition puts in between is not in the model, so golden does not know it.
            if self.keep and name in self.names:
                kept.append(layer.output)
        outputs = [self._output(name) for name in graph.outputs]
        return self._layout(infos, [self.ports[name] for name in graph.inputs], outputs, kept)

    def _layout(
        self, infos: list[LayerInfo], inputs: list[Port], outputs: list[Port], kept: list[str]
    ) -> Program:
        """Places constants, program and data one after the other, and fixes the addresses."""
        config, items = self.config, interleave(self.emitter.tracker.items)
        instructions = [make(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=config.hash)]
        for item in items:
            instructions += item.instructions()
        instructions.append(make(Opcode.END))
        program_address = -(-self.emitter.constants.size_bytes // 4096) * 4096
        program_bytes = len(instructions) * INSTRUCTION_BYTES
        data_address = -(-(program_address + program_bytes) // 4096) * 4096
        code = b"".join(encode(_relocated(instruction, data_address)) for instruction in instructions)
        constants = self.emitter.constants.bytes()
        image = constants + bytes(program_address - len(constants)) + code
        memory_bytes = -(-(data_address + self.data_bytes) // 4096) * 4096

        def moved(port: Port) -> Port:
            address = port.address
            return dataclasses.replace(
                port, address=address - DATA_REGION + data_address if address >= DATA_REGION else address
            )

        return Program(
            config=config,
            image=image,
            program_address=program_address,
            program_bytes=program_bytes,
            memory_bytes=memory_bytes,
            inputs=[moved(port) for port in inputs],
            outputs=[moved(port) for port in outputs],
            kept=[self._renamed(moved(self.ports[name])) for name in kept],
            layers=infos,
        )

    def _shown(self, name: str) -> str:
        """The model's name for a tensor: normalisation may have made it under another one."""
        if name in self.names:
            return name
        same = (other for other, root in self.storage.items() if root == self.storage[name])
        # Behind several unary operators the RESHAPE makes only the last result; the others keep their bytes.
        return next((other for other in same if other in self.names), name.removesuffix("'"))

    def _renamed(self, port: Port) -> Port:
        name = self._shown(port.name)
        return dataclasses.replace(port, name=name, shape=tuple(self.graph.tensors[name].shape))

    # --- tensors

    def _size(self, name: str) -> int:
        tensor = self.graph.tensors[name]
        if tensor.dtype not in ELEMENT:
            raise UnsupportedError(
                f"tensor {tensor} cannot be in the accelerator's memory: its type does not run yet"
            )
        return math.prod(tensor.shape) * ELEMENT[tensor.dtype].bytes

    def _external(self, name: str) -> Placement:
        """A tensor of the graph boundary, or one that is spilled, in external memory."""
        address = DATA_REGION + self.data_bytes
        size = self._size(name)
        self.data_bytes += -(-size // 64) * 64
        if self.data_bytes > _LARGEST_MEMORY_BYTES:
            raise UnsupportedError(
                f"tensor {self.graph.tensors[name]} does not fit the 4 GiB of external memory that instructions "
                "address; split the network"
            )
        tensor = self.graph.tensors[name]
        self.ports[name] = Port(name, tuple(tensor.shape), tensor.dtype, address, size)
        self.placements[self.storage[name]] = Placement(False, address, size)
        return self.placements[self.storage[name]]

    def _output(self, name: str) -> Port:
        """The port of a graph output; a constant or renamed tensor is copied where the host finds it."""
        tensor, root = self.graph.tensors[name], self.storage[name]
        if tensor.data is not None:
            raw = tensor.data.astype(tensor.dtype.numpy)
            return Port(
                name, tuple(tensor.shape), tensor.dtype, self.emitter.add_constant(raw), self._size(name)
            )
        known = self.ports.get(name) or self.ports.get(root)
        if known is None:
            known = next(port for key, port in self.ports.items() if self.storage[key] == root)
        return dataclasses.replace(known, name=name, shape=tuple(tensor.shape))

    def _last_uses(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for index, layer in enumerate(self.layers):
            for name in self._reads(layer):
                last[name] = index
            last.setdefault(self.storage[layer.output], index)
        return last

    def _reads(self, layer: Layer) -> list[str]:
        """Storage names a layer reads."""
        if layer.root.op in MOVES:
            return list(dict.fromkeys(self.storage[name] for name in move_sources(layer.root)))
        names = [self.storage[load.tensor] for load in layer.program.loads]
        if layer.base is not None and layer.base.op in ARRAY_OPERATORS:
            names.insert(0, self._view(layer.base).storage)
        elif layer.base is not None and layer.base.op in POOLS:
            names[0] = self._view(layer.base).storage
        return list(dict.fromkeys(names))

    # --- views

    def _folded_slices(self, renaming: set[int]) -> tuple[dict[str, View], set[int]]:
        """SLICEs of images in H and W that only convolutions and pools read become views of their source."""
        graph, views, folded = self.graph, {}, set()
        for index, operator in enumerate(graph.operators):
            if operator.op != "SLICE" or index in renaming:
                continue
            name, source = operator.outputs[0], graph.tensors[operator.inputs[0]]
            readers = graph.consumers(name)
            windows = all(r.op in (*ARRAY_OPERATORS, *POOLS) and r.inputs[0] == name for r in readers)
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
        return View(self.storage[name], 0, strides[1], strides[0])

    # --- one layer

    def _layer(self, index: int, layer: Layer) -> int:
        """Emits a layer; its multiply-accumulates."""
        if layer.root.op in MOVES:
            return self._move(index, layer)
        graph, base = self.graph, layer.base
        window: Window | None = None
        plan: ConvolutionPlan | None = None
        macs = 0
        if base is not None and base.op in (*ARRAY_OPERATORS, *POOLS):
            window = window_of(graph, base, self._view(base))
            if base.op in ARRAY_OPERATORS:
                plan = plan_convolution(graph, layer, window, self.emitter)
                window, macs = plan.window, plan.macs
            else:
                size = ELEMENT[graph.tensors[base.inputs[0]].dtype].bytes
                window = dataclasses.replace(window, ic=window.ic * size)
        params, table = self._params(layer, plan)
        temporary: list[int] = []
        params_address = self._temporary(params.data, temporary)
        table_place = None
        if table is not None:
            table_place = (self._temporary(table[0], temporary), table[1])
        reads = self._reads(layer)
        for name in reads:
            self._bring(name, index)
        output = self.storage[layer.output]
        self._place_output(layer, output, reads, index)
        rows, buffers, taken = self._stripes(layer, window, reads, output)
        operands = Operands(self.emitter, self.placements, buffers)
        if plan is not None:
            emit_convolution(
                graph,
                layer,
                plan,
                operands,
                self.emitter,
                rows,
                params,
                params_address,
                table_place,
                self.storage,
            )
        elif window is not None:
            emit_pool(graph, layer, window, operands, self.emitter, rows, table_place, self.storage)
        else:
            emit_elementwise(
                graph, layer, operands, self.emitter, rows, params, params_address, table_place, self.storage
            )
        self._finish(layer)
        self._free_after(index, temporary + taken)
        return macs

    def _move(self, index: int, layer: Layer) -> int:
        """Emits a layout operator."""
        reads, output = self._reads(layer), self.storage[layer.output]
        for name in reads:
            self._bring(name, index, beside_bytes=self._size(layer.output))
        self._place_output(layer, output, reads, index)
        size = ELEMENT[self.graph.tensors[layer.output].dtype].bytes
        self._release_pending()
        kernel = MoveKernel(
            self.emitter, self.placements, self.storage, size, self._allocate_high, self.arena.free
        )
        buffers = kernel.emit(plan_move(self.graph, layer.root), layer.output)
        self._finish(layer)
        self._free_after(index, buffers)
        return 0

    def _allocate_high(self, size_bytes: int) -> int | None:
        return self._allocate(size_bytes, high=True)

    def _finish(self, layer: Layer) -> None:
        """Stores a resident result that the host or a check wants."""
        placement = self.placements[self.storage[layer.output]]
        if placement.resident and (self.keep or self._leaves(self.storage[layer.output])):
            port = self._external_copy(layer.output)
            self.emitter.store(placement.address, port.address, port.bytes)

    def _leaves(self, output: str) -> bool:
        return any(self.storage[name] == output for name in self.graph.outputs)

    def _external_copy(self, name: str) -> Port:
        resident = self.placements[self.storage[name]]
        self._external(name)
        self.placements[self.storage[name]] = resident
        return self.ports[name]

    def _params(
        self, layer: Layer, plan: ConvolutionPlan | None
    ) -> tuple[ParamBlock, tuple[bytes, int] | None]:
        columns = self.config.columns
        if plan is not None:
            per_tile = plan.tiles[0].channels
            bias = plan.bias if layer.program.bias else None
            params = pack_params(plan.channels, per_tile, columns, bias, layer.per_channel)
        elif layer.per_channel is not None:
            tensor = self.graph.tensors[layer.output]
            size = max(ELEMENT[tensor.dtype].bytes, layer.program.load_element_bytes())
            params = pack_params(tensor.shape[-1], columns // size, columns, None, layer.per_channel)
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

    def _temporary(self, data: bytes, taken: list[int]) -> int:
        """Brings constants into activation memory for the time of a layer."""
        if not data:
            return 0
        address = self._allocate(len(data), high=True)
        if address is None:
            raise OutOfMemory(f"{len(data)} bytes of parameters do not fit the activation memory")
        taken.append(address)
        self.emitter.load(self.emitter.add_constant(data), address, len(data))
        return address

    def _bring(self, name: str, index: int, beside_bytes: int = 0) -> None:
        """Makes an input of the layer resident if there is enough memory, `beside_bytes` left over."""
        if name not in self.placements:
            tensor = self.graph.tensors[name]
            if tensor.data is None:
                raise AssertionError(f"tensor {name} is read before it is written")
            constant = self.emitter.add_constant(tensor.data.astype(tensor.dtype.numpy))
            self.placements[name] = Placement(False, constant, self._size(name))
        placement = self.placements[name]
        if placement.resident or placement.bytes + beside_bytes > self.limit_bytes:
            return
        address = self._allocate(placement.bytes)
        if address is not None:
            self.emitter.load(placement.address, address, placement.bytes)
            self.placements[name] = Placement(True, address, placement.bytes)

    def _place_output(self, layer: Layer, output: str, reads: list[str], index: int) -> None:
        size = self._size(layer.output)
        streamed = sum(self.placements[name].bytes for name in reads if not self.placements[name].resident)
        if size <= self.limit_bytes:
            reserve = min(self.config.am_bytes // 4 if streamed else 0, streamed)
            address = self._allocate(size)
            if address is not None and self.arena.largest_gap_bytes() < reserve and self.pending_free:
                self.arena.free(address)
                self._release_pending()
                address = self._allocate(size)
            if address is not None and self.arena.largest_gap_bytes() >= reserve:
                self.placements[output] = Placement(True, address, size)
                return
            if address is not None:
                self.arena.free(address)
        self._external(layer.output)

    def _stripes(
        self, layer: Layer, window: Window | None, reads: list[str], output: str
    ) -> tuple[int, dict[str, StripeBuffer], list[int]]:
        """(rows or elements per stripe, buffers, addresses to free) for tensors that are not resident."""
        external = [name for name in [*reads, output] if not self.placements[name].resident]
        elements = math.prod(self.graph.tensors[layer.output].shape)
        whole = window.oh if window is not None else elements
        if not external:
            return whole, {}, []
        self._release_pending()
        if window is None and not stripeable(self.graph, layer):
            if tileable(layer):
                return self._boxes(layer, external)
            sizes = {name: self.placements[name].bytes for name in external}
            return whole, *stripe_buffers(self.arena, sizes)
        step = 1 if window is not None else self.config.columns
        low, high, best = 1, max(1, whole // step), None
        while low <= high:
            middle = (low + high) // 2
            try:
                buffers, taken = stripe_buffers(
                    self.arena, self._stripe_sizes(layer, window, middle * step, external, output)
                )
            except OutOfMemory:
                high = middle - 1
                continue
            doubled = middle * step >= whole or all(len(b.addresses) == 2 for b in buffers.values())
            for address in taken:
                self.arena.free(address)
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
        return best * step, *stripe_buffers(self.arena, sizes)

    def _boxes(self, layer: Layer, external: list[str]) -> tuple[int, dict[str, StripeBuffer], list[int]]:
        """`_stripes` of a layer that broadcasts: the largest boxes of the result that fit."""
        limit = math.prod(self.graph.tensors[layer.output].shape)
        # Smaller boxes would take ages; then rather let fewer tensors be resident.
        smallest = min(limit, self.config.am_bytes // 64)
        while True:
            wanted = box_buffers(self.graph, layer, limit)
            sizes = {
                role + self.storage[name]: size
                for role, name, size in wanted
                if self.storage[name] in external
            }
            try:
                return limit, *stripe_buffers(self.arena, sizes)
            except OutOfMemory:
                if limit == smallest:
                    raise
                limit = max(smallest, limit // 2)

    def _stripe_sizes(
        self, layer: Layer, window: Window | None, rows: int, external: list[str], output: str
    ) -> dict[str, int]:
        sizes = {}
        elements = math.prod(self.graph.tensors[layer.output].shape)
        extra = [self.storage[load.tensor] for load in layer.program.loads[layer.program.body_loads :]]
        for name in external:
            whole = self.placements[name].bytes
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

    def _allocate(self, size_bytes: int, *, high: bool = False) -> int | None:
        """A block, if need be in memory that the layer before may still be reading: the tracker makes that wait."""
        address = self.arena.allocate(size_bytes, high=high)
        if address is None and self.pending_free:
            self._release_pending()
            address = self.arena.allocate(size_bytes, high=high)
        return address

    def _release_pending(self) -> None:
        for address in itertools.chain(*self.pending_free):
            self.arena.free(address)
        self.pending_free = []

    def _free_after(self, index: int, temporary: list[int]) -> None:
        """Frees what dies with this layer. Buffers of the layer itself stay some layers longer, unless memory runs
        short, so that the parameters of the next ones are fetched into other memory while this one computes."""
        self.pending_free.append(temporary)
        if len(self.pending_free) > _LINGER_LAYERS:
            for address in self.pending_free.pop(0):
                self.arena.free(address)
        for name, last in list(self.last_use.items()):
            if last == index and name in self.placements and self.placements[name].resident:
                self.arena.free(self.placements[name].address)
                del self.placements[name]


def _relocated(instruction: Instruction, data_address: int) -> Instruction:
    address = instruction.fields.get("memory_address")
    if address is None or address < DATA_REGION:
        return instruction
    return make(
        instruction.opcode, **{**instruction.fields, "memory_address": address - DATA_REGION + data_address}
    )
