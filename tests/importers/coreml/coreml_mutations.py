"""Damages .mlmodel files: bytes anywhere, and single fields of the messages inside."""

import functools
import pathlib
import random

import coreml_layer_samples
from failed_case import Case
from fuzz_runner import Tally, allowed_bytes, judged

from tosaic.compiler.importers.coreml import import_coreml
from tosaic.compiler.importers.coreml.schema import messages

_HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = (str(_HERE.parents[1] / "fuzzing"), str(_HERE))
NETWORKS = pathlib.Path(__file__).parent / "networks"
_NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    63,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
_FLOATS = (0.0, -0.0, 1.0, -1.5, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))


def samples():
    """Whole files: the networks, and a model of each kind of layer."""
    files = [path.read_bytes() for path in sorted(NETWORKS.glob("*.mlmodel"))]
    return files + [message.SerializeToString() for message in coreml_layer_samples.models()]


def mutated(data, chance):
    """A damaged copy."""
    if chance.random() < 0.4:
        return _bytes(data, chance)
    message = messages()["Model"]()
    message.ParseFromString(data)
    for _ in range(chance.choice([1, 1, 2, 4])):
        _field(message, chance)
    return message.SerializeToString()


def _bytes(data, chance):
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(damaged) or 1)
        kind = chance.randrange(4)
        if kind == 0:
            damaged[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del damaged[at : at + chance.choice([1, 2, 16, 1000])]
        elif kind == 2:
            damaged[at:at] = damaged[at : at + chance.choice([1, 8, 64])]
        else:
            damaged[at:at] = chance.randbytes(chance.choice([1, 4, 16]))
    return bytes(damaged)


def _field(message, chance):
    """Changes one field of a message somewhere below `message`."""
    fields = message.ListFields()
    while fields:
        descriptor, value = chance.choice(fields)
        if descriptor.message_type is None:
            break
        message = chance.choice(value) if descriptor.is_repeated else value
        fields = message.ListFields()
        if chance.random() < 0.15:
            break
    if not message.DESCRIPTOR.fields:
        return
    descriptor = chance.choice(list(message.DESCRIPTOR.fields))
    if message.ListFields() and chance.random() < 0.7:
        descriptor = chance.choice(message.ListFields())[0]
    _change(message, descriptor, chance)


def _change(message, descriptor, chance):
    name = descriptor.name
    if chance.random() < 0.15:
        message.ClearField(name)
    elif descriptor.message_type is not None:
        if descriptor.is_repeated:
            items = getattr(message, name)
            if len(items) and chance.random() < 0.7:
                items.append(chance.choice(items)) if chance.random() < 0.5 else items.pop(
                    chance.randrange(len(items))
                )
            else:
                items.add()
        else:
            getattr(message, name).SetInParent()
    else:
        value = _value(descriptor, chance)
        if descriptor.is_repeated:
            items = getattr(message, name)
            if len(items) and chance.random() < 0.6:
                items[chance.randrange(len(items))] = value
            else:
                items.append(value)
        else:
            setattr(message, name, value)


def _value(descriptor, chance):
    kind = descriptor.type
    if kind in (1, 2):
        return chance.choice(_FLOATS)
    if kind == 8:
        return chance.random() < 0.5
    if kind == 9:
        return chance.choice(["", "x", "y", "layer"])
    if kind == 12:
        return chance.randbytes(chance.choice([0, 1, 3, 4, 16, 64]))
    bits, signed = (32 if kind in (5, 13, 14) else 64), kind in (3, 5, 14)
    number = chance.choice(_NUMBERS) % (1 << bits)
    if signed:
        number = number - (1 << bits) if number >> (bits - 1) else number
        number = -number if chance.random() < 0.3 and number > -(1 << (bits - 1)) else number
    return number


def run_mutations(count, seed, traced=False):
    """Imports damaged files; each must end in a graph or in one of our errors, of one line."""
    chance, tally, files = random.Random(seed), Tally(), samples()
    for number in range(count):
        original = chance.choice(files)
        data = mutated(original, chance)
        allowed = allowed_bytes(len(data)) if traced else None
        before = len(tally.wrong)
        tally.attempt("model", str(number), functools.partial(import_coreml, data), allowed=allowed)
        tally.note(before, Case("coreml_mutations:judge", FOLDERS, data, {"traced": traced}), original)
    return tally


def judge(data, settings):
    """What is wrong with one damaged file."""
    allowed = allowed_bytes(len(data)) if settings["traced"] else None
    return judged(functools.partial(import_coreml, data), allowed=allowed)
