"""The board server: one device, many clients in turn, over TCP.

`server` listens and admits, `connections` bounds who is connected, `client` reads one client's requests, `turn` says
whose turn it is, `board` keeps the clients of the device apart, and `erase` empties the machine between them.
May import the driver's transports and what they may import; nothing of the driver imports it.
"""

from .limits import ServerLimits
from .server import BoardServer

__all__ = ["BoardServer", "ServerLimits"]
