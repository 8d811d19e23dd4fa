"""Files: containers, inputs and outputs, weights, the schema, the command line."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from coreml_models import DOUBLE, FLOAT16, INT32, array, check, floats, image, layer, model, run

from tosaic.compiler.importers import import_model, survey_model
from tosaic.compiler.importers.coreml import import_coreml
from tosaic.compiler.importers.coreml.layer_table import LAYERS, layers_markdown
from tosaic.compiler.importers.coreml.registry import HANDLERS
from tosaic.compiler.importers.coreml.schema import messages
from tosaic.compiler.importers.survey import LoweringForm
from tosaic.compiler.ir import DType
from tosaic.driver.session import Session
from tosaic.errors import InputError, ModelError, UnsupportedError
from tosaic.install import install_command

RANDOM = np.random.default_rng(15)
COPY = [layer("copy", ["x"], ["y"])]


def simple(**more):
    return model(COPY, [array("x", [3])], [array("y", [3])], **more)


# --- the schema and the table ---------------------------------------------------------------------------------


@pytest.mark.nightly
def test_schema_is_that_of_coremltools():
    """Every message of ours has Apple's fields: numbers, types, labels. Opaque stands for what is not read."""
    import coremltools.proto.DataStructures_pb2 as structures
    import coremltools.proto.FeatureTypes_pb2 as features
    import coremltools.proto.Model_pb2 as models
    import coremltools.proto.NeuralNetwork_pb2 as networks

    theirs = {}
    for module in (structures, features, models, networks):
        theirs |= module.DESCRIPTOR.message_types_by_name
    packed = [("WeightParams", "floatValue")]
    compared = sum(
        _same(cls.DESCRIPTOR, theirs[name], packed) for name, cls in messages().items() if name != "Opaque"
    )
    assert compared > 600


def _same(ours, theirs, packed):
    count = 0
    for field in ours.fields:
        other = theirs.fields_by_name[field.name]
        assert field.number == other.number, field.full_name
        assert field.is_repeated == other.is_repeated, field.full_name
        oneofs = [each.containing_oneof and each.containing_oneof.name for each in (field, other)]
        assert oneofs[0] == oneofs[1], field.full_name
        if (ours.name, field.name) not in packed:
            assert field.type == other.type, field.full_name
        if field.message_type and field.message_type.name != "Opaque":
            assert field.message_type.full_name == other.message_type.full_name
        if field.enum_type:
            values = [{v.name: v.number for v in each.enum_type.values} for each in (field, other)]
            assert values[0] == values[1], field.full_name
        count += 1
    for nested in ours.nested_types:
        count += _same(nested, theirs.nested_types_by_name[nested.name], packed)
    return count


def test_every_layer_has_its_row_and_every_row_its_lowering():
    fields = [f.name for f in messages()["NeuralNetworkLayer"].DESCRIPTOR.oneofs_by_name["layer"].fields]
    assert sorted(fields) == sorted(LAYERS) and len(LAYERS) == 158
    control = {"branch", "loop", "loopBreak", "loopContinue"}
    lowered = {kind for kind, row in LAYERS.items() if row.form is not LoweringForm.NOT_REPRESENTABLE}
    assert lowered == set(HANDLERS) | control
    assert all(row.note for row in LAYERS.values())


def test_documentation_holds_the_table():
    import pathlib

    text = (pathlib.Path(__file__).parents[3] / "docs" / "coreml_layers.md").read_text()
    assert layers_markdown() in text


@pytest.mark.parametrize(
    "kind", [k for k, row in LAYERS.items() if row.form is LoweringForm.NOT_REPRESENTABLE]
)
def test_layers_without_a_tosa_form_are_refused_with_the_reason(kind):
    names = ["x"] * LAYERS[kind].inputs[0]
    outputs = [f"y{i}" for i in range(max(LAYERS[kind].outputs[0], 1))]
    message = model([layer(kind, names, outputs)], [array("x", [3])], [array("y0", [])])
    with pytest.raises(UnsupportedError) as error:
        import_coreml(message.SerializeToString())
    assert f"layer 'y0' ({kind})" in str(error.value) and LAYERS[kind].note in str(error.value)


def test_survey_tells_of_every_layer(tmp_path):
    layers = [
        layer("softmaxND", ["x"], ["p"], name="soft", axis=-1),
        layer("custom", ["p"], ["c"], name="own", className="Secret"),
        layer("copy", ["c"], ["d"], name="behind"),
        layer("randomNormalLike", ["p"], ["r"], name="noise"),
        layer("add", ["r"], ["y"], name="more", alpha=1.0),
    ]
    layers[3].outputTensor.add(rank=1, dimValue=[3])
    path = tmp_path / "m.mlmodel"
    path.write_bytes(model(layers, [array("x", [3])], [array("y", [])]).SerializeToString())
    operators, graph = survey_model(path)
    assert graph is None
    forms = [
        LoweringForm.COMPOSITE,
        LoweringForm.NOT_REPRESENTABLE,
        LoweringForm.UNKNOWN,
        LoweringForm.NOT_REPRESENTABLE,
        LoweringForm.DIRECT,
    ]
    assert [o.form for o in operators] == forms
    assert "'Secret'" in operators[1].reason and "own" in operators[2].reason
    with pytest.raises(UnsupportedError, match="'Secret' has no TOSA form"):
        import_model(path)


# --- containers -----------------------------------------------------------------------------------------------


def test_kinds_of_models_are_refused_by_name(tmp_path):
    cls = messages()["Model"]
    for kind, text in (("mlProgram", "an ML program"), ("glmRegressor", "of kind glmRegressor")):
        message = cls(specificationVersion=7)
        getattr(message, kind).SetInParent()
        with pytest.raises(UnsupportedError, match=f"{text}.*convert_to='neuralnetwork'"):
            import_coreml(message.SerializeToString())
    folder = tmp_path / "m.mlpackage"
    folder.mkdir()
    with pytest.raises(UnsupportedError, match="is an ML package.*convert_to='neuralnetwork'"):
        import_model(folder)
    with pytest.raises(InputError, match="there is no such file"):
        import_model(tmp_path / "none.mlmodel")
    with pytest.raises(ModelError, match="none of Core ML's kinds"):
        import_coreml(b"")
    with pytest.raises(ModelError, match="it is not a Core ML model"):
        import_coreml(b"\x08\x05\x12\xff\xff")
    with pytest.raises(ModelError, match="specification version 99 is not known"):
        import_coreml(simple(version=99).SerializeToString())


def test_without_protobuf_the_way_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(UnsupportedError, match=re.escape(install_command("coreml"))):
        messages.__wrapped__()  # not the classes that are made already


def test_regressors():
    assert import_coreml(simple(kind="neuralNetworkRegressor").SerializeToString()).outputs == ["y"]


def test_pipelines():
    cls = messages()["Model"]
    one = cls(specificationVersion=5, pipeline={"models": [simple()]})
    assert import_coreml(one.SerializeToString()).inputs == ["x"]
    two = cls(specificationVersion=5, pipeline={"models": [simple(), simple()]})
    with pytest.raises(UnsupportedError, match="a pipeline of 2 models"):
        import_coreml(two.SerializeToString())


def test_a_layer_of_version_4_is_illegal_with_the_mapping_to_rank_5():
    with pytest.raises(ModelError, match="layer 'y' .copy. came with specification version 4"):
        import_coreml(simple(exact=False, version=4).SerializeToString())


# --- inputs and outputs ---------------------------------------------------------------------------------------


def test_types_of_arrays():
    x = np.array([-1.75, 2.5, 3.0])
    message = model(COPY, [array("x", [3], DOUBLE)], [array("y", [3], INT32)])
    got = run(message, {"x": x})["y"]
    assert got.dtype == np.int32 and got.tolist() == [-1, 2, 3]
    graph = import_coreml(
        model(COPY, [array("x", [3], INT32)], [array("y", [3], FLOAT16)]).SerializeToString()
    )
    assert [graph.tensors[name].dtype for name in ("x", "y")] == [DType.INT32, DType.FP16]
    with pytest.raises(UnsupportedError, match="data type number 131080"):
        import_coreml(model(COPY, [array("x", [3], 131080)], [array("y", [3])]).SerializeToString())
    text = {"name": "x", "type": {"stringType": {}}}
    with pytest.raises(UnsupportedError, match="input 'x' is of stringType"):
        import_coreml(model(COPY, [text], [array("y", [3])]).SerializeToString())


def test_mapping_to_rank_5():
    scale = [layer("scale", ["x"], ["y"], shapeScale=[2], scale=floats([2.0, 3.0]))]
    message = model(scale, [array("x", [2])], [array("y", [2])], exact=False, version=1)
    np.testing.assert_array_equal(run(message, {"x": [1.0, 1.0]})["y"], [2, 3])
    message = model(scale, [array("x", [2, 1, 3])], [array("y", [])], exact=False, version=1)
    assert run(message, {"x": np.ones((2, 1, 3))})["y"].shape == (1, 1, 2, 1, 3)
    with pytest.raises(ModelError, match="it must have 1, 3 or 5 axes"):
        import_coreml(
            model(scale, [array("x", [2, 3])], [array("y", [])], exact=False, version=1).SerializeToString()
        )


def test_flexible_shapes_are_bound():
    ranges = {
        "shapeRange": {
            "sizeRanges": [{"lowerBound": 1, "upperBound": -1}, {"lowerBound": 2, "upperBound": 4}]
        }
    }
    message = model(COPY, [array("x", [1, 2], **ranges)], [array("y", [])]).SerializeToString()
    assert import_coreml(message).tensors["x"].shape == (1, 2)
    assert import_coreml(message, {"x": (7, 4)}).tensors["x"].shape == (7, 4)
    with pytest.raises(InputError, match=r"\[7, 5\] does not fit the declared shape 1 to any, 2 to 4"):
        import_coreml(message, {"x": (7, 5)})
    shapes = {"enumeratedShapes": {"shapes": [{"shape": [1, 2]}, {"shape": [3, 3]}]}}
    message = model(COPY, [array("x", [1, 2], **shapes)], [array("y", [])]).SerializeToString()
    assert import_coreml(message, {"x": (3, 3)}).tensors["y"].shape == (3, 3)
    with pytest.raises(InputError, match="does not fit"):
        import_coreml(message, {"x": (3, 2)})
    with pytest.raises(InputError, match="the model has no such input"):
        import_coreml(message, {"z": (3, 2)})
    with pytest.raises(InputError, match="'x' has no shape.*--shape x="):
        import_coreml(model(COPY, [array("x", [])], [array("y", [])]).SerializeToString())


@pytest.mark.parametrize(("colours", "order"), [(20, [0, 1, 2]), (30, [2, 1, 0])])
@pytest.mark.parametrize("exact", [False, True])
def test_images_with_a_scaler(colours, order, exact):
    x = RANDOM.integers(0, 256, (1, 3, 4, 5)).astype(np.float32)
    bias = np.array([0.5, -1.0, 2.0])
    scaler = {"channelScale": 0.25, "redBias": 0.5, "greenBias": -1.0, "blueBias": 2.0}
    message = model(
        [layer("activation", ["x"], ["y"], linear={"alpha": 1.0})], [image("x", 4, 5, colours)], [array("y", [])],
        imageInputShapeMapping=int(exact), preprocessing=[{"featureName": "x", "scaler": scaler}],
    )  # fmt: skip
    got = run(message, {"x": x})["y"]
    wanted = 0.25 * x + bias[order].reshape(1, 3, 1, 1)
    np.testing.assert_allclose(got, wanted if exact else wanted[None], rtol=1e-6)


def test_gray_images_with_a_mean_image_and_another_size():
    mean = RANDOM.integers(0, 256, (1, 1, 2, 3)).astype(np.float32)
    sizes = {"enumeratedSizes": {"sizes": [{"height": 2, "width": 3}]}}
    subtract = [{"meanImage": {"meanImage": mean.reshape(-1).tolist()}}]
    relu = [layer("activation", ["x"], ["y"], linear={"alpha": 1.0})]
    message = model(relu, [image("x", 4, 5, 10, **sizes)], [array("y", [])], preprocessing=subtract)
    x = np.full((1, 1, 2, 3), 7.0, np.float32)
    np.testing.assert_array_equal(run(message, {"x": x}, {"x": (2, 3)})["y"], (x - mean)[None])
    with pytest.raises(ModelError, match="the mean image has 6 numbers, not 20"):
        import_coreml(message.SerializeToString())
    with pytest.raises(InputError, match="does not fit the declared image size"):
        import_coreml(message.SerializeToString(), {"x": (9, 9)})


def classifier():
    layers = [layer("softmax", ["x"], ["probs"])]
    probabilities = {"name": "classProbs", "type": {"dictionaryType": {}}}
    label = {"name": "label", "type": {"stringType": {}}}
    described = {"predictedFeatureName": "label", "predictedProbabilitiesName": "classProbs"}
    return model(
        layers, [array("x", [3])], [label, probabilities], kind="neuralNetworkClassifier", exact=False, version=1,
        description=described.items(), labelProbabilityLayerName="probs",
        stringClassLabels={"vector": ["cat", "dog", "owl"]},
    )  # fmt: skip


def test_classifier_labels_reach_the_session_and_the_command_line(tmp_path):
    path = tmp_path / "m.mlmodel"
    path.write_bytes(classifier().SerializeToString())
    session = Session(path, "golden")
    assert session.labels == {"classProbs": ["cat", "dog", "owl"]}
    x = np.array([0.0, 3.0, 1.0], np.float32)
    got = session.run({"x": x})["classProbs"]
    np.testing.assert_allclose(got, np.exp(x) / np.exp(x).sum(), rtol=1e-5)
    np.save(tmp_path / "x.npy", x)
    main = "from tosaic.cli.app import main; main()"
    arguments = ["run", str(path), "--on", "golden", "-i", f"x={tmp_path / 'x.npy'}"]
    shown = subprocess.run(
        [sys.executable, "-c", main, *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert "the largest is 'dog' (1 of 3 classes)" in shown
    wrong = classifier()
    wrong.neuralNetworkClassifier.stringClassLabels.vector.append("emu")
    with pytest.raises(ModelError, match="4 labels, and 3 probabilities"):
        import_coreml(wrong.SerializeToString())


def test_labels_stay_with_a_compiled_program(tmp_path):
    from tosaic.compiler.build import compile_graph
    from tosaic.compiler.ir import GraphBuilder
    from tosaic.compiler.program import Program
    from tosaic.hw.config_text import get_config

    build = GraphBuilder("labelled")
    x = build.input("x", (1, 4), DType.INT8)
    build.output(build.add("CLAMP", [x], min_val=0, max_val=5))
    graph = build.finish()
    graph.labels["y"] = ["a", 2]
    program = compile_graph(graph, get_config("small"))
    assert Program.load(program.to_bytes()).labels == {"y": ["a", 2]}
    assert json.loads(json.dumps(program.labels)) == program.labels


# --- weights --------------------------------------------------------------------------------------------------


def packed(values, bits):
    """Unsigned integers as a stream of bits, the highest first."""
    text = "".join(f"{value:0{bits}b}" for value in values)
    return int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")


@pytest.mark.parametrize("bits", range(1, 9))
def test_quantized_weights_of_every_width(bits):
    q = RANDOM.integers(0, 1 << bits, (3, 5))
    scale, bias = np.array([0.5, 2.0, 0.25], np.float32), np.array([-1.0, 0.5, 3.0], np.float32)
    params = {"rawValue": packed(q.reshape(-1).tolist(), bits), "quantization": {"numberOfBits": bits}}
    linear = {
        **params,
        "quantization": {"numberOfBits": bits, "linearQuantization": {"scale": scale, "bias": bias}},
    }
    constant = {"shape": [3, 5]}
    check("loadConstantND", [], {**constant, "data": linear}, q * scale[:, None] + bias[:, None])
    one = {**params, "quantization": {"numberOfBits": bits, "linearQuantization": {"scale": [0.5]}}}
    check("loadConstantND", [], {**constant, "data": one}, q * 0.5)
    table = RANDOM.standard_normal(1 << bits).astype(np.float32)
    looked = {"numberOfBits": bits, "lookupTableQuantization": {"floatValue": table}}
    check("loadConstantND", [], {**constant, "data": {**params, "quantization": looked}}, table[q])


def test_half_weights_and_wrong_ones():
    w = RANDOM.standard_normal((2, 3)).astype(np.float16)
    check("loadConstantND", [], {"shape": [2, 3], "data": {"float16Value": w.tobytes()}}, w)
    wrong = [
        ({}, "data are missing: 6 numbers are needed"),
        ({"floatValue": [b"12345"]}, "5 bytes are no whole number of float32"),
        ({"float16Value": b"123"}, "3 bytes are no whole number of float16"),
        ({"float16Value": b"12", "rawValue": b"1"}, "stored twice"),
        ({"rawValue": b"1" * 6}, "have 0 bits"),
        ({"rawValue": b"1" * 6, "quantization": {"numberOfBits": 8}}, "without a scale or a look-up table"),
        (
            {"rawValue": b"1", "quantization": {"numberOfBits": 4}},
            "1 bytes, not the 3 of 6 numbers of 4 bits",
        ),
    ]
    for data, text in wrong:
        with pytest.raises((ModelError, UnsupportedError), match=text):
            check("loadConstantND", [], {"shape": [2, 3], "data": data}, w)


# --- layout ---------------------------------------------------------------------------------------------------


def test_transposes_stand_at_the_borders_only():
    """Rank 5 all through, as old converters write: convolutions, activations, a pool, a sum, a classifier."""
    w = floats(RANDOM.standard_normal((3, 3, 3, 3)))
    statistics = {field: floats([1, 2, 3]) for field in ("gamma", "beta", "mean", "variance")}
    convolution = {"outputChannels": 3, "kernelChannels": 3, "weights": w, "same": {}}
    layers = [
        layer("convolution", ["x"], ["a"], **convolution),
        layer("batchnorm", ["a"], ["b"], channels=3, **statistics),
        layer("activation", ["b"], ["c"], ReLU={}),
        layer("convolution", ["c"], ["d"], **convolution),
        layer("add", ["d", "c"], ["e"]),
        layer("concat", ["e", "a"], ["f"]),
        layer("pooling", ["f"], ["g"], type=0, kernelSize=[2, 2], stride=[2, 2], valid={}),
        layer("activation", ["g"], ["y"], sigmoid={}),
    ]  # fmt: skip
    message = model(layers, [array("x", [3, 8, 8])], [array("y", [6, 4, 4])], exact=False, version=1)
    operators = [op.op for op in import_coreml(message.SerializeToString()).operators]
    assert operators.count("TRANSPOSE") == 2
    assert operators.count("RESHAPE") == 2
