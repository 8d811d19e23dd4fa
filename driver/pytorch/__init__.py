"""PyTorch modules on the accelerator: `from_torch` quantizes a module and gives a session.

`quantized` chooses the road from a module to integers, `calibration` cuts the samples, `session` takes and gives what
the module's owner knows: reals where the machine has integers.
"""

from tosaic.driver.pytorch.from_torch import from_torch
from tosaic.driver.pytorch.session import TorchSession

__all__ = ["TorchSession", "from_torch"]
