"""Where the tensors of a layer are while it runs."""

import dataclasses
import enum

from tosaic.compiler.place.address import Address, Region


@dataclasses.dataclass(frozen=True)
class Placement:
    """A whole tensor, in activation memory (`resident`) or in external memory."""

    address: Address
    bytes: int
    pitch: int = 0
    """Bytes from image row to image row, if the rows of a resident tensor [N, H, W, C] do not follow each other."""

    @property
    def resident(self) -> bool:
        return self.address.region is Region.ACTIVATION


def resident(offset: int, size_bytes: int, pitch: int = 0) -> Placement:
    """A tensor in activation memory."""
    return Placement(Address(Region.ACTIVATION, offset), size_bytes, pitch)


@dataclasses.dataclass(frozen=True)
class Arrival:
    """A tensor that becomes resident while the layer runs, row by row as boxes need it."""

    source: Placement
    """Its placement in external memory."""
    row_bytes: int
    rows: int


@dataclasses.dataclass(frozen=True)
class RowsApart:
    """Rows of `row_bytes` bytes, `pitch` bytes from one to the next: some channels of an image."""

    row_bytes: int
    pitch: int

    def span_bytes(self, size_bytes: int) -> int:
        """Returns the bytes from the first to the last of `size_bytes` bytes."""
        return (size_bytes // self.row_bytes - 1) * self.pitch + self.row_bytes


class Role(enum.Enum):
    """What a buffer holds."""

    OPERAND = "an input tensor, or one of an elementwise layer's operands"
    WINDOW = "the image that a convolution or pool slides over"
    RESULT = "the layer's result"
    PARAMETERS = "per-channel parameters that do not stay on chip for the whole layer"
    PARTIALS = "partial results of a reduction"
    STRIPE = "the rows of a result that one layer of a cascade hands to the next"
    WHOLE = "an operand that is there as a whole, or a part of one that takes no turns"
    SCRATCH = "what a copy that turns a tensor has between its passes"

    @property
    def takes_turns(self) -> bool:
        """Whether there may be several blocks."""
        return self not in (Role.STRIPE, Role.WHOLE, Role.SCRATCH)


@dataclasses.dataclass(frozen=True)
class BufferKey:
    """Which buffer of a layer: a role, the storage name of a tensor, and the operand's number where one tensor is
    several operands that are broadcast differently."""

    role: Role
    tensor: str = ""
    stream: int | None = None


PARAMETERS = BufferKey(Role.PARAMETERS)
PARTIALS = BufferKey(Role.PARTIALS)


@dataclasses.dataclass(frozen=True)
class Buffer:
    """Blocks of activation memory that take turns, for a tensor that does not stay on chip: one or two as a rule."""

    addresses: tuple[int, ...]
    size_bytes: int

    @property
    def doubled(self) -> bool:
        return len(self.addresses) > 1


@dataclasses.dataclass(frozen=True)
class Copy:
    """Bytes that move between external and activation memory, as they are."""

    source: Address
    target: Address
    size_bytes: int


@dataclasses.dataclass(frozen=True)
class PartOutside:
    """The bytes of a result that are wanted in external memory, counted in the dense result, and how they lie there."""

    first_byte: int
    end_byte: int
    rows: RowsApart | None = None
    """None: one behind the other."""


@dataclasses.dataclass(frozen=True)
class Sent(Copy):
    """The copy of a result, from byte `first_byte` to byte `size_bytes` of it. `target` is where byte 0 would be."""

    first_byte: int = 0
    rows: RowsApart | None = None
    """How it lies in external memory; None: one byte behind the other."""
