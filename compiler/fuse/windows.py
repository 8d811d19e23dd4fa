"""What a convolution hands to its micro-program."""

from tosaic.compiler.fuse.expression import ArrayResult, Node
from tosaic.hw.isa import Op


def array_value(bias: bool) -> Node:
    """The accumulators, perhaps plus a bias, an int32 (clause 2.3.3: overflow is unpredictable, so the width does
    not matter)."""
    return Node(Op.MOV, ArrayResult(), bias=bias, wrap32=True)
