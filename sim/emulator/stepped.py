"""A core whose program is executed in pieces, and copied: for those who look at a loop turn by turn."""

import copy
from typing import Any

import numpy as np

from tosaic.hw.config import Config
from tosaic.hw.isa import CoreProgram, Opcode

from .execution import Execution
from .external_memory import ExternalBytes
from .machine import INSTRUCTIONS_MAX
from .state import CoreState


class SteppedCore:
    """The only core that runs a program, for one sample."""

    def __init__(self, config: Config, memory: ExternalBytes, program: CoreProgram):
        self._state = CoreState(config, memory)
        self._execution = Execution(self._state)
        self._execution.open(*program)

    def copy(self) -> "SteppedCore":
        """A core in the same state, with memories of its own."""
        shared = (self._state.domain, self._state.config, *self._execution.shared)
        return copy.deepcopy(self, {id(each): each for each in shared})

    @property
    def counter(self) -> int:
        """Program counter."""
        return self._execution.counter

    def run(self) -> None:
        """Execute to END."""
        while not self._execution.done:
            self._execution.step(INSTRUCTIONS_MAX)

    def next_test(self) -> np.ndarray | None:
        """Execute to the next VECTOR_TEST; the cell of the byte that it looks at, None at END."""
        execution = self._execution
        while not execution.done:
            following = execution.following
            if following.opcode is Opcode.VECTOR_TEST:
                return self._state.am.read(following.address, 1)[0]
            execution.step(INSTRUCTIONS_MAX)
        return None

    def step(self) -> None:
        """Execute one instruction."""
        self._execution.step(INSTRUCTIONS_MAX)

    def flip_activation(self, address: int, bit: int) -> None:
        """Change a bit of a byte of the activation memory, as radiation does."""
        self._state.am.flip(address, bit)

    def flip_weight(self, address: int, bit: int) -> None:
        """Change a bit of a byte of the weight memory."""
        word, column = divmod(address, self._state.config.word_bytes)
        self._state.wm.flip(word, column, bit)

    def setup(self) -> tuple[Any, ...]:
        """All that the rest of the run depends on beside the memories, to be compared; what the units hold in
        registers, or between each other, is left out."""
        return self._execution.setup()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way between the units."""
        return not (self._state.accumulator_queue.vectors or self._state.streamed_words)

    def window(self) -> np.ndarray:
        """Returns the cells of external memory."""
        return self._state.memory.window()[0]

    def cells(self) -> np.ndarray:
        """Returns the cells of all memories, one behind the other."""
        return np.concatenate([part.ravel() for part in self._memories()])

    def place(self, cells: np.ndarray) -> None:
        """Give the memories these contents, and forget what the units hold in registers."""
        start = 0
        for part in self._memories():
            part[...] = cells[start : start + part.size].reshape(part.shape)
            start += part.size
        self._state.am.settle()
        self._execution.forget_registers()

    def _memories(self) -> list[np.ndarray]:
        """Views of the activation, the weight and the external memory."""
        state = self._state
        return [state.am.content(), state.wm.content(), state.memory.window()]
