"""A simulated accelerator: the functions of harness.cpp with Python's types."""

import ctypes
import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from tosaic.errors import DeviceError

from .functions import HANDLE, U32, U64, Functions, NativeFunctions

WASM_SUFFIXES = (".wasm", ".wasm.xz")
"""Ends of the names of libraries in WebAssembly."""
NO_ADDRESS = (1 << 64) - 1
INTERRUPT, TIMEOUT, PROTOCOL = 0, 1, 2
"""Outcomes of `Harness.run`."""
VIOLATIONS = (
    "none",
    "a burst crosses a 4 KiB boundary",
    "a burst is not INCR",
    "a burst is narrower than the bus",
    "WLAST is not on the burst's last beat",
    "an address changed before it was taken",
    "write data changed before it was taken",
    "AxCACHE or AxPROT is not the configuration's",
)

_ACCESS = np.dtype([("address", "<u4"), ("data", "<u4"), ("strobe", "u1"), ("response", "u1")], align=True)
"""`Access` of control_host.h."""


@dataclasses.dataclass(frozen=True)
class ControlWrite:
    """A write to the control port."""

    offset: int
    value: int
    strobe: int = 0xF
    """A bit for each byte that is written, the lowest byte first."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the control port says of a read; `response` is that of AXI4-Lite, 0 for OKAY."""

    value: int
    response: int


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a core did in the cycles that its counters counted."""

    events: np.ndarray
    """uint32 [cycles]: the events of each cycle; bit n is that of the n-th of EVENT_COUNTERS."""
    steps: np.ndarray
    """uint32 [steps, 3]: cycle, number of the unit (LOAD, ARRAY, VECTOR, STORE) and the byte of the program that its
    instruction has from this cycle on, some cycles late."""


@dataclasses.dataclass(frozen=True)
class WaveNames:
    """What signals of a waveform can be; the first layer, instruction and state are those of nothing."""

    layers: Sequence[str]
    instructions: Sequence[str]
    states: Sequence[str]
    events: Sequence[str]
    """Names of the events, in the order of their bits."""
    units: Sequence[str]
    state_of_events: Sequence[Sequence[tuple[int, int]]]
    """Masks of events, for each unit, with the number of the state that they show; the first mask that meets
    counts."""


class Harness:
    """One accelerator, just out of reset, with its external memory. Calls release the GIL.

    initial_seed: not 0 for random initial values, in a build that has no others (build.UNKNOWN_START).
    """

    def __init__(self, library: pathlib.Path, initial_seed: int = 0):
        self._handle = None
        self._functions = _functions(library)
        self._memory: np.ndarray | None = None
        self._handle = self._functions.tosaic_create(initial_seed)

    @property
    def _native(self) -> ctypes.CDLL:
        """The shared library; builds for measurements are not made in WebAssembly."""
        assert isinstance(self._functions, NativeFunctions)
        return self._functions.library

    def close(self) -> None:
        """Free the simulator; it cannot be used any more."""
        if self._handle:
            self._functions.tosaic_destroy(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    def reset(self) -> None:
        """Reset the machine by its wire, whatever it does."""
        self._functions.tosaic_reset(self._handle)

    def set_memory(self, memory: np.ndarray, base: int) -> None:
        """Let bus addresses from `base` on reach `memory` (uint8, contiguous), which is not copied."""
        self._memory = memory
        self._functions.tosaic_set_memory(self._handle, self._functions.share(memory), memory.size, base)

    def set_timing(
        self, latency_cycles: int, bandwidth_thousandths: int, stall_percent: int = 0, seed: int = 0
    ) -> None:
        """The memory's timing, by the rules in axi_memory.h."""
        self._functions.tosaic_set_timing(
            self._handle, latency_cycles, bandwidth_thousandths, stall_percent, seed
        )

    def set_interleaving(self, interleave: bool) -> None:
        """Let read data, and answers of writes, of different IDs come in a random order; `set_timing` ends that."""
        self._functions.tosaic_set_interleaving(self._handle, interleave)

    def set_errors(self, read_address: int | None, write_address: int | None) -> None:
        """Answer SLVERR to the read or write beats at these bus addresses, multiples of the bus width."""
        addresses = (NO_ADDRESS if a is None else a for a in (read_address, write_address))
        self._functions.tosaic_set_errors(self._handle, *addresses)

    def read_registers(self, offset: int, count: int) -> list[int]:
        """`count` registers from byte `offset` on; DeviceError when one of them does not exist."""
        return [self.control_read(place) for place in range(offset, offset + 4 * count, 4)]

    def write_register(self, offset: int, value: int) -> None:
        """Write a register; DeviceError when there is none to write."""
        self.control_write(offset, value)

    def control_read(self, offset: int) -> int:
        """Read a register over AXI4-Lite; DeviceError when there is none."""
        value = self._functions.tosaic_control_read(self._handle, offset)
        _check_response(value, "read", offset)
        return value

    def control_write(self, offset: int, value: int) -> None:
        """Write a register over AXI4-Lite; DeviceError when there is none to write."""
        _check_response(self._functions.tosaic_control_write(self._handle, offset, value), "write", offset)

    def control_accesses(
        self, reads: Sequence[int], writes: Sequence[ControlWrite], stall_percent: int = 0, seed: int = 0
    ) -> tuple[list[Answer], list[int]]:
        """Reads of these registers, and writes, each in their order, that overlap: the host does not wait for an answer
        before it offers the next access. With `stall_percent` each of its channels hesitates in random cycles, so that
        the data of a write may come before its address. Returns the answers of the reads and of the writes; DeviceError
        when one is missing."""
        asked = np.array([(offset, 0, 0, 0) for offset in reads], _ACCESS)
        told = np.array([(each.offset, each.value, each.strobe, 0) for each in writes], _ACCESS)
        with self._functions.lend(asked) as first, self._functions.lend(told) as second:
            answered = self._functions.tosaic_control_accesses(
                self._handle, first, len(asked), second, len(told), stall_percent, seed
            )
        if not answered:
            raise DeviceError("the control port does not answer one of several accesses")
        answers = [Answer(int(each["data"]), int(each["response"])) for each in asked]
        return answers, [int(each["response"]) for each in told]

    def begin_record(self) -> None:
        """Record from now on what each core does in the cycles that its counters count; of a build with the probe."""
        self._functions.tosaic_record(self._handle)

    def recorded(self, core: int = 0) -> Recorded:
        """What has been recorded since `begin_record`."""
        functions = self._functions
        cycles = functions.tosaic_recorded_cycles(self._handle, core)
        steps = functions.tosaic_recorded_steps(self._handle, core)
        if not cycles:
            return Recorded(np.zeros(0, np.uint32), np.zeros((0, 3), np.uint32))
        events = functions.read(functions.tosaic_recorded_events(self._handle, core), 4 * cycles)
        places = functions.read(functions.tosaic_recorded_places(self._handle, core), 12 * steps)
        return Recorded(events.view(np.uint32), places.view(np.uint32).reshape(-1, 3))

    def run(self, max_cycles: int) -> int:
        """Clock the machine until its interrupt rises, for `max_cycles` at most; returns the outcome."""
        return self._functions.tosaic_run(self._handle, max_cycles)

    def write_coverage(self, path: pathlib.Path) -> None:
        """Write what has been covered so far; of a build with coverage."""
        write = self._native.tosaic_write_coverage
        write.argtypes, write.restype = [HANDLE, ctypes.c_char_p], None
        write(self._handle, str(path).encode())

    def watch_mutants(self) -> None:
        """Remember from now on which mutants would change a bit; of a build with mutants."""
        watch = self._native.tosaic_watch_mutants
        watch.argtypes, watch.restype = [HANDLE], None
        watch(self._handle)

    def choose_mutants(self, numbers: Iterable[int], bits: int) -> None:
        """Make the machine these mutants at once; `bits`: the width of the simulator's ports for mutants."""
        flags = np.zeros(bits, np.uint8)
        flags[[number - 1 for number in numbers]] = 1
        words = np.packbits(flags, bitorder="little")
        choose = self._native.tosaic_choose_mutants
        choose.argtypes, choose.restype = [HANDLE, HANDLE], None
        choose(self._handle, words.ctypes.data)

    def active_mutants(self, bits: int) -> list[int]:
        """The numbers of those that would have changed a bit, from 1 on."""
        words = np.zeros(bits // 8, np.uint8)
        read = self._native.tosaic_active_mutants
        read.argtypes, read.restype = [HANDLE, HANDLE], None
        read(self._handle, words.ctypes.data)
        return (np.flatnonzero(np.unpackbits(words, bitorder="little")) + 1).tolist()

    def open_wave(
        self,
        path: pathlib.Path,
        names: WaveNames,
        programs: Sequence[np.ndarray],
        first_cycle: int,
        end_cycle: int | None,
        only_layer: int,
    ) -> None:
        """Write a waveform of the run to come; of a build with the probe.

        programs: for each core uint16 [instructions, 2], the numbers of each instruction's layer and opcode.
        only_layer: the number of the layer whose cycles are written; 0 for all."""
        functions, handle = self._native, HANDLE(self._handle)
        for kind, texts in enumerate((names.layers, names.instructions, names.states)):
            for text in texts:
                functions.tosaic_wave_name(handle, U32(kind), text.encode())
        for event in names.events:
            functions.tosaic_wave_event(handle, event.encode())
        for unit, title in enumerate(names.units):
            functions.tosaic_wave_unit(handle, title.encode())
            for mask, state in names.state_of_events[unit]:
                functions.tosaic_wave_state(handle, U32(unit), U32(mask), U32(state))
        for places in programs:
            functions.tosaic_wave_program(handle, HANDLE(places.ctypes.data), U64(len(places)))
        end = (1 << 64) - 1 if end_cycle is None else end_cycle
        functions.tosaic_wave_open(handle, str(path).encode(), U64(first_cycle), U64(end), U32(only_layer))

    def close_wave(self) -> bool:
        """End the waveform; whether it could be written."""
        close = self._native.tosaic_wave_close
        close.argtypes, close.restype = [HANDLE], ctypes.c_bool
        return close(self._handle)

    def open_toggles(self, path: pathlib.Path) -> None:
        """Count from now on how often each bit changes; of a build with SAIF."""
        count = self._native.tosaic_open_toggles
        count.argtypes, count.restype = [HANDLE, ctypes.c_char_p], None
        count(self._handle, str(path).encode())

    def close_toggles(self) -> int:
        """Write the counts; the cycles that were counted, 0 where the file could not be written."""
        close = self._native.tosaic_close_toggles
        close.argtypes, close.restype = [HANDLE], U64
        return close(self._handle)

    @property
    def cycle(self) -> int:
        """Clock cycles since reset."""
        return self._functions.tosaic_cycle(self._handle)

    @property
    def beats_read(self) -> int:
        return self._functions.tosaic_beats_read(self._handle)

    @property
    def beats_written(self) -> int:
        return self._functions.tosaic_beats_written(self._handle)

    @property
    def violation(self) -> str:
        """The first rule of AXI4 that the machine broke."""
        return VIOLATIONS[self._functions.tosaic_violation(self._handle)]


def _functions(library: pathlib.Path) -> Functions:
    if library.name.endswith(WASM_SUFFIXES):
        from .wasm_functions import WasmFunctions

        return WasmFunctions(library)
    return NativeFunctions(library)


def _check_response(value: int, action: str, offset: int) -> None:
    if value == -1:
        raise DeviceError(f"the control port does not answer the {action} of register 0x{offset:03x}")
    if value < -1:
        raise DeviceError(
            f"the control port answers the {action} of register 0x{offset:03x} with {-value - 2}, not OKAY"
        )
