"""The conformance generator without start-ups writes the files that it writes as it is."""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
OPTIONS = (
    *("--profile", "tosa-pro-int", "--extension", "tosa-ext-shape", "--unit-tests", "operator"),
    *("--test-type", "negative", "--tosa-version", "1.1.0-draft", "--output-type", "binary"),
    *("--operators", "add_shape", "-j", "1"),
)


def suite_of(command: list[str], folder: pathlib.Path) -> dict[str, bytes]:
    """The files that a generator writes below a folder, by path."""
    model = shutil.which("tosa_reference_model", path=str(pathlib.Path(sys.executable).parent))
    places = ["--build-directory", str(folder / "work"), "--output-directory", str(folder / "suite")]
    subprocess.run([*command, *OPTIONS, "--ref-model-path", str(model), *places], check=True)
    suite = folder / "suite"
    return {str(file.relative_to(suite)): file.read_bytes() for file in suite.rglob("*") if file.is_file()}


def test_forked_batches_write_what_started_ones_write(tmp_path, monkeypatch):
    scripts = pathlib.Path(sys.executable).parent
    # The generator starts its builder by name.
    monkeypatch.setenv("PATH", str(scripts), prepend=":")
    started = suite_of([str(scripts / "tosa_verif_conformance_generator")], tmp_path / "started")
    forked = suite_of([sys.executable, str(ROOT / "bench" / "generate_suite.py")], tmp_path / "forked")
    assert len(started) >= 6 and forked == started


def test_what_the_builder_refuses_comes_back(tmp_path, monkeypatch, capfd):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import generate_suite

    with capfd.disabled():
        _, code, _, said = generate_suite.run_forked(tmp_path, ["tosa_verif_build_tests", "--no-such-option"])
    assert code == 2 and "--no-such-option" in said
