"""How the bridge reaches memory: byte by byte, since its line is far slower than any memory."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class BytePort(wiring.Signature):
    """Accesses to single bytes, from the requester's side. A request in the cycle after `done` is the next one.

    Ports:
        request (1, out): asks for an access; it and the outputs below are held until the cycle with `done`.
        write (1, out): the access is a write.
        address (32, out): byte address.
        write_data (8, out): what to write.
        done (1, in): the access ends in this cycle.
        read_data (8, in): with `done`: the byte read.
        error (1, in): with `done`: there is no such byte; nothing happened.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "request": Out(1),
                "write": Out(1),
                "address": Out(32),
                "write_data": Out(8),
                "done": In(1),
                "read_data": In(8),
                "error": In(1),
            }
        )
