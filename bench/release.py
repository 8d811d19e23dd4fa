"""Builds the wheel and the sdist of the newest commit, twice, and compares them byte by byte: `make release`.

    python bench/release.py -o dist

Both builds start from `git archive` of the commit, in folders of different names, with another time zone, hash seed and
language; SOURCE_DATE_EPOCH is the commit's time. A third wheel, from the sdist, must be the same. They hold the
simulators of the named configurations as WebAssembly, built once from the commit's files. Beside them are the bill of
materials (bench/materials.py) and SHA256SUMS. Whoever has the commit, the setuptools that `BACKEND` names, the packages
of the extra `dev` and the same zlib makes the same bytes.
"""

import argparse
import gzip
import hashlib
import importlib.metadata
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import materials

ROOT = pathlib.Path(__file__).resolve().parents[1]
BACKEND = "setuptools==84.2.1"
"""What builds; the extra `dev` installs it. Another release may write other bytes."""
KINDS = {"sdist": "*.tar.gz", "wheel": "*.whl"}
PREBUILT = pathlib.Path("sim/rtl/prebuilt")
SURROUNDINGS = (
    {"TZ": "UTC", "PYTHONHASHSEED": "0", "LC_ALL": "C"},
    {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8"},
)
"""What must not be seen in a build."""


def commit_seconds(commit: str = "HEAD") -> int:
    """Seconds since 1970 at which the commit was made."""
    return int(_git("show", "-s", "--format=%ct", commit))


def export(folder: pathlib.Path, commit: str = "HEAD") -> pathlib.Path:
    """Writes the commit's files to the folder."""
    folder.mkdir(parents=True)
    archive = subprocess.run(("git", "archive", commit), cwd=ROOT, capture_output=True, check=True).stdout
    # Without -p, tar applies the umask to the files' modes.
    subprocess.run(("tar", "-x", "--no-same-permissions", "-C", folder), input=archive, check=True)
    return folder


def build(
    kind: str, source: pathlib.Path, out: pathlib.Path, epoch: int, surroundings: dict[str, str]
) -> pathlib.Path:
    """The sdist or the wheel of the files in `source`, in the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    # The backend takes modes from the files; Git knows only whether one is executable.
    for path in source.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    environment = os.environ | surroundings | {"SOURCE_DATE_EPOCH": str(epoch)}
    script = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
    done = subprocess.run(
        (sys.executable, "-c", script),
        cwd=source,
        env=environment,
        umask=0o022,  # The modes of METADATA and its like in the wheel are made by it.
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"the {kind} cannot be built:\n{done.stderr[-2000:]}")
    (built,) = out.glob(KINDS[kind])
    if kind == "sdist":
        normalize(built, epoch)
    return built


def normalize(sdist: pathlib.Path, epoch: int) -> None:
    """Writes the archive again without what setuptools takes from the computer: times, owners, order, gzip's time."""
    packed = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            content = old.extractfile(member) if member.isreg() else None
            member.mtime, member.pax_headers = epoch, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, content)
    with open(sdist, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as out:
        out.write(packed.getvalue())


def build_simulators(temporary: pathlib.Path, commit: str) -> pathlib.Path:
    """A folder in `temporary` with the simulators in WebAssembly of the commit's named configurations."""
    source, folder = export(temporary / "simulated", commit), temporary / "simulators"
    script = "import pathlib, sys; from tosaic.sim.rtl.prebuilt import write_prebuilt as write; "
    script += "write(pathlib.Path(sys.argv[1]))"
    environment = os.environ | {"PYTHONPATH": str(source)}
    subprocess.run((sys.executable, "-c", script, folder), cwd=source, env=environment, check=True)
    return folder


def difference(first: pathlib.Path, second: pathlib.Path) -> str | None:
    """Where two files differ, in words; None where they are equal."""
    one, other = first.read_bytes(), second.read_bytes()
    if one == other:
        return None
    at = next(
        (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), "the end"
    )
    return f"{first.name}: {len(one)} and {len(other)} bytes, which differ from byte {at} on"


def release(out: pathlib.Path) -> list[pathlib.Path]:
    """The files of a release, in the folder `out`."""
    name, _, wanted = BACKEND.partition("==")
    if (found := importlib.metadata.version(name)) != wanted:
        sys.exit(f"{name} {found} is installed, a release is built by {wanted}: pip install {BACKEND}")
    # Another commit may be made while this one is built.
    commit = _git("rev-parse", "HEAD")
    epoch = commit_seconds(commit)
    out.mkdir(parents=True, exist_ok=True)
    built: list[list[pathlib.Path]] = []
    with tempfile.TemporaryDirectory() as temporary:
        simulators = build_simulators(pathlib.Path(temporary), commit)
        for number, surroundings in enumerate(SURROUNDINGS):
            source = export(pathlib.Path(temporary) / f"{'source' * (number + 1)}", commit)
            shutil.copytree(simulators, source / PREBUILT)
            folder = pathlib.Path(temporary) / f"built{number}"
            built.append([build(kind, source, folder, epoch, surroundings) for kind in KINDS])
        sdist, wheel = built[0]
        unpacked = pathlib.Path(temporary) / "sdist"
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (source,) = unpacked.iterdir()
        again = build("wheel", source, pathlib.Path(temporary) / "again", epoch, SURROUNDINGS[0])
        found_differences = [difference(*pair) for pair in (*zip(*built, strict=True), (wheel, again))]
        if differences := [line for line in found_differences if line]:
            sys.exit("the builds differ: " + "; ".join(differences))
        files = []
        for path in (sdist, wheel):
            files.append(out / path.name)
            files[-1].write_bytes(path.read_bytes())
    files.append(out / f"{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json")
    files[-1].write_text(materials.bill_of_materials(epoch))
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (out / "SHA256SUMS").write_text(sums)
    return [*files, out / "SHA256SUMS"]


def _git(*arguments: str) -> str:
    return subprocess.run(
        ("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "dist", metavar="DIR")
    out = parser.parse_args().output
    if _git("status", "--porcelain"):
        print("what is not committed is not in these files", file=sys.stderr)
    for path in release(out):
        print(f"{path}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
