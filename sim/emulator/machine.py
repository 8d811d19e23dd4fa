"""The emulator: executes a program and predicts its cycles."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, CoreProgram, Error

from ..program import count_macs
from ..result import RunResult
from .cores import Cores
from .external_memory import ExternalBytes
from .hazards import Hazards
from .timing import Deadlock, Prediction, predict
from .trace import Trace

INSTRUCTIONS_MAX = 20_000_000
"""Instructions of a core in a run, unless told otherwise: a loop without end must not hold up the host forever."""


class Emulator:
    """Executes programs of one configuration; external memory is the array handed to `run`.

    With `check_hazards`, accesses whose order no token settles are errors, too (see hazards.py); slower.
    """

    def __init__(self, config: Config, *, check_hazards: bool = False):
        self.config = config
        self._check_hazards = check_hazards
        self._predicted: tuple[Any, Prediction] | None = None
        """The last run's cycles, and all that they depend on."""

    def run(
        self,
        memory: bytearray | np.ndarray,
        program_address: int,
        program_bytes: int,
        *,
        others: Sequence[CoreProgram] = (),
        bandwidth_bytes: float | None = None,
        latency_cycles: int = 50,
        max_cycles: int | None = None,
    ) -> RunResult:
        """Execute the program at `program_address` of `memory` (uint8, 0 = MEM_BASE), changed in place. It is that of
        core 0; `others` are those of the cores behind it, which do nothing without.

        `bandwidth_bytes` per cycle (None: the bus width) and `latency_cycles` only enter the predicted
        cycles. Raises DeviceError, naming the program counter (byte offset in the program) and the instruction,
        where the machine would stop with an error, wait forever, or leave vectors behind in the array; and when the
        program takes more than `max_cycles` (None: more than INSTRUCTIONS_MAX instructions). Execution ends after
        that number of instructions, each of which takes a cycle at least; then the predicted cycles decide.
        """
        image = np.frombuffer(memory, np.uint8) if isinstance(memory, bytearray) else memory
        if image.dtype != np.uint8 or image.ndim != 1 or not image.flags.writeable:
            raise DeviceError("external memory must be a writable one-dimensional uint8 array")
        traces = self.execute(
            ExternalBytes.of(image),
            program_address,
            program_bytes,
            others=others,
            max_instructions=max_cycles,
        )
        timeline = self._predict(image, traces, bandwidth_bytes, latency_cycles)
        if max_cycles is not None and timeline.cycles > max_cycles:
            raise DeviceError(
                f"the program did not end in {max_cycles} cycles; by the cycle model it takes {timeline.cycles}"
            )
        return RunResult(
            cycles=timeline.cycles,
            dram_read_bytes=timeline.read_bytes,
            dram_write_bytes=timeline.write_bytes,
            marks=timeline.marks,
            counters=timeline.counters,
            slices=timeline.slices,
            macs=sum(count_macs(self.config, trace.instructions) for trace in traces),
            cores=timeline.cores,
        )

    def _predict(
        self,
        image: np.ndarray,
        traces: Sequence[Trace],
        bandwidth_bytes: float | None,
        latency_cycles: int,
    ) -> Prediction:
        """The cycles of what was executed: the last run's, where all that matters is the same."""
        key = (tuple(_way(image, trace) for trace in traces), bandwidth_bytes, latency_cycles)
        if self._predicted is None or self._predicted[0] != key:
            try:
                timeline = predict(self.config, traces, bandwidth_bytes, latency_cycles)
            except Deadlock as deadlock:
                raise DeviceError(
                    f"{Error.WATCHDOG.name}: the units wait for each other: {deadlock}"
                ) from None
            self._predicted = (key, timeline)
        return self._predicted[1]

    def execute(
        self,
        memory: ExternalBytes,
        program_address: int,
        program_bytes: int,
        *,
        others: Sequence[CoreProgram] = (),
        max_instructions: int | None = None,
    ) -> list[Trace]:
        """Execute the program for all samples of `memory` at once, without predicting cycles; what each core executed.

        Raises DeviceError as `run` does, and Diverged where the samples part ways: the memory is then of no use.
        """
        hazards = Hazards(self.config, len(memory)) if self._check_hazards else None
        if len(others) >= self.config.cores:
            raise DeviceError(f"{len(others) + 1} programs are too many for {self.config.cores} cores")
        streams = (CoreProgram(program_address, program_bytes), *others)
        return Cores(self.config, memory, hazards).run(streams, max_instructions or INSTRUCTIONS_MAX)


def _way(image: np.ndarray, trace: Trace) -> tuple[Any, ...]:
    """All that the cycles of a core's run depend on."""
    lengths = (tuple(trace.decode_cycles), tuple(trace.unpacked_rows))
    code = image[trace.address :][: trace.program_instructions * INSTRUCTION_BYTES].tobytes()
    return trace.core, trace.address, code, len(trace.instructions), tuple(trace.jumps.items()), lengths
