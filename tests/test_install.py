"""The one place that tells how an extra is installed, and that nothing else tells another way."""

import pathlib
import re
import subprocess
import sys

from tosaic.install import install_command

ROOT = pathlib.Path(__file__).parent.parent
FOLDERS = ("boards", "compiler", "driver", "hw", "nnr", "sim", "bench", "docs", "examples")
FILES = ("README.md", "CONTRIBUTING.md", "Makefile")
ELSEWHERE = re.compile(r"pip install (?:-\w+ )*['\"]?tosaic\b(?!-)")
"""Tells pip to ask an index for a name that is not ours yet."""


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
    paths = [ROOT / name for name in FILES]
    for folder in FOLDERS:
        paths += [
            p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".md", ".yml", ".html", ".toml")
        ]
    said = [str(path) for path in paths if ELSEWHERE.search(path.read_text())]
    assert said == []
