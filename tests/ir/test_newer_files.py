"""Files of a later TOSA: what is not known here is refused by name, never left out of what runs."""

import struct

import pytest
from one_operator_graphs import GRAPHS, conv2d, rescale
from shared_files import ABSENT, SHARED

from tosaic.compiler.ir import read_tosa, write_tosa
from tosaic.errors import ModelError, UnsupportedError

CASE = SHARED / "cases/models/version_1_7.tosa"
Path = tuple[int | tuple[int, int], ...]
"""The way from the root to a table: fields, and (field, item) for a vector of tables."""

_BLOCK: Path = ((1, 0), (1, 0))
TABLES: dict[str, tuple[str, tuple[int, ...], Path, int, str]] = {
    "graph": ("RESHAPE", (1, 0), (), 4, "root table"),
    "version": ("RESHAPE", (1, 0), (0,), 4, "the version"),
    "region": ("RESHAPE", (1, 1), ((1, 0),), 2, "region 0"),
    "block": ("RESHAPE", (1, 0), _BLOCK, 6, "block 0"),
    "operator": ("RESHAPE", (1, 0), (*_BLOCK, (1, 0)), 6, "operator 0"),
    "tensor": ("RESHAPE", (1, 0), (*_BLOCK, (2, 0)), 14, "tensor '[^']*'"),
    "shape": ("RESHAPE", (1, 0), (*_BLOCK, (5, 0)), 3, "shape 0"),
    "attributes of CAST, which has none": (
        "CAST",
        (1, 1),
        (*_BLOCK, (1, 0), 2),
        0,
        "the attribute table of CAST_0",
    ),
    "attributes of RESCALE": (
        "RESCALE",
        (1, 0),
        (*_BLOCK, (1, -1), 2),
        5,
        r"the attribute table of RESCALE_\d",
    ),
    "graph 0.30": ("RESCALE", (0, 30), (), 2, "root table"),
    "block 0.30": ("RESCALE", (0, 30), ((1, 0),), 5, "block 0"),
    "operator 0.30": ("RESCALE", (0, 30), ((1, 0), (1, 0)), 5, "operator 0"),
    "tensor 0.30": ("RESCALE", (0, 30), ((1, 0), (2, 0)), 4, "tensor 0"),
    "attributes of RESCALE 0.30": ("RESCALE", (0, 30), ((1, 0), (1, 0), 2), 7, "the attributes of RESCALE_0"),
}


def table_at(data: bytes, path: Path) -> int:
    """Where the table begins."""

    def field(table: int, number: int) -> int:
        vtable = table - struct.unpack_from("<i", data, table)[0]
        where = table + struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
        assert where != table, "the table has not this field"
        return where + struct.unpack_from("<I", data, where)[0]

    table = struct.unpack_from("<I", data, 0)[0]
    for step in path:
        if isinstance(step, int):
            table = field(table, step)
        else:
            vector = field(table, step[0])
            item = vector + 4 + 4 * (step[1] % struct.unpack_from("<I", data, vector)[0])
            table = item + struct.unpack_from("<I", data, item)[0]
    return table


def with_field(data: bytes, path: Path, number: int, value: bytes) -> bytes:
    """The file with one more field in a table: a new vtable at the end of the file, and the value behind it."""
    table = table_at(data, path)
    old = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, old)[0]
    entries = list(struct.unpack_from(f"<{(size - 4) // 2}H", data, old + 4))
    entries += [0] * (number + 1 - len(entries))
    changed = bytearray(data + bytes(-len(data) % 8))
    vtable, place = len(changed), len(changed) + 4 + 2 * len(entries) + 8
    place -= place % 8
    entries[number] = place - table
    changed += struct.pack(
        f"<{2 + len(entries)}H", 4 + 2 * len(entries), place + len(value) - table, *entries
    )
    changed += bytes(place - len(changed)) + value
    struct.pack_into("<i", changed, table, table - vtable)
    return bytes(changed)


@pytest.mark.parametrize("table", TABLES)
def test_an_unknown_field_of_every_table(table: str) -> None:
    graph, version, path, known, named = TABLES[table]
    data = write_tosa(GRAPHS[graph](), version=version)
    assert len(read_tosa(with_field(data, path, known, b"\0")).operators) == len(read_tosa(data).operators)
    for number, value in ((known, b"\1"), (known + 3, bytes(7) + b"\x80")):
        with pytest.raises(
            UnsupportedError, match=rf"^{named} has the field number {number}, which is not at its"
        ):
            read_tosa(with_field(data, path, number, value))


@pytest.mark.parametrize("version", [(1, 2, 0), (1, 7, 0), (2, 0, 0)])
def test_an_unknown_version(version: tuple[int, int, int]) -> None:
    data = bytearray(write_tosa(conv2d(), version=(1, 1, 7)))
    assert read_tosa(bytes(data)).version == (1, 1, 7)
    table = table_at(data, (0,))
    vtable = table - struct.unpack_from("<i", data, table)[0]
    for number, value in enumerate(version):
        offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
        struct.pack_into("<i", data, table + offset, value)
    said = rf"TOSA version {'.'.join(map(str, version))}; 0\.30, 1\.0 and 1\.1 can be read"
    with pytest.raises(UnsupportedError, match=said):
        read_tosa(bytes(data))


def test_scales_of_microscaling_types() -> None:
    data = write_tosa(rescale())
    with pytest.raises(UnsupportedError, match=r"tensor '[^']*' has scales of a microscaling type"):
        read_tosa(with_field(data, (*_BLOCK, (2, 0)), 11, b"\x20\0\0\0"))


def test_an_unknown_type_of_accumulator() -> None:
    data = write_tosa(conv2d())
    with pytest.raises(ModelError, match=r"attribute acc_type has type number 77, which does not exist"):
        read_tosa(with_field(data, (*_BLOCK, (1, -1), 2), 4, struct.pack("<I", 77)))


@pytest.mark.parametrize(
    "features, reader, message",
    [
        (2, (2026, 8, 9), None),
        (4, (2026, 8, 0), "the file asks for the compatibility feature 2, which is unknown"),
        (
            0,
            (2026, 9, 0),
            r"the file asks for version 2026\.9 of the TOSA serialization library, 2026\.8 is known",
        ),
        (0, (2027, 1, 0), r"the file asks for version 2027\.1 of the TOSA serialization library"),
    ],
)
def test_what_a_file_asks_of_its_reader(features: int, reader: tuple[int, ...], message: str | None) -> None:
    """The fields `compatibility` that Arm's serializer writes: a table with a version and a set of features."""
    # The offset of the table, its vtable and itself, then the same of the version.
    value = struct.pack("<I", 12) + struct.pack("<4H", 8, 16, 12, 4)
    value += struct.pack("<iQI", 8, features, 4 + 12)
    value += struct.pack("<5Hxx", 10, 16, 4, 8, 12) + struct.pack("<i3i", 12, *reader)
    data = with_field(write_tosa(rescale()), (), 3, value)
    if message is None:
        assert read_tosa(data).operators
        return
    with pytest.raises(UnsupportedError, match=message):
        read_tosa(data)


def test_the_case_of_version_1_7() -> None:
    if not CASE.exists():
        pytest.skip(ABSENT)
    with pytest.raises(UnsupportedError, match=r"version_1_7\.tosa: .*TOSA version 1\.7\.0"):
        read_tosa(CASE)
