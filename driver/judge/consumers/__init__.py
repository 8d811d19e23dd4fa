"""Who computes graphs: a file for each kind of consumer, registered by name in `consumer.MADE`.

`programs` runs other programs, `in_process` keeps libraries in a process apart: what a consumer dies of is its verdict.
"""

from . import command, in_process, iree, libraries, reference_model  # noqa: F401 (importing registers)
from .consumer import MADE, Consumer, consumer_of

__all__ = ["MADE", "Consumer", "consumer_of"]
