"""The cache of built simulators."""

import concurrent.futures
import errno
import os
import time

import pytest

from tosaic.errors import DeviceError, Error, InputError
from tosaic.sim.cache import KEPT, STALE_SECONDS, cache_directory, cached, kept
from tosaic.sim.rtl.build import failure_reason
from tosaic.sim.rtl.verilog import check_sources, source_digest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOSAIC_CACHE", str(tmp_path / "cache"))


def test_directory_follows_the_environment(tmp_path, monkeypatch):
    assert cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("TOSAIC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "tosaic"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / ".cache" / "tosaic"


def test_made_once_per_key():
    made = []

    def make(path):
        made.append(path)
        path.write_text(str(len(made)))

    assert cached("kind", "nano", "a", ".txt", make).read_text() == "1"
    assert cached("kind", "nano", "a", ".txt", make).read_text() == "1"
    assert cached("kind", "nano", "b", ".txt", make).read_text() == "2"
    assert cached("kind", "base", "a", ".txt", make).read_text() == "3"
    assert cache_directory().joinpath("kind", "nano-a.txt").read_text() == "1"


DAMAGE = {
    "a bit": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "its end": lambda data: data[:-1],
    "all of it": lambda data: b"",
    "more at its end": lambda data: data + b"x",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_made_again(damage):
    path = cached("kind", "nano", "a", ".txt", lambda path: path.write_text("whole"))
    path.write_bytes(DAMAGE[damage](b"whole"))
    assert kept("kind", "nano", "a", ".txt") is None
    assert cached("kind", "nano", "a", ".txt", lambda path: path.write_text("again")).read_text() == "again"
    assert kept("kind", "nano", "a", ".txt") == path


@pytest.mark.parametrize("text", [b"", b"\xff", b"0" * 64, None])
def test_a_damaged_digest_is_made_again(text):
    path = cached("kind", "nano", "a", ".txt", lambda path: path.write_text("whole"))
    digest = path.with_name(path.name + ".sha256")
    digest.unlink() if text is None else digest.write_bytes(text)
    assert cached("kind", "nano", "a", ".txt", lambda path: path.write_text("again")).read_text() == "again"
    assert kept("kind", "nano", "a", ".txt") == path


def test_a_configuration_with_many_settings_has_a_file():
    names = [f"nano,{'rows=7,' * 60}columns={columns}" for columns in (8, 16)]
    for name in names:
        assert (
            cached("kind", name, "a", ".txt", lambda path, name=name: path.write_text(name)).read_text()
            == name
        )
        assert kept("kind", name, "a", ".txt").read_text() == name


def test_a_failed_make_leaves_nothing():
    def fail(path):
        path.write_text("half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cached("kind", "nano", "a", ".txt", fail)
    assert list(cache_directory().joinpath("kind").glob("*.txt")) == []
    assert cached("kind", "nano", "a", ".txt", lambda path: path.write_text("whole")).read_text() == "whole"


def test_cache_that_cannot_be_written_names_itself(tmp_path, monkeypatch):
    def fill(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def elsewhere(path):
        raise FileNotFoundError(errno.ENOENT, "none", "/other/place")

    with pytest.raises(Error) as caught:
        cached("kind", "nano", "a", ".txt", fill)
    assert str(caught.value) == (
        f"the cache of simulators and Verilog in {tmp_path / 'cache'} cannot be written: No space left on device; set "
        "TOSAIC_CACHE to a directory with room that you may write to"
    )
    with pytest.raises(FileNotFoundError):
        cached("kind", "nano", "b", ".txt", elsewhere)


@pytest.mark.parametrize("home", ["/proc/none", "/dev/null"])
def test_a_home_that_cannot_be(home, monkeypatch):
    """Nobody's home is often a directory that does not exist and that nobody may make."""
    for name in ("TOSAIC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    with pytest.raises(
        Error,
        match=r"^the cache of simulators and Verilog in \S+\.cache/tosaic cannot be written: .*; set TOSAIC_CACHE",
    ):
        cached("kind", "nano", "a", ".txt", lambda path: path.write_text("x"))
    assert kept("kind", "nano", "a", ".txt") is None


def test_compiler_on_a_full_disk_says_so(tmp_path):
    said = "as: x.o: No space left on device\ncollect2: error: ld returned 1 exit status\n"
    assert failure_reason(said).startswith("No space left on device: free some in ")
    assert failure_reason(said).endswith(
        f" and in the cache {tmp_path / 'cache'}, or set TMPDIR and TOSAIC_CACHE to directories with room"
    )
    assert failure_reason("x.cpp: note\nx.cpp: error: no such name\n") == "x.cpp: error: no such name"
    assert failure_reason("killed\n") == "killed"
    assert failure_reason("") == ""


def test_parallel_users_share_one_make():
    made = []

    def make(path):
        made.append(path)
        time.sleep(0.2)
        path.write_text("x")

    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        paths = list(executor.map(lambda _: cached("kind", "nano", "a", ".txt", make), range(4)))
    assert len(made) == 1
    assert {path.read_text() for path in paths} == {"x"}


def test_only_the_files_used_last_stay():
    for number in range(KEPT + 3):
        path = cached("kind", "nano", f"k{number}", ".txt", lambda path: path.write_text("x"))
        os.utime(path, (number, number))
    left = sorted(path.name for path in cache_directory().joinpath("kind").glob("nano-*.txt"))
    # The file made last is pruned against the others' times before its own is set here.
    assert left == sorted(f"nano-k{number}.txt" for number in range(3, KEPT + 3))
    digests = sorted(path.name for path in cache_directory().joinpath("kind").glob("nano-*.sha256"))
    assert digests == [f"{name}.sha256" for name in left]


def test_scratch_of_a_killed_process_is_removed():
    folder = cache_directory() / "kind"
    for name, age_seconds in (("nano-old", 2 * STALE_SECONDS), ("nano-new", 0)):
        folder.joinpath(name).mkdir(parents=True)
        now = time.time()
        os.utime(folder / name, (now - age_seconds, now - age_seconds))
    cached("kind", "nano", "a", ".txt", lambda path: path.write_text("x"))
    assert sorted(path.name for path in folder.iterdir()) == ["nano-a.txt", "nano-a.txt.sha256", "nano-new"]


def test_sources_edited_during_a_run_are_noticed(tmp_path):
    source = tmp_path / "unit.py"
    source.write_text("width = 8")
    key = source_digest("unit", [tmp_path])
    check_sources([tmp_path])
    source.write_text("width = 9")
    # What this process has loaded is the old state: it must not be kept under the name of the new one.
    assert source_digest("unit", [tmp_path]) == key
    with pytest.raises(DeviceError, match="changed during the run"):
        check_sources([tmp_path])


@pytest.mark.parametrize("place", [".", "kind"])
def test_a_folder_that_others_may_write_is_refused(place, monkeypatch, tmp_path):
    """What is loaded from the cache runs: others must not put it there."""
    monkeypatch.setenv("TOSAIC_CACHE", str(tmp_path / "own"))
    made = cached("kind", "nano", "a", ".so", lambda path: path.write_text("whole"))
    assert cache_directory().stat().st_mode & 0o777 == 0o700
    folder = made.parents[1] / place
    for mode in (0o770, 0o702):
        folder.chmod(mode)
        with pytest.raises(
            InputError,
            match=rf"^{folder}: other users may write to this cache folder, .*: chmod go-w {folder}, or",
        ):
            cached("kind", "nano", "a", ".so", lambda path: path.write_text("whole"))
    folder.chmod(0o755)
    assert cached("kind", "nano", "a", ".so", lambda path: None) == made


def test_a_folder_of_another_user_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("TOSAIC_CACHE", str(tmp_path))
    tmp_path.chmod(0o755)
    own = tmp_path.stat().st_uid
    monkeypatch.setattr("os.getuid", lambda: own + 1)
    monkeypatch.setattr("tosaic.sim.cache.ADMINISTRATOR", own + 2)
    with pytest.raises(
        InputError, match=r": this cache folder belongs to another user, .*: set TOSAIC_CACHE to a "
    ):
        cached("kind", "nano", "a", ".so", lambda path: path.write_text("whole"))
