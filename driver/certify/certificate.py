"""A certificate: what was shown of one program and its graph, and on which assumptions."""

import base64
import dataclasses
import json
import math
import pathlib
from typing import Any

import numpy as np

from tosaic.errors import InputError
from tosaic.sim.terms import AXIOMS

EQUAL, DIFFERENT, UNDECIDED = "EQUAL", "DIFFERENT", "UNDECIDED"
FORMAT = 1
ASSUMED = (
    "the emulator executes instructions as the RTL does, and every order of the units that the tokens allow ends "
    "alike (docs/trust.md)",
    "the specification's text means what sim/terms reads in it",
    "the random functions are random: against programs made to deceive, certify with keyed hashing",
)
"""What every certificate assumes."""


@dataclasses.dataclass(frozen=True)
class OutputVerdict:
    """What was shown of one output. `differing`: its elements whose terms are not those of the graph."""

    verdict: str
    elements: int
    differing: int = 0


@dataclasses.dataclass(frozen=True)
class Divergence:
    """Where a program first leaves its graph: a tensor, the layer that computes it, and the program counter, the text
    and the core of the first instruction that stores another term."""

    tensor: str
    layer: str
    program_counter: int | None
    instruction: str
    core: int = 0


@dataclasses.dataclass(frozen=True)
class Witness:
    """Inputs for which program and graph differ, and the first element that does."""

    inputs: dict[str, np.ndarray]
    output: str
    index: tuple[int, ...]
    wanted: int
    found: int


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What was shown: `verdict` EQUAL (for all inputs), DIFFERENT (`witness` shows it) or UNDECIDED (`reason`)."""

    verdict: str
    reason: str
    graph_sha256: str
    image_sha256: str
    configuration: str
    configuration_hash: int
    instruction_set: int
    version: str
    outputs: dict[str, OutputVerdict]
    axioms: dict[str, int]
    lemmas: dict[str, int]
    assumptions: dict[str, int]
    """Number of results, by operator, of which only a REQUIRE of the specification says that they fit their type."""
    seeds: int
    keyed: bool
    values: int
    """Random values, of which no two may coincide by accident."""
    degree: int
    seconds: float
    place: Divergence | None = None
    witness: Witness | None = None

    @property
    def log2_error(self) -> float:
        """The probability that EQUAL is wrong, as a power of 2: each pair of values may coincide."""
        pairs = self.values * (self.values + 1) / 2
        return math.log2(max(pairs, 1)) + self.seeds * (math.log2(self.degree) - math.log2((1 << 61) - 1))

    def to_json(self) -> str:
        """The text of a certificate file."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["outputs"] = {name: dataclasses.asdict(each) for name, each in self.outputs.items()}
        fields["place"] = None if self.place is None else dataclasses.asdict(self.place)
        fields["witness"] = None if self.witness is None else _packed(self.witness)
        head = {
            "tosaic_certificate": FORMAT,
            "log2_error": round(self.log2_error, 1),
            "assumed": list(ASSUMED),
            "laws": {name: AXIOMS[name] for name in self.axioms},
        }
        return json.dumps(head | fields, indent=1) + "\n"

    @staticmethod
    def from_json(text: str, name: str = "the certificate") -> "Certificate":
        """Reads `to_json`; InputError where it is none."""
        try:
            fields = json.loads(text)
            if fields.pop("tosaic_certificate") != FORMAT:
                raise InputError(f"{name} has another format than this version's: certify the model again")
            known = {field.name for field in dataclasses.fields(Certificate)}
            fields = {key: value for key, value in fields.items() if key in known}
            fields["outputs"] = {key: OutputVerdict(**each) for key, each in fields["outputs"].items()}
            fields["place"] = None if fields["place"] is None else Divergence(**fields["place"])
            fields["witness"] = None if fields["witness"] is None else _unpacked(fields["witness"])
            return Certificate(**fields)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{name} is no certificate ({type(error).__name__}): certify the model again"
            ) from None

    def save(self, path: str | pathlib.Path) -> None:
        """Write the certificate file."""
        pathlib.Path(path).write_text(self.to_json())


def _packed(witness: Witness) -> dict[str, Any]:
    inputs = {
        name: {
            "dtype": value.dtype.str,
            "shape": value.shape,
            "base64": base64.b64encode(np.ascontiguousarray(value).tobytes()).decode(),
        }
        for name, value in witness.inputs.items()
    }
    return {**vars(witness), "inputs": inputs}


def _unpacked(fields: dict[str, Any]) -> Witness:
    inputs = {
        name: np.frombuffer(base64.b64decode(each["base64"]), np.dtype(each["dtype"])).reshape(each["shape"])
        for name, each in fields["inputs"].items()
    }
    return Witness(**{**fields, "inputs": inputs, "index": tuple(fields["index"])})
