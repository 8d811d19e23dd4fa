"""Device URIs: which transport, and its options."""

import os
import re
import ssl
import urllib.parse
from collections.abc import Mapping

from tosaic.driver.schemes import SCHEMES, Opener, register_scheme
from tosaic.errors import InputError
from tosaic.hw.bridge.datagrams import UDP_PORT
from tosaic.hw.config_text import get_config
from tosaic.hw.spelling import meant

from .base import Transport, Watch
from .bridge import BridgeTransport
from .in_process import RtlTransport
from .line import DEFAULT_BAUD, SerialLine
from .tcp import DEFAULT_PORT, TcpTransport
from .token import TOKEN_VARIABLE, read_token
from .udp import SocketPort, UdpTransport
from .uio import UioTransport

TOKEN_SCHEMES = ("tcp", "tcps")
HARDWARE_SCHEMES = ("serial", "udp", "uio", *TOKEN_SCHEMES)
"""What may be hardware, which is tested when it is opened."""
SELF_TEST, VERIFY, TWICE = "selftest", "verify", "twice"
"""The options that every scheme has: 0 or 1, a number of runs, 0 or 1."""
EXAMPLES = (
    "serial:///dev/ttyUSB1?baud=1000000, udp://192.168.1.50, uio:///dev/uio0?memory=/dev/udmabuf0, tcp://host:7626, "
    "virtual://ulx3s-85f"
)


def _serial(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    baud = options.get("baud", str(DEFAULT_BAUD))
    if not baud.isdigit() or int(baud) < 1:
        raise InputError(f"serial://{uri.path}: baud must be a positive number, not {baud!r}")
    transport = BridgeTransport(SerialLine(uri.path, int(baud)), f"serial://{uri.path}", _boots(options))
    # At a pseudo-terminal are simulated boards.
    transport.has_real_clock = not os.path.realpath(uri.path).startswith("/dev/pts/")
    return transport


def _boots(options: Mapping[str, str]) -> bool:
    """Whether the board boots from flash."""
    if (flash := options.get("flash", "0")) not in ("0", "1"):
        raise InputError(f"flash must be 1 for a board that boots from flash, or 0, not {flash!r}")
    return flash == "1"


def _udp(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    shown = f"udp://{uri.netloc}"
    try:
        port = uri.port or UDP_PORT
    except ValueError:
        raise InputError(f"{shown}: the port must be a number below 65536") from None
    if not uri.hostname or uri.path.strip("/"):
        raise InputError(f"{shown}: write udp://HOST or udp://HOST:PORT")
    transport = UdpTransport(SocketPort(uri.hostname, port), shown, _boots(options))
    # No board is inside this computer, but a simulated one may be.
    transport.has_real_clock = not uri.hostname.startswith(("127.", "localhost", "::1"))
    return transport


def _uio(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    clock_hz = None
    if "clock" in options:
        try:
            clock_hz = round(float(options["clock"]))
        except (ValueError, OverflowError):
            clock_hz = 0
        if not 0 < clock_hz < 1 << 32:
            raise InputError(
                f"uio://{uri.path}: clock is what the bitstream was made for, in Hz: write clock=50e6, not "
                f"{options['clock']!r}"
            )
    return UioTransport(uri.path, options.get("memory", "/dev/udmabuf0"), clock_hz=clock_hz)


def _tcp(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    shown = f"{uri.scheme}://{uri.netloc}"
    try:
        port = uri.port or DEFAULT_PORT
    except ValueError:
        raise InputError(f"{shown}: the port must be a number below 65536") from None
    if not uri.hostname or uri.path.strip("/"):
        raise InputError(f"{shown}: write {uri.scheme}://HOST:PORT")
    token = read_token(options["token_file"]) if "token_file" in options else os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise InputError(
            f"{shown}: the board server wants its token: set {TOKEN_VARIABLE}, or name a file with ?token_file=FILE"
        )
    return TcpTransport(uri.hostname, port, token, _tls(shown, options) if uri.scheme == "tcps" else None)


def _tls(shown: str, options: Mapping[str, str]) -> ssl.SSLContext:
    """Trusts the certificates in the file `ca`, else those that this computer trusts."""
    try:
        return ssl.create_default_context(cafile=options.get("ca"))
    except OSError as error:
        raise InputError(f"{shown}: {options.get('ca')} has no certificates: {error.strerror}") from None


def _sim(uri: urllib.parse.SplitResult, options: Mapping[str, str]) -> Transport:
    try:
        return RtlTransport(get_config(uri.netloc))
    except ValueError as error:
        raise InputError(f"{uri.geturl()}: {error}") from None


register_scheme("serial", _serial, frozenset({"baud", "flash"}))
register_scheme("udp", _udp, frozenset({"flash"}))
register_scheme("uio", _uio, frozenset({"memory", "clock"}))
register_scheme("tcp", _tcp, frozenset({"token_file"}))
register_scheme("tcps", _tcp, frozenset({"token_file", "ca"}))
register_scheme("sim", _sim)


def masked(uri: str) -> str:
    """A URI for errors: what is in front of an @ may be a token."""
    scheme = uri.partition(":")[0]
    _, at, place = uri.rpartition("@")
    if not at or (scheme in SCHEMES and scheme not in TOKEN_SCHEMES):
        return uri
    start = re.match(r"[a-z0-9+]*://", uri)
    return f"{start[0] if start else ''}***@{place}"


def check_uri(uri: str) -> None:
    """Raises InputError unless the scheme and the options of a device URI are known."""
    _parse(uri)


def wants_self_test(uri: str) -> bool:
    """Whether the device is tested when it is opened: as the URI says, else hardware is. A test takes the place of
    what a board has booted from flash."""
    _, parts, options = _parse(uri)
    if SELF_TEST in options:
        return _is_on(uri, options, SELF_TEST, "to test the device when it is opened")
    return parts.scheme in HARDWARE_SCHEMES and options.get("flash") != "1"


def watch_of(uri: str) -> Watch:
    """How closely the device is watched, as the URI says."""
    _, _, options = _parse(uri)
    runs = options.get(VERIFY, "0")
    if not runs.isascii() or not runs.isdigit():
        raise InputError(
            f"{masked(uri)}: {VERIFY} is the number of runs after each of which the program is compared in the "
            f"machine's memory, or 0, not {runs!r}"
        )
    return Watch(int(runs), _is_on(uri, options, TWICE, "to do every run twice"))


def _is_on(uri: str, options: Mapping[str, str], name: str, what: str) -> bool:
    wanted = options.get(name, "0")
    if wanted not in ("0", "1"):
        raise InputError(f"{masked(uri)}: {name} must be 1 {what}, or 0, not {wanted!r}")
    return wanted == "1"


def _parse(uri: str) -> tuple[Opener, urllib.parse.SplitResult, dict[str, str]]:
    try:
        parts = urllib.parse.urlsplit(uri)
    except ValueError as error:
        raise InputError(f"{masked(uri)}: not a device URI: {error}") from None
    if parts.scheme not in SCHEMES:
        known_schemes = ", ".join(sorted(SCHEMES))
        raise InputError(
            f"{masked(uri)}: there is no transport {parts.scheme!r}; {meant(parts.scheme, SCHEMES)}there are "
            f"{known_schemes}: {EXAMPLES}"
        )
    if parts.scheme in TOKEN_SCHEMES and "@" in uri:
        raise InputError(
            f"{masked(uri)}: leave the token out of the address, which others can read in the list of processes: "
            f"set {TOKEN_VARIABLE}, or name a file with ?token_file=FILE"
        )
    opener, own = SCHEMES[parts.scheme]
    known = own | {SELF_TEST, VERIFY, TWICE}
    options = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise InputError(
                f"{masked(uri)}: there is no option {name!r}; {parts.scheme} has {', '.join(sorted(known))}"
            )
    return opener, parts, options


def open_transport(uri: str) -> Transport:
    """Opens the device at a URI; raises InputError for a wrong URI, DeviceError when nothing answers."""
    opener, parts, options = _parse(uri)
    return opener(parts, options)
