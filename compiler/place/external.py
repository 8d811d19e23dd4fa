"""External memory: constants, and room for inputs, outputs and spilled tensors."""

import copy
import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping

import numpy as np

from tosaic.compiler.ir import Tensor
from tosaic.compiler.ir.mapped_file import LARGE_BYTES, let_go
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.compression import CodedBlock, CodedWeights
from tosaic.compiler.place.packed_rows import PackedRows
from tosaic.compiler.program import Port, ProgramWeights
from tosaic.errors import UnsupportedError
from tosaic.hw.isa import Opcode, width

ALIGNMENT_BYTES = 64
"""Alignment in bytes of everything in external memory."""
_PART_BYTES = 1 << 22
"""Bytes of a constant at most that are looked at together while an image is written."""
LARGEST_BYTES = 1 << width(Opcode.LOAD_GO, "memory_address")
"""Bytes that instructions can address."""


@dataclasses.dataclass(frozen=True)
class PlacedBlock:
    """A coded block of a weight tensor in the constants; `tensor` is its number for LOAD_TENSOR."""

    tensor: int
    address: Address
    block: CodedBlock


@dataclasses.dataclass(frozen=True)
class BootBlock:
    """A coded block that the boot part decodes to `target`."""

    placed: PlacedBlock
    target: Address


@dataclasses.dataclass
class PlacedPort:
    """A tensor of the program's boundary, before the image is laid out."""

    tensor: Tensor
    address: Address
    bytes: int

    def port(self, base: dict[Region, int], orders: Mapping[str, tuple[int, ...]]) -> Port:
        """The port, where the regions of external memory begin at `base`, and the compiler has turned `orders`."""
        tensor, address = self.tensor, base[self.address.region] + self.address.offset
        order = orders.get(tensor.name, ())
        sizes = dict(zip(order, tensor.shape, strict=True)) if order else dict(enumerate(tensor.shape))
        shape = tuple(sizes[axis] for axis in sorted(sizes))
        return Port(tensor.name, shape, tensor.dtype, address, self.bytes, order)


class Digests:
    """SHA-256 of arrays that nobody changes, each computed once: all plans of a program place the same weights."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[np.ndarray, bytes]] = {}
        """Bytes by place and form, with the array, so that nothing else comes to its place."""

    def of(self, values: np.ndarray) -> bytes:
        """The digest of a contiguous array's bytes."""
        key = (values.ctypes.data, values.nbytes)
        if key not in self._known:
            self._known[key] = values, hashlib.sha256(values.reshape(-1).view(np.uint8).data).digest()
            if values.nbytes >= LARGE_BYTES:
                let_go(values)
        return self._known[key][1]


@dataclasses.dataclass
class ExternalMemory:
    """What a program has in external memory. Constants may be made later, when the plan is chosen."""

    constants_bytes: int = 0
    data_bytes: int = 0
    unpacked_bytes: int = 0
    """Bytes of what the boot part decodes."""
    boot: list[BootBlock] = dataclasses.field(default_factory=list)
    stored_weights: list[ProgramWeights] = dataclasses.field(default_factory=list)
    coded: dict[Address, PlacedBlock] = dataclasses.field(default_factory=dict)
    """Blocks by the address, in the region CODED, of the weights that they stand for."""
    packed_rows: dict[Address, tuple[Address, int]] = dataclasses.field(default_factory=dict)
    """Where a packed row is, and its bytes, by the address, in the region CODED, of the weights it stands for."""
    packed_weights: dict[Hashable, Address] = dataclasses.field(default_factory=dict)
    """Addresses of packed weights by their contents and layout: equal ones, such as those of all steps in
    time, lie here once.
    """
    digests: Digests = dataclasses.field(default_factory=Digests)
    """Those of constants; copies share it."""
    _constants: list[Callable[[], bytes | memoryview]] = dataclasses.field(default_factory=list)
    _known: dict[bytes, Address] = dataclasses.field(default_factory=dict)
    """Constants by the digest of their bytes."""
    _coded_bytes: int = 0

    def copy(self) -> "ExternalMemory":
        """The same memory, to which more can be added without changing this one."""
        same = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict):
                setattr(same, name, value.copy())
        return same

    def reserve(self, size_bytes: int, tensor: Tensor | None = None) -> Address:
        """Fresh memory in the data region, for a form of `tensor` if that is told.

        Raises UnsupportedError where constants and data exceed what instructions address."""
        address = Address(Region.DATA, self.data_bytes)
        self.data_bytes += _aligned(size_bytes)
        self._check(f"tensor {tensor}" if tensor is not None else f"a copy of {size_bytes} bytes")
        return address

    def add_constant(self, data: np.ndarray | bytes) -> Address:
        """Places a constant, unless an equal one is there. An array is not copied: nobody may change it."""
        if isinstance(data, bytes):
            digest, raw = hashlib.sha256(data).digest(), memoryview(data)
        else:
            values = np.ascontiguousarray(data)
            digest, raw = self.digests.of(values), values.reshape(-1).view(np.uint8).data
        if digest not in self._known:
            self._known[digest] = self.add_later(len(raw), lambda: raw, "a constant")
        return self._known[digest]

    def add_later(self, size_bytes: int, make: Callable[[], bytes | memoryview], what: str) -> Address:
        """Places a constant of `size_bytes` bytes, which `make` makes when the image is laid out."""
        address = Address(Region.CONSTANTS, self.constants_bytes)
        self._constants.append(make)
        self.constants_bytes += _aligned(size_bytes)
        self._check(f"{what} of {size_bytes} bytes")
        return address

    def add_weights(self, name: str, size_bytes: int, make: Callable[[], bytes | memoryview]) -> Address:
        """Places packed weights as they are."""
        self.stored_weights.append(
            ProgramWeights(name, size_bytes, size_bytes, coded=False, at_boot=False, decode_cycles=0)
        )
        return self.add_later(size_bytes, make, f"the weights {name!r}")

    def add_coded_weights(self, name: str, coded: CodedWeights) -> Address:
        """Places packed weights as coded blocks. The address that they have decoded: in the region UNPACKED, or in
        CODED where every run decodes them."""
        number, size = len(self.stored_weights), sum(block.weights for block in coded.blocks)
        stored = sum(len(block.data) for block in coded.blocks)
        self.stored_weights.append(
            ProgramWeights(name, size, stored, True, at_boot=coded.at_boot, decode_cycles=coded.cycles)
        )
        placed = [PlacedBlock(number, self.add_constant(block.data), block) for block in coded.blocks]
        if coded.at_boot:
            first = place = Address(Region.UNPACKED, self.unpacked_bytes)
            self.unpacked_bytes += _aligned(size)
            self._check(f"the weights {name!r} of {size} bytes")
        else:
            first = place = Address(Region.CODED, self._coded_bytes)
            self._coded_bytes += size
        for each in placed:
            if coded.at_boot:
                self.boot.append(BootBlock(each, place))
            else:
                self.coded[place] = each
            place += each.block.weights
        return first

    def add_packed_rows(self, name: str, packed: PackedRows) -> Address:
        """Places weights as packed rows; the address, in the region CODED, that they would have unpacked."""
        first = place = Address(Region.CODED, self._coded_bytes)
        for row in packed.rows:
            self.packed_rows[place] = (self.add_constant(row), len(row))
            place += packed.group_bytes
        self._coded_bytes += packed.weights
        stored = sum(map(len, packed.rows))
        self.stored_weights.append(
            ProgramWeights(name, packed.weights, stored, coded=True, at_boot=False, decode_cycles=0)
        )
        return first

    def parts(self) -> Iterator[bytes | memoryview]:
        """The constants, one after the other, each made when it is asked for, and what lies between them."""
        for make in self._constants:
            raw = make()
            for start in range(0, len(raw), _PART_BYTES):
                yield raw[start : start + _PART_BYTES]
                if isinstance(raw, memoryview) and len(raw) >= LARGE_BYTES:
                    let_go(raw)
            padding = bytes(-len(raw) % ALIGNMENT_BYTES)
            # It goes before the next one is made.
            del raw
            yield padding

    def constants(self) -> bytes:
        """All constants, one after the other."""
        return b"".join(self.parts())

    def _check(self, what: str) -> None:
        if self.constants_bytes + self.unpacked_bytes + self.data_bytes > LARGEST_BYTES:
            raise UnsupportedError(
                f"{what} does not fit the {LARGEST_BYTES >> 30} GiB of external memory that instructions address, "
                f"beside {self.constants_bytes + self.unpacked_bytes} bytes of constants and {self.data_bytes} bytes "
                "of tensors; split the network"
            )


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
