"""Stage 6 of 6, schedule: work becomes one instruction stream for units that run side by side.

In: `Blocks` of `Work`. Out: commands with the waits and signals that the order of memory accesses asks for, loads ahead
of their use, and the memory image in which addresses are settled. May import: the stages before it, `ir`, `machine`.
"""
