"""Waveforms of a run on the RTL: what is to be written, and what its signals are called."""

import collections
import dataclasses
import hashlib
import pathlib
import re
from collections.abc import Sequence

import numpy as np

from tosaic.errors import Error, InputError
from tosaic.hw.config import Config
from tosaic.hw.csr_map import EVENT_COUNTERS
from tosaic.hw.isa import Unit

from ..cache import cached, progress
from ..program import decode_program
from .build import FST, PLAIN, VCD, Variant
from .library import Harness, WaveNames
from .verilog import hardware_digest

SUFFIXES = {".vcd": VCD, ".fst": FST}
"""What writes a waveform file, by its suffix."""
UNITS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
NOTHING = "-"
"""The layer or the instruction of a unit that has none."""
IDLE = "idle"
STATES: dict[Unit, dict[str, str]] = {
    Unit.LOAD: {
        "decode_active": "decodes",
        "load_beats": "receives",
        "load_wait": "waits_for_semaphore",
        "load_stall_am": "waits_for_activation_memory",
        "load_stall_bus": "waits_for_bus",
        "load_busy": "busy",
    },
    Unit.ARRAY: {
        "array_active": "multiplies",
        "array_wait": "waits_for_semaphore",
        "array_stall_am": "waits_for_activation_memory",
        "array_stall_vector": "waits_for_VECTOR",
        "array_stall_weights": "waits_for_weights",
        "array_busy": "busy",
    },
    Unit.VECTOR: {
        "vector_active": "computes",
        "vector_wait": "waits_for_semaphore",
        "vector_stall_am": "waits_for_activation_memory",
        "vector_stall_array": "waits_for_ARRAY",
        "vector_busy": "busy",
    },
    Unit.STORE: {
        "store_beats": "sends",
        "store_wait": "waits_for_semaphore",
        "store_stall_am": "waits_for_activation_memory",
        "store_stall_bus": "waits_for_bus",
        "store_busy": "busy",
    },
}
"""The state that each event of a unit shows; of several events in one cycle the first one counts."""


@dataclasses.dataclass(frozen=True)
class Wave:
    """A waveform to write: the whole run, or the cycles `first_cycle` to before `end_cycle`, or those in which a unit
    works on `layer`. Cycle 0 is the first that the machine counts. InputError for what cannot be."""

    path: pathlib.Path
    first_cycle: int = 0
    end_cycle: int | None = None
    layer: str | None = None

    def __post_init__(self) -> None:
        if self.path.suffix not in SUFFIXES:
            raise InputError(
                f"a waveform is written to a file that ends in .fst or .vcd, not {self.path.name!r}"
            )
        if self.first_cycle < 0 or self.end_cycle is not None and self.end_cycle <= self.first_cycle:
            raise InputError(
                f"cycles {self.first_cycle}:{self.end_cycle} are none: give the first one and the one behind the last"
            )

    @property
    def variant(self) -> Variant:
        """The simulator that writes such a file."""
        runtime = SUFFIXES[self.path.suffix]
        options = (*PLAIN.options, "--trace-fst" if runtime is FST else "--trace-vcd")
        return Variant(
            f"wave-{runtime.name}", options, verilog=verilog_for_waves, runtime=runtime, probe=True
        )


@dataclasses.dataclass(frozen=True)
class ProgramWave:
    """The waveform of a program. InputError for a layer that it does not have."""

    wave: Wave
    layers: tuple[str, ...]
    """The names of its layers."""
    of_instruction: tuple[tuple[int | None, ...], ...] = ()
    """The number of each instruction's layer, for each core; empty where it is not known."""

    def __post_init__(self) -> None:
        wanted = self.wave.layer
        if wanted is not None and wanted not in self.layers:
            raise InputError(
                f"the program has no layer {wanted!r}; it has {', '.join(map(repr, self.layers)) or 'none'}"
            )
        if wanted is not None and not self.of_instruction:
            raise InputError(
                "the program file does not tell which layer an instruction belongs to: compile it again"
            )

    @property
    def variant(self) -> Variant:
        """The simulator that writes the waveform."""
        return self.wave.variant

    def begin(self, harness: Harness, codes: Sequence[bytes]) -> None:
        """Let a harness of `variant` write the run of these programs, one for each core that has one."""
        # A run without these cycles writes nothing: what an earlier one left would be taken for it.
        self.wave.path.unlink(missing_ok=True)
        programs = [decode_program(code) for code in codes]
        opcodes = sorted({instruction.opcode for program in programs for instruction in program})
        number = {opcode: place for place, opcode in enumerate(opcodes, 1)}
        places = []
        for core, program in enumerate(programs):
            layers = self.of_instruction[core] if core < len(self.of_instruction) else (None,) * len(program)
            of = [0 if layer is None else 1 + layer for layer in layers[: len(program)]]
            codes_of = [number[instruction.opcode] for instruction in program]
            places.append(np.array([of, codes_of], np.uint16).T.copy())
        wanted = self.wave.layer
        harness.open_wave(
            self.wave.path,
            self._names([opcode.name for opcode in opcodes]),
            places,
            self.wave.first_cycle,
            self.wave.end_cycle,
            0 if wanted is None else 1 + self.layers.index(wanted),
        )

    def _names(self, opcodes: list[str]) -> WaveNames:
        texts = sorted({state for unit in UNITS for state in STATES[unit].values()})
        bits = {event: 1 << bit for bit, event in enumerate(EVENT_COUNTERS)}
        return WaveNames(
            layers=[NOTHING, *_unlike(self.layers)],
            instructions=[NOTHING, *opcodes],
            states=[IDLE, *texts],
            events=EVENT_COUNTERS,
            units=[unit.name for unit in UNITS],
            state_of_events=[
                [(bits[event], 1 + texts.index(state)) for event, state in STATES[unit].items()]
                for unit in UNITS
            ],
        )

    def end(self, harness: Harness) -> None:
        """Ends the file; Error where it could not be written."""
        if not harness.close_wave():
            raise Error(
                f"the waveform {self.wave.path} cannot be written: see that its folder is there and has room"
            )


def _unlike(names: Sequence[str]) -> list[str]:
    """A text without spaces for each name, each another one."""
    seen = collections.Counter[str]()
    texts = []
    for name in names:
        text = re.sub(r"[^!-~]", "_", name) or "_"
        seen[text] += 1
        texts.append(text if seen[text] == 1 else f"{text}#{seen[text]}")
    return texts


def verilog_for_waves(config: Config) -> pathlib.Path:
    """A file with the modules that `tosaic verilog` writes, and the port `probe`."""

    def make(path: pathlib.Path) -> None:
        from tosaic.hw.top import VERILOG_NAME, VerilogTop
        from tosaic.hw.verilog import convert

        with progress(f"writing the Verilog of {config.name} for waveforms, once"):
            modules = convert(VerilogTop(config, probe=True), VERILOG_NAME)
            path.write_text("\n".join(modules.values()))

    key = hashlib.sha256(f"waves {hardware_digest(config)}".encode()).hexdigest()[:20]
    return cached("verilog", f"{config.name}-waves", key, ".v", make)
