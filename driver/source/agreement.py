"""How far integers are from their network's own outputs, and whether that will do."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.driver.arguments import NodeArg, reals
from tosaic.driver.pages import decibels
from tosaic.driver.quantize.measurement import Difference
from tosaic.errors import MismatchError

from .notes import EXACT, OutputNote

LOSS_DB = 3.0
"""An output may be this much below what `quantize` measured."""
LEAST_DB = {8: 20.0, 16: 35.0}
"""Least decibels of an output by its bits, where nothing was measured."""
STEPS_SHARE = 0.01
"""Share of the elements that may be more than one step away, of a model that brought its integers."""
NOT_THE_NETWORK = "not the network's own outputs"
"""How the error begins."""
_STEP = 1.001
"""Floats of a framework are not exact multiples of a step."""


@dataclasses.dataclass
class OutputAgreement:
    """One output, as reals, against the network's own; sums over all samples."""

    name: str
    step: float | None
    """Step of the output's encoding; 1 for integers that stand for themselves, None for floats."""
    bits: int
    difference: Difference = dataclasses.field(default_factory=lambda: Difference("", "", "", ""))
    lowest_db: float = math.inf
    elements: int = 0
    beyond: int = 0
    """Elements that are more than one step away."""

    @classmethod
    def of(cls, output: NodeArg) -> "OutputAgreement":
        """Returns an agreement that has seen nothing yet."""
        encoding = output.stands_for
        step = encoding.scale if encoding is not None else None if output.type.is_float else 1.0
        return cls(output.name, step, output.type.bits)

    def add(self, wanted: np.ndarray, got: np.ndarray) -> None:
        """One sample, in reals."""
        wide, found = wanted.astype(np.float64), got.astype(np.float64).reshape(wanted.shape)
        alone = Difference("", "", "", "")
        for each in (alone, self.difference):
            each.add(wide, found)
        self.lowest_db = min(self.lowest_db, alone.sqnr_db)
        self.elements += wide.size
        self.beyond += int((np.abs(found - wide) > _STEP * (self.step or math.inf)).sum())

    @property
    def sqnr_db(self) -> float:
        """Decibels; infinite without noise."""
        return self.difference.sqnr_db

    @property
    def largest_steps(self) -> float | None:
        """The largest difference, in steps of the output's encoding."""
        return None if self.step is None else self.difference.largest / self.step

    @property
    def note(self) -> OutputNote:
        """What is written of it."""
        return OutputNote(self.sqnr_db, self.lowest_db)

    @property
    def told(self) -> str:
        """The figures in words."""
        steps = self.largest_steps
        largest = f"{self.difference.largest:.4g}" if steps is None else f"{steps:.3g} steps"
        beyond = (
            f", {self.beyond:,} of {self.elements:,} elements more than one step away" if self.beyond else ""
        )
        return f"SQNR {decibels(self.sqnr_db)}, largest difference {largest}{beyond}"


@dataclasses.dataclass(frozen=True)
class Limits:
    """What is asked of outputs."""

    asked_db: float | None = None
    """Decibels that the user asks of every output."""
    noted: Mapping[str, OutputNote] = dataclasses.field(default_factory=dict)
    """What `quantize` measured, by output."""
    steps: bool = False
    """The model brought its integers: they are judged in steps."""

    def problem(self, found: OutputAgreement, *, single: bool) -> str | None:
        """Why an output will not do; None if it does. `single`: of one sample, which is held against the noisiest."""
        noted = self.noted.get(found.name)
        if self.asked_db is None and self.steps and found.step is not None:
            share = found.beyond / max(found.elements, 1)
            return f"at most {STEPS_SHARE:.0%} may be" if share > STEPS_SHARE else None
        kind = 16 if found.step is None or found.bits == 16 else 8
        least, why = LEAST_DB[kind], "the least where nothing was measured"
        if self.asked_db is not None:
            least, why = self.asked_db, "as asked"
        elif noted is not None and math.isfinite(noted.lowest_db if single else noted.sqnr_db):
            measured = noted.lowest_db if single else noted.sqnr_db
            where = " in the noisiest sample" if single else ""
            least, why = measured - LOSS_DB, f"quantize measured {measured:.1f} dB{where}"
        if found.sqnr_db >= least or (math.isinf(found.sqnr_db) and not found.beyond):
            return None
        return f"wanted are {least:.1f} dB, {why}"


@dataclasses.dataclass
class Agreement:
    """The agreement of all outputs with a network."""

    source: str
    """The network, and what computed it."""
    outputs: list[OutputAgreement]
    samples: int = 0
    worst: tuple[str, float] | None = None
    """The tensor inside with the lowest SQNR, by the network's own name, and that SQNR in dB."""

    def add(
        self, outputs: list[NodeArg], wanted: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]
    ) -> None:
        """One sample: the network's outputs and the session's."""
        for found, output in zip(self.outputs, outputs, strict=True):
            value = wanted[output.name]
            found.add(value, _as_of(value, reals(output, got[output.name])))
        self.samples += 1

    @property
    def lines(self) -> list[str]:
        """The figures in words, a line for each output."""
        worst = f"; worst tensor {self.worst[0]}, {decibels(self.worst[1])}" if self.worst else ""
        return [f"against {self.source}: {each.name}: {each.told}{worst}" for each in self.outputs]

    def problem(self, limits: Limits) -> str | None:
        """Why the first output that will not do is too far away; None if all do."""
        for found, line in zip(self.outputs, self.lines, strict=True):
            problem = limits.problem(found, single=self.samples == 1)
            if problem is not None:
                return f"{line}; {problem}"
        return None

    def judge(self, limits: Limits) -> None:
        """Raises MismatchError naming the first output that is too far away."""
        problem = self.problem(limits)
        if problem is not None:
            raise MismatchError(f"{NOT_THE_NETWORK}: {problem}")

    def as_json(self) -> dict[str, Any]:
        """Plain values; an SQNR without noise is the text "exact"."""
        return {
            "network": self.source,
            "samples": self.samples,
            "outputs": [
                {
                    "name": each.name,
                    "sqnr_db": _plain(each.sqnr_db),
                    "largest_difference": each.difference.largest,
                    "largest_steps": each.largest_steps,
                    "beyond_one_step": each.beyond,
                    "elements": each.elements,
                }
                for each in self.outputs
            ],
            "worst_tensor": self.worst and {"name": self.worst[0], "sqnr_db": _plain(self.worst[1])},
        }


def _plain(ratio_db: float) -> float | str | None:
    """JSON has no infinities."""
    return ratio_db if math.isfinite(ratio_db) else EXACT if ratio_db > 0 else None


def _as_of(wanted: np.ndarray, got: np.ndarray) -> np.ndarray:
    """An imported model's unsigned integers are the bits of signed ones here."""
    signed = wanted.dtype.kind == "u" and got.dtype.kind == "i" and wanted.itemsize == got.itemsize
    return got.view(wanted.dtype) if signed else got
