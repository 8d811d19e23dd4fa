"""The steps, in an order in which each needs only what the ones before it have shown to be right."""

import contextlib
import dataclasses
import importlib.resources
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tosaic.compiler.program import Program
from tosaic.errors import DeviceError
from tosaic.hw.config import Config
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import CoreProgram

from ..device import Device
from ..self_test import check_clock
from ..session import Session
from ..transports import Transport
from ..transports.base import Unreachable
from ..transports.identify import configuration_hash
from .faults import BoardFault, FaultFound
from .memory import check_memory
from .programs import Check, array_check, copy_check, vector_check

LINK_ACCESSES = 200
"""Accesses by which the link is judged."""
REPEATS = 5
"""Runs of a program that must give the same."""
NETWORKS = ("digits.tosa", "digits_tiny.tosa")
"""The networks among the package's examples."""
MOST_CYCLES = 5_000_000
"""No program of the kit takes as many."""


@dataclasses.dataclass(frozen=True)
class StepResult:
    """A step and what it told."""

    name: str
    told: str
    seconds: float
    ok: bool


@dataclasses.dataclass
class BringUpReport:
    """What was found. `fault`: None for a board that is well."""

    device: str
    config: str
    steps: list[StepResult] = dataclasses.field(default_factory=list)
    fault: BoardFault | None = None
    detail: str = ""
    facts: dict[str, object] = dataclasses.field(default_factory=dict)
    """What the board says it is."""
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """Bytes that a program gave and should have given."""


Say = Callable[[StepResult], None]


def bring_up(opened: Callable[[], Transport], name: str, config: Config, say: Say) -> BringUpReport:
    """Takes a board through all steps until one finds a fault; `say` is told each step when it ends.

    `opened` opens the device. InputError where there is no such port at all."""
    kit = _Kit(BringUpReport(name, config.name), config)
    with contextlib.ExitStack() as stack:

        def link() -> str:
            try:
                kit.transport = opened()
            except DeviceError as error:
                raise _of_link(error) from error
            stack.callback(kit.transport.close)
            return kit.link()

        for title, step in (("link", link), *kit.steps()):
            began = time.monotonic()
            try:
                told, found = step(), None
            except FaultFound as error:
                told, found = f"{error.fault.name}: {error.detail}", error
            result = StepResult(title, told, time.monotonic() - began, found is None)
            kit.report.steps.append(result)
            say(result)
            if found is not None:
                kit.report.fault, kit.report.detail = found.fault, found.detail
                break
    return kit.report


def _of_link(error: DeviceError) -> FaultFound:
    """The fault of a link over which an access failed."""
    text = str(error)
    noisy = "damaged frames" in text and ", 0 damaged frames" not in text
    return FaultFound("noisy-link" if noisy else "no-answer", text)


class _Kit:
    transport: Transport

    def __init__(self, report: BringUpReport, config: Config) -> None:
        self.report, self.config = report, config

    def steps(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """The steps behind the link's."""
        yield "machine", self.machine
        yield "memory", self.memory
        yield "clock", self.clock
        yield "LOAD, STORE", self.copy
        yield "VECTOR", lambda: self.unit("vector", vector_check(self.config))
        yield "ARRAY", lambda: self.unit("array", array_check(self.config))
        for network in NETWORKS:
            yield network, lambda network=network: self.network(network)  # type: ignore[misc]

    def link(self) -> str:
        """Registers that hold what is written."""
        offset = REGISTER["WATCHDOG"].offset
        identity = self.transport.identity
        self.report.facts |= dataclasses.asdict(identity)
        try:
            first = self.transport.read_registers(offset, 1)
            wrong = sum(self.transport.read_registers(offset, 1) != first for _ in range(LINK_ACCESSES))
        except DeviceError as error:
            raise _of_link(error) from error
        if wrong:
            raise FaultFound(
                "noisy-link", f"{wrong} of {LINK_ACCESSES} reads of a register gave another value"
            )
        return f"{LINK_ACCESSES} accesses, {identity.name}"

    def machine(self) -> str:
        """Tosaic, of this version, in the right configuration."""
        try:
            found = configuration_hash(self.transport)
        except Unreachable as error:
            raise _of_link(error) from error
        except DeviceError as error:
            raise FaultFound("other-design", str(error)) from error
        if found != self.config.hash:
            raise FaultFound(
                "other-configuration",
                f"its configuration hash is {found:#010x}, that of {self.config.name} {self.config.hash:#010x}",
            )
        with _linked():
            self.transport.make_idle()
            self.transport.leave_boot()
        return f"configuration {self.config.name}"

    def memory(self) -> str:
        """External memory, by the host."""
        with _linked():
            return check_memory(self.transport, self.config.bus_bytes)

    def clock(self) -> str:
        """The machine's clock by the host's."""
        if not self.transport.has_real_clock or not self.transport.identity.clock_hz:
            return "not compared: only a processor beside the machine sees its clock"
        with _linked(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            check_clock(self.transport, self.config, self._start)
        if told:
            raise FaultFound(
                "wrong-clock",
                str(told[0].message).removesuffix("; selftest=0 in the URI leaves this test out"),
            )
        return f"{self.transport.identity.clock_hz / 1e6:g} MHz"

    def _start(self, program: Program, streams: Sequence[CoreProgram]) -> None:
        first, *others = streams
        idle = [CoreProgram(0, 0)] * (self.config.cores - len(streams))
        self.transport.start(program.memory_bytes, *first, others=(*others, *idle))

    def copy(self) -> str:
        """LOAD and STORE; a port of another width shows in the machine's accesses only."""
        check, word = copy_check(self.config), self.config.bus_bytes
        found = self._run(check)
        wrong = (found != check.wanted).reshape(-1, word)
        if not wrong.any():
            return f"{check.wanted.size} bytes"
        self._keep(found, check)
        share = np.flatnonzero(wrong.any(axis=0))
        if 0 < len(share) <= word // 2 and wrong.mean(axis=0)[share].min() > 0.5:
            raise FaultFound(
                "port-width", f"bytes {share.min()} to {share.max()} of words of {word} bytes are wrong"
            )
        raise FaultFound("load-store", f"{int(wrong.sum())} of {check.wanted.size} bytes are wrong")

    def unit(self, fault: str, check: Check) -> str:
        """A unit, some times."""
        runs = [self._run(check) for _ in range(REPEATS)]
        if any(not np.array_equal(run, runs[0]) for run in runs):
            self._keep(runs[1], check)
            raise FaultFound("unsteady", f"{REPEATS} runs of the program of {fault} did not give the same")
        if not np.array_equal(runs[0], check.wanted):
            self._keep(runs[0], check)
            wrong = int(np.count_nonzero(runs[0] != check.wanted))
            raise FaultFound(fault, f"{wrong} of {check.wanted.size} bytes are wrong")
        return f"{check.wanted.size} bytes, {REPEATS} runs"

    def network(self, name: str) -> str:
        """A whole network of the examples, with made-up inputs, by golden."""
        from tosaic.compiler.build import compile_graph
        from tosaic.sim.golden import evaluate

        path = importlib.resources.files("tosaic.examples") / "digits" / name
        with importlib.resources.as_file(path) as file, Session(file, "golden") as session:
            graph = session.graph
        assert graph is not None
        program = compile_graph(graph, self.config)
        if program.memory_bytes > self.transport.identity.memory_bytes:
            return "left out: the board has too little memory"
        random = np.random.default_rng(3)
        given = {
            port.name: random.integers(-128, 128, graph.tensor(port.name).shape, dtype=np.int8)
            for port in program.inputs
        }
        memory = program.memory()
        for port in program.inputs:
            port.write(memory, given[port.name])
        (output,) = program.outputs
        wanted = evaluate(graph, given)[output.name]
        check = Check(program, memory, output.address, np.frombuffer(wanted.tobytes(), np.uint8))
        return self.unit("network", check)

    def _run(self, check: Check) -> np.ndarray:
        """The bytes that a program leaves."""
        device = Device(self.transport)
        memory = check.memory.copy()
        try:
            device.run(check.program, memory, MOST_CYCLES)
        except Unreachable as error:
            raise _of_link(error) from error
        except DeviceError as error:
            raise FaultFound(_of_machine(str(error)), str(error)) from error
        size = check.wanted.size
        with _linked():
            return np.frombuffer(self.transport.read_memory(check.place, size), np.uint8)

    def _keep(self, found: np.ndarray, check: Check) -> None:
        self.report.arrays |= {"found": found, "wanted": check.wanted}


def _of_machine(text: str) -> str:
    """The fault behind an error that ended a program."""
    if "BUS_READ" in text or "BUS_WRITE" in text:
        return "bus-error"
    return "hang" if "WATCHDOG" in text or "did not end" in text else "load-store"


@contextlib.contextmanager
def _linked() -> Iterator[None]:
    """An access that fails is the link's fault."""
    try:
        yield
    except DeviceError as error:
        raise _of_link(error) from error
