"""The software half of the bridge's protocol."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tosaic.hw.bridge.frames import FrameDecoder, encode_frame, encode_request
from tosaic.hw.bridge.protocol import ESCAPE, FLAG, Identity, Operation

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault of the frames."""
CONTENT = st.binary(min_size=1, max_size=40) | st.lists(
    st.sampled_from([FLAG, ESCAPE, 0x5E, 0x5D, 0]), min_size=1, max_size=20
).map(bytes)


def test_known_frame():
    """The CRC is that of zlib: 0xCBF43926 for the digits."""
    assert encode_frame(b"123456789") == b"\x7e123456789\x26\x39\xf4\xcb\x7e"
    assert encode_request(0x7E, Operation.READ_REGISTERS, 0x7D, 4)[:4] == b"\x7e\x7d\x5e\x02"


@RELAXED
@given(st.lists(CONTENT, max_size=5), st.integers(1, 50))
def test_frames_come_back(contents, piece):
    raw = b"".join(map(encode_frame, contents))
    decoder, found = FrameDecoder(), []
    for start in range(0, len(raw), piece):
        found += decoder.feed(raw[start : start + piece])
    assert found == contents
    assert decoder.damaged == 0


@RELAXED
@given(st.binary(max_size=60), CONTENT)
def test_the_frame_after_garbage_is_found(garbage, content):
    """The garbage may take the frame's first flag for the end of its own."""
    decoder = FrameDecoder()
    found = list(decoder.feed(garbage + bytes([FLAG]) + encode_frame(content)))
    assert found[-1] == content


@RELAXED
@given(CONTENT, st.data())
def test_a_damaged_byte_is_never_accepted(content, data):
    raw = bytearray(encode_frame(content))
    raw[data.draw(st.integers(1, len(raw) - 2))] ^= data.draw(st.integers(1, 255))
    assert content not in list(FrameDecoder().feed(raw))


def test_long_frames_are_dropped():
    decoder = FrameDecoder(limit=20)
    assert list(decoder.feed(encode_frame(bytes(21)) + encode_frame(b"ok"))) == [b"ok"]
    assert decoder.damaged == 1


def test_identity():
    identity = Identity("ulx3s", 0x10000000, 128 << 10, 25_000_000, 1024)
    raw = identity.to_bytes()
    assert Identity.from_bytes(raw) == identity
    with pytest.raises(ValueError, match=r"^an identity has 32 bytes, not 31$"):
        Identity.from_bytes(raw[1:])
    with pytest.raises(ValueError, match=r"^its first word is 0x42534f00, not 0x42534f54$"):
        Identity.from_bytes(b"\0" + raw[1:])
    with pytest.raises(ValueError, match=r"^it speaks version 9 of the protocol, not 1$"):
        Identity.from_bytes(raw[:4] + b"\x09" + raw[5:])
    with pytest.raises(ValueError, match=r"^name must be 1 to 12 ASCII characters, not 'thirteen char'$"):
        Identity("thirteen char", 0, 0, 0, 4)
    with pytest.raises(ValueError, match=r"^memory_bytes must fit 32 bits, not -1$"):
        Identity("a", 0, -1, 0, 4)
    with pytest.raises(ValueError, match=r"^data_bytes must be a power of two from 4 to 32768, not 100$"):
        Identity("a", 0, 0, 0, 100)
