"""TOSA graphs to programs for the accelerator. `build.compile_graph` runs the stages, in folders of their own:

legalize -> fuse -> place -> tile -> emit -> schedule

A stage imports those before it and never one after it. All of them may import `ir` (graphs and the operator table),
`machine` (which unit runs an operator), `machine_numbers` (what was measured) and `cost` (which predicts cycles).
`program.Program` is the result. Importers, `numpy_in` (functions that are traced) and the quantizer make the graphs.
"""
