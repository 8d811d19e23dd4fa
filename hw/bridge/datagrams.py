"""The bridge's protocol in UDP: what gateware and driver share.

A datagram to UDP_PORT is a number, little endian, and one frame (hw/bridge/protocol.py). The number is a session's, and
a count in its lowest bits.
"""

UDP_PORT = 7626
"""Where boards listen."""
NUMBER_BYTES = 4
COUNT_BITS = 20
SESSION_BITS = 8 * NUMBER_BYTES - COUNT_BITS
