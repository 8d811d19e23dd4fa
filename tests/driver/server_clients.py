"""Clients of a board server, word by word, and a server of a small machine."""

import contextlib
import socket
import time

from tosaic.driver.server import BoardServer, ServerLimits
from tosaic.driver.transports import RtlTransport, TcpTransport
from tosaic.driver.transports.wire import (
    FIELDS,
    GREETING,
    NONCE_BYTES,
    PROTOCOL_VERSION,
    Request,
    proof,
    receive_exactly,
    receive_message,
    send_message,
)
from tosaic.hw.config_text import get_config

TOKEN = "not a secret"


def connect(server, token=TOKEN):
    return TcpTransport(*server.address, token)


@contextlib.contextmanager
def limited(device=None, **limits):
    """A server with limits of its own."""
    own = device or RtlTransport(get_config("nano"), memory_bytes=1 << 20)
    made = BoardServer(own, TOKEN, limits=ServerLimits(**limits))
    yield made
    made.close()
    own.close()


def soon():
    return time.monotonic() + 10


def all_gone(server):
    """The server's threads notice within moments that their clients went."""
    for _ in range(1000):
        if not server.clients:
            return True
        time.sleep(0.01)
    return False


def admitted(server, address="127.0.0.1"):
    connection = socket.create_connection(server.address, source_address=(address, 0))
    connection.settimeout(10)
    nonce = receive_exactly(connection, len(GREETING) + NONCE_BYTES, soon())[len(GREETING) :]
    connection.sendall(proof(TOKEN, nonce))
    assert receive_exactly(connection, 1, soon()) == b"\x01"
    return connection


def greeted(server, address="127.0.0.1"):
    connection = admitted(server, address)
    send_message(connection, bytes([Request.HELLO]) + FIELDS[Request.HELLO].pack(PROTOCOL_VERSION), soon())
    assert answer(connection)[0] == 0
    return connection


def answer(connection):
    return receive_message(connection, soon())


def asking(server, address="127.0.0.1"):
    """A connection from an address, which has asked for the device and reads no answer yet."""
    connection = greeted(server, address)
    send_message(connection, bytes([Request.ACQUIRE]) + FIELDS[Request.ACQUIRE].pack(60), soon())
    return connection
