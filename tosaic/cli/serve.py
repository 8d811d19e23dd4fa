"""`tosaic serve`: a board for others, or a virtual board at a pseudo-terminal."""

import os
import secrets
import signal
import threading
from typing import Annotated

import typer

from tosaic.cli import options


def serve(
    device: Annotated[
        str,
        typer.Argument(
            metavar="DEVICE",
            help="A device's URI: serial:///dev/ttyUSB1, uio:///dev/uio0, virtual://ulx3s-85f, sim://small.",
        ),
    ],
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; what it hears is not encrypted.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="TCP port; 0 takes a free one.")
    ] = 7626,
    pty: Annotated[
        bool,
        typer.Option(
            "--pty", help="Of a virtual board: no server but a pseudo-terminal, to be used as a serial port."
        ),
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Serve a device to others, in turn, until Ctrl-C. The token is TOSAIC_TOKEN, or made up and printed."""
    if pty:
        _serve_terminal(device)
        return
    from tosaic.driver.server import BoardServer
    from tosaic.driver.transports import open_transport
    from tosaic.driver.transports.tcp import TOKEN_VARIABLE

    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(18)
    transport = open_transport(device)
    try:
        server = BoardServer(transport, token, host, port)
        print(f"{device} at tcp://{server.address[0]}:{server.address[1]}")
        if not os.environ.get(TOKEN_VARIABLE):
            print(f"{TOKEN_VARIABLE}={token}")
        _until_stopped()
        server.close()
    finally:
        transport.close()


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
    """Until Ctrl-C or the end of the process."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    print("Ctrl-C ends it.", flush=True)
    stop.wait()
