"""The functional emulator: executes programs in program order with NumPy and predicts their cycles.

What a unit does stands in `array.py`, `vector.py` and `transfer.py`; how long it takes stands beside it, in
`array_timing.py`, `vector_timing.py` and `transfer_timing.py`, which `timing.py` joins to a machine.
"""

from .external_memory import ExternalBytes
from .faults import Diverged
from .machine import Emulator
from .stepped import SteppedCore

__all__ = ["Diverged", "Emulator", "ExternalBytes", "SteppedCore"]
