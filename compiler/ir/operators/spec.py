"""What the operator table says of one operator.

Rules are data: a shape rule is a function of the operator, a check is a predicate whose docstring states the
rule in words. The same sentence becomes the error message and the line of the documentation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators.traits import NO_TRAIT, Trait
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.errors import ModelError, UnsupportedError

Shape = tuple[int, ...]
_Input = TypeVar("_Input")

MAX_RANK = 6
"""Highest rank at TOSA 1.0's level 8K, the one level Tosaic implements."""


@dataclass(frozen=True)
class Operand:
    """One input or output.

    `type` is a type variable of the spec (`in_t`) or a DType. `ranks` is (lowest, highest). `shape` is how
    the specification writes the shape, for the documentation. `constant` marks the parameters that must be
    compile-time constants (without EXT-DYNAMIC). A `variadic` operand stands for the rest of the list. A `per_axis`
    operand has the same count of numbers for each axis of the result.
    """

    name: str
    type: str | DType
    ranks: tuple[int, int] = (0, MAX_RANK)
    shape: str = "shape"
    constant: bool = False
    variadic: bool = False
    per_axis: bool = False


REQUIRED = object()
"""Default of an attribute that has none."""


@dataclass(frozen=True)
class Attribute:
    """One attribute. `kind` is "int", "number", "bool", "ints", "dtype", "enum", "graph", "string" or "bytes".

    "number" is an int for integer operators and a float for float ones. `length` is the number of ints,
    `values` the names of an enumeration, `type` the type variable that a "dtype" attribute decides.
    """

    name: str
    kind: str
    default: Any = REQUIRED
    length: int | None = None
    values: tuple[str, ...] = ()
    type: str | None = None


@dataclass(frozen=True)
class Mode:
    """One supported combination of types, by type variable, and the profile or extension that has it."""

    types: dict[str, DType]
    extension: str = "PRO-INT"

    @property
    def is_float(self) -> bool:
        """True for the combinations with a float: the floating-point profile and its extensions."""
        return any(dtype.is_float for dtype in self.types.values())

    def __str__(self) -> str:
        return ", ".join(f"{name}={dtype.spelling}" for name, dtype in self.types.items())


def modes(variables: str, *rows: str) -> tuple[Mode, ...]:
    """Modes from lines such as "int16 int8 int48: EXT-INT16", one type per variable."""
    names = variables.split()
    result = []
    for row in rows:
        types, _, extension = row.partition(":")
        dtypes = [DType[word.upper()] for word in types.split()]
        result.append(Mode(dict(zip(names, dtypes, strict=True)), extension.strip() or "PRO-INT"))
    return tuple(result)


class Surroundings(Protocol):
    """What the rules of an operator may ask of the graph around it; a `Graph` answers."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[str]: ...
    @property
    def outputs(self) -> Sequence[str]: ...
    @property
    def tensors(self) -> Mapping[str, Tensor]: ...
    @property
    def subgraphs(self) -> Mapping[str, "Surroundings"]: ...

    def tensor(self, name: str) -> Tensor: ...


class OpView:
    """One operator seen with its tensors and its row of the table; what shape rules and checks look at.

    A view is for the moment: it does not see what becomes of the operator's operands later.
    """

    def __init__(self, graph: Surroundings, op: Operator, spec: "OperatorSpec") -> None:
        self.graph = graph
        self.op = op
        self.spec = spec
        self._tensors: dict[str, list[Tensor]] = {}

    def tensors(self, operand: str) -> list[Tensor]:
        """All tensors of an operand: several for a variadic one, none for an absent optional one."""
        found = self._tensors.get(operand)
        if found is None:
            position = self.spec.positions.get(operand)
            if position is None:
                raise ValueError(f"{self.spec.name} has no operand {operand!r}")
            names = self.op.outputs if position.is_result else self.op.inputs
            found = self._tensors[operand] = [self.graph.tensor(name) for name in names[position.slice]]
        return found

    def tensor(self, operand: str) -> Tensor:
        """The tensor of an operand."""
        found = self.tensors(operand)
        if not found:
            raise ModelError(f"{self.op}: operand {operand} is missing")
        return found[0]

    def shape(self, operand: str) -> Shape:
        """Shape of an operand."""
        return self.tensor(operand).shape

    def dtype(self, operand: str) -> DType:
        """Element type of an operand."""
        return self.tensor(operand).dtype

    def value(self, operand: str) -> np.ndarray | None:
        """Value of an operand if it is a constant, else None."""
        return self.tensor(operand).data

    def ints(self, operand: str) -> list[int]:
        """Value of a constant operand as a flat list; UnsupportedError if it is computed at run time."""
        value = self.value(operand)
        if value is None:
            raise UnsupportedError(
                f"{self.op}: operand {operand} ({self.tensor(operand)}) is computed at run time; only "
                "constants are supported there (TOSA's EXT-SHAPE is not)"
            )
        return [int(item) for item in value.reshape(-1)]

    def attribute(self, name: str) -> Any:
        """Value of an attribute, or its default."""
        if name in self.op.attributes:
            return self.op.attributes[name]
        for attribute in self.spec.attributes:
            if attribute.name == name:
                if attribute.default is REQUIRED:
                    raise ModelError(f"{self.op}: attribute {name} is missing")
                return attribute.default
        raise ValueError(f"{self.spec.name} has no attribute {name!r}")

    def fail(self, rule: str, found: str) -> NoReturn:
        """Raises the ModelError for a broken rule: operator, tensors, rule, what was found, clause."""
        sources = ", ".join(str(self.graph.tensors[n]) for n in self.op.inputs if n in self.graph.tensors)
        raise ModelError(
            f"{self.op} ({sources or 'no inputs'}): {rule.rstrip('.')}; found {found} "
            f"[{self.spec.name}, {self.spec.reference}]"
        )


Check = Callable[[OpView], str | None]
"""Says what was found if the rule of its docstring is broken, None if it holds."""

ShapeRule = Callable[[OpView], list[Shape]]
"""Computes the shapes of the outputs from the shapes of the inputs and the constants."""


@dataclass(frozen=True)
class OperandSlot:
    """The part of an operator's outputs or inputs that is one operand."""

    is_result: bool
    slice: slice


@dataclass(frozen=True)
class OperatorSpec:
    """One row of the operator table.

    `clause` is the section of the 0.30 specification, "" for operators that came later. `versions` names
    the specifications that have the operator. `infer` is None where the outputs' shapes are free (CUSTOM).
    `traits` and `degree` are what passes may rely on. Where all floats among the data operands are multiplied by a
    positive factor, the result is multiplied by that factor to the power of `degree`; None if that is not so.
    """

    name: str
    clause: str
    category: str
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]
    modes: tuple[Mode, ...]
    infer: ShapeRule | None
    attributes: tuple[Attribute, ...] = ()
    checks: tuple[Check, ...] = ()
    versions: tuple[str, ...] = ("0.30", "1.0")
    extension: str = ""
    traits: Trait = NO_TRAIT
    degree: float | None = None

    @property
    def reference(self) -> str:
        """Where the operator is specified: "TOSA 0.30 section 2.3.3"."""
        return f"TOSA 0.30 section {self.clause}" if self.clause else f"TOSA {self.versions[0]}"

    @cached_property
    def positions(self) -> dict[str, "OperandSlot"]:
        """Where the names of each operand and result stand."""
        return {
            operand.name: OperandSlot(is_result, slice(index, None if operand.variadic else index + 1))
            for is_result, operands in ((True, self.results), (False, self.operands))
            for index, operand in enumerate(operands)
        }

    def operand_index(self, operand_name: str) -> int:
        """Position of an operand among the inputs. ValueError for a name that the operator has not."""
        position = self.positions.get(operand_name)
        if position is not None and not position.is_result:
            return position.slice.start
        names = ", ".join(operand.name for operand in self.operands)
        raise ValueError(f"{self.name} has no operand {operand_name!r}; it has {names}")

    def data_inputs(self, inputs: list[_Input]) -> list[_Input]:
        """Those of an operator's inputs (names or values) that hold data; shapes, zero points and so on follow them."""
        if self.operands and self.operands[-1].variadic:
            return inputs
        return inputs[: sum(not operand.constant for operand in self.operands)]

    @property
    def runs_graphs(self) -> bool:
        """Whether attributes name graphs that it runs."""
        return any(attribute.kind == "graph" for attribute in self.attributes)

    @property
    def is_integer(self) -> bool:
        """True if any supported combination of types is not floating-point (or types are free)."""
        return not self.modes or any(not mode.is_float for mode in self.modes)


def rule_of(check: Check) -> str:
    """The rule that a check enforces, in words: its docstring on one line, without the full stop."""
    return " ".join((check.__doc__ or check.__name__).split()).rstrip(".")
