"""The one place that tells how an extra is installed, and that nothing else tells another way."""

import email
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tosaic.cli import app
from tosaic.install import install_command

ROOT = pathlib.Path(__file__).parent.parent
FOLDERS = (
    *("boards", "compiler", "driver", "hw", "nnr", "sim", "tosaic"),
    *("bench", "docs", "examples", "integrations", ".github", ".ci"),
)
FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile")
KINDS = (".py", ".md", ".yml", ".html", ".toml", ".ipynb", "")
"""Suffixes of files that people read; Containerfile has none."""
ELSEWHERE = re.compile(r"pip install (?:-\w+ )*['\"]?tosaic\b(?!-)")
"""Tells pip to ask an index for a name that is not ours yet."""


EXTRAS = re.compile(r"pip install (?:-[-\w]+ )*['\"]?[\w./]*\[([\w,-]+)\]")
"""The extras of an install line."""
ADVISED = re.compile(r"install_command\('?\"?([\w-]+)'?\"?\)")
MISSED = re.compile(r"(?:package|module) (\w+)[^{\n]*: \{install_command\('([\w-]+)'\)")
"""A message that names what is missing, and the extra that brings it."""
BROUGHT = {"LiteRT": "ai-edge-litert", "Optuna": "optuna", "Dask": "distributed"}
"""Packages that messages call by another name."""


def texts():
    """All files of the product and of its documents that may tell how to install it."""
    paths = [ROOT / name for name in FILES]
    for folder in FOLDERS:
        found = (ROOT / folder).rglob("*")
        paths += [
            path
            for path in found
            if path.suffix in KINDS and path.is_file() and "__pycache__" not in path.parts
        ]
    return paths


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The metadata of a wheel of this checkout: requirements by extra, `None` for the base."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / "tosaic").mkdir()
    (folder / "tosaic/__init__.py").touch()
    script = "from setuptools import build_meta; print(build_meta.prepare_metadata_for_build_wheel('.'))"
    done = subprocess.run(
        (sys.executable, "-c", script), cwd=folder, capture_output=True, text=True, check=True
    )
    metadata = email.message_from_string((folder / done.stdout.split()[-1] / "METADATA").read_text())
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist")]
    found = {None: [each for each in needed if each.marker is None]}
    for extra in metadata.get_all("Provides-Extra"):
        found[extra] = [
            each for each in needed if each.marker is not None and each.marker.evaluate({"extra": extra})
        ]
    return found


def brought(wheel, extra):
    """The requirements of an extra, of the extras that it names, and of the base."""
    found = {canonicalize_name(each.name): each for each in wheel[None]}
    for each in wheel[extra]:
        if each.name == "tosaic":
            for own in each.extras:
                found |= brought(wheel, own)
        else:
            found[canonicalize_name(each.name)] = each
    return found


def test_every_install_line_asks_for_extras_that_the_wheel_has(wheel):
    lines = {
        (str(path.relative_to(ROOT)), extra)
        for path in texts()
        for text in [path.read_text()]
        for extras in (*EXTRAS.findall(text), *ADVISED.findall(text))
        for extra in extras.split(",")
    }
    assert len(lines) > 50
    # `install_command(extra)` takes a family's extra: tests/cli/test_cli_boards.py follows those.
    assert {line for line in lines if line[1] not in wheel} <= {("tosaic/install.py", "extra")}


def test_extras_name_extras_that_are_there(wheel):
    own = {
        extra
        for needed in wheel.values()
        for each in needed
        if each.name == "tosaic"
        for extra in each.extras
    }
    assert own and own <= wheel.keys()


def test_the_page_of_extras_has_them_all(wheel):
    rows = re.findall(r"^\| (`[^|]*`) \|", (ROOT / "docs/installation.md").read_text(), re.M)
    listed = {extra for row in rows for extra in re.findall(r"`([\w-]+)`", row)}
    # `serve` is empty; the others are for who works on Tosaic.
    assert listed ^ (wheel.keys() - {None}) <= {"serve", "dev", "site"}


def test_what_a_message_misses_is_in_the_extra_that_it_names(wheel):
    """The advice works: the extra brings the package that the message says is missing."""
    said = {match for path in texts() if path.suffix == ".py" for match in MISSED.findall(path.read_text())}
    said |= {("LiteRT", "source"), ("Optuna", "explore"), ("Dask", "cluster")}
    assert len(said) >= 8
    wrong = [
        (name, extra)
        for name, extra in said
        if canonicalize_name(BROUGHT.get(name, name)) not in brought(wheel, extra)
    ]
    assert wrong == []


def test_litert_that_is_missing_is_told_with_the_extra_that_has_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    (tmp_path / "net.tflite").touch()
    model = str(ROOT / "examples/digits/digits_tiny.tosa")
    options = ("--random", "1", "--check-source", "--source", str(tmp_path / "net.tflite"))
    monkeypatch.setattr(sys, "argv", ["tosaic", "run", model, *options])
    with pytest.raises(SystemExit) as ended:
        app.main()
    told = f"tosaic: error: a TFLite model is compared with LiteRT, which is missing: {install_command('source')}"
    assert (ended.value.code, capsys.readouterr().err.splitlines()[-1]) == (1, told)


def test_packages_that_a_text_pins_are_those_of_the_extra(wheel):
    """`pip install executorch==1.5.1` of a message, in the bounds of the extra `torch`."""
    pins = [
        Requirement(each)
        for path in texts()
        for each in re.findall(r"pip install ([\w-]+==[\w.]+)", path.read_text())
    ]
    bounds = brought(wheel, "torch")
    assert "executorch" in [each.name for each in pins]
    for pin in pins:
        (version,) = [each.version for each in pin.specifier]
        assert bounds[canonicalize_name(pin.name)].specifier.contains(version)


def test_in_a_checkout_it_is_the_checkout(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert install_command("torch") == "pip install '.[torch]'"


def test_elsewhere_it_is_the_checkouts_path(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert install_command("sim") == f"pip install '{ROOT.resolve()}[sim]'"


def test_from_a_wheel_it_is_the_wheels_path(tmp_path):
    """An installation as pip leaves it: the module, and beside it where the wheel was (PEP 610)."""
    (tmp_path / "tosaic").mkdir()
    (tmp_path / "tosaic/install.py").write_text((ROOT / "tosaic/install.py").read_text())
    (tmp_path / "tosaic/__init__.py").touch()
    noted = tmp_path / "tosaic-0.1.0.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text("Metadata-Version: 2.1\nName: tosaic\nVersion: 0.1.0\n")
    asked = (sys.executable, "-c", "import tosaic.install as i; print(i.install_command('onnx'))")

    def said():
        environment = {"PYTHONPATH": str(tmp_path), "PATH": ""}
        done = subprocess.run(asked, env=environment, cwd="/", capture_output=True, text=True, check=True)
        return done.stdout.strip()

    (noted / "direct_url.json").write_text(
        '{"url": "file:///home/me/my%20files/tosaic-0.1.0-py3-none-any.whl"}'
    )
    assert said() == "pip install '/home/me/my files/tosaic-0.1.0-py3-none-any.whl[onnx]'"
    (noted / "direct_url.json").unlink()
    assert said() == "pip install 'tosaic-0.1.0-py3-none-any.whl[onnx]'"


def test_no_text_sends_a_user_to_a_name_on_an_index_that_is_not_ours():
    paths = texts()
    said = [str(path) for path in paths if ELSEWHERE.search(path.read_text())]
    assert said == []
