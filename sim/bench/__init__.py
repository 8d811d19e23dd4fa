"""The Verilated accelerator on cocotb's AXI models: every channel hesitates at random, every burst is checked."""

from .run import run_in_cocotb

__all__ = ["run_in_cocotb"]
