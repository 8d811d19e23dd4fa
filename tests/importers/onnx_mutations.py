"""Damaged ONNX models: whatever is read, the result is a graph or an error of Tosaic's own."""

import functools
import pathlib
import random
from typing import Any

import numpy as np
import onnx
from failed_case import Case
from fuzz_runner import Tally, allowed_bytes, judged
from google.protobuf.message import DecodeError
from microsoft_cases import FORMS
from onnx_node_cases import cases, first_data_set

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.errors import ModelError

_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    127,
    128,
    255,
    65536,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
)
_FLOATS = (0.0, -0.0, 1.0, -1.5, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"))
_HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = (str(_HERE.parent / "fuzzing"), str(_HERE))
_LARGEST_SEED_BYTES = 20_000


def seeds(count: int, seed: int) -> list[tuple[str, bytes]]:
    """Some models of the package's node tests, their inputs as initializers now and then, and of ONNX Runtime's
    operators."""
    chance = random.Random(seed)
    names, forms = sorted(cases()), sorted(FORMS)
    found = []
    while len(found) < count:
        if chance.random() < 0.15:
            name = chance.choice(forms)
            made = FORMS[name](np.random.default_rng(chance.randrange(1 << 20))).model()
            found.append((name, made.SerializeToString()))
            continue
        name = chance.choice(names)
        model, inputs, _ = first_data_set(cases()[name])
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        for value, array in zip(model.graph.input, inputs, strict=False):
            if isinstance(array, np.ndarray) and array.size < 200 and chance.random() < 0.3:
                copy.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        data = copy.SerializeToString()
        if len(data) < _LARGEST_SEED_BYTES:
            found.append((name, data))
    return found


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The model with some fields, or some bytes, changed."""
    if chance.random() < 0.3:
        raw = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(raw))
            kind = chance.randrange(3)
            if kind == 0:
                raw[at] = chance.randrange(256)
            elif kind == 1:
                del raw[at : at + chance.randint(1, 8)]
            else:
                raw[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 4)))
            if not raw:
                break
        return bytes(raw)
    model = onnx.ModelProto.FromString(data)
    for _ in range(chance.randint(1, 3)):
        places = list(_places(model))
        if not places:
            break
        _change(*chance.choice(places), places, chance)
    try:
        return model.SerializeToString()
    except ValueError:  # a string that is not UTF-8 any more
        return data


def _places(message: Any) -> Any:
    """(message, field, index) of every value in a message; index None for a single one."""
    for field, value in message.ListFields():
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        items = enumerate(value) if repeated else [(None, value)]
        for index, item in items:
            if index is not None and index > 40:
                break
            yield message, field, index
            if field.message_type is not None:
                yield from _places(item)


def _change(message: Any, field: Any, index: int | None, places: list[Any], chance: random.Random) -> None:
    if index is not None and chance.random() < 0.25:
        del getattr(message, field.name)[index]
        return
    if field.message_type is not None:
        if index is not None and chance.random() < 0.5:
            target = getattr(message, field.name)
            target.add().CopyFrom(target[index])
        elif chance.random() < 0.3:
            message.ClearField(field.name)
        return
    kind = field.cpp_type
    if kind in (field.CPPTYPE_INT32, field.CPPTYPE_INT64, field.CPPTYPE_UINT64, field.CPPTYPE_ENUM):
        value: Any = chance.choice(_NUMBERS)
        if kind == field.CPPTYPE_INT32:
            value = max(-(1 << 31), min(value, (1 << 31) - 1))
        elif kind == field.CPPTYPE_UINT64:
            value = max(0, value)
        elif kind == field.CPPTYPE_ENUM:
            value = chance.choice(field.enum_type.values).number
    elif kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        value = chance.choice(_FLOATS)
    elif field.type == field.TYPE_BYTES:
        old = getattr(message, field.name) if index is None else getattr(message, field.name)[index]
        value = bytes(chance.randrange(256) for _ in old)[: chance.randint(0, len(old))]
    else:
        # A name that stands elsewhere in the model, or none.
        others = [(m, f, i) for m, f, i in places if f.message_type is None and f.type == f.TYPE_STRING]
        other, of, at = chance.choice(others)
        value = getattr(other, of.name) if at is None else (list(getattr(other, of.name)) + [""])[at]
        value = "" if chance.random() < 0.1 else value
    if index is None:
        setattr(message, field.name, value)
    else:
        getattr(message, field.name)[index] = value


def run_mutations(count: int, seed: int, traced: bool = False) -> Tally:
    """Imports `count` damaged models; `traced` measures their memory."""
    chance, tally = random.Random(seed), Tally()
    models = seeds(max(1, count // 40), seed)
    for number in range(count):
        name, data = chance.choice(models)
        raw = mutated(data, chance)
        allowed = allowed_bytes(len(raw)) if traced else None
        before = len(tally.wrong)
        tally.attempt("model", f"{number}: {name}", functools.partial(_attempt, raw), allowed=allowed)
        tally.note(before, Case("onnx_mutations:judge", FOLDERS, raw, {"traced": traced}), data)
    return tally


def judge(data: bytes, settings: dict[str, Any]) -> str:
    """What is wrong with one damaged model."""
    return judged(
        functools.partial(_attempt, data), allowed=allowed_bytes(len(data)) if settings["traced"] else None
    )


def _attempt(raw: bytes) -> None:
    try:
        model = onnx.ModelProto.FromString(raw)
    except DecodeError:
        raise ModelError("not protobuf") from None
    import_onnx(model)
