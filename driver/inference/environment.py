"""What onnxruntime's module tells and sets for all sessions."""

from .options import PROVIDER


def get_available_providers() -> list[str]:
    """The one provider there is."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """The one provider there is."""
    return [PROVIDER]


def get_device() -> str:
    """The kind of the device: TOSAIC, whatever the target."""
    return "TOSAIC"


def set_default_logger_severity(severity: int) -> None:
    """Does nothing: sessions log nothing, errors are raised."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Does nothing: sessions log nothing, errors are raised."""


def set_seed(seed: int) -> None:
    """Does nothing: no operator is random."""


def enable_telemetry_events() -> None:
    """Does nothing: nothing is sent anywhere."""


def disable_telemetry_events() -> None:
    """Does nothing: nothing is sent anywhere."""
