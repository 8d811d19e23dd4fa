"""What stops an execution."""

import numpy as np

from tosaic.hw.isa import Error


class Fault(Exception):
    """A unit cannot execute an instruction; `code` is what the RTL reports, None when it would misbehave.
    `tensor_number` is that of compressed weights that are damaged."""

    def __init__(self, code: Error | None, reason: str, *, tensor_number: int | None = None):
        super().__init__(reason)
        self.code, self.tensor_number = code, tensor_number


class Diverged(Exception):
    """The samples of a batch differ in what only one can be executed for: a branch, parameters.

    `as_first` (bool [samples]) tells which of them are as the first one; these and the others can each be executed as a
    batch from the start."""

    def __init__(self, as_first: np.ndarray):
        super().__init__("the samples of the batch part ways")
        self.as_first = as_first
