"""What the importer's handlers raise beside the errors of the IR."""

from tosaic.errors import UnsupportedError


class RunTimeValueError(UnsupportedError):
    """An input whose value decides shapes is computed at run time. `tensor` is its ONNX name."""

    def __init__(self, message: str, tensor: str) -> None:
        super().__init__(message)
        self.tensor = tensor
