"""Headers of program files that somebody made: with a right CRC and wrong fields. Each ends in one line, or runs."""

import copy
import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.compiler.program import MAGIC, Program
from tosaic.compiler.program_header import (
    HeaderError,
    check_boolean,
    check_nothing,
    check_text,
    either,
    integer,
    list_of,
    mapping,
    one_of,
    record,
)
from tosaic.hw.config import CONFIGS

TINY = Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
WRONG: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "zero": 0,
    "negative": -1,
    "32 bits": (1 << 32) - 1,
    "64 bits": 1 << 64,
    "huge": 1 << 400,
    "fraction": 1.5,
    "infinity": float("inf"),
    "text": "x",
    "NUL": "a\0b",
    "half a character": "\ud800",
    "empty list": [],
    "empty object": {},
    "nested list": [[[[]]]],
    "nested object": {"name": {"name": {"name": 1}}},
}


def header_and_image(raw: bytes) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + 4
    length = int.from_bytes(raw[len(MAGIC) : start], "little")
    return json.loads(raw[start : start + length]), raw[start + length : -4]


def file_with(header: Any, image: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = MAGIC + len(text).to_bytes(4, "little") + text + image
    return body + zlib.crc32(body).to_bytes(4, "little")


PROGRAM = compile_graph(read_tosa(TINY), CONFIGS["nano"], keep_layers=True, compress=None)
PROGRAM.labels = {"scores": [*map(str, range(9)), 9]}
FILE, IMAGE = header_and_image(PROGRAM.to_bytes())


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all fields; of a list the first element and the last."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index in sorted({0, len(value) - 1} & set(range(len(value)))):
            yield from places(value[index], (*path, index))


def changed(path: tuple, change: Any) -> dict[str, Any]:
    """The header with `change(container, key)` carried out at `path`."""
    header = copy.deepcopy(FILE)
    container = header
    for key in path[:-1]:
        container = container[key]
    change(container, path[-1])
    return header


def outcome(raw: bytes) -> str | None:
    """The error's line; None if the program is taken, and runs or ends in an error of ours."""
    try:
        program = Program.load(raw)
    except tosaic.Error as error:
        assert str(error).isprintable()
        return str(error)
    try:
        session = tosaic.Session(program, "emulator")
        session.run({port.name: np.zeros(port.shape, port.numpy) for port in session.inputs})
    except tosaic.Error as error:
        assert str(error).isprintable()
    return None


PLACES = list(places(FILE))


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long) if kind == "32 bits" else kind for kind in WRONG]
)
def test_every_field_with_a_wrong_value(kind: str) -> None:
    for path in PLACES:
        header = changed(path, lambda container, key: container.__setitem__(key, copy.deepcopy(WRONG[kind])))
        message = outcome(file_with(header, IMAGE))
        if message and "header is wrong" in message:
            assert str(path[0]) in message or "memory" in message, (path, message)
        if (path, kind) == (("boot",), "null"):
            continue  # a program without a boot part, which this one is
        if kind in ("null", "fraction", "infinity", "half a character", "huge", "NUL"):
            assert message is not None, path


def test_every_field_missing() -> None:
    for path in PLACES:
        message = outcome(file_with(changed(path, lambda container, key: container.pop(key)), IMAGE))
        if isinstance(path[-1], str) and path[0] not in ("config", "labels", "instruction_layers"):
            assert message is not None
            assert f"{path[-1]} is missing; compile the model again" in message, path


@pytest.mark.parametrize("seed", range(8))
def test_several_wrong_fields_at_random(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(50):
        header = copy.deepcopy(FILE)
        for path in dice.sample(PLACES, dice.randint(1, 3)):
            container: Any = header
            try:
                for key in path[:-1]:
                    container = container[key]
                container[path[-1]] = copy.deepcopy(dice.choice([*WRONG.values(), dice.randint(-9, 1 << 33)]))
            except (TypeError, KeyError, IndexError):
                continue  # an earlier change took the place away
        outcome(file_with(header, IMAGE))


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"", "it is no JSON (JSONDecodeError)"),
        (b"\xff\xff", "it is no JSON (UnicodeDecodeError)"),
        (b"[" * 100_000, "it is no JSON (RecursionError)"),
        (b"9" * 5000, "it is no JSON (ValueError)"),
        (b"[]", "it must be an object, not []"),
        (b"{}", "isa_hash is missing"),
    ],
)
def test_what_is_no_header(header: bytes, reason: str) -> None:
    expected = f"the program file's header is wrong: {reason}; compile the model again"
    assert outcome(file_with(header, IMAGE)) == expected


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("outputs", 0, "shape", 1), -3, "outputs[0].shape[1] must be an integer in 1..4294967296, not -3"),
        (("outputs", 0, "shape"), [1] * 7, "outputs[0].shape must have at most 6 elements, not 7"),
        (("outputs", 0, "bytes"), 11, "outputs[0].bytes must be 10 by shape and dtype, not 11"),
        (("inputs", 0, "dtype"), "FP32", "inputs[0].dtype must be one of BOOL, INT4, INT8, "),
        (
            ("inputs", 0, "address"),
            4294967295,
            "inputs[0].address must leave 64 bytes of memory, not 4294967295",
        ),
        (("layers", 0, "operators"), 5, "layers[0].operators must be a list, not 5"),
        (
            ("layers", 0, "macs"),
            True,
            "layers[0].macs must be an integer in 0..9223372036854775807, not True",
        ),
        (("weights", 0, "coded"), 1, "weights[0].coded must be true or false, not 1"),
        (("config", "rows"), "two", "for another version of the configurations"),
        (("config", "name"), 7, "config.name must be text, not 7"),
        (("labels", "scores"), ["a"], "labels['scores'] must have 10 elements, not 1"),
        (("layers",), "x" * 38, f"layers must be a list, not '{'x' * 38}';"),
        (("layers",), "x" * 39, f"layers must be a list, not 'x{'x' * 35}...;"),
        (("layers",), "x" * 99, f"layers must be a list, not 'x{'x' * 35}...;"),
    ],
)
def test_the_field_is_named(path: tuple, value: Any, reason: str) -> None:
    message = outcome(
        file_with(changed(path, lambda container, key: container.__setitem__(key, value)), IMAGE)
    )
    assert message is not None
    assert reason in message


def test_fewer_layers_than_the_program_marks() -> None:
    program = Program.load(file_with(FILE | {"layers": []}, IMAGE))
    with pytest.raises(
        tosaic.ModelError, match="^the program marks layer 0, it lists 0; compile the model again$"
    ):
        tosaic.run(program, {"image": np.zeros((1, 8, 8, 1), np.int8)}, "emulator")


def test_what_save_writes_comes_back() -> None:
    again = Program.load(PROGRAM.to_bytes())
    assert again.to_bytes() == PROGRAM.to_bytes()
    assert (again.inputs, again.outputs, again.kept) == (PROGRAM.inputs, PROGRAM.outputs, PROGRAM.kept)
    assert (again.layers, again.weights, again.labels) == (PROGRAM.layers, PROGRAM.weights, PROGRAM.labels)


FIRST = {"name": check_text, "sizes": list_of(integer(1, 3), 2)}
RECORD = record(FIRST, optional={"more": either(check_nothing, one_of("a", "b"))})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"name": "x", "sizes": []}, None),
        ({"name": "é", "sizes": [1, 3], "more": None}, None),
        ({"name": "x", "sizes": [1], "more": "b"}, None),
        ({"name": "x", "sizes": [0]}, "sizes[0] must be an integer in 1..3, not 0"),
        ({"name": "x", "sizes": [1, 4]}, "sizes[1] must be an integer in 1..3, not 4"),
        ({"name": "x", "sizes": [True]}, "sizes[0] must be an integer in 1..3, not True"),
        ({"name": "x", "sizes": [1, 1, 1]}, "sizes must have at most 2 elements, not 3"),
        ({"name": "x", "sizes": (1,)}, "sizes must be a list, not (1,)"),
        ({"name": "x\0", "sizes": []}, "name must be text, not 'x\\x00'"),
        ({"name": "\ud800", "sizes": []}, "name must be text, not '\\ud800'"),
        ({"name": "\udfff", "sizes": []}, "name must be text, not '\\udfff'"),
        ({"name": "x", "sizes": [], "more": "c"}, "more must be one of a, b, not 'c'"),
        ({"name": "x", "sizes": [], "other": 1}, "other is no field of it"),
        ({"name": "x"}, "sizes is missing"),
        ([], "it must be an object, not []"),
    ],
)
def test_checks(value: Any, reason: str | None) -> None:
    if reason is None:
        RECORD(value, "it")
    else:
        with pytest.raises(HeaderError) as caught:
            RECORD(value, "it")
        told = str(caught.value).removeprefix("the program file's header is wrong: ")
        assert told == f"{reason}; compile the model again"


def test_checks_of_what_is_inside() -> None:
    with pytest.raises(HeaderError, match=r": a\.b\['k'\]\.name is missing;"):
        mapping(record({"name": check_text}))({"k": {}}, "a.b")
    with pytest.raises(HeaderError, match=r": a key of a must be text, not 7;"):
        mapping(check_text)({7: "x"}, "a")
    with pytest.raises(HeaderError, match=r": a must be an object, not 7;"):
        mapping(check_text)(7, "a")
    with pytest.raises(HeaderError, match=r": a must be true or false, not 1;"):
        either(check_nothing, check_boolean)(1, "a")


@pytest.mark.parametrize("beyond", [-16, 0, 16])
def test_a_program_ends_with_the_image_at_the_latest(beyond: int) -> None:
    header = copy.deepcopy(FILE)
    header["program_bytes"] = len(IMAGE) - header["program_address"] + beyond
    if beyond <= 0:
        assert Program.load(file_with(header, IMAGE)).program_bytes == header["program_bytes"]
    else:
        with pytest.raises(HeaderError, match=": program_address and program_bytes reach beyond the image;"):
            Program.load(file_with(header, IMAGE))
