"""NNEF models in NNR bitstreams (A.3), and NNR bitstreams in NNEF's `.dat` files (A.4)."""

import math
import pathlib
import struct
import warnings
from collections.abc import Mapping

import numpy as np

from tosaic.compiler.importers.nnef.container import GRAPH_FILE, QUANTIZATION_FILE, Archive, open_container
from tosaic.compiler.importers.nnef.tensor_file import (
    HEADER_BYTES,
    MAGIC,
    RANK_LIMIT,
    Algorithm,
    ItemEncoding,
    read_tensor,
    write_tensor,
)
from tosaic.errors import ModelError
from tosaic.nnr.arrays import decode_all
from tosaic.nnr.bitstream import Bitstream, CodedTensor, read_bitstream
from tosaic.nnr.encoder import Settings, encode_model, encode_unit, settings_in_network
from tosaic.nnr.errors import NnrError, NnrWarning
from tosaic.nnr.unit_writer import compression_for, write_units
from tosaic.nnr.units import QuantizationUnit, StartUnit, StorageFormat, TopologyUnit

_HEADER = struct.Struct("<2sBB I I 8I I HH i")
_STREAM_START = b"\0\x05\0\0"
"""An NNR bitstream starts with NNR_STR, five bytes."""
# NNEF gives NNR no algorithm code. Without one a stream as long as the plain items would be taken for them, so
# our files say it in the vendor half of the code; files of others are told by their NNR_STR.
NNR_VENDOR = 15938


def read_dat(data: bytes, name: str) -> np.ndarray:
    """The tensor of an NNEF `.dat` file: plain, or an NNR bitstream with or without NNEF's header (A.4, E-46)."""
    file = f"{name}.dat"
    if data[:2] != MAGIC or is_carried(data, len(data)):
        return read_carried(data, carried_shape(data), file)
    try:
        return read_tensor(data, file)[0]
    except ModelError as error:
        raise NnrError(str(error)) from None


def is_carried(start: bytes, size_bytes: int) -> bool:
    """Whether a `.dat` file of `size_bytes` bytes holds an NNR bitstream (A.4); its first 132 bytes tell."""
    if start[:2] != MAGIC:
        return start.startswith(_STREAM_START)
    if len(start) < HEADER_BYTES:
        return False
    bits, vendor = _HEADER.unpack_from(start)[13:15]
    plain_bytes = (math.prod(carried_shape(start) or ()) * bits + 7) // 8
    unlike_items = start.startswith(_STREAM_START, HEADER_BYTES) and size_bytes - HEADER_BYTES != plain_bytes
    return vendor == NNR_VENDOR or unlike_items


def carried_shape(start: bytes) -> tuple[int, ...] | None:
    """The extents that the NNEF header of a `.dat` file states; None without a header."""
    if start[:2] != MAGIC:
        return None
    _, _, _, _, rank, *rest = _HEADER.unpack_from(start)
    return tuple(rest[: min(rank, RANK_LIMIT)])


def read_carried(data: bytes, shape: tuple[int, ...] | None, file: str) -> np.ndarray:
    """The tensor of a `.dat` file that holds an NNR bitstream.

    shape: of the tensor; None if only the bitstream can tell. Raises NnrError on damage, and if the shape is another.
    """
    try:
        values = _coded_tensor(data, file).decode(shape)
        if shape not in (None, values.shape):
            raise NnrError(
                f"the NNR tensor has the extents {list(values.shape)}, the NNEF tensor {list(shape)}"
            )
        return values
    except NnrError as error:
        raise NnrError(f"{file}: {error}") from None


def _coded_tensor(data: bytes, file: str) -> CodedTensor:
    """What a `.dat` file with an NNR bitstream holds, not decoded."""
    body = data
    if data[:2] == MAGIC:
        length, rank = _HEADER.unpack_from(data)[3:5]
        body = data[HEADER_BYTES:]
        if rank > RANK_LIMIT or length != len(body):
            raise NnrError(f"its header says rank {rank} and {length} bytes of data, but it has {len(body)}")
    with warnings.catch_warnings():
        # That is the rule here: NNR_MPS has no place in a `.dat` file, and its parameters are inferred.
        warnings.filterwarnings("ignore", ".*no NNR_MPS", NnrWarning)
        found = read_bitstream(body)
    if found.topology or found.quantization:
        raise NnrError("it holds NNR_TPL or NNR_QNT units, which A.4 forbids there")
    if len(found.tensors) != 1:
        raise NnrError(f"it holds {len(found.tensors)} NNR tensors; it must hold one")
    tensor = found.tensors[0]
    if not any(f"/{file}".endswith(f"/{label}.dat") for label in tensor.unit.ref_ids):
        # A.4: ref_id is the label, which is where the file lies.
        labels = ", ".join(tensor.unit.ref_ids)
        warnings.warn(f"{file} holds the NNR tensor {labels!r}", NnrWarning, stacklevel=3)
    return tensor


def write_dat(values: np.ndarray) -> bytes:
    """An NNEF `.dat` file of plain float or integer items."""
    try:
        return write_tensor(values, plain_encoding(values))
    except ModelError as error:
        raise NnrError(str(error)) from None


def write_carried(name: str, values: np.ndarray, settings: Settings) -> bytes:
    """An NNEF `.dat` file that holds the tensor as an NNR bitstream behind NNEF's header (A.4)."""
    stream = write_units([StartUnit(), encode_unit(name, values, settings)])
    if values.ndim > RANK_LIMIT:
        raise NnrError(f"an NNEF tensor has at most {RANK_LIMIT} dimensions, not {values.ndim}")
    extents = values.shape + (0,) * (RANK_LIMIT - values.ndim)
    plain = plain_encoding(values)
    header = _HEADER.pack(
        MAGIC, 1, 0, len(stream), values.ndim, *extents, plain.bits, NNR_VENDOR, plain.algorithm, plain.signed
    )
    return header.ljust(HEADER_BYTES, b"\0") + stream


def plain_encoding(values: np.ndarray) -> ItemEncoding:
    """How an NNEF file stores such float or integer items as they are."""
    algorithm = Algorithm.FLOAT if values.dtype.kind == "f" else Algorithm.INTEGER
    return ItemEncoding(algorithm, 8 * values.dtype.itemsize, values.dtype.kind == "i")


def read_model(path: pathlib.Path) -> tuple[str, str | None, dict[str, np.ndarray]]:
    """An NNEF folder or tar archive: text of graph.nnef, text of graph.quant or None, and the tensors by label."""
    files = _model_files(path)
    quantization = files.get(QUANTIZATION_FILE)
    try:
        return (
            files[GRAPH_FILE].decode(),
            None if quantization is None else quantization.decode(),
            {label: read_dat(data, label) for label, data in _tensor_files(files)},
        )
    except UnicodeDecodeError:
        raise NnrError(f"{path}: its text is not UTF-8") from None


def carried_tensors(path: pathlib.Path) -> list[tuple[CodedTensor, tuple[int, ...] | None]]:
    """The NNR tensors in the `.dat` files of an NNEF folder or archive (A.4), not decoded, with the shapes that NNEF's
    headers say."""
    found = []
    for label, data in _tensor_files(_model_files(path)):
        if is_carried(data, len(data)):
            try:
                found.append((_coded_tensor(data, f"{label}.dat"), carried_shape(data)))
            except NnrError as error:
                raise NnrError(f"{label}.dat: {error}") from None
    return found


def _model_files(path: pathlib.Path) -> dict[str, bytes]:
    """Content of an NNEF model's files by name; graph.nnef is one of them."""
    try:
        container = open_container(path)
    except ModelError as error:
        raise NnrError(str(error)) from None
    files = container.files if isinstance(container, Archive) else _files(container.path)
    if GRAPH_FILE not in files:
        raise NnrError(f"{path} is no NNEF model: there is no {GRAPH_FILE} in it")
    return dict(files)


def _tensor_files(files: dict[str, bytes]) -> list[tuple[str, bytes]]:
    """Yields label and content of each `.dat` file, by label."""
    return [(name.removesuffix(".dat"), files[name]) for name in sorted(files) if name.endswith(".dat")]


def _files(folder: pathlib.Path) -> dict[str, bytes]:
    """Content of the files of an NNEF folder by name."""
    try:
        paths = [folder / GRAPH_FILE, folder / QUANTIZATION_FILE, *sorted(folder.rglob("*.dat"))]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths if path.is_file()}
    except OSError as error:
        raise NnrError(f"cannot read the NNEF folder {folder}: {error.strerror} ({error.filename})") from None


def write_folder(
    folder: pathlib.Path,
    graph: str,
    quantization: str | None,
    tensors: dict[str, np.ndarray],
    carried: Settings | None = None,
) -> None:
    """Write an NNEF folder; `carried` stores each tensor as an NNR bitstream. Refuses labels outside the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.nnef").write_text(graph)
    if quantization is not None:
        (folder / "graph.quant").write_text(quantization)
    for label, values in tensors.items():
        parts = pathlib.PurePosixPath(label).parts
        if not parts or label.startswith("/") or ".." in parts or "\\" in label or "\0" in label:
            raise NnrError(f"NNEF label {label!r} leads out of the model's folder")
        path = folder.joinpath(*parts[:-1], parts[-1] + ".dat")
        path.parent.mkdir(parents=True, exist_ok=True)
        if carried:
            path.write_bytes(write_carried(label, values, settings_in_network(values, carried)))
        else:
            path.write_bytes(write_dat(values))


def encode_nnef(path: pathlib.Path, settings: Settings) -> bytes:
    """An NNEF folder or archive as one bitstream (A.3): text in NNR_TPL, graph.quant in NNR_QNT, tensors by label."""
    graph, quantization, tensors = read_model(path)
    text = graph.encode()
    topology = TopologyUnit(StorageFormat.NNEF, text, compression_for(text))
    extra = None
    if quantization is not None:
        data = quantization.encode()
        extra = QuantizationUnit(StorageFormat.NNEF, data, compression_for(data))
    return encode_model(tensors, settings, topology=topology, quantization=extra)


def decode_to_folder(data: bytes, folder: pathlib.Path) -> None:
    """The NNEF folder that the bitstream `data` carries, as `write_carried_model`."""
    write_carried_model(read_bitstream(data), folder)


def write_carried_model(
    found: Bitstream, folder: pathlib.Path, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> None:
    """Write the NNEF folder that a bitstream carries. Raises NnrError without an NNEF topology, and on damage.

    shapes: by label, where the units signal none.
    """
    if found.topology is None or found.topology.storage_format is not StorageFormat.NNEF:
        raise NnrError("the NNR bitstream carries no NNEF topology")
    quantization = None
    if found.quantization is not None:
        if found.quantization.storage_format is not StorageFormat.NNEF:
            raise NnrError("the NNR bitstream's topology is NNEF, its quantization information is not")
        quantization = found.quantization.data.decode()
    write_folder(folder, found.topology.data.decode(), quantization, decode_all(found, shapes))
