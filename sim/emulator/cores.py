"""The cores of a machine, each with its program: one runs until a WAIT lacks tokens, then the next one."""

from collections.abc import Sequence

from tosaic.hw.config import Config
from tosaic.hw.isa import CoreProgram

from .execution import Execution
from .external_memory import ExternalBytes
from .hazards import Hazards
from .state import CoreState
from .trace import Trace


class Cores:
    """One run. What the cores leave in memory does not depend on who runs first, but where a token is missing."""

    def __init__(self, config: Config, memory: ExternalBytes, hazards: Hazards | None):
        self._semaphores = [[0] * config.semaphores for _ in range(config.cores)]
        self._executions = [
            Execution(CoreState(config, memory, hazards), core, self._semaphores)
            for core in range(config.cores)
        ]

    def run(self, streams: Sequence[CoreProgram], limit: int) -> list[Trace]:
        """Execute all to END, `limit` instructions of each at most; what each core executed."""
        running = []
        for core, (execution, stream) in enumerate(zip(self._executions, streams, strict=False)):
            if stream.bytes or not core:
                execution.open(*stream)
                running.append(execution)
        for execution in running:
            for stream in streams:
                execution.protect(range(stream.address, stream.address + stream.bytes))
        left = running
        while len(running) == 1 and not running[0].done:
            # Nobody else brings it a token.
            running[0].step(limit)
        while len(running) > 1 and left:
            moved = [execution.advance(limit) for execution in left]
            if not any(moved):
                # Its WAIT says what is missing.
                left[0].step(limit)
            left = [execution for execution in left if not execution.done]
        return [execution.trace for execution in running]
