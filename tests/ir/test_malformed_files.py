"""Broken files: one clear error, quickly, whatever the bytes."""

import struct
import time
import tracemalloc

import flatbuffers
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from one_operator_graphs import conv2d, rescale, while_loop

from tosaic.compiler.ir import read_tosa, validate, write_tosa
from tosaic.errors import Error, ModelError, UnsupportedError

_FILES = {
    "conv2d 1.0": write_tosa(conv2d()),
    "while 1.0": write_tosa(while_loop()),
    "rescale 1.0": write_tosa(rescale()),
    "conv2d 0.30": write_tosa(conv2d(), version=(0, 30)),
    "rescale 0.30": write_tosa(rescale(), version=(0, 30)),
    "while 0.30": write_tosa(while_loop(), version=(0, 30)),
}
_QUICKLY_SECONDS = 1.0


def survives(data: bytes) -> None:
    """Reading gives a graph or one of our errors, in one line, in time."""
    start = time.process_time()
    try:
        validate(read_tosa(data))
    except Error as error:
        assert str(error)
        assert "\n" not in str(error)
    assert time.process_time() - start < _QUICKLY_SECONDS


@pytest.mark.long
@pytest.mark.parametrize("name", _FILES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_changed_bytes(name: str, data: st.DataObject) -> None:
    broken = bytearray(_FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(broken))


@pytest.mark.long
@pytest.mark.parametrize("name", _FILES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_changed_words(name: str, data: st.DataObject) -> None:
    """Offsets and counts are 32-bit words; wrong ones are large, small or nearly right."""
    broken = bytearray(_FILES[name])
    word = data.draw(st.integers(0, len(broken) // 4 - 1)) * 4
    near = st.integers(-64, 64).map(lambda d: (struct.unpack_from("<I", broken, word)[0] + d) % (1 << 32))
    value = data.draw(st.one_of(near, st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])))
    struct.pack_into("<I", broken, word, value)
    survives(bytes(broken))


@pytest.mark.parametrize("name", _FILES)
def test_every_truncation(name: str) -> None:
    data = _FILES[name]
    for length in [*range(64), *range(64, len(data), 13)]:
        survives(data[:length])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
@example(b"")
@example(b"\x08\0\0\0TOSA")
@example(b"\x08\0\0\0TOSA\0\0\0\0\0\0\0\0")
def test_arbitrary_bytes(data: bytes) -> None:
    survives(data)
    survives(data[:4] + b"TOSA" + data[8:])


def test_names_with_line_breaks_stay_on_one_line() -> None:
    survives(_FILES["conv2d 1.0"].replace(b"weight\0", b"we\n\r\0h\0"))


def _file_with(count: int, shared: bool) -> bytes:
    """A 1.0 file whose operator list claims `count` entries; `shared` makes them one and the same table."""
    builder = flatbuffers.Builder(1024)
    name = builder.CreateString("x" * 1000)
    builder.StartVector(4, 200, 4)
    for _ in range(200):
        builder.PrependUOffsetTRelative(name)
    names = builder.EndVector()
    builder.StartObject(5)
    builder.PrependUint32Slot(0, 15, 0)
    builder.PrependUOffsetTRelativeSlot(3, names, 0)
    operator = builder.EndObject()
    entries = count if shared else 1
    builder.StartVector(4, entries, 4)
    for _ in range(entries):
        builder.PrependUOffsetTRelative(operator)
    operators = builder.EndVector()
    if not shared:
        struct.pack_into("<I", builder.Bytes, len(builder.Bytes) - operators, count)
    builder.StartObject(6)
    builder.PrependUOffsetTRelativeSlot(1, operators, 0)
    block = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(block)
    blocks = builder.EndVector()
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, blocks, 0)
    region = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(region)
    regions = builder.EndVector()
    builder.StartObject(4)
    builder.PrependInt32Slot(0, 1, -1)
    builder.PrependInt32Slot(1, 0, -1)
    version = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, version, 0)
    builder.PrependUOffsetTRelativeSlot(1, regions, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"TOSA")
    return bytes(builder.Output())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_file_with(0x7FFFFFFF, shared=False), "malformed .tosa file: .* needs bytes .*, the file has"),
        (_file_with(20_000, shared=True), "its tables refer to the same data over and over"),
    ],
)
def test_a_small_file_cannot_ask_for_much_work(data: bytes, message: str) -> None:
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(ModelError, match=message):
        read_tosa(data)
    seconds, (_, peak_bytes) = time.process_time() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 2
    assert peak_bytes < 32 << 20


def test_a_constant_with_a_huge_shape_is_not_allocated() -> None:
    shape = np.array([4, 3, 3, 3], "<i4").tobytes()
    huge = np.array([0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF, 3], "<i4").tobytes()
    data = _FILES["conv2d 1.0"]
    assert data.count(shape) == 1
    with pytest.raises(ModelError, match="constant 'weight' .* has 108 bytes of data, it needs 297"):
        read_tosa(data.replace(shape, huge))


def test_other_files_and_versions(tmp_path) -> None:
    with pytest.raises(ModelError, match="is not a TOSA flatbuffer: bytes 4 to 7 must be 'TOSA'"):
        read_tosa(b"\x1c\0\0\0TFL3" + bytes(100))
    with pytest.raises(ModelError, match=r"cannot read .*missing.tosa: No such file"):
        read_tosa(tmp_path / "missing.tosa")
    (tmp_path / "short.tosa").write_bytes(b"TOSA")
    with pytest.raises(ModelError, match=r"short.tosa.* is not a TOSA flatbuffer"):
        read_tosa(tmp_path / "short.tosa")


@pytest.mark.parametrize(("number", "text"), [((0, 80, 0), "0.80.0"), ((2, 0, 0), "2.0.0")])
def test_versions_that_are_not_read(number: tuple[int, int, int], text: str) -> None:
    builder = flatbuffers.Builder(64)
    builder.StartObject(4)
    for slot, value in enumerate(number):
        builder.PrependInt32Slot(slot, value, -1)
    version = builder.EndObject()
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, version, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"TOSA")
    with pytest.raises(UnsupportedError, match=f"is TOSA version {text}; 0.30, 1.0 and 1.1 can be read"):
        read_tosa(bytes(builder.Output()))
