"""How long and how many: what a board server grants."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ServerLimits:
    """Times are in seconds and hold for the whole of what they name, not for each byte of it."""

    handshake_seconds: float = 5.0
    """Seconds from the connection to the proof of the token, TLS included."""
    idle_seconds: float = 600.0
    """A client without the device that says nothing for this time is dropped. Also the longest wait for the device."""
    hold_seconds: float = 60.0
    """One that has the device, on which others may wait, loses it. Also the longest time from a request's first byte
    to its last."""
    turn_seconds: float = 600.0
    """The longest time that a client has the device."""
    run_seconds: float = 300.0
    """The longest run of a program."""
    strangers: int = 128
    """Connections that have not proved the token yet; the oldest has to go for a new one."""
    strangers_per_address: int = 32
    clients: int = 64
    """Connections that have; one more is turned away."""
    clients_per_address: int = 32
