"""The Verilated accelerator on cocotb's AXI models: every channel hesitates at random, every burst is checked."""

from .run import CocotbBench

__all__ = ["CocotbBench"]
