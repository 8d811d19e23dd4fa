"""TFLite models: names, shapes, complaints, damaged files, and a second opinion."""

import dataclasses
import re
import sys
import tracemalloc

import numpy as np
import pytest
from arm_converter import converted
from tflite_models import (
    BIAS,
    IN_SCALE,
    IN_ZERO,
    OUT_SCALE,
    OUT_ZERO,
    RANDOM,
    WEIGHT_SCALE,
    WEIGHTS,
    dense_model,
    run_mutations,
    tiled_model,
)

from tosaic.cli import app
from tosaic.compiler.importers import import_model, survey_model
from tosaic.compiler.importers.tflite.reader import schema
from tosaic.compiler.ir import read_tosa, write_tosa
from tosaic.errors import Error, InputError, ModelError, UnsupportedError
from tosaic.install import install_command
from tosaic.nnr import read_bitstream
from tosaic.sim.golden import evaluate


def test_dense_layer(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    graph = import_model(path)
    assert graph.inputs == ["image"] and graph.outputs == ["scores"]
    x = RANDOM.integers(-128, 128, (2, 12)).astype(np.int8)
    sums = (x.astype(np.int64) - IN_ZERO) @ WEIGHTS.T.astype(np.int64) + BIAS
    scaled = sums * (np.float64(np.float32(IN_SCALE)) * np.float32(WEIGHT_SCALE) / np.float32(OUT_SCALE))
    wanted = np.clip(np.rint(scaled) + OUT_ZERO, OUT_ZERO, 127)
    np.testing.assert_array_equal(evaluate(graph, {"image": x})["scores"], wanted)


def test_a_bitstream_of_a_tflite_model_is_the_model(tmp_path, monkeypatch) -> None:
    """`tosaic nnr encode` of a .tflite file makes a stream that imports to the same graph."""
    path, stream = tmp_path / "dense.tflite", tmp_path / "dense.nnr"
    path.write_bytes(dense_model())
    monkeypatch.setattr("sys.argv", ["tosaic", "nnr", "encode", str(path), "-o", str(stream)])
    with pytest.raises(SystemExit) as stop:
        app.main()
    assert not stop.value.code
    assert len(read_bitstream(stream.read_bytes()).tensors) > 0
    graph, back = import_model(path), import_model(stream)
    assert (back.inputs, back.outputs) == (graph.inputs, graph.outputs)
    # A file's labels number its operators, and it has no place for attributes that are left out.
    written = read_tosa(write_tosa(graph)).operators
    assert [dataclasses.replace(op, name="") for op in back.operators] == [
        dataclasses.replace(op, name="") for op in written
    ]
    for name, tensor in graph.tensors.items():
        assert tensor.data is None or np.array_equal(back.tensors[name].data, tensor.data)


def test_another_batch(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    with pytest.raises(InputError, match="image=2,12"):
        import_model(path, {"batch": 1})


def test_another_shape(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    graph = import_model(path, {"image": (3, 12)})
    assert graph.tensors["scores"].shape == (3, 5)
    x = np.tile(np.arange(12, dtype=np.int8), (3, 1))
    wanted = evaluate(import_model(path), {"image": x[:2]})["scores"]
    np.testing.assert_array_equal(evaluate(graph, {"image": x})["scores"][:2], wanted)


def test_survey_and_names(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    operators, graph = survey_model(path)
    assert [(o.kind, o.name, o.form) for o in operators] == [("FULLY_CONNECTED", "scores", "composite")]
    assert graph is not None and {op.name.split(":")[0] for op in graph.operators} == {"scores"}


def test_damaged_files(tmp_path) -> None:
    path, data = tmp_path / "damaged.tflite", dense_model()
    path.write_bytes(b"not a model")
    with pytest.raises(ModelError, match="TFL3"):
        import_model(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(Error):
        import_model(path)
    found = run_mutations(8, 5, tmp_path, traced=True)
    assert found.wrong == [] and found.refused.total() > 2


def test_small_file_that_asks_for_much(tmp_path) -> None:
    path = tmp_path / "tiled.tflite"
    path.write_bytes(tiled_model([2, 3]))
    assert np.array_equal(
        evaluate(import_model(path), {"x": np.ones((1, 1), np.float32)})["y"], np.full((2, 3), 2)
    )
    path.write_bytes(tiled_model([1 << 14, 1 << 13]))
    tracemalloc.start()
    try:
        import_model(path)
    except UnsupportedError as error:
        assert "tiled.tflite" in str(error) and "\n" not in str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 << 20


def test_missing_package(tmp_path, monkeypatch) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    monkeypatch.setitem(sys.modules, "tflite", None)
    schema.cache_clear()
    with pytest.raises(UnsupportedError, match=re.escape(install_command("tflite"))):
        import_model(path)


def test_second_opinion(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    ours, arms = import_model(path), converted(path, {"image": [2, 12]})
    for seed in range(4):
        x = np.random.default_rng(seed).integers(-128, 128, (2, 12)).astype(np.int8)
        found, wanted = evaluate(ours, {"image": x})["scores"], evaluate(arms, {arms.inputs[0]: x})
        # Arm rounds the sums of dense layers twice.
        assert np.abs(found.astype(int) - wanted[arms.outputs[0]]).max() <= 1
