"""Plans shares: ordinary plans of graphs whose inputs and results lie at fixed places in external memory."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tosaic.compiler.cores.grids import Grid, box_of
from tosaic.compiler.cores.network import Network
from tosaic.compiler.cores.share import Share, make_share
from tosaic.compiler.cut.boxes import Box, NotCut, leading_axis, shape_of
from tosaic.compiler.place.address import Address, Region, Span
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.place.placement import PartOutside, RowsApart
from tosaic.compiler.search import Choices, Outside, ProgramPlan, Task, plans_of


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a box of a tensor is in external memory, in which the tensor lies densely."""

    offset: int
    """Bytes from the start of the tensor."""
    span_bytes: int
    """Bytes from its first to its last byte."""
    apart: RowsApart | None
    """None: its bytes follow each other."""

    def span(self, tensor: Address) -> Span:
        return (tensor + self.offset).span(self.span_bytes)


def place_of(shape: tuple[int, ...], box: Box, element_bytes: int) -> Place | NotCut:
    """The place of a box that is cut along the leading and the last axis only."""
    axis, channel = leading_axis(shape), len(shape) - 1
    if not shape:
        return Place(0, element_bytes, None)
    if any(box[i] != (0, shape[i]) for i in range(len(shape)) if i not in (axis, channel)):
        return NotCut("a box that is cut along an axis in the middle lies in too many pieces")
    row, inner = shape[channel] * element_bytes, math.prod(shape[axis + 1 :]) * element_bytes
    (first, last), (low, high) = box[axis], box[channel]
    if axis == channel or (low, high) == (0, shape[channel]):
        return Place(first * inner, (last - first) * inner, None)
    apart = RowsApart((high - low) * element_bytes, row)
    size = (last - first) * inner // row * apart.row_bytes
    return Place(first * inner + low * element_bytes, apart.span_bytes(size), apart)


def part_of(
    shape: tuple[int, ...], box: Box, wanted: Box, element_bytes: int, rows: RowsApart | None
) -> PartOutside | None:
    """What of a computed box is wanted outside; None: all of it, densely. The boxes differ in the leading axis."""
    if rows is None and box == wanted:
        return None
    axis = leading_axis(shape)
    inner = math.prod(shape_of(box)[axis + 1 :]) * element_bytes
    first, last = (place - box[axis][0] for place in wanted[axis])
    return PartOutside(first * inner, last * inner, rows)


@dataclasses.dataclass(frozen=True)
class PlannedShare:
    """What a core does in a segment."""

    share: Share
    plan: ProgramPlan


class SharePlanner:
    """Plans shares of one network for cores that use the memory together."""

    def __init__(self, network: Network, names: set[str], choices: Choices):
        self.network, self.names, self.choices = network, names, choices
        self._shares: dict[tuple[int, int, Grid, int], Share | NotCut | None] = {}

    def shares(self, first: int, last: int, grid: Grid) -> dict[int, Share] | NotCut:
        """What each core computes of layers [first, last); cores that compute nothing are left out. Not cut where a
        result is no box that can be written, or a core has to compute channels of others."""
        found: dict[int, Share] = {}
        for core in range(grid.cores):
            key = (first, last, grid, core)
            if key not in self._shares:
                self._shares[key] = self._made(*key)
            share = self._shares[key]
            if isinstance(share, NotCut):
                return share
            if share is not None:
                found[core] = share
        return found

    def _made(self, first: int, last: int, grid: Grid, core: int) -> Share | NotCut | None:
        network, unit = self.network, self.choices.config.columns
        wanted: dict[str, Box] = {}
        for name in network.results(first, last):
            box = box_of(network.tensors.shape(name), grid, core, unit)
            if box is not None:
                wanted[name] = box
        if not wanted:
            return None
        share = make_share(network.graph, network.numbers(first, last), network.free, wanted)
        for name, box in wanted.items():
            axis = leading_axis(network.tensors.shape(name))
            if any(
                mine != needed
                for i, (mine, needed) in enumerate(zip(share.boxes[name], box, strict=True))
                if i != axis
            ):
                return NotCut("a core would compute channels of other cores")
        places = (
            self._place(name, share.boxes[name]) for name in [*share.graph.inputs, *share.graph.outputs]
        )
        return next((each for each in places if isinstance(each, NotCut)), share)

    def place(self, name: str, box: Box) -> Place:
        """Where a box of a tensor of a share is."""
        found = self._place(name, box)
        assert isinstance(found, Place), f"{name}: {found.reason}"
        return found

    def _place(self, name: str, box: Box) -> Place | NotCut:
        tensors = self.network.tensors
        return place_of(tensors.shape(name), box, tensors.element(name).bytes)

    def plan(
        self,
        share: Share,
        external: ExternalMemory,
        addresses: Mapping[str, Address],
        choices: Choices,
        lingering: Sequence[tuple[int, int]] = (),
    ) -> ProgramPlan:
        """The best plan of a share; `addresses` are those of the network's tensors, `lingering` what the share before
        it leaves in activation memory. UnsupportedError where none fits."""
        homes: dict[str, Address] = {}
        parts: dict[str, PartOutside] = {}
        tensors = self.network.tensors
        for name in [*share.graph.inputs, *share.graph.outputs]:
            box = share.boxes[name]
            place = self.place(name, box)
            homes[name] = addresses[name] + place.offset
            if name in share.wanted:
                size, wanted = tensors.element(name).bytes, share.wanted[name]
                part = part_of(tensors.shape(name), box, wanted, size, place.apart)
                parts |= {} if part is None else {name: part}
        return next(
            plans_of(Task(share.graph, self.names, choices, Outside(external, homes, parts, lingering)))
        )


def any_addresses(network: Network) -> dict[str, Address]:
    """Addresses for plans that are only compared: every tensor is far from every other."""
    return {name: Address(Region.DATA, number << 34) for number, name in enumerate(network.graph.tensors)}
