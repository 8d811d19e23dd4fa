"""The Verilated RTL in this process."""
