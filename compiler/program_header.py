"""What the JSON header of a `.tsc` file must be: types and ranges of every field, in one table.

A checker takes a value and the field's path and raises HeaderError; nothing behind it meets a wrong type.
"""

from collections.abc import Callable
from typing import Any

from tosaic.compiler.ir import DType
from tosaic.compiler.ir.operators.spec import MAX_RANK
from tosaic.errors import ModelError
from tosaic.hw.isa import FIELDS, Opcode

Check = Callable[[Any, str], None]


class HeaderError(ModelError):
    """A field of a program file's header is wrong."""

    def __init__(self, path: str, rule: str):
        super().__init__(f"the program file's header is wrong: {path} {rule}; compile the model again")


def integer(low: int, high: int) -> Check:
    """An integer in low .. high."""

    def check(value: Any, path: str) -> None:
        if type(value) is not int or not low <= value <= high:
            raise HeaderError(path, f"must be an integer in {low}..{high}, not {_shown(value)}")

    return check


def check_text(value: Any, path: str) -> None:
    """Unicode without NUL, which neither files nor terminals take."""
    if not isinstance(value, str) or "\0" in value or not value.isascii() and _has_surrogates(value):
        raise HeaderError(path, f"must be text, not {_shown(value)}")


def check_boolean(value: Any, path: str) -> None:
    if type(value) is not bool:
        raise HeaderError(path, f"must be true or false, not {_shown(value)}")


def check_nothing(value: Any, path: str) -> None:
    if value is not None:
        raise HeaderError(path, f"must be null, not {_shown(value)}")


def one_of(*names: str) -> Check:
    """One of the names."""

    def check(value: Any, path: str) -> None:
        if value not in names:
            raise HeaderError(path, f"must be one of {', '.join(names)}, not {_shown(value)}")

    return check


def either(*checks: Check) -> Check:
    """What one of the checks accepts; the last one says what is wrong."""

    def check(value: Any, path: str) -> None:
        for first in checks[:-1]:
            try:
                return first(value, path)
            except HeaderError:
                pass
        checks[-1](value, path)

    return check


def list_of(element: Check, most: int | None = None) -> Check:
    """A list of up to `most` elements."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise HeaderError(path, f"must be a list, not {_shown(value)}")
        if most is not None and len(value) > most:
            raise HeaderError(path, f"must have at most {most} elements, not {len(value)}")
        for index, item in enumerate(value):
            element(item, f"{path}[{index}]")

    return check


def pair(first: Check, second: Check) -> Check:
    """A list of two."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, list) or len(value) != 2:
            raise HeaderError(path, f"must be a list of two, not {_shown(value)}")
        first(value[0], f"{path}[0]")
        second(value[1], f"{path}[1]")

    return check


def mapping(element: Check) -> Check:
    """An object with any keys."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise HeaderError(path, f"must be an object, not {_shown(value)}")
        for key, item in value.items():
            check_text(key, f"a key of {path}")
            element(item, f"{path}[{key!r}]")

    return check


def record(fields: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    """An object with these keys, perhaps `optional` ones, and no other."""
    may = optional or {}

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise HeaderError(path, f"must be an object, not {_shown(value)}")
        start = f"{path}." if path != "it" else ""
        for key in value:
            if key not in fields and key not in may:
                raise HeaderError(start + key, "is no field of it")
        for key, inner in fields.items():
            if key not in value:
                raise HeaderError(start + key, "is missing")
            inner(value[key], start + key)
        for key in may.keys() & value.keys():
            may[key](value[key], start + key)

    return check


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def _has_surrogates(value: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in value)


_ADDRESS_BITS = next(f.bits for f in FIELDS[Opcode.LOAD_GO] if f.name == "memory_address")
_ADDRESS = integer(0, (1 << _ADDRESS_BITS) - 1)
_SIZE = integer(0, 1 << _ADDRESS_BITS)
_HASH = integer(0, (1 << 32) - 1)
NO_LAYER = -1
"""In place of a layer's number, of an instruction that belongs to none."""
_INT64 = integer(0, (1 << 63) - 1)
_TYPES = [dtype.name for dtype in DType if dtype.is_integer or dtype is DType.BOOL]

_PORT_FIELDS = {
    "name": check_text,
    "shape": list_of(integer(1, 1 << _ADDRESS_BITS), MAX_RANK),
    "dtype": one_of(*_TYPES),
    "address": _ADDRESS,
    "bytes": _SIZE,
}
_PORT = record(_PORT_FIELDS, {"order": list_of(integer(0, MAX_RANK - 1), MAX_RANK)})
_STATE = record(_PORT_FIELDS | {"initial_address": either(check_nothing, _ADDRESS)})
_LAYER = record(
    {
        "name": check_text,
        "op": check_text,
        "macs": _INT64,
        "output": check_text,
        "operators": list_of(check_text),
        "parts": integer(1, 1 << _ADDRESS_BITS),
    }
)
_WEIGHTS = record(
    {
        "name": check_text,
        "bytes": _SIZE,
        "stored_bytes": _SIZE,
        "coded": check_boolean,
        "at_boot": check_boolean,
        "decode_cycles": _INT64,
    }
)
_BLOCK = record({"tensor": _SIZE, "address": _ADDRESS, "bytes": _SIZE, "crc32": _HASH})
_BOOT = record({"program_address": _ADDRESS, "program_bytes": _SIZE, "blocks": list_of(_BLOCK)})

_DECLARED = record(
    {
        "dtype": one_of("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
        "shape": list_of(integer(0, 1 << _ADDRESS_BITS), MAX_RANK),
        "low": integer(-(1 << 63), (1 << 64) - 1),
        "high": integer(-(1 << 63), (1 << 64) - 1),
    }
)

MACHINE = {"isa_hash": _HASH, "config_hash": _HASH, "config": mapping(either(check_text, _SIZE))}
"""The fields that say for which machine the program is: looked at first, as another machine's may have other fields."""

HEADER = record(
    MACHINE
    | {
        "program_address": _ADDRESS,
        "program_bytes": _SIZE,
        "memory_bytes": _SIZE,
        "inputs": list_of(_PORT),
        "outputs": list_of(_PORT),
        "kept": list_of(_PORT),
        "states": list_of(_STATE),
        "layers": list_of(_LAYER),
        "labels": mapping(list_of(either(check_text, integer(-(1 << 63), (1 << 63) - 1)))),
        "weights": list_of(_WEIGHTS),
        "boot": either(check_nothing, _BOOT),
    },
    optional={
        "others": list_of(record({"address": _ADDRESS, "bytes": _SIZE})),
        "instruction_layers": list_of(
            list_of(pair(integer(1, 1 << _ADDRESS_BITS), integer(NO_LAYER, 1 << _ADDRESS_BITS)))
        ),
        "declared": mapping(_DECLARED),
        "turns": integer(1, 1 << _ADDRESS_BITS),
    },
)


def check_machine(header: Any) -> None:
    """Raises HeaderError unless the fields of MACHINE are there and well formed."""
    if not isinstance(header, dict):
        raise HeaderError("it", f"must be an object, not {_shown(header)}")
    record(MACHINE)({key: header[key] for key in MACHINE if key in header}, "it")


def check_header(header: Any) -> None:
    """Raises HeaderError unless every field is there and well formed."""
    HEADER(header, "it")
