"""A board behind the serial bridge (hw/bridge): requests and answers, repeated until both arrived."""

import contextlib
import dataclasses
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Sequence

from tosaic.errors import DeviceError
from tosaic.hw.bridge.boot_image import BOOT_CODE, BootCode
from tosaic.hw.bridge.frames import FrameDecoder, encode_request
from tosaic.hw.bridge.protocol import FLAG, IDENTITY_BYTES, WRITES, Identity, Operation, RequestStatus

from .base import SEEN_SHARE, RegisterTransport, Unreachable
from .line import Line

ANSWER_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0, 4.0)
"""How long an answer may take to begin once the request has left; after each the request is sent again. Lines of USB
hold bytes back for up to 16 ms, and a simulated board on a busy computer may be slow."""
TRIES = len(ANSWER_SECONDS)
BABBLE_BYTES = 1 << 14
"""A try ends when this number of bytes, far more than an answer has, came beside those that are awaited."""
DRAIN_READS = 100
BOOT_LOOKS = 3000
"""A board boots in a minute at most."""
MOST_ASKED = 100
"""Requests that are under way at the same time; the numbers of twice as many must differ."""
CAREFUL_REQUESTS = 32
"""Requests that go one by one after several at the same time did not all arrive."""
QUIET_SECONDS = 0.05
"""When nothing comes for that time, no answer is on its way."""
BYTE_CYCLES = 64
"""The longest that a board works for a byte of a request: an SDRAM's closed row, or a register's quarter."""
REQUEST_CYCLES = 200
"""The same for a request as such."""
HELD_SECONDS = 0.05
"""The longest run whose end a request waits for on the line."""
ANSWER_BYTES = 16
"""The bytes on the line of an answer without data, all of them escaped."""


@dataclasses.dataclass(eq=False)
class BridgeRequest:
    """A request that was sent, and what came back: status and data, if anything did."""

    sequence: int
    operation: Operation
    address: int
    count: int
    frame: bytes
    fill: int = 0
    """FLAGs in front of it."""
    answer: tuple[int, bytes] | None = None

    @property
    def is_write(self) -> bool:
        return self.operation in WRITES

    @property
    def is_taken(self) -> bool:
        """Whether the board has answered that it was this request's turn."""
        return self.answer is not None and self.answer[0] != RequestStatus.OUT_OF_SEQUENCE

    @property
    def cycles(self) -> int:
        """The longest that a board works for it."""
        return REQUEST_CYCLES + BYTE_CYCLES * self.count

    @property
    def answer_bytes(self) -> int:
        """Bytes of the answer on the line, with room for escapes. One that has more makes the next request be lost,
        and sent again."""
        return ANSWER_BYTES + (0 if self.is_write else self.count + self.count // 8)


class BridgeTransport(RegisterTransport):
    """Speaks the bridge's protocol over a line.

    `name` is what errors call the board; `boots`: it boots from flash. A request whose answer does not come is sent
    again with the same number, which the bridge does not execute twice. A board that forgot the numbers was reset:
    DeviceError, and the next request begins anew.

    A bridge does not listen while it works on a request and answers it. So a request that leaves before the answer to
    the one in front of it has come is kept back by as many FLAGs, which mean nothing, as the bridge needs. A request
    that is lost all the same makes the bridge refuse those behind it; then they go one by one.
    """

    advice = "is it plugged in, configured, and at this baud rate?"
    """What to look at when nobody answers."""

    def __init__(self, line: Line, name: str, boots: bool = False):
        self.name, self.boots = name, boots
        self._line = line
        self._decoder = FrameDecoder()
        self._sequence = secrets.randbelow(256)
        self._greeted = False
        self._asked: list[BridgeRequest] = []
        """Requests under way."""
        self._depth = 0
        """How many `together` are open."""
        self._held_cycles = 0
        """Cycles that the board has for the request before the next one, beside its own work."""
        self._careful = 0
        """Requests from now on that go one by one."""
        self._answer_seconds = 0.0
        """The shortest time in which a request was answered; 0 before the first."""
        self.repeats = 0
        """Requests that were sent again."""
        self.identity = self._hello()
        if boots:
            self._boot_end()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
            if self._depth == 1:
                self._collect()
        except BaseException:
            if self._asked:
                # Nobody knows how far the board is with them.
                self._asked, self._greeted = [], False
            raise
        finally:
            self._depth -= 1

    def ask_registers(self, offset: int, count: int) -> Callable[[], list[int]]:
        take = self._ask(Operation.READ_REGISTERS, offset, 4 * count, self.identity.data_bytes // 4 * 4)
        return lambda: list(struct.unpack(f"<{count}I", take()))

    def ask_memory(self, address: int, count: int) -> Callable[[], bytes]:
        place = self.identity.memory_base + address
        return self._ask(Operation.READ_MEMORY, place, count, self.identity.data_bytes)

    def read_registers(self, offset: int, count: int) -> list[int]:
        with self.together():
            return self.ask_registers(offset, count)()

    def read_memory(self, address: int, count: int) -> bytes:
        with self.together():
            return self.ask_memory(address, count)()

    def write_register(self, offset: int, value: int) -> None:
        self.write_registers(offset, [value])

    def write_registers(self, offset: int, values: Sequence[int]) -> None:
        raw = struct.pack(f"<{len(values)}I", *values)
        self._write(Operation.WRITE_REGISTERS, offset, raw, self.identity.data_bytes // 4 * 4)

    def write_memory(self, address: int, data: bytes) -> None:
        place = self.identity.memory_base + address
        self._write(Operation.WRITE_MEMORY, place, data, self.identity.data_bytes)

    def clear_memory(self, address: int, count: int) -> bool:
        return self._line.clear(address, count)

    def wait_for(self, cycles: int, seconds: float) -> None:
        clock_hz = self.identity.clock_hz
        if self._asked and clock_hz and cycles <= HELD_SECONDS * clock_hz:
            # The line is slower to ask than the machine to end: the next request waits on it.
            self._held_cycles = cycles
        else:
            # A host also sees an end late by the time of an answer, in which the machine goes on working.
            self.pause(max(0.0, SEEN_SHARE * seconds - self._answer_seconds))

    def pause(self, seconds: float) -> None:
        self._line.pause(seconds)

    def reset(self) -> bool:
        self._collect()
        self._send(Operation.RESET)
        self._collect()
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
        frame = encode_request(self._sequence, Operation.HELLO)
        status, raw = self._exchange(BridgeRequest(self._sequence, Operation.HELLO, 0, 0, frame))
        if status != RequestStatus.OK or len(raw) != IDENTITY_BYTES:
            raise DeviceError(f"{self.name}: HELLO is answered {_word(status)} with {len(raw)} bytes")
        try:
            identity = Identity.from_bytes(raw)
        except (ValueError, UnicodeDecodeError) as error:
            raise DeviceError(f"{self.name}: this is no Tosaic board: {error}") from None
        self._greeted = True
        return identity

    def _ask(self, operation: Operation, address: int, count: int, most: int) -> Callable[[], bytes]:
        """Asks for bytes, at most `most` at a time, which are there when they are called for."""
        parts = [
            self._send(operation, address + start, min(most, count - start))
            for start in range(0, count, most)
        ]

        def take() -> bytes:
            if any(part in self._asked for part in parts):
                self._collect()
            answers = [part.answer for part in parts]
            assert all(answers), "an answer is taken after an error"
            return b"".join(answer[1] for answer in answers if answer is not None)

        return take

    def _write(self, operation: Operation, address: int, data: bytes, most: int) -> None:
        with self.together():
            for start in range(0, len(data), most):
                part = data[start : start + most]
                self._send(operation, address + start, len(part), part)

    def _send(
        self, operation: Operation, address: int = 0, count: int = 0, data: bytes = b""
    ) -> BridgeRequest:
        """Sends a request. It is answered when `_collect` ends, or at once where requests go one by one."""
        if len(self._asked) >= MOST_ASKED:
            self._collect()
        if not self._greeted:
            identity = self._hello()
            if identity != self.identity:
                raise DeviceError(
                    f"{self.name}: another board answers: {identity.name}, not {self.identity.name}"
                )
        self._sequence = (self._sequence + 1) % 256
        frame = encode_request(self._sequence, operation, address, count, data)
        asked = BridgeRequest(self._sequence, operation, address, count, frame)
        before = self._asked[-1] if self._asked else None
        held, self._held_cycles = self._held_cycles, 0
        fill = self._line.fill_bytes(held + (before.cycles if before else 0), self.identity.clock_hz)
        if fill is None or self._careful:
            self._careful = max(0, self._careful - 1)
            asked.answer = self._exchange(asked)
            self._require(asked)
            return asked
        if before is not None:
            # What has come so far makes room for more.
            for content in self._decoder.feed(self._line.read(0.0)):
                _sort(self._asked, content)
            asked.fill = fill + before.answer_bytes
        self._asked.append(asked)
        self._line.write(bytes([FLAG]) * asked.fill + frame)
        return asked

    def _collect(self) -> None:
        """Waits for the answers to all requests under way; DeviceError when one says that its request failed."""
        asked, self._asked = self._asked, []
        if len(asked) == 1 and asked[0].answer is None:
            asked[0].answer = self._exchange(asked[0], is_sent=True)
        elif asked:
            answer_bytes = sum(each.answer_bytes for each in asked)
            line_bytes = sum(each.fill + len(each.frame) for each in asked) + answer_bytes
            seconds = ANSWER_SECONDS[0] + line_bytes * self._line.byte_seconds
            for content in self._answers(seconds, answer_bytes):
                _sort(asked, content)
                if asked[-1].answer is not None:
                    break
            if not all(each.is_taken for each in asked):
                self._repeat(asked)
        for each in asked:
            self._require(each)

    def _repeat(self, asked: Sequence[BridgeRequest]) -> None:
        """Sends those requests again that the board has not executed, and asks again for answers that were lost."""
        self._careful = CAREFUL_REQUESTS
        for _ in range(DRAIN_READS):
            if not (received := self._line.read(QUIET_SECONDS)):
                break
            for content in self._decoder.feed(received):
                _sort(asked, content)
        done = max((index + 1 for index, each in enumerate(asked) if each.is_taken), default=0)
        for each in asked[done:]:
            # The board refuses a request behind which it has executed another one.
            self.repeats += 1
            each.answer = self._exchange(each)
        if not asked[-1].is_taken:
            return
        for each in asked:
            if not each.is_taken and each.is_write:
                # It was executed. What can be wrong with it is seen before it is sent: where it goes, and its size.
                each.answer = RequestStatus.OK, b""
            elif not each.is_taken:
                self.repeats += 1
                each.answer = self._send(each.operation, each.address, each.count).answer

    def _require(self, asked: BridgeRequest) -> None:
        """DeviceError unless the answer says that all is well."""
        assert asked.answer is not None
        status, raw = asked.answer
        what = f"{asked.operation.name} at 0x{asked.address:x}"
        if status == RequestStatus.OUT_OF_SEQUENCE:
            self._greeted = False
            raise DeviceError(
                f"{self.name}: the board was reset, or another host used it: it does not know request "
                f"{asked.sequence} ({what})"
            )
        if status != RequestStatus.OK:
            raise DeviceError(
                f"{self.name}: {asked.operation.name} of {asked.count} bytes at 0x{asked.address:x}: {_word(status)}"
            )
        wanted = 0 if asked.is_write else asked.count
        if len(raw) != wanted:
            raise DeviceError(f"{self.name}: {asked.operation.name} brings {len(raw)} bytes, not {wanted}")

    def _exchange(self, asked: BridgeRequest, is_sent: bool = False) -> tuple[int, bytes]:
        """Status and data of the answer to a request, which is sent until it comes."""
        started = time.perf_counter()
        for attempt, seconds in enumerate(ANSWER_SECONDS):
            if attempt:
                self.repeats += 1
            if attempt or not is_sent:
                self._line.write(asked.frame)
            for content in self._answers(seconds + len(asked.frame) * self._line.byte_seconds):
                # Answers with other numbers are late ones.
                if content[0] == asked.sequence and len(content) >= 2:
                    took = time.perf_counter() - started
                    self._answer_seconds = min(self._answer_seconds or took, took)
                    return content[-1], content[1:-1]
        self._greeted = False
        raise Unreachable(
            f"{self.name}: the board does not answer: {TRIES} times {asked.operation.name} at "
            f"0x{asked.address:x}, {self._decoder.damaged} damaged frames; {self.advice}"
        )

    def _answers(self, seconds: float, awaited_bytes: int = 0) -> Iterator[bytes]:
        """Whole frames as they come, until the line is quiet for some time or says far more than is awaited."""
        left = BABBLE_BYTES + awaited_bytes
        while left > 0 and (received := self._line.read(seconds)):
            left -= len(received)
            yield from self._decoder.feed(received)


def _sort(asked: Sequence[BridgeRequest], content: bytes) -> None:
    """Give an answer to its request. Answers with other numbers are late ones."""
    for each in asked:
        if len(content) >= 2 and content[0] == each.sequence and not each.is_taken:
            each.answer = content[-1], content[1:-1]


def _word(status: int) -> str:
    return RequestStatus(status).name if status in RequestStatus._value2member_map_ else f"status {status}"
