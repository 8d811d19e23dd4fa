"""Cores: splits a network over the cores of a machine.

In: a legalized graph. Out: a `CoresPlan`: segments of consecutive layers, for each the boxes of its results that each
core computes, and the plan of each core's share, an ordinary graph with its inputs and results in external memory. Then
one instruction stream per core, with tokens from the STORE that makes rows to the LOAD that reads them.

What is read here in order: `share` (the graph of one core's share), `network` (layers and what passes from one to the
next), `grids` (ways to cut results), `share_plan` (places and tiles of a share), `choice` (segments and cuts by
predicted cycles), `cores_plan` (all of it), `explain_segments` (that as text), `early_constants` (loads before a wait),
`emission` (instructions and tokens).

A machine of one core never comes here. May import all stages, `search`, `cut`, `ir` and `machine`.
"""
