"""What stops an execution."""

from tosaic.hw.isa import Error


class Fault(Exception):
    """A unit cannot execute an instruction; `code` is what the RTL reports, None when it would misbehave.
    `tensor_number` is that of compressed weights that are damaged."""

    def __init__(self, code: Error | None, reason: str, *, tensor_number: int | None = None):
        super().__init__(reason)
        self.code, self.tensor_number = code, tensor_number
