"""Stage 3 of 6, place: tensors, parameters and weights get addresses.

In: layers, one after the other. Out: `Placement`, `Buffer` and `Address` values; what constants external memory holds,
and how weights lie in it. Nothing here makes instructions. May import: `fuse`, `legalize`, `cut`, `ir`, `machine`.
"""
