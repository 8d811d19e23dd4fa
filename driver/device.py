"""The driver of one machine, whatever it is made of and wherever it is."""

import contextlib
import dataclasses
import itertools
import threading
import time
import weakref
from collections.abc import Sequence

import numpy as np

from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.program import Program
from tosaic.errors import DeviceError, UnsupportedError
from tosaic.hw.bridge.boot_image import image_crc32
from tosaic.hw.config import Config
from tosaic.hw.config_text import config_of_hash
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import CoreProgram
from tosaic.sim.registers import RegisterReport
from tosaic.sim.result import RunResult

from .boot import boot_limit, in_boot_part, require_decoded
from .device_speeds import speed_of
from .flash_image import program_boot_image
from .late_marks import LateMarks
from .port_spans import spans_to_read, spans_to_write
from .self_test import check_clock, known_answer, require_answer
from .transports import Transport, Unreachable, Watch, open_transport
from .transports.identify import configuration_hash, look_at
from .transports.uri import wants_self_test, watch_of
from .watch import require_intact, require_same

EXPECTED_SHARES = (1, 1 / 8, 1 / 4, 1 / 2)
"""Pauses before the first looks whether a run has ended, by what the shortest one took; later ones are the
transport's."""

NO_WATCH = Watch()


class Device:
    """A machine that runs programs, reached by a transport.

    What a program does not write, its image, is sent once and stays, until another program, another client or an
    error comes in between. Its boot part runs whenever the image was sent. A
    board that booted the program from flash is sent no image. A run's layer marks are read when somebody looks at its
    result's, and before they are lost, if somebody still has that. Every failure is a DeviceError that says
    where the machine stands; after it the machine is reset and the next run begins from nothing.

    `self_test`: before anything else it runs a program with a known answer, and a DeviceError says what differs; a
    UserWarning tells of a clock that the bitstream was not made for (self_test.py). `watch`: how it finds bits
    that flip in the machine (watch.py).
    """

    def __init__(self, transport: Transport, self_test: bool = False, watch: Watch = NO_WATCH):
        self._transport, self._watch = transport, watch
        self._unverified_runs = 0
        """Runs of the loaded program until its image is compared."""
        self._to_be_tested = self_test
        self._report = RegisterReport(transport)
        self._loaded: Program | None = None
        self._states: dict[int, bytes] = {}
        """What the loaded program's states are in the machine's memory, by address."""
        self._boot_result: RunResult | None = None
        """Result of the loaded program's boot part."""
        self._shortest: tuple[int, float] | None = None
        """The fewest cycles of the loaded program's runs, and the shortest time until its end was seen."""
        self._lock = threading.RLock()
        """Marks may be looked at while another thread runs something."""
        self._marks: weakref.ref[LateMarks] | None = None
        """Marks of the last run; dead when nobody can ask for them any more."""
        self.name = transport.name
        self.identity = transport.identity

    @classmethod
    def open(cls, uri: str) -> "Device":
        """Opens the device at a URI and tests it, unless it is simulated, boots from flash, or the URI has
        `selftest=0`. Raises InputError for a wrong URI, DeviceError when nothing answers.
        """
        return cls(open_transport(uri), wants_self_test(uri), watch_of(uri))

    @property
    def memory_speed(self) -> MemorySpeed | None:
        """Speed of the machine's external memory; None where nobody knows."""
        found: MemorySpeed | None = speed_of(self.identity.name)
        return found

    @property
    def size(self) -> int:
        """Number of programs that run at a time."""
        return 1

    def close(self) -> None:
        """Lets go of the device."""
        if self._marks is not None:
            with contextlib.suppress(DeviceError):
                self._settle_marks()
        self._transport.close()

    def configuration(self) -> Config | None:
        """Returns the machine's configuration, None when it is none of those that are known. Raises DeviceError
        unless it is a machine of this version of Tosaic.
        """
        self._loaded = None
        self._transport.acquire()
        try:
            found = configuration_hash(self._transport)
            config = config_of_hash(found)
            if config is not None:
                self._test(config)
        except Unreachable:
            raise
        except BaseException:
            self._recover()
            raise
        finally:
            self._release()
        return config

    def run(self, program: Program, window: np.ndarray, max_cycles: int | None = None) -> RunResult:
        """Executes a program with the inputs in `window` (Program.memory), into which outputs and kept
        tensors go.

        States are read from `window` and left there. They stay in the machine's memory, and are sent only where they
        differ from what is there: after another program, another client or an error, or when somebody has set them.

        DeviceError with the machine's state in words when it stops with an error, is not at its end after `max_cycles`
        (None: no limit; the watchdog ends a hang), or does not answer. UnsupportedError when its memory is too small.
        """
        with self._lock:
            loaded, self._loaded = self._loaded, None
            if self._transport.acquire():
                self._loaded = loaded
            try:
                if self._watch.runs_twice:
                    return self._run_twice(program, window, max_cycles)
                return self._run(program, window, max_cycles)
            except Unreachable:
                self._loaded = None
                raise
            except BaseException:
                # Ctrl-C, too, leaves no program running behind.
                self._loaded = None
                self._recover()
                raise
            finally:
                self._release()

    # --- inside

    def _test(self, config: Config) -> None:
        """Tests the device before the first program of anybody else."""
        if not self._to_be_tested:
            return
        self._transport.make_idle()
        self._transport.leave_boot()
        check_clock(self._transport, config, self._start)
        known = known_answer(config)
        if known.program.memory_bytes <= self.identity.memory_bytes:
            memory = known.memory.copy()
            self._execute(known.program, memory, None)
            require_answer(self.name, config, known.program.outputs[0].read(memory), known.wanted)
        self._to_be_tested = False

    def _run_twice(self, program: Program, window: np.ndarray, max_cycles: int | None) -> RunResult:
        first = window.copy()
        self._run(program, first, max_cycles)
        result = self._run(program, window, max_cycles)
        require_same(self.name, (*program.outputs, *program.kept, *program.states), first, window)
        return result

    def _run(self, program: Program, window: np.ndarray, max_cycles: int | None) -> RunResult:
        self._settle_marks()
        with self._transport.together():
            is_idle = self._check(program)
            self._test(program.config)
            if not is_idle:
                # Somebody before us has left without saying goodbye.
                self._transport.make_idle()
            result = self._execute(program, window, max_cycles)
            if self._watch.verify_runs:
                if self._unverified_runs == 0:
                    require_intact(self._transport, program)
                    self._unverified_runs = self._watch.verify_runs
                self._unverified_runs -= 1
            return result

    def _execute(self, program: Program, window: np.ndarray, max_cycles: int | None) -> RunResult:
        self._load(program, window, max_cycles)
        codes = [window[address : address + size].tobytes() for address, size in program.streams]
        self._start(program, program.streams)
        started = time.perf_counter()
        self._wait(codes, max_cycles, self._shortest)
        seconds = time.perf_counter() - started
        marks = LateMarks(self._read_marks)
        self._marks = weakref.ref(marks)
        result = self._read(program, window, codes, marks)
        self._states = {
            port.address: window[port.address : port.address + port.bytes].tobytes()
            for port in program.states
        }
        cycles, earlier = self._shortest or (result.cycles, seconds)
        self._shortest = min(cycles, result.cycles), min(earlier, seconds)
        return dataclasses.replace(result, boot=self._boot_result)

    def _read(
        self, program: Program, window: np.ndarray, codes: Sequence[bytes], marks: LateMarks
    ) -> RunResult:
        """Reads what a run has left, all of it in one round trip where a line allows it."""
        spans = spans_to_read((*program.outputs, *program.kept, *program.states))
        asked = [
            (place, parts, self._transport.ask_memory(place.start, place.stop - place.start))
            for place, parts in spans
        ]
        self._transport.acknowledge()
        result = self._report.result(program.config, codes, marks)
        for place, parts, data in asked:
            raw = np.frombuffer(data(), np.uint8)
            for part in parts:
                window[part] = raw[part.start - place.start : part.stop - place.start]
        return result

    def _read_marks(self, marks: LateMarks) -> None:
        """Reads the marks when somebody looks at them."""
        with self._lock:
            if self._marks is not None and self._marks() is marks:
                self._settle_marks()

    def _settle_marks(self) -> None:
        """Read what somebody may still ask for, before it is lost."""
        with self._lock:
            try:
                if self._marks is not None and (marks := self._marks()) is not None:
                    marks.settle(self._transport.marks)
            except DeviceError:
                # The machine may have been reset.
                self._loaded = self._marks = None
                raise
            self._marks = None

    def _start(self, program: Program, streams: Sequence[CoreProgram]) -> None:
        """Start these programs; cores behind them do nothing."""
        self._report.cores = program.config.cores
        idle = (CoreProgram(0, 0),) * (program.config.cores - len(streams))
        self._transport.start(program.memory_bytes, *streams[0], others=(*streams[1:], *idle))

    def _check(self, program: Program) -> bool:
        """Whether the machine is idle. DeviceError if the program does not fit it."""
        (found, is_idle), wanted = look_at(self._transport), program.config
        if found != wanted.hash:
            known = config_of_hash(found)
            named = known and known.name
            advice = f"compile for it with --config {named}" if named else "compile for the board's own"
            has = named or f"unknown (CONFIG_HASH 0x{found:08x})"
            raise DeviceError(
                f"{self.name}: its configuration is {has}, the program's is {wanted.name} (0x{wanted.hash:08x}): "
                f"{advice}, or load the board with {wanted.name}"
            )
        if program.memory_bytes > self.identity.memory_bytes:
            raise UnsupportedError(
                f"{self.name}: the program needs {program.memory_bytes} bytes of external memory, the board has "
                f"{self.identity.memory_bytes}: use a smaller model or a board with more memory"
            )
        return is_idle

    def _load(self, program: Program, window: np.ndarray, max_cycles: int | None) -> None:
        if self._loaded is not program:
            self._loaded = None
            self._boot_result = self._shortest = None
            self._unverified_runs = 0
            if not self._is_booted(program):
                self._transport.leave_boot()
                self._transport.write_memory(0, program.image)
                self._boot_result = self._boot(program, max_cycles)
            self._loaded = program
            self._states = {}
        changed = [
            port
            for port in program.states
            if self._states.get(port.address) != window[port.address : port.address + port.bytes].tobytes()
        ]
        # None of them is there any more while the program changes them.
        self._states = {}
        for ports in (program.inputs, changed):
            for place in spans_to_write(program, ports):
                self._transport.write_memory(place.start, window[place].tobytes())

    def _is_booted(self, program: Program) -> bool:
        """Whether the board has loaded it from its flash, and nobody anything else since."""
        found = self._transport.booted_image()
        return found is not None and found == image_crc32(
            program_boot_image(program, self.identity.memory_base)
        )

    def _boot(self, program: Program, max_cycles: int | None) -> RunResult | None:
        """Runs the boot part, if there is one, and checks what it left: all of it where reading costs little, else the
        smallest block. The decoder itself refuses streams that do not end as they should."""
        part = program.boot
        if part is None:
            return None
        code = program.image[part.program_address : part.program_address + part.program_bytes]
        self._start(program, [CoreProgram(part.program_address, part.program_bytes)])
        with in_boot_part():
            self._wait([code], boot_limit(part, max_cycles))
        result = self._report.result(program.config, [code], self._transport.finish())
        near = self._transport.reads_fast
        for block in part.blocks if near else [min(part.blocks, key=lambda block: block.bytes)]:
            data = self._transport.read_memory(block.address, block.bytes)
            with in_boot_part():
                require_decoded(f"{self.name}: ", block, data)
        return result

    def _wait(
        self, codes: Sequence[bytes], max_cycles: int | None, expected: tuple[int, float] | None = None
    ) -> None:
        """Waits for the program's end. The host looks for it first after the `expected` cycles and seconds of
        earlier runs.
        """
        for attempt in itertools.count():
            if expected is not None and attempt < len(EXPECTED_SHARES):
                share = EXPECTED_SHARES[attempt]
                cycles = round(share * min(expected[0], max_cycles or expected[0]))
                self._transport.wait_for(cycles, share * expected[1])
            else:
                self._transport.wait(attempt)
            status = self._report.read("STATUS")
            if _field(status, "error"):
                failure = self._report.failure(codes)
                assert failure is not None
                raise DeviceError(f"{self.name}: {failure}", tensor_number=failure.tensor_number)
            if _field(status, "done"):
                return
            if not _field(status, "running"):
                raise DeviceError(
                    f"{self.name}: the machine was reset while the program ran: it is idle, and at no end "
                    f"(STATUS 0x{status:x})"
                )
            if max_cycles is not None and self._report.read("CYCLES") > max_cycles:
                standing = self._report.standing(codes)
                raise DeviceError(f"{self.name}: the program did not end in {max_cycles} cycles; {standing}")

    def _recover(self) -> None:
        """Makes the machine ready again after an error, if it can be reached."""
        try:
            self._transport.make_idle()
        except DeviceError:
            # The first error is the one to tell; the next run begins with a reset anyway.
            pass

    def _release(self) -> None:
        try:
            self._transport.release()
        except DeviceError:
            self._loaded = None


def _field(status: int, name: str) -> int:
    return REGISTER["STATUS"].field(name).extract(status)
