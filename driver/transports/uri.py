"""Device URIs: which transport, and its options."""

import os
import urllib.parse
from collections.abc import Mapping

from tosaic.driver.schemes import SCHEMES, Opener, register_scheme
from tosaic.errors import InputError
from tosaic.hw.config import get_config

from .base import Transport
from .bridge import BridgeTransport
from .in_process import RtlTransport
from .line import DEFAULT_BAUD, SerialLine
from .tcp import DEFAULT_PORT, TOKEN_VARIABLE, TcpTransport
from .uio import UioTransport

EXAMPLES = "serial:///dev/ttyUSB1?baud=1000000, uio:///dev/uio0?memory=/dev/udmabuf0, tcp://host:7626"


def _serial(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    baud = options.get("baud", str(DEFAULT_BAUD))
    if not baud.isdigit() or int(baud) < 1:
        raise InputError(f"serial://{uri.path}: baud must be a positive number, not {baud!r}")
    return BridgeTransport(SerialLine(uri.path, int(baud)), f"serial://{uri.path}")


def _uio(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    return UioTransport(uri.path, options.get("memory", "/dev/udmabuf0"))


def _tcp(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    try:
        port = uri.port or DEFAULT_PORT
    except ValueError:
        raise InputError(f"{uri.geturl()}: the port must be a number below 65536") from None
    if not uri.hostname:
        raise InputError(f"{uri.geturl()}: write tcp://HOST:PORT")
    token = uri.username or os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise InputError(
            f"{uri.geturl()}: the board server wants its token: set {TOKEN_VARIABLE}, or write tcp://TOKEN@HOST:PORT"
        )
    return TcpTransport(uri.hostname, port, token)


def _sim(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    try:
        return RtlTransport(get_config(uri.netloc))
    except ValueError as error:
        raise InputError(f"{uri.geturl()}: {error}") from None


register_scheme("serial", _serial, frozenset({"baud"}))
register_scheme("uio", _uio, frozenset({"memory"}))
register_scheme("tcp", _tcp)
register_scheme("sim", _sim)


def check_uri(uri: str) -> None:
    """InputError unless the scheme and the options of a device URI are known."""
    _parse(uri)


def _parse(uri: str) -> tuple[Opener, urllib.parse.SplitResult, dict[str, str]]:
    try:
        parts = urllib.parse.urlsplit(uri)
    except ValueError as error:
        raise InputError(f"{uri}: not a device URI: {error}") from None
    if parts.scheme not in SCHEMES:
        raise InputError(
            f"{uri}: there is no transport {parts.scheme!r}; there are {', '.join(sorted(SCHEMES))}: {EXAMPLES}"
        )
    opener, known = SCHEMES[parts.scheme]
    options = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise InputError(
                f"{uri}: there is no option {name!r}; {parts.scheme} has {', '.join(sorted(known)) or 'none'}"
            )
    return opener, parts, options


def open_transport(uri: str) -> Transport:
    """The device at a URI; InputError for a wrong URI, DeviceError when nothing answers."""
    opener, parts, options = _parse(uri)
    return opener(parts, options)
