"""The serial bridge: registers and memory of a board from a UART, in frames with CRC and sequence number."""

from .bridge import Bridge
from .byte_port import BytePort
from .uart import UartReceiver, UartTransmitter

__all__ = ["Bridge", "BytePort", "UartReceiver", "UartTransmitter"]
