"""What the distribution says of itself and what it contains; the numbers of decisions."""

import os
import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]


def packages():
    """Each package, as setuptools finds them: a folder with an __init__.py in one that is a package."""
    for folder, _, files in os.walk(ROOT / "tosaic", followlinks=True):
        if "__init__.py" in files:
            yield pathlib.Path(folder)


def installed_files():
    """Paths below the root of all files in the wheel: modules, and what package-data names."""
    data = SETTINGS["tool"]["setuptools"]["package-data"]
    found = set()
    for folder in packages():
        name = ".".join(folder.relative_to(ROOT).parts)
        for pattern in ("*.py", *data.get(name, ())):
            found |= {str(path.relative_to(ROOT)) for path in folder.glob(pattern)}
    return found


def source_files():
    for folder, _, files in os.walk(ROOT / "tosaic", followlinks=True):
        if pathlib.Path(folder).name != "__pycache__":
            yield from (str(pathlib.Path(folder, file).relative_to(ROOT)) for file in files)


def test_wheel_has_every_file_of_the_package():
    left_out = set(source_files()) - installed_files()
    # The examples are trained in the repository; what they made is installed.
    assert not [name for name in left_out if not name.startswith("tosaic/examples/")]
    assert {
        "tosaic/examples/digits/digits.tosa",
        "tosaic/examples/digits/digits_tiny.tosa",
        "tosaic/examples/digits/images.npz",
    } <= installed_files()


def test_wheel_says_that_it_has_types():
    assert "tosaic/py.typed" in installed_files()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_licence():
    assert PROJECT["license"] == "BSD-2-Clause"
    assert PROJECT["license-files"] == ["LICENSE"]
    text = (ROOT / "LICENSE").read_text()
    assert text.startswith("BSD 2-Clause License\n\nCopyright (c) 2026, The Tosaic authors\n")
    # A licence classifier beside an SPDX expression is refused by the package index.
    assert not [each for each in PROJECT["classifiers"] if each.startswith("License ::")]


def test_metadata():
    assert (ROOT / PROJECT["readme"]).is_file()
    assert PROJECT["authors"] == [{"name": "The Tosaic authors"}]
    assert "urls" not in PROJECT


def test_changelog_has_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert PROJECT["version"] in headings


def test_decisions_are_numbered_once():
    index = (ROOT / "docs/decisions/index.md").read_text()
    entries = re.findall(r"^- \[(\d{4})\]\(([\w.-]+\.md)", index, re.M)
    assert [number for number, _ in entries] == [f"{number:04}" for number in range(1, len(entries) + 1)]
    pages = {page.name for page in (ROOT / "docs" / "decisions").glob("*.md")}
    assert {page for _, page in entries} == pages - {"index.md"}
    for number, page in entries:
        if page.startswith(number):
            assert (ROOT / "docs" / "decisions" / page).read_text().startswith(f"# {number}:")
