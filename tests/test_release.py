"""A release: the same bytes every time, complete in an empty environment, and the lists of what it is used with."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "bench"))

import materials  # noqa: E402 (the path comes first)
import release  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.nightly
def test_it_is_the_same_every_time_and_works_where_nothing_is(tmp_path):
    """The command compares two builds, and a third from the sdist. The umask of who calls it is not in the files."""
    out, committed = tmp_path / "dist", release.commit_seconds()
    command = (sys.executable, "bench/release.py", "-o", out)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, umask=0o077)
    assert done.returncode == 0, done.stderr
    version = subprocess.run(
        ("git", "show", "HEAD:pyproject.toml"), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    version = tomllib.loads(version)["project"]["version"]
    wheel = out / f"tosaic-{version}-py3-none-any.whl"
    assert {path.name for path in out.iterdir()} == {
        wheel.name, f"tosaic-{version}.tar.gz", f"tosaic-{version}.cdx.json", "SHA256SUMS"
    }  # fmt: skip
    subprocess.run(("sha256sum", "-c", "SHA256SUMS"), cwd=out, check=True, capture_output=True)
    entries = zipfile.ZipFile(wheel).infolist()
    assert len({entry.date_time for entry in entries}) == 1
    modes = {entry.external_attr >> 16 & 0o777 for entry in entries if not entry.filename.endswith("/RECORD")}
    assert modes == {0o644}  # RECORD's is always 0o664.
    with tarfile.open(out / f"tosaic-{version}.tar.gz") as sdist:
        members = sdist.getmembers()
    assert {(each.mtime, each.uid, each.uname) for each in members} == {(committed, 0, "")}

    empty = tmp_path / "empty"
    subprocess.run((sys.executable, "-m", "venv", empty), check=True)
    pip = (empty / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel)
    subprocess.run(pip, check=True, capture_output=True)

    def says(*arguments):
        environment = {
            "PATH": str(empty / "bin"),
            "HOME": str(tmp_path),
            "TOSAIC_CACHE": str(tmp_path / "cache"),
        }
        command = (empty / "bin/tosaic", *arguments)
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert says("--version") == f"tosaic {version}\n"
    # Its PATH has no compiler: the wheel brings the simulator.
    for target in ("emulator", "sim"):
        assert "bit-exact: all 2 outputs equal the golden model\n" in says(
            "demo", "--on", target, "--images", "2"
        )
    (model,) = empty.glob("lib/*/site-packages/tosaic/examples/digits/digits.tosa")
    assert "bit-exact: 1 outputs equal golden\n" in says(
        "run", model, "--random", "1", "--on", "sim", "--check", "--config", "nano"
    )
    assert (tmp_path / "report.html").is_file()


def test_what_a_computer_adds_to_an_sdist_goes(tmp_path):
    """Times, owners, modes and order."""

    def sdist(name, members, **owner):
        folder = tmp_path / name
        folder.mkdir()
        path = folder / "x-1.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for number, (member, mode) in enumerate(members):
                source = folder / "content"
                source.write_text(member)
                source.chmod(mode)
                os.utime(source, (number, number))
                archive.add(source, f"x-1/{member}", filter=lambda info: info.replace(**owner, deep=False))
        release.normalize(path, 1_700_000_000)
        return path.read_bytes()

    one = sdist("one", [("a", 0o600), ("run", 0o700)], uid=7, uname="me")
    assert one == sdist("other", [("run", 0o755), ("a", 0o664)], gid=8, gname="us")
    assert one != sdist("third", [("run", 0o644), ("a", 0o664)])


def test_two_files_that_differ_are_told_by_their_place(tmp_path):
    one, other = tmp_path / "a.whl", tmp_path / "b.whl"
    one.write_bytes(b"abcd")
    other.write_bytes(b"abXd!")
    assert release.difference(one, one) is None
    assert release.difference(one, other) == "a.whl: 4 and 5 bytes, which differ from byte 2 on"


def test_the_backend_that_builds_is_what_dev_installs():
    assert release.BACKEND in PROJECT["optional-dependencies"]["dev"]


def test_the_versions_of_both_wheels_are_one():
    backend = tomllib.loads((ROOT / "integrations/executorch/pyproject.toml").read_text())["project"]
    assert backend["version"] == PROJECT["version"]


def listed():
    """The licence of each package, as the page says."""
    page = (ROOT / "docs/licences.md").read_text().partition("## Networks")[0]
    rows = re.findall(r"^\| (?:base|`[\w-]+`) \| ([^|]+) \| ([^|]+) \|$", page, re.M)
    return {name: licence for licence, names in rows for name in names.split(", ")}


@pytest.mark.parametrize("extra", [None, *PROJECT["optional-dependencies"]])
def test_the_page_of_licences_has_what_an_extra_names(extra):
    assert sorted(materials.required(extra).keys() - listed().keys()) == [], "make docs"


@pytest.mark.nightly
def test_the_page_of_licences_says_what_the_packages_say():
    """At night, because a new release of any package may say it in other words."""
    known, missing = listed(), materials.missing()
    for extra in (None, *PROJECT["optional-dependencies"]):
        for name in materials.tree(extra).keys() - set(missing):
            assert known.get(name) == materials.package(name).licence, "make docs"


def test_the_gpl_is_named_with_its_way_in():
    page = (ROOT / "docs/licences.md").read_text()
    assert "\n| scapy | GPL-2.0-only | cocotbext-axi → cocotb-bus | `cocotb`, `all` |\n" in page


def test_the_bill_of_materials_is_cyclonedx_and_the_same_every_time():
    pytest.importorskip("cyclonedx")
    text = materials.bill_of_materials(1_700_000_000)
    assert text == materials.bill_of_materials(1_700_000_000)
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    root = bill["metadata"]["component"]["bom-ref"]
    assert root == f"pkg:pypi/tosaic@{PROJECT['version']}"
    named = {part["bom-ref"]: part for part in bill["components"]}
    (numpy,) = [part for part in named.values() if part["name"] == "numpy"]
    assert numpy["purl"] == f"pkg:pypi/numpy@{numpy['version']}" and numpy["licenses"]
    edges = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert edges.keys() == named.keys() | {root}
    assert {other for others in edges.values() for other in others} <= named.keys()
    assert numpy["bom-ref"] in edges[root]
