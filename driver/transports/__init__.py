"""Ways to a machine: registers, memory and its interrupt, whatever lies between."""

from tosaic.driver.schemes import register_scheme

from .base import RegisterTransport, Transport, Unreachable, Watch
from .bridge import BridgeTransport
from .in_process import RtlTransport
from .line import Line
from .tcp import TcpTransport
from .udp import UdpLine, UdpTransport
from .uio import UioTransport
from .uri import open_transport

__all__ = [
    "BridgeTransport",
    "Line",
    "RegisterTransport",
    "RtlTransport",
    "TcpTransport",
    "Transport",
    "UdpLine",
    "UdpTransport",
    "UioTransport",
    "Unreachable",
    "Watch",
    "open_transport",
    "register_scheme",
]
