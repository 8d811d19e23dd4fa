"""Terms of a graph beside those of its program."""

import collections
import dataclasses
import secrets

import numpy as np

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.program import Port, Program
from tosaic.hw.isa import INSTRUCTION_BYTES, decode
from tosaic.sim.emulator import Emulator, ExternalBytes, SteppedCore
from tosaic.sim.terms import (
    Algebra,
    Options,
    PathFacts,
    Terms,
    TermsDomain,
    UndecidedError,
    UnknownConditionError,
    evaluate,
    inputs_of,
)

from .certificate import DIFFERENT, EQUAL, Divergence, OutputVerdict
from .induction import Induction

MOST_CONDITIONS, MOST_PATHS = 16, 128
"""Paths of more conditions, or more paths, are not looked at."""


class UnreadableError(UndecidedError):
    """The graph has no terms, or the program is none of the graph's: there is nothing to compare."""


@dataclasses.dataclass
class Comparison:
    """What came out. `outputs` says DIFFERENT of terms that differ: the integers need not."""

    outputs: dict[str, OutputVerdict]
    required: collections.Counter[str]
    place: Divergence | None

    def joined(self, other: "Comparison") -> "Comparison":
        """Returns what holds on both of two paths."""
        outputs = {
            name: each if each.verdict != EQUAL else other.outputs[name]
            for name, each in self.outputs.items()
        }
        required = {
            name: max(self.required[name], other.required[name]) for name in self.required | other.required
        }
        return Comparison(outputs, collections.Counter(required), self.place or other.place)


@dataclasses.dataclass
class Tally:
    """What was used and counted on all paths."""

    axioms: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    lemmas: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    values: int = 0
    degree: int = 1
    paths: int = 0
    """Ways through the graph, by the conditions of its COND_IFs and WHILE_LOOPs."""
    limits: dict[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)
    """Between which numbers the specification wants the elements of inputs, on the first path."""

    def add(self, algebra: Algebra) -> None:
        """Count what an algebra has computed."""
        self.axioms.update(algebra.axioms)
        self.lemmas.update(algebra.lemmas)
        self.values += algebra.values
        self.degree = max(self.degree, algebra.degree)


def compare(graph: Graph, program: Program, options: Options, tally: Tally) -> Comparison:
    """Evaluate both, on every path; UndecidedError where the method ends, DeviceError where the program does wrong.
    Loops are followed turn by turn where induction does not tell."""
    _check_ports(graph, program)
    known = ""
    if len(program.streams) == 1 and any(operator.op == "WHILE_LOOP" for operator in graph.operators):
        try:
            found = _on_all_paths(graph, program, options, tally, inductive=True)
            if all(each.verdict == EQUAL for each in found.outputs.values()):
                return found
        except UndecidedError as error:
            known = str(error)
        else:
            known = "terms that are equal after any number of turns"
        tally.paths = 0
    try:
        return _on_all_paths(graph, program, options, tally, inductive=False)
    except UndecidedError as error:
        more = f", nor {known}" if known not in ("", str(error)) else ""
        raise type(error)(f"{error}{more}") from None


def _on_all_paths(
    graph: Graph, program: Program, options: Options, tally: Tally, *, inductive: bool
) -> Comparison:
    entropy, found = secrets.randbits(128), None
    waiting = [dict[tuple[int, ...], int]()]
    while waiting:
        known = waiting.pop()
        try:
            path = _Path(entropy, PathFacts(known), inductive)
            own = _compared(graph, program, options, path, tally)
        except UnknownConditionError as condition:
            if len(known) == MOST_CONDITIONS:
                raise UndecidedError(
                    f"more than {MOST_CONDITIONS} conditions on one path, the last of {condition.operator}"
                ) from None
            if tally.paths + len(waiting) == MOST_PATHS:
                raise UndecidedError(
                    f"more than {MOST_PATHS} paths, the last of {condition.operator}"
                ) from None
            waiting += [{**known, condition.name: value} for value in range(2)]
            continue
        tally.paths += 1
        found = own if found is None else found.joined(own)
    assert found is not None
    return found


@dataclasses.dataclass(frozen=True)
class _Path:
    """A way through the graph: a random source, what holds on it, and whether loops are judged by induction."""

    entropy: int
    facts: PathFacts
    inductive: bool


def _compared(graph: Graph, program: Program, options: Options, path: _Path, tally: Tally) -> Comparison:
    """On one path. Where terms differ, once more with intervals that both sides share."""
    found = None
    for shared in range(2):
        algebra = Algebra(options, path.entropy, facts=path.facts, shared_intervals=bool(shared))
        try:
            found = _on_path(graph, program, algebra, tally, inductive=path.inductive)
        finally:
            tally.add(algebra)
        if all(each.verdict == EQUAL for each in found.outputs.values()):
            break
    assert found is not None
    return found


def _on_path(
    graph: Graph, program: Program, algebra: Algebra, tally: Tally, *, inductive: bool
) -> Comparison:
    left = {port.name: graph.states[port.name].output for port in program.states}
    ports = {port.name: port for port in (*program.outputs, *program.kept, *program.states)}
    domain = TermsDomain(algebra)
    try:
        inputs = inputs_of(graph, algebra)
        memory = _prepared(program, inputs, domain) if inductive else None
        follower = Induction(_started(program, memory), domain) if memory is not None else None
        kept = frozenset([*ports, *left.values()])
        wanted = evaluate(graph, inputs, algebra, keep=kept, loops=follower)
    except UndecidedError as error:
        raise UnreadableError(str(error)) from None
    limits = {name: limits for name, own in inputs.items() if (limits := algebra.limits_of(own)) is not None}
    tally.limits = tally.limits or limits
    there = {**wanted.kept, **wanted.outputs}
    if follower is not None:
        follower.core.run()
        cells = follower.core.window()
    else:
        memory = _prepared(program, inputs, domain)
        stream = program.streams[0]
        Emulator(program.config).execute(memory, *stream, others=program.others)
        cells = memory.window()[0]
    outputs, differs = {}, False
    for name, port in ports.items():
        own = there.get(left.get(name, name))
        if own is None:
            # A tensor of the compiler's, kept for a look at it.
            continue
        wrong = _wrong(_read(domain, cells, port), own)
        differs |= bool(wrong.any())
        verdict = DIFFERENT if wrong.any() else EQUAL
        outputs[name] = OutputVerdict(verdict, wrong.size, int(wrong.sum()))
    place = _first_place(graph, program, inputs, algebra, domain) if differs and not inductive else None
    return Comparison(outputs, wanted.required, place)


def _check_ports(graph: Graph, program: Program) -> None:
    """Both have the same outputs, and what the program is given is what the graph is given."""
    results = {port.name for port in program.outputs}
    if results != set(graph.run_outputs) or {port.name for port in program.states} != set(graph.states):
        raise UnreadableError("a program whose outputs or states are not those of its graph")
    for port in (*program.inputs, *program.outputs, *program.states):
        tensor = graph.tensors.get(port.name)
        if tensor is None or tuple(tensor.shape) != tuple(port.shape) or tensor.dtype is not port.dtype:
            raise UnreadableError(f"{port.name!r}, which has another shape or type in the graph")
    if not {port.name for port in program.inputs} <= set(graph.run_inputs):
        raise UnreadableError("a program whose inputs are not those of its graph")


def _started(program: Program, memory: ExternalBytes) -> SteppedCore:
    return SteppedCore(program.config, memory, program.streams[0])


def _prepared(program: Program, inputs: dict[str, Terms], domain: TermsDomain) -> ExternalBytes:
    """External memory with the program and its inputs."""
    image = domain.cells(np.frombuffer(program.image, np.uint8))
    cells = np.concatenate([image, domain.unwritten((program.memory_bytes - len(image),))])
    memory = ExternalBytes(cells[None], domain=domain)
    if program.boot is not None:
        Emulator(program.config).execute(memory, program.boot.program_address, program.boot.program_bytes)
    for port in (*program.inputs, *program.states):
        own = domain.pool.store(inputs[port.name], port.numpy.itemsize)
        if port.order:
            own = own.transpose(*port.order, len(port.shape))
        cells[port.address : port.address + port.bytes] = own.ravel()
    return memory


def _read(domain: TermsDomain, cells: np.ndarray, port: Port) -> Terms:
    own = cells[port.address : port.address + port.bytes].reshape(*port.stored_shape, port.numpy.itemsize)
    if port.order:
        own = own.transpose(*np.argsort(port.order), len(port.shape))
    return domain.pool.load(own, np.dtype(np.int8) if port.dtype is DType.BOOL else port.numpy)


def _wrong(found: Terms, wanted: Terms) -> np.ndarray:
    return (found.field != np.broadcast_to(wanted.field, found.field.shape)).any(axis=0)


def _counter(program: Program, address: int) -> tuple[int, int | None]:
    """(core, program counter) of the instruction at an address; of one that the boot program executes, none."""
    streams = [(program.program_address, program.program_bytes), *program.others]
    for core, (start, size_bytes) in enumerate(streams):
        if start <= address < start + size_bytes:
            return core, address - start
    return 0, None


def _first_place(
    graph: Graph, program: Program, inputs: dict[str, Terms], algebra: Algebra, domain: TermsDomain
) -> Divergence | None:
    """The first layer whose result the program never stores, and the first GO from there on that stores a term that the
    graph does not have."""
    tensors = frozenset(name for operator in graph.operators for name in operator.outputs)
    every = evaluate(graph, inputs, algebra, keep=tensors)
    there = {**every.kept, **every.outputs}
    stored = np.unique(np.concatenate([values[0] for _, values in domain.pool.stored()]))
    place = None
    for layer in program.layers:
        terms = there.get(layer.output)
        if terms is not None and not np.isin(terms.field[0][terms.low != terms.high], stored).all():
            place = layer
            break
    known = np.unique(
        np.concatenate([terms.field[0].ravel() for terms in (*there.values(), *inputs.values())])
    )
    wanted = None if place is None else np.unique(there[place.output].field[0])
    before = wanted is None
    for writer, values in domain.pool.stored():
        if writer < 0:
            continue
        own = np.isin(values[0], known)
        before |= wanted is not None and bool(np.isin(values[0], wanted).any())
        if before and not own.all():
            core, counter = _counter(program, writer)
            text = str(decode(program.image[writer:][:INSTRUCTION_BYTES]))
            return Divergence(place.output if place else "", place.name if place else "", counter, text, core)
    return None if place is None else Divergence(place.output, place.name, None, "")
