"""The compiled program: an external-memory image and what a host needs to know to run it; the `.tsc` file."""

import dataclasses
import hashlib
import io
import itertools
import json
import math
import pathlib
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from tosaic.compiler.ir import Declared, DType
from tosaic.compiler.memory_history import MemoryBlock
from tosaic.compiler.program_header import NO_LAYER, HeaderError, check_header, check_machine, check_text
from tosaic.compiler.program_image import ImageField, ImageParts
from tosaic.errors import InputError, ModelError
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, ISA_HASH, CoreProgram

MAGIC = b"TOSAIC\x00\x01"


@dataclasses.dataclass(frozen=True)
class Port:
    """A graph input or output in the memory window: dense, little endian, its axes in `order`."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    address: int
    bytes: int
    order: tuple[int, ...] = ()
    """The axes of `shape` as they lie in memory, the slowest first; empty: row major. [0, 2, 3, 1] is an image of
    planes that lies there pixel by pixel.
    """

    @property
    def numpy(self) -> np.dtype:
        """dtype of the elements as they lie in memory (bool: one byte, 0 or 1)."""
        return np.dtype(self.dtype.numpy)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Sizes of the axes as they lie in memory, the slowest first."""
        return tuple(self.shape[axis] for axis in self.order) if self.order else self.shape

    def stored(self, values: np.ndarray) -> np.ndarray:
        """Values [..., *shape] as they lie in memory: uint8 [..., bytes]."""
        lead = values.ndim - len(self.shape)
        if self.order:
            values = values.transpose(*range(lead), *(lead + axis for axis in self.order))
        return np.ascontiguousarray(values).reshape(*values.shape[:lead], -1).view(np.uint8)

    def loaded(self, stored: np.ndarray) -> np.ndarray:
        """Values [..., *shape] of what lies in memory, uint8 [..., bytes]."""
        lead = stored.shape[:-1]
        values = np.ascontiguousarray(stored).view(self.numpy).reshape((*lead, *self.stored_shape))
        if self.order:
            places = (len(lead) + int(place) for place in np.argsort(self.order))
            values = values.transpose(*range(len(lead)), *places)
        return np.ascontiguousarray(values).reshape((*lead, *self.shape))

    def read(self, memory: np.ndarray) -> np.ndarray:
        """The tensor's value in a memory window (uint8)."""
        return self.loaded(memory[self.address : self.address + self.bytes].copy())

    def write(self, memory: np.ndarray, value: np.ndarray) -> None:
        """Places the tensor; InputError when shape or dtype differ."""
        if tuple(value.shape) != self.shape:
            raise InputError(
                f"input {self.name!r} has shape {list(value.shape)}, the model wants {list(self.shape)}"
            )
        if value.dtype != self.numpy:
            raise InputError(
                f"input {self.name!r} has dtype {value.dtype}, the model wants {self.numpy}: convert it first"
            )
        memory[self.address : self.address + self.bytes] = self.stored(value)


@dataclasses.dataclass(frozen=True)
class StatePort(Port):
    """What a program remembers: a run reads it, and leaves there what the next one reads."""

    initial_address: int | None = None
    """Where the image has what it begins as; None: it begins as zeros."""

    def initial(self, image: bytes) -> np.ndarray:
        """What it begins as."""
        if self.initial_address is None:
            return np.zeros(self.shape, self.numpy)
        raw = image[self.initial_address : self.initial_address + self.bytes]
        return np.frombuffer(raw, self.numpy).reshape(self.shape).copy()


@dataclasses.dataclass(frozen=True)
class LayerInfo:
    """A step of the program, in order; VECTOR_MARK with this index tells when a part of it is complete. Inside a loop
    it may be complete any number of times."""

    name: str
    """The operators of the imported model that it computes, the first and the last; or its output, if none is known."""
    op: str
    macs: int
    """Multiply-accumulates each time it runs."""
    output: str
    operators: tuple[str, ...]
    parts: int = 1
    """Marks each time it runs: a layer of a cascade runs stripe by stripe, with other layers in between."""


@dataclasses.dataclass(frozen=True)
class ProgramWeights:
    """Constant weights of an array layer, in the order in which LOAD_TENSOR numbers them."""

    name: str
    bytes: int
    """Bytes as the array reads them."""
    stored_bytes: int
    """Bytes in the image."""
    coded: bool
    """Compressed: LOAD_DECODE decodes them, or LOAD_GO unpacks them."""
    at_boot: bool
    """Once, in the boot part; else in every run."""
    decode_cycles: int
    """That the decoder takes for all of them; 0 for packed ones."""


@dataclasses.dataclass(frozen=True)
class DecodedBlock:
    """Weights that the boot part decodes into external memory."""

    tensor: int
    """Its number among the program's weights."""
    address: int
    bytes: int
    crc32: int

    @property
    def slice(self) -> slice:
        """Where they lie in a memory window."""
        return slice(self.address, self.address + self.bytes)


@dataclasses.dataclass(frozen=True)
class BootPart:
    """A program of its own in the image. It runs once after the image was loaded, before the first inference."""

    program_address: int
    program_bytes: int
    blocks: tuple[DecodedBlock, ...]

    @property
    def end(self) -> int:
        """First byte behind the weights that it decodes."""
        return max(block.slice.stop for block in self.blocks)


@dataclasses.dataclass
class Program:
    """What the accelerator executes. `image` is the start of the memory window; the rest of `memory_bytes` is
    inputs, outputs and spilled tensors."""

    config: Config
    image: bytes
    program_address: int
    program_bytes: int
    memory_bytes: int
    inputs: list[Port]
    outputs: list[Port]
    layers: list[LayerInfo]
    weights: list[ProgramWeights] = dataclasses.field(default_factory=list)
    kept: list[Port] = dataclasses.field(default_factory=list)
    """Intermediate tensors that the program leaves in memory (compiled with keep_layers)."""
    states: list[StatePort] = dataclasses.field(default_factory=list)
    """What lies in memory from run to run. A machine that has just been loaded is given what each begins as."""
    labels: dict[str, list[str | int]] = dataclasses.field(default_factory=dict)
    """Class labels by output, of a classifier."""
    declared: dict[str, Declared] = dataclasses.field(default_factory=dict)
    """What a traced function says of its inputs and outputs."""
    boot: BootPart | None = None
    others: tuple[CoreProgram, ...] = ()
    """The programs of cores 1, 2 and so on, in the image; without any they do nothing. The boot part is core 0's."""
    instruction_layers: tuple[tuple[int | None, ...], ...] = ()
    """For each core the number of the layer that each of its instructions belongs to, None for one that belongs to
    none; empty where it is not known."""
    turns: int = 1
    """How often the layers run, each time over other samples of a batch."""
    memory_blocks: list[MemoryBlock] = dataclasses.field(default_factory=list)
    """What was where in the activation memory; a report draws it. Not in the file."""

    @property
    def streams(self) -> tuple[CoreProgram, ...]:
        """The programs of all cores that have one."""
        return (CoreProgram(self.program_address, self.program_bytes), *self.others)

    def hold(self, image: ImageParts) -> None:
        """Takes an image in parts."""
        vars(self)["image"] = image

    @property
    def image_parts(self) -> bytes | ImageParts:
        """The image as it is: whole, or in parts, which `image` puts together."""
        held: bytes | ImageParts = vars(self)["image"]
        return held

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "image": self.image}

    @property
    def macs(self) -> int:
        """Multiply-accumulates with every layer run once in each turn."""
        return self.turns * sum(layer.macs for layer in self.layers)

    def memory(self) -> np.ndarray:
        """A fresh memory window with the image in place, uint8."""
        window = np.zeros(self.memory_bytes, np.uint8)
        window[: len(self.image)] = np.frombuffer(self.image, np.uint8)
        return window

    def known(self) -> np.ndarray:
        """Bool, for each byte of the memory window: it holds something of the image, an input or a state when the
        program begins. Anything may be in the others."""
        flags = np.zeros(self.memory_bytes, bool)
        flags[: len(self.image)] = True
        for port in (*self.inputs, *self.states):
            flags[port.address : port.address + port.bytes] = True
        return flags

    def scratch(self) -> np.ndarray:
        """Bool, for each byte of the memory window: nobody looks at it when the program has ended. A program without
        results has none."""
        results = (*self.outputs, *self.kept, *self.states)
        flags = np.full(self.memory_bytes, bool(results))
        flags[: len(self.image)] = False
        for port in (*results, *self.inputs):
            flags[port.address : port.address + port.bytes] = False
        return flags

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the file. An image in parts is not put together for it."""
        with pathlib.Path(path).open("wb") as file:
            for part in self._file_parts():
                file.write(part)

    def to_bytes(self) -> bytes:
        """Returns the file: MAGIC, u32 header length, JSON header, image, u32 CRC-32 of everything before it."""
        return b"".join(self._file_parts())

    @property
    def sha256(self) -> str:
        """The digest of the file, in hexadecimal digits."""
        digest = hashlib.sha256()
        for part in self._file_parts():
            digest.update(part)
        return digest.hexdigest()

    def _file_parts(self) -> Iterator[bytes | memoryview]:
        text, held = json.dumps(self._header()).encode(), self.image_parts
        crc32 = 0
        begins = (MAGIC, len(text).to_bytes(4, "little"), text)
        for part in itertools.chain(begins, (held,) if isinstance(held, bytes) else held):
            crc32 = zlib.crc32(part, crc32)
            yield part
        yield crc32.to_bytes(4, "little")

    def _header(self) -> dict[str, Any]:
        """The JSON header."""

        def port(p: Port) -> dict:
            fields = {
                "name": p.name,
                "shape": p.shape,
                "dtype": p.dtype.name,
                "address": p.address,
                "bytes": p.bytes,
            }
            return fields | {"order": p.order} if p.order else fields

        header = {
            "isa_hash": ISA_HASH,
            "config_hash": self.config.hash,
            "config": dataclasses.asdict(self.config),
            "program_address": self.program_address,
            "program_bytes": self.program_bytes,
            "memory_bytes": self.memory_bytes,
            "inputs": [port(p) for p in self.inputs],
            "outputs": [port(p) for p in self.outputs],
            "kept": [port(p) for p in self.kept],
            "states": [port(p) | {"initial_address": p.initial_address} for p in self.states],
            "layers": [dataclasses.asdict(layer) for layer in self.layers],
            "labels": self.labels,
            "weights": [dataclasses.asdict(weights) for weights in self.weights],
            "boot": None if self.boot is None else dataclasses.asdict(self.boot),
        }
        if self.declared:
            header["declared"] = {name: dataclasses.asdict(each) for name, each in self.declared.items()}
        if self.others:
            header["others"] = [stream._asdict() for stream in self.others]
        if self.turns > 1:
            header["turns"] = self.turns
        if self.instruction_layers:
            header["instruction_layers"] = [_runs(layers) for layers in self.instruction_layers]
        return header

    @staticmethod
    def load(source: str | pathlib.Path | bytes) -> "Program":
        """Reads a `.tsc`; ModelError when it is damaged or made for another instruction set."""
        if isinstance(source, bytes):
            return _read(io.BytesIO(source), len(source))
        with pathlib.Path(source).open("rb") as file:
            return _read(file, pathlib.Path(source).stat().st_size)


# `image` is whole when it is asked for, and not before.
setattr(Program, "image", ImageField())  # noqa: B010


def _read(file: BinaryIO, size_bytes: int) -> Program:
    """The program in a file of so many bytes, which are read once and in order."""
    magic, length = file.read(len(MAGIC)), file.read(4)
    if magic != MAGIC:
        raise ModelError("not a Tosaic program file (its first bytes are wrong); compile the model again")
    left = max(0, size_bytes - len(MAGIC) - 8)
    text = file.read(min(int.from_bytes(length, "little"), left))
    image, crc32 = file.read(left - len(text)), 0
    for part in (magic, length, text, image):
        crc32 = zlib.crc32(part, crc32)
    if crc32 != int.from_bytes(file.read(), "little"):
        raise ModelError("the program file is damaged: its CRC-32 does not match; compile the model again")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"the program file's header is wrong: it is no JSON ({type(error).__name__}); compile the model again"
        ) from None
    return _from_header(header, image)


def _from_header(header: dict, image: bytes) -> Program:
    """The program that a file's header describes; ModelError where it makes no sense."""
    check_machine(header)
    if header["isa_hash"] != ISA_HASH:
        raise ModelError(
            "the program file was compiled for another version of the instruction set "
            f"(0x{header['isa_hash']:08x}, this one is 0x{ISA_HASH:08x}); compile the model again"
        )
    try:
        config = Config(**header["config"])
        same = config.hash == header["config_hash"]
    except (TypeError, ValueError):
        same = False
    if not same:
        raise ModelError(
            "the program file was compiled for another version of the configurations; compile the model again"
        )
    check_text(config.name, "config.name")
    check_header(header)
    memory_bytes = header["memory_bytes"]
    if len(image) > memory_bytes:
        raise HeaderError("memory_bytes", f"must hold the image of {len(image)} bytes, not {memory_bytes}")
    if header["program_address"] + header["program_bytes"] > len(image):
        raise HeaderError("program_address", "and program_bytes reach beyond the image")
    outputs = _ports(header, "outputs")
    for port in outputs:
        elements, labels = math.prod(port.shape), header["labels"].get(port.name)
        if labels is not None and len(labels) < elements:
            raise HeaderError(f"labels[{port.name!r}]", f"must have {elements} elements, not {len(labels)}")
    return Program(
        config=config,
        image=image,
        program_address=header["program_address"],
        program_bytes=header["program_bytes"],
        memory_bytes=memory_bytes,
        inputs=_ports(header, "inputs"),
        outputs=outputs,
        kept=_ports(header, "kept"),
        states=_states(header, len(image)),
        layers=[LayerInfo(**{**layer, "operators": tuple(layer["operators"])}) for layer in header["layers"]],
        labels=header["labels"],
        declared={name: Declared.of(each) for name, each in header.get("declared", {}).items()},
        weights=[ProgramWeights(**weights) for weights in header["weights"]],
        boot=_boot(header, len(image)),
        others=_others(header, config, len(image)),
        instruction_layers=_instruction_layers(header),
        turns=header.get("turns", 1),
    )


def _runs(layers: tuple[int | None, ...]) -> list[list[int]]:
    """[instructions, layer] of neighbours that belong to one layer, or to none."""
    return [
        [len(list(run)), NO_LAYER if layer is None else layer] for layer, run in itertools.groupby(layers)
    ]


def _instruction_layers(header: dict) -> tuple[tuple[int | None, ...], ...]:
    """The layer of each instruction of a checked header; of none where the list is of another program."""
    cores = header.get("instruction_layers", [])
    sizes = [header["program_bytes"], *(made["bytes"] for made in header.get("others", ()))]
    if [sum(count for count, _ in runs) * INSTRUCTION_BYTES for runs in cores] != sizes:
        return ()
    if any(layer >= len(header["layers"]) for runs in cores for _, layer in runs):
        return ()
    return tuple(
        tuple(None if layer == NO_LAYER else layer for count, layer in runs for _ in range(count))
        for runs in cores
    )


def _others(header: dict, config: Config, image_bytes: int) -> tuple[CoreProgram, ...]:
    """The programs of the cores behind core 0 of a checked header: in the image, and one for each core or none."""
    others = tuple(CoreProgram(**made) for made in header.get("others", ()))
    if others and len(others) != config.cores - 1:
        raise HeaderError("others", f"must have {config.cores - 1} elements, not {len(others)}")
    for index, stream in enumerate(others):
        if stream.address + stream.bytes > image_bytes:
            raise HeaderError(f"others[{index}]", "reaches beyond the image")
    return others


def _boot(header: dict, image_bytes: int) -> BootPart | None:
    """The boot part of a checked header: it lies in the image, and what it decodes behind that."""
    made = header["boot"]
    if made is None:
        return None
    if made["program_address"] + made["program_bytes"] > image_bytes:
        raise HeaderError("boot.program_address", "and program_bytes reach beyond the image")
    if not made["blocks"]:
        raise HeaderError("boot.blocks", "must not be empty")
    for index, block in enumerate(made["blocks"]):
        path = f"boot.blocks[{index}]"
        if block["tensor"] >= len(header["weights"]):
            raise HeaderError(f"{path}.tensor", f"must be one of {len(header['weights'])} weights")
        if block["address"] < image_bytes or block["address"] + block["bytes"] > header["memory_bytes"]:
            raise HeaderError(f"{path}.address", "and bytes must lie between the image and the memory's end")
    blocks = tuple(DecodedBlock(**block) for block in made["blocks"])
    return BootPart(made["program_address"], made["program_bytes"], blocks)


def _ports(header: dict, field: str) -> list[Port]:
    """The ports of a checked header, which must lie in memory."""
    ports = []
    for index, made in enumerate(header[field]):
        shape, order = tuple(made["shape"]), tuple(made.get("order", ()))
        port = Port(made["name"], shape, DType[made["dtype"]], made["address"], made["bytes"], order)
        path, needed = f"{field}[{index}]", math.prod(port.shape) * port.numpy.itemsize
        if port.bytes != needed:
            raise HeaderError(f"{path}.bytes", f"must be {needed} by shape and dtype, not {port.bytes}")
        if order and sorted(order) != list(range(len(shape))):
            raise HeaderError(
                f"{path}.order", f"must have each of the {len(shape)} axes once, not {list(order)}"
            )
        if port.address + port.bytes > header["memory_bytes"]:
            raise HeaderError(
                f"{path}.address", f"must leave {port.bytes} bytes of memory, not {port.address}"
            )
        ports.append(port)
    return ports


def _states(header: dict, image_bytes: int) -> list[StatePort]:
    """The states of a checked header."""
    states = []
    for index, (made, port) in enumerate(zip(header["states"], _ports(header, "states"), strict=True)):
        start = made["initial_address"]
        if start is not None and start + port.bytes > image_bytes:
            raise HeaderError(
                f"states[{index}].initial_address", f"must leave {port.bytes} bytes of the image"
            )
        states.append(StatePort(**vars(port), initial_address=start))
    return states
