"""Stage 5 of 6, emit: plans become work for the units. The only stage that makes instructions.

In: a `GraphPlan`. Out: `Blocks` of `Work`: commands with the bytes that they read and write, in an order that is
correct when every command ends before the next one begins. May import: the stages before it, `cut`, `ir`,
`machine`.
"""
