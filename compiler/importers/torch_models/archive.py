"""The archive of a .pt2 file: members that PyTorch may read, in an archive that holds nothing but these.

torch.export.load unpickles what a file asks it to unpickle. The members are read here first: pickles and unknown
members are refused, sample inputs are left out, and `program_text` passes the program.
"""

import io
import json
import math
import pathlib
import re
import zipfile
from typing import Any

from tosaic.compiler.importers.torch_models.program_text import Refused, checked_program, checked_tree
from tosaic.errors import Error, ModelError, in_words

_FREE_BYTES = 64 << 20
_TEXT_FREE_BYTES = 4 << 20
_EXPANDED_BYTES = 1 << 20
"""A tensor may have more elements than its member, as an expanded one has, up to this size."""

_PROGRAM = "models/model.json"
_WEIGHTS, _CONSTANTS = "data/weights/", "data/constants/"
_CONFIGS = {
    f"{_WEIGHTS}model_weights_config.json": (_WEIGHTS, "weight_"),
    f"{_CONSTANTS}model_constants_config.json": (_CONSTANTS, "tensor_"),
}
_SAMPLE_INPUTS = "data/sample_inputs/model.pt"
_MARKS = ("archive_format", "archive_version", "byteorder", ".data/version", ".data/serialization_id")
_DROPPED = ("extra/", _SAMPLE_INPUTS)
_OBJECTS = ("custom_obj_", "opaque_obj_")
_AGAIN = "export it again with torch.export.save"
_CODE = "which may run code when it is read"
_ELEMENT_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 12: 1, 13: 2}
"""Bytes of an element, by the number that torch's schema gives its type."""
_ELEMENT_BYTES |= {28: 2, 29: 1, 30: 1, 31: 1, 32: 1, 33: 1, 34: 4, 35: 8}


def safe_archive(path: pathlib.Path) -> io.BytesIO:
    """The archive of a .pt2 file without anything that PyTorch would unpickle, import or evaluate.

    ModelError names what is refused; other exceptions are those of a damaged file.
    """
    members = _members(path)
    try:
        program = _json(members, _PROGRAM, path)
        members[_PROGRAM] = json.dumps(checked_program(program)).encode()
        for name, (folder, prefix) in _CONFIGS.items():
            config = checked_tree(_json(members, name, path))
            _check_payload(members, config["config"], folder, prefix, _allowed_bytes(path, 4))
            members[name] = json.dumps(config).encode()
    except Refused as refused:
        raise ModelError(f"{path}: {refused}") from None
    members[_SAMPLE_INPUTS] = b""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as written:
        for name in list(members):
            written.writestr(f"model/{name}", members.pop(name))
    archive.seek(0)
    return archive


def _allowed_bytes(path: pathlib.Path, factor: int) -> int:
    return _FREE_BYTES + factor * path.stat().st_size


def _members(path: pathlib.Path) -> dict[str, bytes]:
    """The members by their names inside the archive's folder."""
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as archive:
        whole = sum(info.file_size for info in archive.infolist())
        if whole > _allowed_bytes(path, 1):
            raise ModelError(
                f"{path}: its members take {whole >> 20} MiB, of which the file of {path.stat().st_size >> 10} KiB "
                f"is a compressed form; {_AGAIN}, which compresses nothing"
            )
        for info in archive.infolist():
            name = info.filename.partition("/")[2]
            if info.is_dir() or name.startswith(_DROPPED):
                continue
            _check_name(path, info.filename, name)
            if name in members:
                raise ModelError(f"{path}: member {info.filename!r} is there twice; {_AGAIN}")
            members[name] = archive.read(info)
    if members.get("byteorder", b"little") != b"little":
        raise ModelError(f"{path}: its weights are big endian; {_AGAIN} on another machine")
    return members


def _check_name(path: pathlib.Path, full: str, name: str) -> None:
    """Raises ModelError for a member that torch.export.save does not write for a program of plain tensors."""
    last = name.rpartition("/")[2]
    if last.startswith(_OBJECTS):
        raise ModelError(
            f"{path}: member {full!r} is a Python object, {_CODE}; export a module whose attributes are tensors"
        )
    if full.endswith(".pt"):
        raise ModelError(f"{path}: member {full!r} is a pickle, {_CODE}; {_AGAIN} of torch 2.9 or later")
    known = name in (_PROGRAM, *_MARKS, *_CONFIGS)
    if not known and not re.fullmatch(r"data/(weights/weight|constants/tensor)_\d+", name):
        raise ModelError(f"{path}: member {full!r} is not one that torch.export.save writes; {_AGAIN}")


def _json(members: dict[str, bytes], name: str, path: pathlib.Path) -> Any:
    if name not in members:
        raise ModelError(
            f"{path}: is not a program that torch.export.save wrote (it has no member {name}); {_AGAIN}"
        )
    allowed = _TEXT_FREE_BYTES + path.stat().st_size
    if len(members[name]) > allowed:
        raise ModelError(f"{path}: member {name} has more than {allowed >> 20} MiB of text; {_AGAIN}")
    return json.loads(members[name])


def _check_payload(
    members: dict[str, bytes], config: dict[str, Any], folder: str, prefix: str, allowed_bytes: int
) -> None:
    """Each entry is a tensor on the CPU whose elements are in its member."""
    total = 0
    for name, entry in config.items():
        file, meta = entry["path_name"], entry["tensor_meta"]
        if entry["use_pickle"] is not False or meta is None or not file.startswith(prefix):
            raise Refused(
                f"{folder.split('/')[1].rstrip('s')} {name!r} is a Python object, {_CODE}; export a module whose "
                "weights are plain tensors"
            )
        if meta["device"]["type"] != "cpu":
            raise Refused(f"{name!r} is on device {meta['device']['type']!r}; export module.cpu()")
        sizes = [size.get("as_int") for size in meta["sizes"]]
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise Refused(f"{name!r} has the sizes {sizes}, which are no numbers of elements; {_AGAIN}")
        taken, held = math.prod(sizes) * _ELEMENT_BYTES[meta["dtype"]], len(members[folder + file])
        total += taken
        if taken > max(held, _EXPANDED_BYTES if held else 0) or total > allowed_bytes:
            raise Refused(f"{name!r} of sizes {sizes} takes {taken} bytes, its member has {held}; {_AGAIN}")


def damage(path: pathlib.Path, error: BaseException) -> Error:
    """The error of a file that is no program: the first line of its first cause, without places in C++ code."""
    while error.__cause__ is not None:
        error = error.__cause__
    return ModelError(
        f"{path}: is not a program that torch.export.save wrote ({in_words(error)}); export it again"
    )
