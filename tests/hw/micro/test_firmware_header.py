"""The generated C header: every field of every instruction comes out as it was encoded."""

import ctypes
import pathlib
import random
import subprocess

import pytest

from tosaic.hw.config import CONFIGS
from tosaic.hw.isa import FIELDS, Field, Opcode, encode, make, used_bits
from tosaic.hw.micro.firmware.header import machine_header

CASES = 40


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A library with the header's functions, not inlined."""
    folder = tmp_path_factory.mktemp("header")
    header = machine_header(CONFIGS["nano"], native=True).replace("static inline", "")
    source, library = pathlib.Path(folder, "fields.c"), pathlib.Path(folder, "fields.so")
    source.write_text(
        f"#include <stdint.h>\n{header}\nint bits(unsigned code) {{ return opcode_bits[code]; }}\n"
    )
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wall", "-Wno-unused", str(source), "-o", str(library)], check=True
    )
    return ctypes.CDLL(str(library))


def random_value(field: Field, rng: random.Random) -> int:
    low = -(1 << (field.bits - 1)) if field.signed else 0
    high = low + (1 << field.bits) - 1
    return rng.choice([low, high, rng.randint(low, high)])


@pytest.mark.parametrize("opcode", Opcode, ids=lambda opcode: opcode.name)
def test_fields(opcode: Opcode, fields: ctypes.CDLL) -> None:
    rng = random.Random(int(opcode))
    for _ in range(CASES):
        values = {field.name: random_value(field, rng) for field in FIELDS[opcode]}
        raw = ctypes.create_string_buffer(encode(make(opcode, **values)), 16)
        for field in FIELDS[opcode]:
            function = getattr(fields, f"{opcode.name}_{field.name}")
            function.restype = ctypes.c_int32 if field.signed else ctypes.c_uint32
            assert function(raw) == values[field.name], field
    assert fields.bits(int(opcode)) == used_bits(opcode, core_mask_bits=0)
