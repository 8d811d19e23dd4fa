"""What a part says whose package is not installed; apart, so that who catches it imports no part."""


class PackageMissing(ImportError):
    """A package is not installed; the message is one line, and `extra` names the extra that brings it."""

    def __init__(self, name: str, extra: str) -> None:
        super().__init__(f"the Python package {name} is missing")
        self.extra = extra
