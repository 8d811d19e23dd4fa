"""Writes a page: as a folder for a web server, or as one file."""

import base64
import gzip
import importlib.resources
import json
import pathlib
import re
from collections.abc import Sequence

from tosaic.hw.config import Config
from tosaic.sim.rtl.choice import machine_module

from .catalog import Demo, catalog_of, machine_file, program_file

SERVED = ("index.html", "page.css", "page.js", "start.js", "strip.js", "units.js", "exports.js", "digits.js")
WORKER = ("worker.js", "machine.js", "files.js")
SINGLE_FILE = "playground.html"


def write_folder(
    folder: pathlib.Path, demos: Sequence[Demo], configs: Sequence[Config]
) -> list[pathlib.Path]:
    """Writes index.html and what it loads; returns the files. It works behind any web server, not from a disk."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: _template(name).encode() for name in (*SERVED, *WORKER)}
    files["catalog.json"] = json.dumps(catalog_of(demos, configs)).encode()
    for name, content in (files | _binaries(demos, configs)).items():
        (folder / name).write_bytes(content)
    return [folder / name for name in (*files, *_binaries(demos, configs))]


def write_single(folder: pathlib.Path, demos: Sequence[Demo], configs: Sequence[Config]) -> pathlib.Path:
    """Writes playground.html, one file that holds all and opens from a disk; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = {
        name: base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()
        for name, content in _binaries(demos, configs).items()
    }
    worker = [
        f"const packed = {json.dumps(packed)};",
        *_scripts("packed_files.js", "machine.js", "worker.js"),
    ]
    page = _scripts("digits.js", "units.js", "exports.js", "strip.js", "packed_start.js", "page.js")
    parts = [
        f'<script type="application/json" id="catalog">{_within(json.dumps(catalog_of(demos, configs)))}</script>',
        f'<script type="text/plain" id="worker">{_within(chr(10).join(worker))}</script>',
        f'<script type="module">{_within(chr(10).join(page))}</script>',
    ]
    html = _template("index.html")
    html = html.replace('<link rel="stylesheet" href="page.css">', f"<style>{_template('page.css')}</style>")
    html = html.replace('<script type="module" src="page.js"></script>', "\n".join(parts))
    path = folder / SINGLE_FILE
    path.write_text(html)
    return path


def _binaries(demos: Sequence[Demo], configs: Sequence[Config]) -> dict[str, bytes]:
    """Machines and programs by the names of their files."""
    used = [config for config in configs if any(config.name in demo.programs for demo in demos)]
    return {machine_file(config.name): machine_module(config) for config in used} | {
        program_file(demo.name, name): program.to_bytes()
        for demo in demos
        for name, program in demo.programs.items()
    }


def _scripts(*names: str) -> list[str]:
    """Modules as parts of one script: without imports and exports, comments and indentation."""
    made = []
    for name in names:
        text = re.sub(r"^import .*\n", "", _template(name), flags=re.MULTILINE)
        text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
        made.append(re.sub(r"^ +|^ *//.*\n", "", text, flags=re.MULTILINE))
    return made


def _within(text: str) -> str:
    """A text that an element of a page can hold."""
    return text.replace("</", "<\\/")


def _template(name: str) -> str:
    return (importlib.resources.files("tosaic.driver.playground") / "templates" / name).read_text()
