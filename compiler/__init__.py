"""TOSA graphs to programs for the accelerator: `build.compile_graph`, `program.Program`, and the IR in `ir`."""
