"""What the importer's handlers raise beside the errors of the IR."""

from tosaic.errors import UnsupportedError


class RunTimeValueError(UnsupportedError):
    """An input whose value decides shapes is computed at run time. `tensor` is its ONNX name."""

    def __init__(self, message: str, tensor: str) -> None:
        super().__init__(message)
        self.tensor = tensor


def first_line(error: Exception) -> str:
    """The first line of an error that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
