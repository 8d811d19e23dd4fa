"""Several cores on one memory port: tokens between them, the port that they share, and one report of all.

In go the cores' memory channels, tokens and reports (hw/core.py), out go those of the machine. A machine of one core
has none of it. Imports the interfaces, and signatures of the sequencer and the control port.
"""

from .read_share import ReadShare
from .reports import Reports
from .token_exchange import TokenExchange
from .write_share import WriteShare

__all__ = ["ReadShare", "Reports", "TokenExchange", "WriteShare"]
