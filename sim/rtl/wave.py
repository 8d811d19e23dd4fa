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

from ..program import decode_program
from .build import FST, PLAIN, VCD, Variant
from .cache import cached, progress
from .library import Harness, WaveNames
from .verilog import hardware_digest

SUFFIXES = {".vcd": VCD, ".fst": FST}
"""Of the files, with what writes them."""
UNITS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)
NOTHING = "-"
"""The layer or the instruction of a unit that has none."""
IDLE = "idle"
STATES: dict[Unit, dict[str, str]] = {
    Unit.LOAD: {
        "load_wait": "waits_for_semaphore",
        "load_stall_am": "waits_for_activation_memory",
        "decode_active": "decodes",
        "load_beats": "receives",
        "load_stall_bus": "waits_for_bus",
        "load_busy": "busy",
    },
    Unit.ARRAY: {
        "array_wait": "waits_for_semaphore",
        "array_stall_am": "waits_for_activation_memory",
        "array_stall_vector": "waits_for_VECTOR",
        "array_stall_weights": "waits_for_weights",
        "array_active": "multiplies",
        "array_busy": "busy",
    },
    Unit.VECTOR: {
        "vector_wait": "waits_for_semaphore",
        "vector_stall_am": "waits_for_activation_memory",
        "vector_stall_array": "waits_for_ARRAY",
        "vector_active": "computes",
        "vector_busy": "busy",
    },
    Unit.STORE: {
        "store_wait": "waits_for_semaphore",
        "store_stall_am": "waits_for_activation_memory",
        "store_stall_bus": "waits_for_bus",
        "store_beats": "sends",
        "store_busy": "busy",
    },
}
"""For each unit the state that an event tells; of several events in one cycle the first one counts."""


@dataclasses.dataclass(frozen=True)
class WaveLayers:
    """The layers of a program, as a waveform shows them."""

    names: tuple[str, ...]
    of_instruction: tuple[tuple[int | None, ...], ...]
    """For each core the number of each instruction's layer; empty where it is not known."""

    @property
    def texts(self) -> list[str]:
        """A name without spaces for each layer, each another one."""
        seen = collections.Counter[str]()
        texts = []
        for name in self.names:
            text = re.sub(r"[^!-~]", "_", name) or "_"
            seen[text] += 1
            texts.append(text if seen[text] == 1 else f"{text}#{seen[text]}")
        return texts


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

    def number(self, layers: WaveLayers) -> int | None:
        """The number of the wanted layer; InputError where there is none of that name."""
        if self.layer is None:
            return None
        if self.layer not in layers.names:
            raise InputError(
                f"the program has no layer {self.layer!r}; it has {', '.join(map(repr, layers.names)) or 'none'}"
            )
        if not layers.of_instruction:
            raise InputError(
                "the program file does not tell which layer an instruction belongs to: compile it again"
            )
        return layers.names.index(self.layer)


def begin_wave(harness: Harness, wave: Wave, layers: WaveLayers, codes: Sequence[bytes]) -> None:
    """Let a harness of `wave.variant` write the run of these programs, one for each core that has one."""
    programs = [decode_program(code) for code in codes]
    opcodes = sorted({instruction.opcode for program in programs for instruction in program})
    number = {opcode: place for place, opcode in enumerate(opcodes, 1)}
    states = {unit: [IDLE, *STATES[unit].values()] for unit in UNITS}
    texts = sorted({state for unit in UNITS for state in states[unit]} - {IDLE})
    bits = {event: 1 << bit for bit, event in enumerate(EVENT_COUNTERS)}
    places = []
    for core, program in enumerate(programs):
        of = layers.of_instruction[core] if core < len(layers.of_instruction) else ()
        shown = np.zeros((len(program), 2), np.uint16)
        for index, instruction in enumerate(program):
            layer = of[index] if index < len(of) else None
            shown[index] = 0 if layer is None else 1 + layer, number[instruction.opcode]
        places.append(shown)
    wanted = wave.number(layers)
    harness.open_wave(
        wave.path,
        WaveNames(
            layers=[NOTHING, *layers.texts],
            instructions=[NOTHING, *(opcode.name for opcode in opcodes)],
            states=[IDLE, *texts],
            events=list(EVENT_COUNTERS),
            units=[unit.name for unit in UNITS],
            state_of_events=[
                [(bits[event], 1 + texts.index(state)) for event, state in STATES[unit].items()]
                for unit in UNITS
            ],
        ),
        places,
        wave.first_cycle,
        wave.end_cycle,
        0 if wanted is None else 1 + wanted,
    )


def end_wave(harness: Harness, wave: Wave) -> None:
    """Error where the file could not be written."""
    if not harness.close_wave():
        raise Error(f"the waveform {wave.path} cannot be written: see that its folder is there and has room")


def verilog_for_waves(config: Config) -> pathlib.Path:
    """A file with the modules that `tosaic verilog` writes, and the port `probe`."""

    def make(path: pathlib.Path) -> None:
        from tosaic.hw.top import VERILOG_NAME, VerilogTop
        from tosaic.hw.verilog.convert import convert_for_readers

        with progress(f"writing the Verilog of {config.name} for waveforms, once"):
            modules = convert_for_readers(VerilogTop(config, probe=True), VERILOG_NAME)
            path.write_text("\n".join(module.text for module in modules))

    key = hashlib.sha256(f"waves {hardware_digest(config)}".encode()).hexdigest()[:20]
    return cached("verilog", f"{config.name}-waves", key, ".v", make)
