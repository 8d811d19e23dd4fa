"""Stage 2 of 6, fuse: operators become layers, each of which is one pass of the machine.

In: a legalized graph. Out: `Layer` values in the order they run, each with its micro-program; for operators that only
move elements, `Move` and `IndexedMove` values that say from where to where. May import: `legalize`, `cut`, `ir`,
`machine`.
"""
