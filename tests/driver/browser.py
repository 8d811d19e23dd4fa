"""What a page looks like in a browser without a window."""

import pathlib
import shutil
import subprocess

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def colours_of(page: pathlib.Path, folder: pathlib.Path) -> set[tuple[int, int, int]]:
    """Returns the colours of the page's picture, which is written to `folder`. The test is skipped where there is no
    browser."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip(f"no browser is installed, looked for {', '.join(_NAMES)}")
    image = pytest.importorskip("PIL.Image")
    shot = folder / "shot.png"
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder / 'profile'}",
        "--window-size=1200,2600", f"--screenshot={shot}", page.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    with image.open(shot) as picture:
        return {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}
