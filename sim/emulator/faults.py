"""What stops an execution."""

from tosaic.hw.isa import Error


class Fault(Exception):
    """A unit cannot execute an instruction; `code` is what the RTL reports, None when it would misbehave."""

    def __init__(self, code: Error | None, reason: str):
        super().__init__(reason)
        self.code = code
