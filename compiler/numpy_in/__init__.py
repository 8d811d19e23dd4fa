"""NumPy in: a function written in NumPy becomes a TOSA graph that computes its integers.

In comes a function with shapes and types; out comes a graph that `ir.validate` accepts, or one error line that begins
with the line of the function. It stands beside the importers, before the first stage, and may import the IR and errors;
golden imports nothing of it, and so stays an oracle of it.

`functions` runs the function, `namespace` replaces what it reads, `tracer` is the array that it sees, with `intervals`
of proved values and `words` of 64 bits; `recording` writes operators. Rules are registered by NumPy function: `ufuncs`,
`division`, `moves`, `indexing` with `masked`, `reductions`, `products`, `composed`. `control` has loops and fixed-point
scaling.
"""

from tosaic.compiler.numpy_in.control import rescale, while_loop
from tosaic.compiler.numpy_in.declared import DeclaredFunction
from tosaic.compiler.numpy_in.functions import Traced, TracedArgument, argument_of, trace, trace_function

__all__ = [
    "TracedArgument",
    "DeclaredFunction",
    "Traced",
    "argument_of",
    "rescale",
    "trace",
    "trace_function",
    "while_loop",
]
