"""How the bridge reaches memory: byte by byte, since its line is far slower than any memory."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class BytePort(wiring.Signature):
    """Accesses to single bytes, from the requester's side.

    `request` and the other outputs are held until the cycle with `done`, in which `read_data` and `error` (no such
    byte: nothing happened) are valid. A request in the cycle after `done` is the next one.
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
