"""`tosaic serve`: a board for others, or a virtual board at a pseudo-terminal."""

import ipaddress
import os
import pathlib
import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from tosaic.cli import options
from tosaic.errors import InputError

if TYPE_CHECKING:
    import ssl

    from tosaic.driver.transports import RegisterTransport

TOKEN_FILE = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File of the token, made if there is none (default: TOSAIC_TOKEN, or a new token).",
    ),
]
CERTIFICATE = Annotated[
    pathlib.Path | None,
    typer.Option("--tls-cert", metavar="FILE", help="Encrypt, with this certificate (PEM)."),
]
KEY = Annotated[
    pathlib.Path | None,
    typer.Option("--tls-key", metavar="FILE", help="The certificate's private key, if not in its file."),
]
LONGEST_TURN = Annotated[
    float,
    typer.Option(
        "--longest-turn", metavar="SECONDS", min=1, help="Seconds that a client may have the device."
    ),
]
LONGEST_RUN = Annotated[
    float, typer.Option("--longest-run", metavar="SECONDS", min=1, help="Seconds that a program may run.")
]


def serve(
    device: Annotated[
        str,
        typer.Argument(
            metavar="DEVICE",
            help="A device's URI: serial:///dev/ttyUSB1, uio:///dev/uio0, virtual://ulx3s-85f, sim://small.",
        ),
    ],
    *,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; without --tls-cert nothing is encrypted.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")
    ] = 7626,
    token_file: TOKEN_FILE = None,
    tls_cert: CERTIFICATE = None,
    tls_key: KEY = None,
    longest_turn: LONGEST_TURN = 600.0,
    longest_run: LONGEST_RUN = 300.0,
    pty: Annotated[
        bool,
        typer.Option(
            "--pty",
            help="Open a pseudo-terminal to a virtual board, to be used as a serial port, and no server.",
        ),
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Serve a device to others, in turn, until Ctrl-C. The token is TOSAIC_TOKEN, or made up and printed."""
    if pty:
        _serve_terminal(device)
        return
    from tosaic.driver.server import BoardServer, ServerLimits

    tls = _tls(tls_cert, tls_key)
    token, told = _token(token_file)
    limits = ServerLimits(turn_seconds=longest_turn, run_seconds=longest_run)
    transport = _open(device)
    try:
        _test(transport, device)
        server = BoardServer(transport, token, host, port, tls=tls, limits=limits)
        try:
            server.check()
            print(f"{device} at {'tcps' if tls else 'tcp'}://{server.address[0]}:{server.address[1]}")
            if told:
                print(told)
            if tls is None and not _is_loopback(host):
                print(
                    f"tosaic: warning: others on the network can read and change what {host}:{server.address[1]} "
                    "and its clients say: use --tls-cert, or a tunnel to 127.0.0.1",
                    file=sys.stderr,
                )
            _until_stopped()
        finally:
            server.close()
    finally:
        transport.close()


def _open(device: str) -> "RegisterTransport":
    from tosaic.driver.transports import RegisterTransport, open_transport

    transport = open_transport(device)
    if not isinstance(transport, RegisterTransport):
        transport.close()
        raise InputError(f"{transport.name}: this device is served already: give its clients that address")
    return transport


def _test(transport: "RegisterTransport", device: str) -> None:
    """Once for all clients, who cannot compare the machine's clock with their own."""
    from tosaic.driver.device import Device
    from tosaic.driver.transports.uri import wants_self_test

    Device(transport, wants_self_test(device)).configuration()


def _token(file: pathlib.Path | None) -> tuple[str, str]:
    """The token, and the line that tells who starts the server where clients find it."""
    from tosaic.driver.transports.token import TOKEN_VARIABLE, make_token_file, new_token

    if file is not None:
        return make_token_file(file), f"The token is in {file}: clients copy it, and add ?token_file=FILE."
    if token := os.environ.get(TOKEN_VARIABLE):
        return token, ""
    token = new_token()
    return token, f"{TOKEN_VARIABLE}={token}"


def _tls(certificate: pathlib.Path | None, key: pathlib.Path | None) -> "ssl.SSLContext | None":
    if certificate is None:
        if key is not None:
            raise typer.BadParameter("--tls-key is of no use without --tls-cert")
        return None
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        reason = error.strerror if isinstance(error, FileNotFoundError) else "no certificate with its key"
        files = f"{certificate}, {key}" if key else f"{certificate}"
        raise InputError(f"{files}: {reason}: give both as PEM") from None
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _serve_terminal(device: str) -> None:
    if not device.startswith("virtual://"):
        raise typer.BadParameter("--pty is for virtual boards: give virtual://NAME")
    from tosaic.sim.board import PseudoTerminal
    from tosaic.virtual import open_board

    terminal = PseudoTerminal(open_board(device.removeprefix("virtual://")))
    print(f"{device} at serial://{terminal.path}")
    _until_stopped()
    terminal.close()


def _until_stopped() -> None:
    """Waits until Ctrl-C or the end of the process."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    print("Ctrl-C ends it.", flush=True)
    stop.wait()
