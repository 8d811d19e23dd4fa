"""Makes exported programs of a module, reads them from a .pt2 file, and asks them for the names that their
owner knows.
"""

import contextlib
import dataclasses
import logging
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.torch_models.archive import damage, safe_archive
from tosaic.compiler.importers.torch_models.packages import load_torch
from tosaic.errors import Error, InputError, UnsupportedError

QDQ_NAMESPACE = "quantized_decomposed"


@dataclasses.dataclass(frozen=True)
class OwnedPort:
    """An input or output of a program: the name that its owner knows, shape and NumPy type."""

    name: str
    node: str
    """The program's own name of the value."""
    shape: tuple[int, ...]
    dtype: np.dtype


def export(module: Any, example_inputs: Sequence[Any]) -> Any:
    """The exported program of a module in evaluation mode, with the static shapes of `example_inputs`.

    An exported program is given back as it is. UnsupportedError with torch.export's own words where it fails.
    """
    torch = load_torch()
    if isinstance(module, torch.export.ExportedProgram):
        return module
    try:
        with _evaluating(module, torch):
            program = torch.export.export(module, tuple(example_inputs))
    except Exception as error:  # whatever tracing a user's Python code raises
        said = " ".join(str(error).split())[:400]
        raise UnsupportedError(
            f"torch.export cannot export {type(module).__name__} ({type(error).__name__}: {said}); change what it "
            "names in the module's forward()"
        ) from error
    return program


def read_program(path: pathlib.Path) -> Any:
    """The program in a .pt2 file, as torch.export.save writes it, of which nothing is unpickled or evaluated.

    ModelError for a damaged file and for one that holds more than operators on tensors and their values.
    """
    torch, causes = load_torch(), list[BaseException]()
    try:
        archive = safe_archive(path)
        with _heard(causes):
            return torch.export.load(archive)
    except Error:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # zip, JSON and schema errors, and whatever PyTorch raises
        raise damage(path, causes[0] if causes else error) from None


@contextlib.contextmanager
def _heard(causes: list[BaseException]) -> Iterator[None]:
    """Adds the exceptions that torch.export catches, logs and goes on after, instead of lines on the terminal."""

    def hear(record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            causes.append(record.exc_info[1])
        return False

    logger = logging.getLogger("torch.export")
    logger.addFilter(hear)
    try:
        yield
    finally:
        logger.removeFilter(hear)


def check_program(program: Any) -> None:
    """Raises UnsupportedError for what neither road keeps: state that a run changes, and shapes that are open."""
    if any(
        getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in program.graph.nodes
    ):
        # torch.export keeps operators such as add_ as they are; what they change is known once they are functions.
        signature = program.run_decompositions({}).graph_signature
    else:
        signature = program.graph_signature
    for changed in (signature.buffers_to_mutate, signature.user_inputs_to_mutate):
        for name in changed.values():
            raise UnsupportedError(
                f"the module changes {name!r} when it runs; make it an input, and give its new value as an output"
            )
    for port in input_nodes(program):
        value = port.meta["val"]
        if any(not isinstance(size, int) for size in getattr(value, "shape", ())):
            raise UnsupportedError(
                f"input {port.name!r} has open dimensions {list(value.shape)}; export without dynamic_shapes"
            )


def input_nodes(program: Any) -> list[Any]:
    """The nodes of the user's tensors, in the order of forward()'s arguments."""
    wanted = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    tensors = [nodes[name] for name in wanted]
    return [node for node in tensors if hasattr(node.meta.get("val"), "shape")]


def inputs_of(program: Any) -> list[OwnedPort]:
    """The inputs, by the names of forward()'s arguments."""
    return [_port(node.name, node) for node in input_nodes(program)]


def inputs_of_graph(module: Any) -> list[OwnedPort]:
    """The inputs of an exported graph module, such as PT2E prepares."""
    return [_port(str(node.target), node) for node in module.graph.nodes if node.op == "placeholder"]


def outputs_of(program: Any) -> list[OwnedPort]:
    """The outputs: a single one is `output`, those of a tuple `output_0`, ..., those of a dictionary have its keys."""
    nodes = {node.name: node for node in program.graph.nodes}
    results = program.graph_signature.user_outputs
    names = _output_names(program.call_spec.out_spec, len(results))
    for name, result in zip(names, results, strict=True):
        if not isinstance(result, str):
            raise UnsupportedError(
                f"output {name!r} is the constant {result!r}; leave it out of what forward() returns"
            )
    return [_port(name, nodes[result]) for name, result in zip(names, results, strict=True)]


def is_quantized(program: Any) -> bool:
    """Whether the program holds the pairs of quantize and dequantize that convert_pt2e writes."""
    return any(getattr(node.target, "namespace", "") == QDQ_NAMESPACE for node in program.graph.nodes)


@contextlib.contextmanager
def _evaluating(module: Any, torch: Any) -> Iterator[None]:
    """The module in evaluation mode, afterwards again in its own. Exported modules know but one mode."""
    if isinstance(module, torch.fx.GraphModule) or not getattr(module, "training", False):
        yield
        return
    training = [each for each in module.modules() if each.training]
    module.eval()
    try:
        yield
    finally:
        for each in training:
            each.training = True


def _port(name: str, node: Any) -> OwnedPort:
    torch = load_torch()
    value = node.meta["val"]
    return OwnedPort(
        name, node.name, tuple(value.shape), torch.empty(0, dtype=_held(value.dtype)).numpy().dtype
    )


def _held(dtype: Any) -> Any:
    torch = load_torch()
    if dtype in (torch.bfloat16, torch.float16, torch.float64):
        raise UnsupportedError(f"the module computes in {dtype}; convert it with .float() first")
    if dtype.is_complex:
        raise UnsupportedError(
            f"the module computes in {dtype}, TOSA has no complex numbers; use a pair of reals"
        )
    return dtype


def _output_names(spec: Any, count: int) -> list[str]:
    import torch.utils._pytree as pytree

    if spec is None:
        return ["output"] if count == 1 else [f"output_{index}" for index in range(count)]
    paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(count)), spec))
    names = ["_".join(str(_key(entry)) for entry in path) for path, _ in paths]
    return [f"output_{name}" if name[:1].isdigit() else name or "output" for name in names]


def _key(entry: Any) -> Any:
    for field in ("key", "idx", "name"):
        if hasattr(entry, field):
            return getattr(entry, field)
    raise InputError(
        f"forward() returns a structure with the unknown part {entry!r}; return a tuple or dictionary"
    )
