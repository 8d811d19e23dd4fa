"""The micro-coded machine: a small RISC-V core whose firmware executes the instruction set, for parts too small for
the array machine."""
