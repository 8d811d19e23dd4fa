"""Lab 2: a layer of your own, from operators to cycles. Fill in `smoothed`; `-k lab2` grades it.

Then see it compute: `python examples/course/lab2.py lab2.tosa`, and on the RTL, with a waveform for GTKWave or Surfer,
`tosaic run lab2.tosa --random 1 --on sim --config nano --check --wave lab2.vcd`.
"""

import sys

from tosaic.compiler.ir import DType, Graph, GraphBuilder, write_tosa

KERNEL = ((1, 2, 1), (2, 4, 2), (1, 2, 1))
"""Weights of the pixel and its neighbours; their sum is 16."""


def smoothed() -> Graph:
    """An image `image` int8 [1, 16, 16, 1] to one of the same size and type: of each pixel and its neighbours the sum
    by KERNEL, pixels beyond the border being 0, divided by 16 and rounded, halves up.

    CONV2D gives int32 sums; RESCALE multiplies by `multiplier / 2 ** shift`, rounds and gives int8 again.
    docs/operators.md has their operands. The compiler makes one layer of both.
    """
    build = GraphBuilder("smoothed")
    image = build.input("image", (1, 16, 16, 1), DType.INT8)
    # Yours: CONV2D and RESCALE in place of the copy.
    build.output(build.add("IDENTITY", [image]))
    return build.finish()


if __name__ == "__main__":
    write_tosa(smoothed(), sys.argv[1])
