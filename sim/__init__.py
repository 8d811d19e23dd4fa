"""Executors of programs: the functional emulator and the Verilated RTL, with one kind of result."""
