"""How CONV2D, DEPTHWISE_CONV2D and MATMUL map to the array, independent of where their tensors are (clauses 2.3.3,
2.3.5 and 2.3.8)."""

import dataclasses
import math
from collections.abc import Hashable

import numpy as np

from tosaic.compiler.cost.array import dense_cycles, depthwise_cycles, full_rows_cycles
from tosaic.compiler.cost.boxes import BoxWork
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import DType, Operator, Tensor
from tosaic.compiler.machine_numbers import WEIGHT_GROUP_BYTES, WEIGHT_GROUP_WM_PART
from tosaic.compiler.place.address import Address
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.tap_passes import pairs_rows, streams_of
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.place.weights import (
    MAX_COUNT,
    Blob,
    WeightLayout,
    odd_pitch,
)
from tosaic.compiler.tile.image_boxes import Box, Extent, ImageBoxes
from tosaic.compiler.tile.mapping import Asked, zero_points
from tosaic.compiler.tile.mappings import choose
from tosaic.compiler.tile.packer import PackedWeights, Packer
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Tile:
    """The weights of one group of output channels."""

    address: Address
    """Its address in external memory."""
    bytes: int
    blob: Blob
    group_address: Address
    """Address of the group of tiles that is fetched together."""
    group_bytes: int


@dataclasses.dataclass(frozen=True)
class ConvolutionPlan:
    """How a convolution maps to the array, independent of where its tensors are."""

    window: Window
    tiles: list[Tile]
    """Tiles of one image, or of every image one after the other when each has weights of its own."""
    channels: int
    """Channels of a vector's `pixels` together."""
    pixels: int
    layout: WeightLayout
    weights: PackedWeights
    input_zp: int
    weight_zp: int
    bias: np.ndarray
    macs: int
    strips: bool = False
    """Whether the image comes in the form of `im2col.py`."""

    def tiles_of(self, image: int) -> list[Tile]:
        if not self.layout.batched:
            return self.tiles
        count = len(self.layout.blobs)
        return self.tiles[image * count : (image + 1) * count]

    def window_of_boxes(self, config: Config) -> Window:
        """The window for boxes of tensors whose rows lie side by side. A 1×1 convolution does not care where image rows
        end: shorter ones let boxes end where a tile of pixels is full. Of an image one pixel wide it does: its weights
        count on the row's end behind the pixel (`place/weights.py`)."""
        return self.window if self.keeps_rows else self.window.in_rows_of(config.rows)

    @property
    def work_content(self) -> Hashable:
        """All that `box_work` looks at: equal for plans whose boxes are the same work."""
        layout, window = self.layout, self.window.without_name()
        divides = not self.weight_zp
        return layout.blob_bytes, len(layout.blobs), layout.passes, self.tile_channels, window, divides

    def divides_rows(self, pixels: int, config: Config) -> bool:
        """Whether a tile of so many pixels divides the array's rows, which then read several words in a cycle."""
        return not self.weight_zp and config.row_parts(pixels) > 1

    def late_weight_bytes(self, config: Config) -> int:
        """Bytes of a tile's weights for which there is no room beside those of the tile before it."""
        return max(0, 2 * self.tiles[0].group_bytes - config.wm_bytes)

    def late_piece_bytes(self, config: Config) -> int | None:
        """Bytes per load of such weights, where the array begins with the first words and waits for each other one:
        the first load has room beside the tile before it. None where the array cannot, or need not."""
        piece, size = config.wm_bytes // WEIGHT_GROUP_WM_PART, self.tiles[0].group_bytes
        as_stored = not self.weights.gradual and not self.weights.group_bytes
        fits = self.late_weight_bytes(config) > 0 and size + piece <= config.wm_bytes
        return piece if as_stored and fits and self.reads_whole_blobs else None

    @property
    def reads_whole_blobs(self) -> bool:
        """Whether the array reads every word of a tile's weights, in the order in which they lie."""
        return not self.layout.depthwise and all(
            tile.blob.chunks in (0, self.layout.chunks) for tile in self.tiles
        )

    def pixels_before_the_last_tile(self, rows: int, columns: int, config: Config) -> int | None:
        """Pixels of a box before its last tile of pixels, which can go through the kernel in two parts. None where it
        cannot: it is parts of several rows, or the kernel has no parts."""
        window, layout = self.window, self.layout
        parts = window.kh if window.kh > 1 else layout.chunks * (layout.run_count == 1)
        if layout.depthwise or self.strips or parts < 2:
            return None
        first = (rows * columns - 1) // config.rows * config.rows
        apart = first % columns == 0 or rows * columns - first < columns
        return first if apart or (window.pixelwise and not self.keeps_rows) else None

    @property
    def keeps_rows(self) -> bool:
        """Whether even a 1×1 convolution cares where image rows end."""
        return self.pixels > 1 or self.layout.batched or self.window.iw == 1

    @property
    def tile_channels(self) -> int:
        """Output channels of a tile but perhaps the last."""
        return self.tiles[0].blob.channels


def _tiles(layout: WeightLayout, address: Address, limit_bytes: int) -> list[Tile]:
    """The tiles of the packed weights at `address`, in groups of at most `limit_bytes` bytes."""
    size = layout.blob_bytes
    count, per_group = layout.bytes // size, max(1, limit_bytes // size)
    tiles = []
    for number in range(count):
        first = number - number % per_group
        group_bytes = min(per_group, count - first) * size
        blob = layout.blobs[number % len(layout.blobs)]
        tiles.append(Tile(address + number * size, size, blob, address + first * size, group_bytes))
    return tiles


def plan_convolution(tensors: Tensors, layer: Layer, asked: Asked, packer: Packer) -> ConvolutionPlan:
    """Chooses the mapping; `packer` plans the weights' form in external memory.

    Raises UnsupportedError where the array cannot compute the layer."""
    graph, config, operator = asked.graph, asked.config, asked.operator
    _check_operands(tensors, layer, operator)
    matrices = operator.op == "MATMUL"
    input_zp, weight_zp = zero_points(graph, operator)
    bias = np.zeros(1, np.int32) if matrices else graph.operand_value(operator, "bias").reshape(-1)
    weight, output, of = tensors[operator.inputs[1]], tensors[operator.outputs[0]], asked.window
    macs = math.prod(weight.shape) * (of.oh * of.ow if matrices else of.n * of.oh * of.ow)
    mapping = choose(asked)
    layout, pixels = mapping.layout, mapping.pixels
    _check_blob(operator, weight, layout, config)
    if mapping.packed is not None:
        packed = packer.constant(mapping.packed[0], layout, mapping.packed[1])
    elif (data := weight.data) is not None:
        packed = packer.constant(weight.name, layout, lambda: data)
    else:
        packed = packer.computed(weight.name, layout, of.oh * of.ow)
    group_bytes = packed.group_bytes or min(
        WEIGHT_GROUP_BYTES, packed.step_bytes, config.wm_bytes // WEIGHT_GROUP_WM_PART
    )
    tiles = _tiles(layout, packed.address, group_bytes)
    channels = output.shape[-1] * pixels
    if pixels > 1:
        bias = np.tile(np.broadcast_to(bias, output.shape[-1]), pixels)
    return ConvolutionPlan(
        mapping.window,
        tiles,
        channels,
        pixels,
        layout,
        packed,
        input_zp,
        weight_zp,
        bias,
        macs,
        mapping.strips,
    )


def _check_operands(tensors: Tensors, layer: Layer, operator: Operator) -> None:
    source = tensors[operator.inputs[0]]
    if source.dtype is not DType.INT8:
        raise UnsupportedError(
            f"{operator}: the array multiplies bytes, and the sums of {source} with these weights do not fit the "
            "32 bits that its byte planes need; split the input channels"
        )
    for stream, load in enumerate(layer.program.loads):
        if stream not in layer.lines and tensors.shape(load.tensor) != tensors.shape(operator.outputs[0]):
            raise UnsupportedError(f"{layer.root}: operand {tensors[load.tensor]} is broadcast")


def _check_blob(operator: Operator, weight: Tensor, layout: WeightLayout, config: Config) -> None:
    if layout.blob_bytes > config.wm_bytes:
        raise UnsupportedError(
            f"{operator}: the weights ({weight}) of one tile of output channels take {layout.blob_bytes} bytes, "
            f"the weight memory of {config.name!r} has {config.wm_bytes}; use a larger configuration"
        )


def convolution_boxes(plan: ConvolutionPlan, config: Config) -> ImageBoxes:
    """How the plan's output may be cut."""
    step, layout, window = plan.tile_channels, plan.layout, plan.window
    paired = step == config.columns and pairs_rows(window, layout.passes, config)
    return ImageBoxes(
        window,
        plan.channels,
        step,
        multiplier=layout.multiplier,
        column_limit=layout.column_limit,
        output_limit=layout.output_limit,
        stripe_pitch=odd_pitch(window.iw * window.ic, config) if paired else 0,
        im2col_zp=plan.input_zp if plan.strips else None,
    )


def box_work(
    plan: ConvolutionPlan, config: Config, rows: int, columns: int, channels: int | None = None
) -> BoxWork:
    """The work of `channels` output channels (None: all of them) of `rows` times `columns` pixels of output."""
    layout, window = plan.layout, plan.window
    tiles = len(layout.blobs) if channels is None else -(-channels // plan.tile_channels)
    if layout.depthwise:
        box = dataclasses.replace(window, oh=rows, ow=columns)
        cycles = depthwise_cycles(streams_of(box, layout.passes, config))
    else:
        # Weights with a zero point are not divided among the rows.
        counted = full_rows_cycles if plan.weight_zp else dense_cycles
        cycles = counted(layout.blob_bytes // config.columns**2, rows * columns, config)
    weight_bytes, late_bytes = tiles * layout.blob_bytes, 0
    if (
        plan.late_piece_bytes(config) is None
        and plan.pixels_before_the_last_tile(rows, columns, config) is None
    ):
        late_bytes = tiles * plan.late_weight_bytes(config)
    return BoxWork(tiles, tiles * cycles, weight_bytes, weight_bytes <= config.wm_bytes, late_bytes)


def works_in_blocks(plan: ConvolutionPlan, cut: ImageBoxes, extent: Extent, config: Config) -> bool:
    """Whether the layer is one box whose weights are streamed: the array follows them word by word as they come, and
    one command does many output channels."""
    boxes = list(cut.boxes(extent))
    return _streams(plan, extent) and len(boxes) == 1 and _fits_blocks(plan, boxes[0], config)


def _streams(plan: ConvolutionPlan, extent: Extent) -> bool:
    """Whether every group of tiles that is fetched is used by the very tiles that come next, each word in its turn.

    Only layers in blocks do so. With many tiles of pixels, an array that has begun could wait for weights that are
    queued after a LOAD_WAIT that waits for the array: neither would go on."""
    return (
        plan.reads_whole_blobs
        and not plan.layout.batched
        and not plan.weights.gradual
        and (not plan.weights.group_bytes or plan.weights.unpacked)
        and extent.channels >= plan.channels
    )


def _fits_blocks(plan: ConvolutionPlan, box: Box, config: Config) -> bool:
    """Whether the weights of a layer that is one box are used once each, by one tile of pixels."""
    pixels, first = box.rows * box.columns, plan.tiles[0].blob
    return (
        plan.window.n == 1
        and pixels <= min(config.rows, config.vector_slots)
        and len(plan.tiles) <= MAX_COUNT
        and all(tile.blob.input_offset == first.input_offset for tile in plan.tiles)
    )
