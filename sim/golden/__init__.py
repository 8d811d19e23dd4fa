"""The golden model: TOSA's operators in NumPy, integers bit for bit, written from the specification.

Every other target (emulator, RTL, board) is compared with it, so it shares no code with any of them: it
imports only `tosaic.compiler.ir`. One file per section of the specification's chapter 2; semantics are
those of 0.30 with its errata, in the 1.0 form of the operands. What floats need is in `floating`.
"""

from tosaic.sim.golden import (  # noqa: F401  (importing a section registers its kernels)
    activation,
    comparison,
    convolution,
    data_layout,
    data_nodes,
    elementwise_binary,
    elementwise_ternary,
    elementwise_unary,
    floating,
    image,
    pooling,
    reduction,
    scatter_gather,
    tensor,
    transpose_convolution,
    type_conversion,
)
from tosaic.sim.golden.custom import CustomKernel, register_custom
from tosaic.sim.golden.evaluator import evaluate
from tosaic.sim.golden.kernels import evaluate_operator, supported_operators
from tosaic.sim.golden.requirements import strictly

__all__ = [
    "CustomKernel",
    "evaluate",
    "evaluate_operator",
    "register_custom",
    "strictly",
    "supported_operators",
]
