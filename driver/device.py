"""The driver of one machine, whatever it is made of and wherever it is."""

import time

import numpy as np

from tosaic.compiler.program import Program
from tosaic.errors import DeviceError, UnsupportedError
from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.csr_map import ID_VALUE, REGISTER, VERSION_VALUE
from tosaic.hw.isa import ISA_HASH
from tosaic.sim.registers import Registers
from tosaic.sim.result import RunResult

from .transports import Transport, Unreachable, open_transport

RESET_SECONDS = 5.0
"""Far more than a soft reset takes, which gives up on its bus after 65,536 cycles."""
PATCH_BITS = 8
"""Register maps that differ only in these bits of VERSION are read alike."""


class Device:
    """Runs programs on a machine behind a transport.

    What a program does not write, its image, is sent once and stays, until another program, another client or an
    error comes in between. Every failure is a DeviceError that says where the machine stands; after it the machine is
    reset and the next run begins from nothing.
    """

    def __init__(self, transport: Transport):
        self._transport = transport
        self._registers = Registers(transport)
        self._loaded: Program | None = None
        self.name = transport.name
        self.identity = transport.identity

    @classmethod
    def open(cls, uri: str) -> "Device":
        """The device at a URI; InputError for a wrong URI, DeviceError when nothing answers."""
        return cls(open_transport(uri))

    def close(self) -> None:
        """Let go of the device."""
        self._transport.close()

    def configuration(self) -> Config | None:
        """The machine's configuration, None when it is none of those with a name. DeviceError unless it is a machine
        of this version of Tosaic."""
        self._transport.acquire()
        self._loaded = None
        try:
            found = self._identify()
        finally:
            self._release()
        return next((config for config in CONFIGS.values() if config.hash == found), None)

    def run(self, program: Program, window: np.ndarray, max_cycles: int | None = None) -> RunResult:
        """Execute a program with the inputs in `window` (Program.memory), into which outputs and kept tensors go.

        DeviceError with the machine's state in words when it stops with an error, is not at its end after `max_cycles`
        (None: no limit; the watchdog ends a hang), or does not answer. UnsupportedError when its memory is too small.
        """
        if not self._transport.acquire():
            self._loaded = None
        try:
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

    def _run(self, program: Program, window: np.ndarray, max_cycles: int | None) -> RunResult:
        self._check(program)
        if not self._registers.field("STATUS", "idle"):
            # Somebody before us left without saying goodbye.
            self._soft_reset()
        self._load(program, window)
        code = window[program.program_address : program.program_address + program.program_bytes].tobytes()
        base = self.identity.memory_base
        self._registers.start(base, program.memory_bytes, program.program_address, program.program_bytes)
        self._wait(code, max_cycles)
        for port in (*program.outputs, *program.kept):
            raw = self._transport.read_memory(port.address, port.bytes)
            window[port.address : port.address + port.bytes] = np.frombuffer(raw, np.uint8)
        result = self._registers.result(program.config, code)
        self._registers.write("IRQ", _mask("IRQ", "done", "error"))
        return result

    def _identify(self) -> int:
        """The hash of the machine's configuration."""
        identity, version, isa, config = self._transport.read_registers(REGISTER["ID"].offset, 4)
        if identity != ID_VALUE:
            raise DeviceError(f"{self.name}: no machine of Tosaic answers: register ID is 0x{identity:08x}")
        if version >> PATCH_BITS != VERSION_VALUE >> PATCH_BITS:
            raise DeviceError(
                f"{self.name}: its register map has version {_version(version)}, this driver knows "
                f"{_version(VERSION_VALUE)}: install the matching tosaic, or load the board with this one's bitstream"
            )
        if isa != ISA_HASH:
            raise DeviceError(
                f"{self.name}: it executes another instruction set (ISA_HASH 0x{isa:08x}, this compiler's is "
                f"0x{ISA_HASH:08x}): load the board with this version's bitstream"
            )
        return config

    def _check(self, program: Program) -> None:
        """Does the program fit the machine?"""
        found, wanted = self._identify(), program.config
        if found != wanted.hash:
            named = next((config.name for config in CONFIGS.values() if config.hash == found), None)
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

    def _load(self, program: Program, window: np.ndarray) -> None:
        if self._loaded is not program:
            self._loaded = None
            self._transport.write_memory(0, program.image)
            self._loaded = program
        for port in program.inputs:
            self._transport.write_memory(
                port.address, window[port.address : port.address + port.bytes].tobytes()
            )

    def _wait(self, code: bytes, max_cycles: int | None) -> None:
        """Until the program's end."""
        attempt = 0
        while True:
            status = self._registers.read("STATUS")
            if _field(status, "error"):
                failure = self._registers.failure(code)
                assert failure is not None
                raise DeviceError(f"{self.name}: {failure}", tensor_number=failure.tensor_number)
            if _field(status, "done"):
                return
            if not _field(status, "running"):
                raise DeviceError(
                    f"{self.name}: the machine was reset while the program ran: it is idle, and at no end "
                    f"(STATUS 0x{status:x})"
                )
            if max_cycles is not None and self._registers.read("CYCLES") > max_cycles:
                standing = self._registers.standing(code)
                raise DeviceError(f"{self.name}: the program did not end in {max_cycles} cycles; {standing}")
            self._transport.wait(attempt)
            attempt += 1

    def _soft_reset(self) -> None:
        self._registers.control("soft_reset")
        deadline = time.monotonic() + RESET_SECONDS
        attempt = 0
        while not self._registers.field("STATUS", "idle"):
            if time.monotonic() > deadline:
                if self._transport.reset():
                    return
                raise DeviceError(
                    f"{self.name}: the soft reset does not end (STATUS 0x{self._registers.read('STATUS'):x}): "
                    "reset the board"
                )
            self._transport.wait(attempt)
            attempt += 1

    def _recover(self) -> None:
        """After an error: make the machine ready again, if it can be reached."""
        try:
            if not self._registers.field("STATUS", "idle"):
                self._soft_reset()
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


def _mask(register: str, *fields: str) -> int:
    return sum(REGISTER[register].field(name).mask for name in fields)


def _version(value: int) -> str:
    return f"{value >> 16}.{value >> 8 & 255}.{value & 255}"
