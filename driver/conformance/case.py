"""The tests of a generated conformance suite, found by their `desc.json`."""

import dataclasses
import json
import pathlib
from typing import Any

from tosaic.errors import InputError


@dataclasses.dataclass(frozen=True)
class ConformanceCase:
    """One test: a graph, its inputs, and where its expected outputs are stored."""

    folder: pathlib.Path
    operator: str
    negative: bool
    """The graph is illegal and must be rejected."""
    extensions: tuple[str, ...]
    """TOSA extensions that the test needs, as the suite spells them."""
    graph: str
    """File of the graph in `folder`."""
    inputs: tuple[tuple[str, str], ...]
    """(graph input, file) of what is not constant."""
    outputs: tuple[str, ...]
    inexact: tuple[str, ...]
    """Outputs for which a range of values is allowed (INEXACT_ROUND)."""
    mode: str = ""
    """What distinguishes the test within its operator: the types of its operands and results, or the error it makes."""
    unsigned: tuple[str, ...] = ()
    """Inexact outputs that hold the bit pattern of unsigned numbers."""
    floats: tuple[str, ...] = ()
    """Outputs of floating point: judged by the tolerance that the test states (`float_compliance`)."""
    precise: bool = False
    """A test of the floating-point profile alone: the reference model computes it in float64."""
    bounded: bool = False
    """The tolerance of the float outputs needs a second array that the reference model computes."""

    @property
    def name(self) -> str:
        return self.folder.name

    def expected(self, output: str) -> pathlib.Path:
        """The baked value of an output."""
        return self.folder / f"Conformance-{output}.npy"

    def bounds(self, output: str) -> pathlib.Path:
        """The baked second array of a float output: what the inputs' magnitudes give."""
        return self.folder / f"Bounds-{output}.npy"

    def limits(self, output: str) -> pathlib.Path:
        """The baked range of an inexact output: int64 [2, ...], lowest and highest value of each element."""
        return self.folder / f"Range-{output}.npy"

    def baked(self) -> bool:
        """Whether the expected outputs are there; a negative test has none."""
        files = [self.limits(name) if name in self.inexact else self.expected(name) for name in self.outputs]
        if self.bounded:
            files += [self.bounds(name) for name in self.floats]
        return self.negative or all(file.is_file() for file in files)


def find_cases(root: pathlib.Path) -> list[ConformanceCase]:
    """Every test below a folder, in the order of their paths. InputError when there is none, or one is damaged."""
    files = sorted(root.rglob("desc.json"))
    if not files:
        raise InputError(
            f"{root}: there is no conformance test (desc.json) below it: generate a suite with "
            "tosa_verif_conformance_generator, `make conformance` shows how"
        )
    return [read_case(file) for file in files]


def read_case(file: pathlib.Path) -> ConformanceCase:
    """The test that a `desc.json` describes; InputError when it is damaged."""
    try:
        text = json.loads(file.read_text())
        return _case(file.parent, text)
    except Exception as error:  # any value may be of another type
        raise InputError(
            f"{file}: is not the description of a conformance test ({type(error).__name__}: {error}); "
            "generate the suite again"
        ) from None


def _case(folder: pathlib.Path, text: dict[str, Any]) -> ConformanceCase:
    tensors = text.get("meta", {}).get("compliance", {}).get("tensors", {})
    floats = tuple(
        name for name, tensor in tensors.items() if tensor.get("data_type", "").startswith(("FP", "BF"))
    )
    modes = {name: tensor["mode"] for name, tensor in tensors.items() if name not in floats}
    unknown = set(modes.values()) - {"EXACT", "RESCALE_INEXACT"}
    if unknown:
        raise ValueError(f"outputs are compared by {', '.join(sorted(unknown))}, integers are not")
    requirements = text.get("test_requirements", {})
    return ConformanceCase(
        folder=folder,
        operator=text["test_details"]["operator"],
        negative=bool(text["expected_failure"]),
        extensions=tuple(requirements.get("extensions_required", [])),
        graph=text["tosa_file"],
        inputs=tuple(zip(text["ifm_name"], text["ifm_file"], strict=True)),
        outputs=tuple(text["ofm_name"]),
        mode=_mode(text),
        inexact=tuple(name for name, mode in modes.items() if mode == "RESCALE_INEXACT"),
        unsigned=tuple(
            name
            for name, tensor in tensors.items()
            if tensor.get("rescale_inexact_info", {}).get("unsigned_data")
        ),
        floats=floats,
        precise="tosa-pro-int" not in requirements.get("profiles_supported", ["tosa-pro-int"]),
        bounded=bool(requirements.get("bounds_file_required")),
    )


def _mode(text: dict[str, Any]) -> str:
    details = text["test_details"]
    if text["expected_failure"]:
        return str(details.get("ERRORIF", "ERRORIF"))
    operands = text.get("meta", {}).get("data_gen", {}).get("tensors", {}).values()
    ordered = sorted(operands, key=lambda tensor: tensor.get("input_pos", 0))
    sources = [str(tensor["data_type"]).lower() for tensor in ordered if "data_type" in tensor]
    results = [str(name).lower() for name in details.get("output_types", [])]
    needs = sorted(text.get("test_requirements", {}).get("extensions_required", []))
    return " ".join([*sources[:2], "->", *results[:1], *needs])
