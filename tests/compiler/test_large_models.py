"""Networks with large weights: what compiling them takes, and files that stay as they are while they are in use."""

import gc
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa, write_tosa
from tosaic.compiler.program import Program
from tosaic.errors import ModelError, UnsupportedError
from tosaic.hw.config_text import get_config

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from compile_time import matrices  # noqa: E402 (the path comes first)

NANO, BASE = get_config("nano"), get_config("base")
WIDTH = 4096
LARGE_BYTES = WIDTH * WIDTH


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A model of 32 MiB of weights."""
    path = tmp_path_factory.mktemp("large") / "large.tosa"
    write_tosa(matrices(2, WIDTH), path)
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of a process is told by Linux")
def test_weights_of_a_file_are_not_held_twice(large: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Reading, compiling and writing take no more memory than the weights once, beside what small ones take."""
    text = (
        "import resource, sys\n"
        "from tosaic.compiler.build import compile_graph\n"
        "from tosaic.compiler.ir import read_tosa\n"
        "from tosaic.hw.config_text import get_config\n"
        "compile_graph(read_tosa(sys.argv[1]), get_config('base')).save(sys.argv[2])\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])\n"
    )
    small = tmp_path / "small.tosa"
    write_tosa(matrices(2, 64), small)
    peaks = []
    for model in (small, large):
        command = [sys.executable, "-c", text, str(model), str(tmp_path / "program.tsc")]
        peaks.append(1024 * int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    weights = 2 * LARGE_BYTES
    assert peaks[1] - peaks[0] < 1.2 * weights, [f"{peak:,}" for peak in peaks]
    assert (tmp_path / "program.tsc").stat().st_size > weights


def test_a_file_that_is_in_use_is_replaced(large: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Who has read a model keeps it when another one is written to its place."""
    path = tmp_path / "model.tosa"
    path.write_bytes(large.read_bytes())
    first = read_tosa(path)
    wanted = {name: first.tensors[name].data.copy() for name in ("weights.0", "weights.1")}
    write_tosa(matrices(1, 64), path)
    assert all(np.array_equal(first.tensors[name].data, values) for name, values in wanted.items())
    assert read_tosa(path).tensors["weights.0"].shape == (64, 1, 1, 64)


def test_a_large_file_that_is_cut_off_is_refused(large: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cut.tosa"
    path.write_bytes(large.read_bytes()[:LARGE_BYTES])
    with pytest.raises(ModelError, match=f"^{path}: malformed .tosa file: .* the file has {LARGE_BYTES}$"):
        read_tosa(path)


def test_what_no_file_holds_is_told_before_it_is_made() -> None:
    graph = matrices(1, 64)
    graph.tensors["weights.0"].data = np.broadcast_to(np.int8(1), (1 << 31,))
    with pytest.raises(
        UnsupportedError, match=r"^graph 'matrices' has constants of 2,147,\d\d\d,\d\d\d bytes"
    ):
        write_tosa(graph)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_as_it_was(enabled: bool, fails: bool) -> None:
    graph = matrices(1, 16)
    if fails:
        graph.outputs.append("nothing")
    (gc.enable if enabled else gc.disable)()
    try:
        if fails:
            with pytest.raises(ModelError):
                compile_graph(graph, NANO)
        else:
            compile_graph(graph, NANO)
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_a_program_is_the_same_in_every_way(tmp_path: pathlib.Path) -> None:
    """Written before its image is put together and after, read, copied by pickle."""
    program = compile_graph(matrices(2, 64), NANO)
    program.save(tmp_path / "parts.tsc")
    raw = (tmp_path / "parts.tsc").read_bytes()
    assert program.to_bytes() == raw
    image = program.image
    assert raw[-4 - len(image) : -4] == image == program.image
    assert len(program.image_parts) == len(image)
    assert program.to_bytes() == raw == pickle.loads(pickle.dumps(program)).to_bytes()
    assert Program.load(tmp_path / "parts.tsc").image == Program.load(raw).image == image


def test_equal_layers_take_equal_instructions() -> None:
    """Layers that differ in names and weights are planned alike: from the second on each takes as many instructions."""
    (layers,) = compile_graph(matrices(6, 512), BASE).instruction_layers
    counts = [layers.count(number) for number in range(6)]
    # Of the second the bus could not bring the weights ahead.
    assert len(set(counts[2:-1])) == 1, counts
