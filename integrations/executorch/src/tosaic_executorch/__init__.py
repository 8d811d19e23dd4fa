"""ExecuTorch's back end of the Tosaic NPU.

`lower` makes an edge program of an exported one, with its parts compiled for the accelerator, and tells where each node
runs. `tosaic_executorch.runtime` lets ExecuTorch's runtime run such programs.
"""

from tosaic_executorch.backend import TosaicBackend
from tosaic_executorch.lowering import Lowered, lower
from tosaic_executorch.partitioner import HostWarning, TosaicPartitioner
from tosaic_executorch.report import NodePlace, Report, report

__all__ = [
    "HostWarning",
    "Lowered",
    "NodePlace",
    "Report",
    "TosaicBackend",
    "TosaicPartitioner",
    "lower",
    "report",
]
