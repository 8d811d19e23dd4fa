"""The schemes of device URIs. The registry imports no transport, so that registering one costs nothing."""

import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

Opener = Callable[[urllib.parse.SplitResult, Mapping[str, str]], Any]
"""Opens the device at a URI with these options: a `Transport`, which this module must not import."""
SCHEMES: dict[str, tuple[Opener, frozenset[str]]] = {}
"""How URIs are opened, and the options that they may have, by scheme."""


def register_scheme(scheme: str, opener: Opener, options: frozenset[str] = frozenset()) -> None:
    """Let `open_transport` open URIs of another scheme."""
    SCHEMES[scheme] = (opener, options)
