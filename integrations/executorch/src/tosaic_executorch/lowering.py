"""Turns an exported program into a .pte file, with a word on every node that stays on the host."""

import dataclasses
import pathlib
import warnings
from typing import Any

from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

from tosaic.compiler.importers.torch_models.program import is_quantized
from tosaic.errors import UnsupportedError
from tosaic_executorch.partitioner import HostWarning, TosaicPartitioner
from tosaic_executorch.report import Report, report

ON_HOST = ("warn", "refuse", "allow")


@dataclasses.dataclass(frozen=True)
class Lowered:
    """An edge program with delegated parts, and where each node runs."""

    edge: Any
    """ExecuTorch's EdgeProgramManager."""
    report: Report

    def to_pte(self) -> bytes:
        """The bytes of a .pte file."""
        # Without the pass a buffer that the module changes would begin as anything.
        changed = self.edge.exported_program().graph_signature.buffers_to_mutate.values()
        names = [name.replace(".", "_") for name in changed]
        passes = [InitializedMutableBufferPass(names)] if names else []
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Mutation on a buffer")
            return self.edge.to_executorch(ExecutorchBackendConfig(passes=passes)).buffer

    def save(self, path: str | pathlib.Path) -> None:
        """Writes a .pte file."""
        pathlib.Path(path).write_bytes(self.to_pte())


def lower(program: Any, config: str = "small", *, int16: bool = False, on_host: str = "warn") -> Lowered:
    """The program with its integer parts compiled for the accelerator.

    `program` is an exported program of a module that PT2E converted. `on_host` says what becomes of one with nodes that
    the accelerator does not run: "warn" (a HostWarning lists them), "refuse" or "allow"; they run by ExecuTorch's own
    kernels. Quantizing and dequantizing at the border of a part is always the host's. Raises tosaic.Error subclasses.
    """
    if on_host not in ON_HOST:
        raise ValueError(f"on_host cannot be {on_host!r}; use one of {', '.join(ON_HOST)}")
    if not is_quantized(program):
        raise UnsupportedError(
            "the program computes floats: quantize its module by prepare_pt2e and convert_pt2e, and export that"
        )
    partitioner = TosaicPartitioner(config, int16=int16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    found = report(edge, partitioner.reasons)
    if not found.parts:
        raise UnsupportedError(f"no node runs on the accelerator: {_one_line(found)}")
    if found.on_host and on_host == "refuse":
        raise UnsupportedError(f"nodes would run on the host: {_one_line(found)}; on_host='allow' takes that")
    if found.on_host and on_host == "warn":
        warnings.warn(str(found), HostWarning, stacklevel=2)
    return Lowered(edge, found)


def _one_line(found: Report) -> str:
    return "; ".join(str(found).splitlines()[1:]) or "it has none"
