"""Stage 1 of 6, legalize: any TOSA integer graph becomes one of operators that layers are made of.

In: a validated `ir.Graph`. Out: another one with the same outputs, made by the passes that `passes.py` lists; `verify`
checks it after each of them. May import: `cut`, `ir`, `machine`.
"""
