"""Writing and reading 1.0 files gives the same graph back."""

import shutil
import subprocess

import numpy as np
import pytest
from one_operator_graphs import GRAPHS, conv2d, rescale, while_loop

from tosaic.compiler.ir import DType, Graph, GraphBuilder, read_tosa, validate, write_tosa
from tosaic.errors import UnsupportedError


def assert_same(one: Graph, other: Graph) -> None:
    """Equal names, tensors, values, operators and branches."""
    assert other.inputs == one.inputs
    assert other.outputs == one.outputs
    assert set(other.tensors) == set(one.tensors)
    for name, tensor in one.tensors.items():
        twin = other.tensors[name]
        assert (twin.shape, twin.dtype) == (tensor.shape, tensor.dtype)
        assert (twin.data is None) == (tensor.data is None)
        if tensor.data is not None:
            assert twin.data.dtype == tensor.dtype.numpy
            assert np.array_equal(twin.data, tensor.data)
    assert [(op.op, op.inputs, op.outputs) for op in other.operators] == [
        (op.op, op.inputs, op.outputs) for op in one.operators
    ]
    for op, twin in zip(one.operators, other.operators, strict=True):
        assert op.attributes.items() <= twin.attributes.items()


@pytest.mark.parametrize("label", GRAPHS)
def test_every_operator_round_trips(label: str) -> None:
    graph = GRAPHS[label]()
    again = read_tosa(write_tosa(graph))
    validate(again)
    assert again.version == (1, 0, 0)
    assert_same(graph, again)
    assert set(again.subgraphs) == set(graph.subgraphs)
    for name, branch in graph.subgraphs.items():
        assert_same(branch, again.subgraphs[name])
    assert write_tosa(again) == write_tosa(read_tosa(write_tosa(again)))


def test_version_number_is_stored() -> None:
    assert read_tosa(write_tosa(conv2d(), version=(1, 1, 0))).version == (1, 1, 0)
    with pytest.raises(
        UnsupportedError, match=r"cannot write TOSA 2\.0; 0\.30, 1\.0 and 1\.1 can be written"
    ):
        write_tosa(conv2d(), version=(2, 0))


def test_writes_and_reads_a_path(tmp_path) -> None:
    data = write_tosa(rescale(), tmp_path / "model.tosa")
    assert (tmp_path / "model.tosa").read_bytes() == data
    assert_same(rescale(), read_tosa(tmp_path / "model.tosa"))
    assert_same(rescale(), read_tosa(str(tmp_path / "model.tosa")))


def test_labels_are_unique_in_the_whole_graph() -> None:
    graph = read_tosa(write_tosa(while_loop()))
    labels = [op.name for part in graph.walk() for op in part.operators]
    assert len(set(labels)) == len(labels) == 4
    assert labels[0] == "WHILE_LOOP_0"
    assert "body/ADD_1" in labels


def test_branches_share_the_dictionary_of_branches() -> None:
    graph = read_tosa(write_tosa(while_loop()))
    assert graph.subgraphs["body"].subgraphs is graph.subgraphs


def test_rank_0_reshape_keeps_its_empty_shape() -> None:
    build = GraphBuilder()
    x = build.input("x", (1, 1), DType.INT8)
    build.output(build.add("RESHAPE", [x, build.shape([], "scalar")], output="y"))
    graph = read_tosa(write_tosa(build.finish()))
    assert graph.const("scalar").shape == (0,)
    assert graph.tensors["y"].shape == ()


def test_floats_round_trip() -> None:
    build = GraphBuilder()
    x = build.input("x", (2, 3), DType.FP32)
    half = build.constant(np.float32([[0.5, -1.25, 3]]), DType.FP32, "half")
    y = build.add("CLAMP", [build.add("ADD", [x, half])], min_val=-1.5, max_val=6.0)
    build.output(build.add("CAST", [y], dtype=DType.BF16, output="y"))
    graph = build.finish()
    again = read_tosa(write_tosa(graph))
    assert_same(graph, again)
    assert again.operators[1].attributes["min_val"] == -1.5


def test_the_reference_model_accepts_a_written_file(tmp_path) -> None:
    """Asks the official model, where it is installed, to load and run one file of ours."""
    model = shutil.which("tosa_reference_model")
    write_tosa(conv2d(), tmp_path / "conv.tosa")
    x = np.random.default_rng(1).integers(-128, 128, (1, 5, 6, 3), np.int8)
    np.save(tmp_path / "x.npy", x)
    if model is not None:
        command = [model, "--tosa_file", "conv.tosa", "--flatbuffer_dir", ".", "--output_dir", "."]
        command += ["--ifm_name", "x", "--ifm_file", "x.npy", "--ofm_name", "y", "--ofm_file", "y.npy"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
        assert np.load(tmp_path / "y.npy").shape == conv2d().tensors["y"].shape
    assert read_tosa(tmp_path / "conv.tosa").tensors["y"].shape == (1, 4, 3, 4)
