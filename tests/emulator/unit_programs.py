"""Programs of a few commands, between a LOAD of both on-chip memories and a STORE of activation memory."""

import numpy as np
import pytest
from scalar_machine import ScalarMachine

from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.isa import (
    FIELDS,
    INSTRUCTION_BYTES,
    STORE_STREAM,
    Condition,
    Element,
    Instruction,
    Opcode,
    Source,
    Space,
    make,
)
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator, ExternalBytes
from tosaic.sim.emulator.verify import Verified, verify

WEIGHTS_AT = 1 << 16
"""Address of the weights in external memory. The program lies before it, and the contents of activation memory after
the weights."""


def command(opcode: Opcode, **fields: int) -> Instruction:
    return make(opcode, **{field.name: 0 for field in FIELDS[opcode]} | fields)


def assert_read(program: "UnitProgram", read: list[range], missing: int | None) -> None:
    """The commands read of activation memory what is in `read` alone; of what is `missing` they say so."""
    if missing is None:
        program.verified(*read)
        return
    written = [
        part
        for each in read
        for part in (range(each.start, missing), range(missing + 1, each.stop))
        if missing in each and part
    ]
    written += [each for each in read if missing not in each]
    with pytest.raises(DeviceError, match=f"reads byte {missing} of the activation memory, which nothing"):
        program.verified(*written)


class UnitProgram:
    """What the memories hold at first, for each sample, and commands that come when they hold it."""

    def __init__(self, config: Config, samples: int = 1):
        self.config, self.samples = config, samples
        self.am = np.zeros((samples, config.am_bytes), np.uint8)
        self.wm = np.zeros((samples, config.wm_bytes), np.uint8)
        self.commands: list[Instruction] = []
        self._branches: dict[int, Condition] = {}
        self._am_at = WEIGHTS_AT + config.wm_bytes

    def put(self, address: int, data: np.ndarray, sample: int | None = None) -> None:
        raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        chosen = slice(None) if sample is None else slice(sample, sample + 1)
        self.am[chosen, address : address + len(raw)] = raw

    def take(self, opcode: Opcode, **fields: int) -> None:
        self.commands.append(command(opcode, **fields))

    def branch_over_the_next(self, condition: Condition) -> None:
        """Adds a branch over the next command."""
        self._branches[len(self.commands)] = condition
        self.take(Opcode.NOP)

    def store_sums(self, address: int, vectors: int, *, slots: int = 1) -> None:
        """Vectors of the array, int32, to `address`."""
        lanes = self.config.columns
        self.take(Opcode.VECTOR_UOP, index=0, a_source=Source.ARRAY, to_memory=1)
        self.take(Opcode.VECTOR_STREAM, stream=STORE_STREAM, address=address, element=Element.INT32)
        counts = {"count_low": vectors, "stride_low": 4 * lanes, "count_high": 1}
        self.take(Opcode.VECTOR_DIMS, stream=STORE_STREAM, **counts)
        for pair in (1, 2):
            self.take(Opcode.VECTOR_DIMS, stream=STORE_STREAM, pair=pair, count_low=1, count_high=1)
        whole = {"lanes": lanes, "tail_lanes": lanes, "repeats": 1, "uops": 1, "slots": slots}
        self.take(Opcode.VECTOR_GO, vectors=vectors, **whole)

    def _assembled(self, loads: list[range] | None, stores: bool) -> Assembler:
        """`loads`: places of activation memory that are written, None: all."""
        config, assembler = self.config, Assembler(self.config)
        whole = {"memory_address": WEIGHTS_AT, "row_bytes": config.wm_bytes, "rows": 1}
        assembler.emit(Opcode.LOAD_GO, space=Space.WM, **whole)
        for each in [range(config.am_bytes)] if loads is None else loads:
            where = {"memory_address": self._am_at + each.start, "local_address": each.start}
            assembler.emit(Opcode.LOAD_GO, **where, row_bytes=len(each), rows=1)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.ARRAY_WAIT, 0)
        assembler.pass_token(Opcode.LOAD_SIGNAL, Opcode.VECTOR_WAIT, 1)
        before = len(assembler.instructions)
        assembler.instructions += self.commands
        for number, condition in self._branches.items():
            target = INSTRUCTION_BYTES * (before + number + 2)
            assembler.instructions[before + number] = make(Opcode.BRANCH, condition=condition, target=target)
        if stores:
            assembler.fence()
            where = {"memory_address": self._am_at, "local_address": 0, "row_bytes": config.am_bytes}
            assembler.emit(Opcode.STORE_GO, **where, rows=1)
        return assembler

    def _memory(self, loads: list[range] | None = None, stores: bool = True) -> tuple[np.ndarray, int]:
        windows = np.zeros((self.samples, self._am_at + self.config.am_bytes), np.uint8)
        size = self._assembled(loads, stores).place(windows[0], 0)
        windows[:] = windows[0]
        windows[:, WEIGHTS_AT : self._am_at], windows[:, self._am_at :] = self.wm, self.am
        return windows, size

    def executed(self) -> np.ndarray:
        """uint8 [samples, bytes] of activation memory behind the commands, of all samples at once. Weights that all
        have are in the part of external memory that is kept once."""
        windows, size = self._memory()
        if self.samples > 1 and (self.wm == self.wm[0]).all():
            common, windows = windows[0, : self._am_at].copy(), windows[:, self._am_at :].copy()
            memory, start = ExternalBytes(windows, common), 0
        else:
            memory, start = ExternalBytes(windows), self._am_at
        Emulator(self.config).execute(memory, 0, size)
        return windows[:, start:]

    def scalar(self, sample: int = 0) -> np.ndarray:
        """The same of one sample by scalar loops."""
        memory = bytearray(self._memory()[0][sample].tobytes())
        ScalarMachine(self.config, memory).run(0)
        return np.frombuffer(memory, np.uint8)[self._am_at :]

    def queued(self) -> list[list[int]]:
        """Vectors that the array has sent and nobody took, of the first sample and by scalar loops."""
        machine = ScalarMachine(self.config, bytearray(self._memory()[0][0].tobytes()))
        machine.run(0)
        return machine.queue

    def verified(self, *written: range) -> Verified:
        """Whether the commands read what is `written` of activation memory alone; DeviceError where not."""
        windows, size = self._memory(list(written), stores=False)
        return verify(self.config, windows[0], 0, size)
