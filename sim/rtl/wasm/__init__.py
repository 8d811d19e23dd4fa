"""The Verilated RTL as WebAssembly: it needs no C++ compiler where it is made before, and runs the same cycles."""
