"""The schemes of device URIs. The registry imports no transport, so that registering one costs nothing."""

import urllib.parse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tosaic.driver.transports.base import Transport

Opener = Callable[[urllib.parse.SplitResult, Mapping[str, str]], "Transport"]
"""Opens the device at a URI with these options."""
SCHEMES: dict[str, tuple[Opener, frozenset[str]]] = {}
"""By scheme: how its URIs are opened, and the options that they may have."""


def register_scheme(scheme: str, opener: Opener, options: frozenset[str] = frozenset()) -> None:
    """Let `open_transport` open URIs of another scheme."""
    SCHEMES[scheme] = (opener, options)
