"""The serial bridge: registers and memory of a board from a UART, in frames with CRC and sequence number.

The gateware is in `bridge`, what it shares with the driver in `protocol` and `frames`. Nothing is imported
here, so that the driver runs without Amaranth.
"""
