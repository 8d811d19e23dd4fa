"""The firmware of the micro-coded machine: an interpreter of the instruction set in C."""
