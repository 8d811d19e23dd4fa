"""Stage 4 of 6, tile: layers are cut into pieces that fit the activation memory.

In: layers and their placements. Out: a `GraphPlan` of `LayerWork` values: everything that emitting a layer takes, and
`cost.py` predicts the cycles of it. Nothing here makes instructions. May import: `place`, `fuse`, `legalize`, `cut`,
`ir`, `machine`.
"""
