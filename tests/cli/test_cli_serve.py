"""`tosaic serve`: a device for others; `tosaic run --on URI`."""

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
pytestmark = pytest.mark.xdist_group("nano")


def tosaic(*arguments, **environment):
    return subprocess.run(
        [*MAIN, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def server():
    """(URI, token) of a served simulated machine."""
    command = [*MAIN, "serve", "sim://nano", "--port", "0"]
    environment = {k: v for k, v in os.environ.items() if k != "TOSAIC_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    place = re.fullmatch(r"sim://nano at (tcp://127\.0\.0\.1:\d+)\n", process.stdout.readline())
    token = re.fullmatch(r"TOSAIC_TOKEN=(\S{24})\n", process.stdout.readline())
    assert place and token
    assert process.stdout.readline() == "Ctrl-C ends it.\n"
    yield place[1], token[1]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    process.stdout.close()


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
