"""Which nodes of a program go to the accelerator: those that ExecuTorch's TOSA back end lowers to integers."""

import warnings
from typing import Any

from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec

from tosaic.compiler.importers.torch_models.tosa_backend import operator_of, rejections
from tosaic.driver.configuration import find_config
from tosaic_executorch.backend import CONFIG_KEY, TosaicBackend

BORDER = ("quantize_per_tensor", "dequantize_per_tensor")
"""Operators that turn reals into integers and back; the host has them where a part begins and ends."""


def computes(node: Any) -> bool:
    """Whether a node calls an operator, and does not only take one of several results."""
    return node.op == "call_function" and operator_of(node) != "getitem"


class HostWarning(UserWarning):
    """Nodes of a program run on the host, not on the accelerator."""


class TosaicPartitioner(TOSAPartitioner):
    """For `to_edge_transform_and_lower(program, partitioner=[TosaicPartitioner("small")])`, of a program with PT2E's
    pairs of quantize and dequantize.

    `config` is a name of `tosaic targets`, perhaps with sizes ("small,am_bytes=128K"); `int16`: activations may have 16
    bits. What stays on the host is in `reasons` after partitioning; `tosaic_executorch.lower` tells of it.
    """

    def __init__(self, config: str = "small", *, int16: bool = False):
        find_config(config)
        spec = TosaCompileSpec("TOSA-1.0+INT" + ("+int16" if int16 else ""))
        super().__init__(spec)
        specs = [*spec._to_list(), CompileSpec(CONFIG_KEY, config.encode())]
        self.delegation_spec = DelegationSpec(TosaicBackend.__name__, specs)
        self.reasons: dict[str, str] = {}
        """Why nodes were left out, by name."""

    def partition(self, exported_program: Any) -> Any:
        """As of any partitioner; a HostWarning names what stays on the host."""
        result = super().partition(exported_program)
        nodes = {node.name: node for node in exported_program.graph.nodes if computes(node)}
        left = [
            f"{operator_of(nodes[name])} {name!r}: {reason}"
            for name, reason in self.reasons.items()
            if name in nodes and operator_of(nodes[name]) not in BORDER
        ]
        if left:
            warnings.warn(f"these nodes stay on the host: {'; '.join(left)}", HostWarning, stacklevel=2)
        return result

    def _tag_module(self, module: Any, program: Any, reporter: Any, *rest: Any) -> Any:
        result = super()._tag_module(module, program, reporter, *rest)
        self.reasons |= rejections(reporter)
        return result
