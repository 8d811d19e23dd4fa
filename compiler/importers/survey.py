"""What becomes of each operator of a source model: one account for every importer."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tosaic.compiler.ir import OPERATORS, Operator
from tosaic.errors import UnsupportedError

_MOVES = ("data layout", "data node", "type conversion", "scatter/gather")


class LoweringForm(StrEnum):
    """How TOSA says what a source operator says."""

    DIRECT = "direct"
    """One TOSA operator, and what only moves or casts elements around it; or nothing at run time."""
    COMPOSITE = "composite"
    """A fixed chain of TOSA operators."""
    NOT_REPRESENTABLE = "not representable"
    """The form of an operator that is refused, with the reason."""
    UNKNOWN = "unknown"
    """The form of an operator that is not judged: its input has no known shape, because an operator before it
    has no TOSA form.
    """


@dataclass(frozen=True, slots=True)
class SourceOperator:
    """The verdict on one operator of the source. `kind` and `name` are the source's words; `reason` is one line."""

    kind: str
    name: str
    form: LoweringForm
    reason: str


class Survey:
    """Collects a verdict on each source operator.

    An importer reports `lowered` or `refused` for every operator. `refused` raises, unless `keep_going`: then the
    importer puts inputs in the place of the results, and goes on to tell of all the rest.
    """

    def __init__(self, keep_going: bool = False) -> None:
        self.keep_going = keep_going
        self.operators: list[SourceOperator] = []

    @property
    def complete(self) -> bool:
        """Whether every operator has a TOSA form, so that the import's graph is the model."""
        return all(o.form in (LoweringForm.DIRECT, LoweringForm.COMPOSITE) for o in self.operators)

    def lowered(self, kind: str, name: str, made: Sequence[Operator]) -> None:
        """An operator that became `made`."""
        computing = [o for o in made if OPERATORS[o.op].category not in _MOVES]
        form = LoweringForm.DIRECT if len(computing) <= 1 else LoweringForm.COMPOSITE
        # The layout pass moves these two, and most go away: they are told of only where there is nothing else.
        shown = [o.op for o in made if o.op not in ("TRANSPOSE", "RESHAPE")] or [o.op for o in made]
        parts = [f"{count} {op}" if count > 1 else op for op, count in Counter(shown).items()]
        self.operators.append(SourceOperator(kind, name, form, ", ".join(parts) or "nothing at run time"))

    def refused(self, kind: str, name: str, error: UnsupportedError) -> None:
        """An operator without a TOSA form; raises the error, unless the survey keeps going."""
        if not self.keep_going:
            raise error
        self.operators.append(SourceOperator(kind, name, LoweringForm.NOT_REPRESENTABLE, str(error)))

    def unknown(self, kind: str, name: str, reason: str) -> None:
        """An operator that cannot be judged."""
        self.operators.append(SourceOperator(kind, name, LoweringForm.UNKNOWN, reason))
