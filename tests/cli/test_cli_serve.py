"""`tosaic serve`: a device for others; `tosaic run --on URI`."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TINY = Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
MAIN = [sys.executable, "-u", "-c", "from tosaic.cli.app import main; main()"]
TLS = Path(__file__).parents[1] / "driver" / "tls"
pytestmark = pytest.mark.xdist_group("nano")


def tosaic(*arguments, **environment):
    return subprocess.run(
        [*MAIN, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@contextlib.contextmanager
def serving(*arguments, stderr=None):
    """The lines that `tosaic serve sim://nano` prints before it serves."""
    command = [*MAIN, "serve", "sim://nano", "--port", "0", *map(str, arguments)]
    environment = {k: v for k, v in os.environ.items() if k != "TOSAIC_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)
    assert process.stdout is not None
    lines = []
    while not lines or lines[-1] != "Ctrl-C ends it.\n":
        lines.append(process.stdout.readline())
        assert lines[-1], lines
    yield lines[:-1]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    process.stdout.close()


@pytest.fixture
def server():
    """(URI, token) of a served simulated machine."""
    with serving() as (first, second):
        place = re.fullmatch(r"sim://nano at (tcp://127\.0\.0\.1:\d+)\n", first)
        token = re.fullmatch(r"TOSAIC_TOKEN=(\S{24})\n", second)
        assert place and token
        yield place[1], token[1]


def test_serve_and_run(server, tmp_path):
    uri, token = server
    image = tmp_path / "image.npy"
    np.save(image, np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8))
    run = ("run", TINY, "--on", uri, "-i", f"image={image}", "--check")
    done = tosaic(*run, "--stats", tmp_path / "stats.json", TOSAIC_TOKEN=token)
    assert (done.returncode, done.stderr) == (0, "")
    assert f'"target": "{uri}"' in (tmp_path / "stats.json").read_text()
    refused = tosaic(*run, TOSAIC_TOKEN="wrong")
    assert refused.returncode == 4
    assert refused.stderr == (
        f"tosaic: error: {uri}: the board server refuses the token; `tosaic serve` shows the right one\n"
    )


def test_wrong_devices():
    done = tosaic("serve", "sim://nano", "--pty")
    assert done.returncode == 2 and "--pty is for virtual boards: give virtual://NAME" in done.stderr
    done = tosaic("serve", "serial:///dev/tosaic9")
    assert done.returncode == 4
    assert done.stderr.startswith("tosaic: error: serial:///dev/tosaic9: cannot be opened: ")
    done = tosaic("serve", "sim://nano", "--tls-key", "key.pem")
    assert done.returncode == 2 and "--tls-key is of no use without --tls-cert" in done.stderr
    done = tosaic("serve", "sim://nano", "--tls-cert", TINY)
    assert (done.returncode, done.stderr) == (
        1,
        f"tosaic: error: {TINY}: no certificate with its key: give both as PEM\n",
    )


def test_what_is_served_is_not_served_again(server):
    uri, token = server
    done = tosaic("serve", uri, TOSAIC_TOKEN=token)
    assert (done.returncode, done.stderr) == (
        1,
        f"tosaic: error: {uri}: this device is served already: give its clients that address\n",
    )


def test_tls_and_a_token_in_a_file(tmp_path):
    """Nothing crosses the network in the clear, and the token is in no list of processes."""
    image, secret = tmp_path / "image.npy", tmp_path / "token"
    np.save(image, np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8))
    options = ("--token-file", secret, "--tls-cert", TLS / "certificate.pem", "--tls-key", TLS / "key.pem")
    with serving(*options) as (first, second):
        uri = first.removeprefix("sim://nano at ").strip()
        assert re.fullmatch(r"tcps://127\.0\.0\.1:\d+", uri)
        assert second == f"The token is in {secret}: clients copy it, and add ?token_file=FILE.\n"
        assert secret.stat().st_mode & 0o777 == 0o600
        run = ("run", TINY, "-i", f"image={image}", "--check", "--on")
        done = tosaic(*run, f"{uri}?token_file={secret}&ca={TLS / 'certificate.pem'}")
        assert (done.returncode, done.stderr) == (0, "")
        done = tosaic(*run, f"{uri}?token_file={secret}")
        assert (done.returncode, done.stderr) == (
            4,
            f"tosaic: error: {uri}: no TLS with the board server: self-signed certificate\n",
        )
        secret.chmod(0o644)
        done = tosaic(*run, f"{uri}?token_file={secret}&ca={TLS / 'certificate.pem'}")
        assert (done.returncode, done.stderr) == (
            1,
            f"tosaic: error: {secret}: others can read this token: chmod 600 {secret}\n",
        )


@pytest.mark.parametrize("encrypted", [False, True])
def test_an_address_that_others_reach(encrypted, tmp_path):
    options = ("--tls-cert", TLS / "certificate.pem", "--tls-key", TLS / "key.pem") if encrypted else ()
    with (tmp_path / "errors").open("w+") as errors:
        with serving("--host", "0.0.0.0", *options, stderr=errors) as lines:
            port = lines[0].strip().rpartition(":")[2]
        errors.seek(0)
        wanted = (
            f"tosaic: warning: others on the network can read and change what 0.0.0.0:{port} and its clients say: "
            "use --tls-cert, or a tunnel to 127.0.0.1\n"
        )
        assert errors.read() == ("" if encrypted else wanted)


def test_a_token_in_the_address_is_refused_and_not_shown():
    for uri in (
        "tcp://s3cret@127.0.0.1:1862699",
        "tcps://s3cret@host?x=1",
        "tcp://a/s3cret@host",
        "tpc://s3cret@host",
    ):
        done = tosaic("run", TINY, "--random", "1", "--on", uri)
        assert done.returncode == 1 and "s3cret" not in done.stderr and "://***@" in done.stderr
    assert (
        "set TOSAIC_TOKEN, or name a file with ?token_file=FILE"
        in tosaic("run", TINY, "--random", "1", "--on", "tcp://s3cret@host").stderr
    )
