"""Shows that a program computes what its graph says, for all inputs: certificates, and their check.

Graph and program come in, a `Certificate` goes out. It may import the compiler, `sim.terms`, the emulator and golden.
"""

import hashlib
import importlib.metadata
import pathlib
import time

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph, write_tosa
from tosaic.compiler.program import Program
from tosaic.driver.configuration import find_config
from tosaic.driver.models import open_model
from tosaic.errors import InputError, MismatchError
from tosaic.hw.config import Config
from tosaic.hw.isa import ISA_HASH
from tosaic.sim.terms import Options, UndecidedError

from .certificate import DIFFERENT, EQUAL, UNDECIDED, Certificate, OutputVerdict
from .comparison import Comparison, Tally, UnreadableError, compare
from .witness import differs_on, find_witness

__all__ = ["DIFFERENT", "EQUAL", "UNDECIDED", "Certificate", "certify", "check_certificate"]
TRIES = 200
"""Inputs on which a difference is looked for."""


def certify(
    model: str | pathlib.Path | Graph,
    program: str | pathlib.Path | Program | None = None,
    *,
    config: str | Config | None = None,
    seeds: int = 2,
    keyed: bool | None = None,
    without: frozenset[str] = frozenset(),
) -> Certificate:
    """Show that a program computes what a model says, for all inputs, or find an input on which it does not.

    model: a path that `Session` takes, or a graph; of integers.
    program: a `.tsc` file or a `Program`; None: the model is compiled for `config` (a name or a `Config`, else "base").
    seeds: random points; each makes an accident 2^61 times as rare.
    keyed: whether hashing withstands a program that was made to deceive; None: for programs that are given.
    without: axioms that are not used (`tosaic.sim.terms.AXIOMS`).
    """
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, not {seeds}")
    graph = open_model(model)
    if isinstance(graph, Program):
        raise InputError(
            f"{model} is a program without its graph: give the model that it was compiled from, too"
        )
    keyed = program is not None if keyed is None else keyed
    compiled = compile_graph(graph, _config(config)) if program is None else open_model(program)
    if not isinstance(compiled, Program):
        raise InputError(f"{program} is a model: give the .tsc program that was compiled from it")
    return _certified(graph, compiled, Options(seeds, keyed, without))


def _config(config: str | Config | None) -> Config:
    return config if isinstance(config, Config) else find_config(config or "base")


def _certified(graph: Graph, program: Program, options: Options) -> Certificate:
    started = time.process_time()
    tally, reason, comparison, tries = Tally(), "", None, TRIES
    try:
        comparison = compare(graph, program, options, tally)
    except UndecidedError as error:
        reason = f"the method does not reach {error}"
        tries *= not isinstance(error, UnreadableError)
    verdict, outputs, place, witness = UNDECIDED, dict[str, OutputVerdict](), None, None
    if comparison is not None:
        outputs, place = comparison.outputs, comparison.place
        differing = [name for name, each in outputs.items() if each.verdict != EQUAL]
        verdict = EQUAL if not differing else UNDECIDED
    if verdict != EQUAL:
        witness, tried = find_witness(graph, program, tries, tally.limits)
        verdict = UNDECIDED if witness is None else DIFFERENT
        if comparison is not None and witness is None:
            reason = f"{tried} inputs show no difference: a lemma is missing, or the difference is rare"
        outputs = _settled(outputs, witness is not None)
    return Certificate(
        verdict=verdict,
        reason="" if verdict != UNDECIDED else reason,
        graph_sha256=graph_digest(graph),
        image_sha256=hashlib.sha256(program.image).hexdigest(),
        configuration=program.config.name,
        configuration_hash=program.config.hash,
        instruction_set=ISA_HASH,
        version=importlib.metadata.version("tosaic"),
        outputs=outputs,
        axioms=dict(tally.axioms),
        lemmas=dict(tally.lemmas),
        assumptions=_assumptions(comparison),
        seeds=options.seeds,
        keyed=options.keyed,
        values=tally.values,
        degree=tally.degree,
        seconds=round(time.process_time() - started, 3),
        place=place,
        witness=witness,
    )


def _settled(outputs: dict[str, OutputVerdict], shown: bool) -> dict[str, OutputVerdict]:
    """Outputs whose terms differ are DIFFERENT only where an input shows it."""
    return {
        name: each
        if each.verdict == EQUAL or shown
        else OutputVerdict(UNDECIDED, each.elements, each.differing)
        for name, each in outputs.items()
    }


def _assumptions(comparison: Comparison | None) -> dict[str, int]:
    return {} if comparison is None else dict(comparison.required)


def graph_digest(graph: Graph) -> str:
    """SHA-256 of the graph as a TOSA file of this version."""
    return hashlib.sha256(write_tosa(graph)).hexdigest()


def check_certificate(
    certificate: str | pathlib.Path | Certificate,
    model: str | pathlib.Path | Graph,
    program: str | pathlib.Path | Program | None = None,
    *,
    config: str | Config | None = None,
) -> Certificate:
    """Show again what a certificate says, with other random points, keyed; of DIFFERENT its witness is run.

    The new certificate; MismatchError where it is for another graph or program, or does not come to the same verdict.
    """
    old = certificate if isinstance(certificate, Certificate) else _opened(certificate)
    graph = open_model(model)
    if isinstance(graph, Program):
        raise InputError(
            f"{model} is a program without its graph: give the model that it was compiled from, too"
        )
    compiled = (
        compile_graph(graph, _config(config or old.configuration)) if program is None else open_model(program)
    )
    if not isinstance(compiled, Program):
        raise InputError(f"{program} is a model: give the .tsc program that was compiled from it")
    if graph_digest(graph) != old.graph_sha256:
        raise MismatchError("the certificate is for another graph: certify this one")
    same = (compiled.config.hash, hashlib.sha256(compiled.image).hexdigest(), ISA_HASH)
    if same != (old.configuration_hash, old.image_sha256, old.instruction_set):
        raise MismatchError("the certificate is for another program or configuration: certify this one")
    if old.witness is not None:
        if differs_on(graph, compiled, old.witness.inputs) is None:
            raise MismatchError("the certificate's inputs show no difference between graph and program")
        return old
    new = _certified(graph, compiled, Options(max(old.seeds, 2), True))
    if new.verdict != old.verdict:
        raise MismatchError(
            f"the certificate says {old.verdict}, this check {new.verdict} {new.reason}".rstrip()
        )
    return new


def _opened(path: str | pathlib.Path) -> Certificate:
    try:
        text = pathlib.Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}; give a file that tosaic certify wrote") from None
    return Certificate.from_json(text, str(path))
