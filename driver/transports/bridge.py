"""A board behind the serial bridge (hw/bridge): requests and answers, repeated until both arrived."""

import secrets
import struct
from collections.abc import Iterator, Sequence

from tosaic.errors import DeviceError
from tosaic.hw.bridge.boot_image import BOOT_CODE, BootCode
from tosaic.hw.bridge.frames import FrameDecoder, encode_request
from tosaic.hw.bridge.protocol import IDENTITY_BYTES, Identity, Operation, RequestStatus

from .base import RegisterTransport, Unreachable
from .line import Line

ANSWER_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0, 4.0)
"""How long an answer may take to begin once the request has left; after each the request is sent again. Lines of USB
hold bytes back for up to 16 ms, and a simulated board on a busy computer may be slow."""
TRIES = len(ANSWER_SECONDS)
BABBLE_BYTES = 1 << 14
"""A try ends when this number of bytes, far more than an answer has, came without an answer among them."""
DRAIN_READS = 100
BOOT_LOOKS = 3000
"""A board boots in a minute at most."""


class BridgeTransport(RegisterTransport):
    """Speaks the bridge's protocol over a line.

    `name` is what errors call the board; `boots`: it boots from flash. A request whose answer does not come is sent
    again with the same number, which the bridge does not execute twice. A board that forgot the numbers was reset:
    DeviceError, and the next request begins anew.
    """

    advice = "is it plugged in, configured, and at this baud rate?"
    """What to look at when nobody answers."""

    def __init__(self, line: Line, name: str, boots: bool = False):
        self.name, self.boots = name, boots
        self._line = line
        self._decoder = FrameDecoder()
        self._sequence = secrets.randbelow(256)
        self._greeted = False
        self.repeats = 0
        """Requests that were sent again."""
        self.identity = self._hello()
        if boots:
            self._boot_end()

    def read_registers(self, offset: int, count: int) -> list[int]:
        most = self.identity.data_bytes // 4
        values: list[int] = []
        while count > 0:
            part = min(count, most)
            raw = self._request(Operation.READ_REGISTERS, offset, 4 * part)
            values += struct.unpack(f"<{part}I", raw)
            offset, count = offset + 4 * part, count - part
        return values

    def write_register(self, offset: int, value: int) -> None:
        self.write_registers(offset, [value])

    def write_registers(self, offset: int, values: Sequence[int]) -> None:
        most = self.identity.data_bytes // 4 * 4
        raw = struct.pack(f"<{len(values)}I", *values)
        for start in range(0, len(raw), most):
            part = raw[start : start + most]
            self._request(Operation.WRITE_REGISTERS, offset + start, len(part), part)

    def read_memory(self, address: int, count: int) -> bytes:
        raw, most = b"", self.identity.data_bytes
        for start in range(0, count, most):
            part = min(most, count - start)
            raw += self._request(Operation.READ_MEMORY, self.identity.memory_base + address + start, part)
        return raw

    def write_memory(self, address: int, data: bytes) -> None:
        most = self.identity.data_bytes
        for start in range(0, len(data), most):
            part = data[start : start + most]
            place = self.identity.memory_base + address + start
            self._request(Operation.WRITE_MEMORY, place, len(part), part)

    def clear_memory(self, address: int, count: int) -> bool:
        return self._line.clear(address, count)

    def pause(self, seconds: float) -> None:
        self._line.pause(seconds)

    def reset(self) -> bool:
        self._request(Operation.RESET)
        if self.boots:
            self._boot_end()
        return True

    def booted_image(self) -> int | None:
        if not self.boots:
            return None
        code, crc32 = self._boot_end()
        if code.is_fault:
            raise DeviceError(
                f"{self.name}: booting from flash failed: {code.name} (fault {code.value}): write the image of "
                "`tosaic boot-image` again, or leave out flash=1"
            )
        return crc32 if code == BootCode.DONE else None

    def leave_boot(self) -> None:
        if self.boots:
            self.write_register(BOOT_CODE, BootCode.LEFT)

    def close(self) -> None:
        self._line.close()

    # --- inside

    def _boot_end(self) -> tuple[BootCode, int]:
        """How booting ended, and the CRC-32 of the image. Until then the machine's own registers do not answer."""
        for attempt in range(BOOT_LOOKS):
            code, crc32 = self.read_registers(BOOT_CODE, 2)
            if code != BootCode.BOOTING:
                return BootCode(code), crc32
            self.wait(attempt)
        raise DeviceError(f"{self.name}: the board does not end booting from flash: reset it")

    def _hello(self) -> Identity:
        """Begin anew: what is still on the line belongs to nobody."""
        for _ in range(DRAIN_READS):
            if not self._line.read(0.0):
                break
        self._decoder = FrameDecoder()
        # Far from the numbers that late answers may carry.
        self._sequence = (self._sequence + 128) % 256
        status, raw = self._exchange(Operation.HELLO, 0, 0, b"")
        if status != RequestStatus.OK or len(raw) != IDENTITY_BYTES:
            raise DeviceError(f"{self.name}: HELLO is answered {_word(status)} with {len(raw)} bytes")
        try:
            identity = Identity.from_bytes(raw)
        except (ValueError, UnicodeDecodeError) as error:
            raise DeviceError(f"{self.name}: this is no Tosaic board: {error}") from None
        self._greeted = True
        return identity

    def _request(self, operation: Operation, address: int = 0, count: int = 0, data: bytes = b"") -> bytes:
        if not self._greeted:
            identity = self._hello()
            if identity != self.identity:
                raise DeviceError(
                    f"{self.name}: another board answers: {identity.name}, not {self.identity.name}"
                )
        self._sequence = (self._sequence + 1) % 256
        status, raw = self._exchange(operation, address, count, data)
        if status == RequestStatus.OUT_OF_SEQUENCE:
            self._greeted = False
            raise DeviceError(
                f"{self.name}: the board was reset, or another host used it: it does not know request "
                f"{self._sequence} ({operation.name} at 0x{address:x})"
            )
        if status != RequestStatus.OK:
            raise DeviceError(
                f"{self.name}: {operation.name} of {count} bytes at 0x{address:x}: {_word(status)}"
            )
        wanted = count if operation in (Operation.READ_REGISTERS, Operation.READ_MEMORY) else 0
        if len(raw) != wanted:
            raise DeviceError(f"{self.name}: {operation.name} brings {len(raw)} bytes, not {wanted}")
        return raw

    def _exchange(self, operation: Operation, address: int, count: int, data: bytes) -> tuple[int, bytes]:
        """Status and data of the answer to the request with the current number."""
        request = encode_request(self._sequence, operation, address, count, data)
        for attempt, seconds in enumerate(ANSWER_SECONDS):
            if attempt:
                self.repeats += 1
            self._line.write(request)
            for content in self._answers(seconds + len(request) * self._line.byte_seconds):
                # Answers with other numbers are late ones.
                if content[0] == self._sequence and len(content) >= 2:
                    return content[-1], content[1:-1]
        self._greeted = False
        raise Unreachable(
            f"{self.name}: the board does not answer: {TRIES} times {operation.name} at 0x{address:x}, "
            f"{self._decoder.damaged} damaged frames; {self.advice}"
        )

    def _answers(self, seconds: float) -> Iterator[bytes]:
        """Whole frames as they come, until the line is quiet for some time or says too much."""
        left = BABBLE_BYTES
        while left > 0 and (received := self._line.read(seconds)):
            left -= len(received)
            yield from self._decoder.feed(received)


def _word(status: int) -> str:
    return RequestStatus(status).name if status in RequestStatus._value2member_map_ else f"status {status}"
