"""Kinds of damage: of bytes, of 32-bit words, of text, of JSON, and of members of archives, whose CRCs are right."""

import io
import json
import random
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]

_NUMBERS = (
    0,
    -1,
    1,
    2,
    127,
    255,
    1 << 16,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    1 << 63,
    1 << 70,
    0.5,
    -1.5,
    1e308,
)
_LEAVES = (
    *_NUMBERS,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "x",
    "7",
    "../x",
    None,
    True,
    [],
    {},
    [[]],
    {"a": 1},
)
_TOKENS = (
    "nan",
    "inf",
    "-1",
    "0",
    "1e999",
    "9" * 50,
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    '"',
    "'",
    "#",
    "=",
    ",",
    ";",
    "\0",
    "é",
)
_DEEP = 3000
"""Levels, more than Python's recursion takes."""


def bits(data: bytes, chance: random.Random) -> bytes:
    """One to eight flipped bits."""
    changed = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 1, 2, 8))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut(data: bytes, chance: random.Random) -> bytes:
    """An end, a beginning or a middle that is missing, or that is there twice."""
    first, last = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return chance.choice((data[:first], data[last:], data[:first] + data[last:], data[:last] + data[first:]))


def words(data: bytes, chance: random.Random) -> bytes:
    """Lengths, offsets and counts: a 32-bit word that is nearly right, or far off."""
    if len(data) < 8:
        return cut(data, chance)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 3))):
        at = chance.randrange(len(data) // 4) * 4 + chance.choice((0, 0, 0, 1))
        at = min(at, len(data) - 4)
        old = int.from_bytes(changed[at : at + 4], "little")
        value = chance.choice(
            (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, old + chance.randint(-64, 64), old * 2)
        )
        changed[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(changed)


def tokens(data: bytes, chance: random.Random) -> bytes:
    """Words of a text that are missing, doubled, exchanged or others."""
    parts = re.findall(r"\w+|\s+|[^\w\s]", data.decode("utf-8", "replace")) or [""]
    for _ in range(chance.choice((1, 1, 2, 4))):
        at, other = chance.randrange(len(parts)), chance.randrange(len(parts))
        parts[at] = chance.choice(("", parts[at] * 2, parts[other], *chance.sample(_TOKENS, 4)))
    if chance.random() < 0.05:
        parts[chance.randrange(len(parts))] = chance.choice("[({-") * _DEEP
    return "".join(parts).encode("utf-8", "replace")


def leaves(data: bytes, chance: random.Random) -> bytes:
    """Values of JSON that are others, missing or added."""
    tree = json.loads(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = list(_places(tree))
        if not places:
            break
        parent, key = chance.choice(places)
        turn = chance.random()
        if turn < 0.15:
            del parent[key]
        elif turn < 0.25:
            other, its = chance.choice(places)
            parent[key] = json.loads(json.dumps(other[its]))
        else:
            parent[key] = chance.choice(_LEAVES)
    text = json.dumps(tree)
    if chance.random() < 0.03:
        text = text.replace("null", "[" * _DEEP + "]" * _DEEP, 1)
    return text.encode()


def _places(tree: Any) -> Any:
    for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def members(data: bytes, chance: random.Random) -> bytes:
    """A member of a zip archive that is damaged, missing, doubled or renamed, or packed; all CRCs are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        held = {info.filename: archive.read(info) for info in archive.infolist()}
    name = chance.choice(list(held))
    turn = chance.random()
    if turn < 0.08:
        del held[name]
    elif turn < 0.16:
        held[chance.choice(("x", name + "x", "../" + name, name[1:] or "y"))] = held.pop(name)
    elif name.endswith(".json"):
        held[name] = chance.choice((leaves, leaves, leaves, tokens))(held[name], chance)
    else:
        held[name] = chance.choice((bits, cut, words))(held[name], chance)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for member, content in held.items():
            archive.writestr(member, content)
    return out.getvalue()


def npy_header(data: bytes, chance: random.Random) -> bytes:
    """Words of the header of an .npy file, whose length is right."""
    length = int.from_bytes(data[8:10], "little")
    header = tokens(data[10 : 10 + length], chance)[:60_000]
    return data[:8] + len(header).to_bytes(2, "little") + header + data[10 + length :]


def json_header(start: int, length_bytes: int, checked: bool) -> Damage:
    """Leaves of a header of JSON behind `start` bytes and its length; a CRC-32 at the file's end is right."""

    def damage(data: bytes, chance: random.Random) -> bytes:
        begin = start + length_bytes
        size = int.from_bytes(data[start:begin], "little")
        body = data[begin + size : len(data) - 4 * checked]
        text = chance.choice((leaves, leaves, tokens))(data[begin : begin + size], chance)
        if chance.random() < 0.2:
            body = chance.choice((bits, cut, words))(body, chance)
        whole = data[:start] + len(text).to_bytes(length_bytes, "little") + text + body
        return whole + (zlib.crc32(whole).to_bytes(4, "little") if checked else b"")

    return damage
