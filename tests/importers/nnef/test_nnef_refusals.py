"""What is legal NNEF but has no TOSA form is refused by name, and the survey goes on behind it."""

import pathlib

import numpy as np
import pytest
from nnef_cases import flat
from nnef_model_files import write_model

from tosaic.compiler.importers import survey_model
from tosaic.compiler.importers.nnef.tosa import import_nnef
from tosaic.compiler.importers.survey import LoweringForm
from tosaic.errors import InputError, UnsupportedError

REFUSED = [
    (flat("y = copy(x);").replace("external(", "external<string>("), "TOSA has no tensor<string>"),
    (flat("y = relu(x);", shape="[1,1,1,1,1,1,2]"), "has rank 7; TOSA's tensors have 6 dimensions at most"),
    (flat("y = unsqueeze(x, axes = [0,1,2]);"), "has rank 7"),
    (
        flat(
            "f = constant(shape = [1,1,1,1,1,1], value = [1.0]); y = conv(x, f);",
            shape="[1,1,2,2,2,2]",
        ),
        "4 spatial dimensions; TOSA convolves 0 to 3 of them",
    ),
    (
        flat("y = avg_pool(x, size = [1,1,2,2], padding = [(0,0),(0,0),(2,0),(0,0)], border = 'ignore');"),
        "a window lies in the ignored border of dimension 2 alone",
    ),
    (
        flat("y = max_pool(x, size = [1,1,1,1], padding = [(0,0),(0,0),(0,0),(1,0)], border = 'ignore');"),
        "ignored border of dimension 3",
    ),
    (
        flat(
            "f = constant(shape = [4,4,3,3], value = [1.0]);"
            " y = conv(x, f, padding = [(8,8),(0,0)], border = 'reflect');"
        ),
        "the border 'reflect' of 8 elements is wider than dimension 2 of 8",
    ),
    (
        flat("y = multilinear_upsample(x, factor = [2,2], border = 'reflect');", shape="[1,1,1,4]"),
        "the border 'reflect' reaches",
    ),
    (
        flat("c = constant<integer>(shape = [1], value = [4294967296]); y = add(x, 1.0);"),
        "its integers go from 4294967296 to 4294967296, TOSA's to 32 bits",
    ),
    (
        flat(
            "f = constant(shape = [4,4,3,3], value = [1.0]); y = deconv(x, f, dilation = [4611686018427387904,1]);"
        ),
        "leaves 32 bits",
    ),
    (
        flat(
            "m = max_reduce(x, axes = [0,2,3]); r = reshape(m, shape = [1,4]);"
            " i = constant<integer>(shape = [1,1], value = [0]); y = roi_resample(x, r, i, output_size = [2,2]);",
            shape="[1,4,100000000,1]",
        ),
        "the points of dimension 2 would have 200000000 elements",
    ),
    (flat("y = relu(x);", shape="[65536,65536]"), "has more than 2147483647 elements"),
    (
        flat("r = argmax_reduce(x, axes = [0]); y = argmax_pool(r, size = [1,2]);"),
        "the elements are integers",
    ),
    (
        flat("y = multilinear_upsample(x, factor = [2,2]);", shape="[1,1,5000,5000]"),
        "the matrix of a dimension would have 50000000 elements, at most 8388608 are made",
    ),
    (
        flat(
            "y = max_pool(x, size = [1,1,50000,1], dilation = [1,1,2,1], padding = [(0,0),(0,0),(0,0),(0,0)]);",
            shape="[1,1,200000,1]",
        ),
        "the windows of dimension 2 would have",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refusal_names_place_operation_and_reason(text: str, message: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UnsupportedError) as error:
        import_nnef(write_model(tmp_path, text, {}))
    told = str(error.value)
    assert message in told and "\n" not in told
    assert told.startswith(f"{tmp_path}/graph.nnef:") and "; " in told


def test_survey_goes_on_behind_refusals(tmp_path: pathlib.Path) -> None:
    text = flat(
        "f = variable(shape = [4,4,3,3], label = 'f');\n"
        "    a = avg_pool(x, size = [1,1,1,2], padding = [(0,0),(0,0),(1,0),(0,0)], border = 'ignore');\n"
        "    b = local_response_normalization(x, size = [1,3]);\n    s = softmax(a);\n    y = conv(s, f);"
    )
    folder = write_model(tmp_path, text, {"f": np.ones((4, 4, 3, 3), np.float32)})
    operators, graph = survey_model(folder)
    assert graph is None
    assert [(o.kind, o.name, o.form) for o in operators] == [
        ("external", "x", LoweringForm.DIRECT),
        ("variable", "f", LoweringForm.DIRECT),
        ("avg_pool", "a", LoweringForm.NOT_REPRESENTABLE),
        ("local_response_normalization", "b", LoweringForm.COMPOSITE),
        ("softmax", "s", LoweringForm.COMPOSITE),
        ("conv", "y", LoweringForm.DIRECT),
    ]
    assert "box in avg_pool of 'a'" in operators[2].reason
    with pytest.raises(UnsupportedError, match="ignored border"):
        import_nnef(folder)


def test_survey_of_fragments_names_what_is_assigned(tmp_path: pathlib.Path) -> None:
    header = "extension KHR_enable_fragment_definitions KHR_enable_operator_expressions;\n"
    header += "fragment twice( a: tensor<scalar> ) -> ( b: tensor<scalar> ) { b = relu(a + a); }\n"
    operators, graph = survey_model(write_model(tmp_path, flat("y = twice(x);", header), {}))
    assert graph is not None
    assert [(o.kind, o.name) for o in operators] == [("external", "x"), ("add", "y"), ("relu", "y")]


def test_shapes_are_whole_shapes_of_inputs(tmp_path: pathlib.Path) -> None:
    folder = write_model(tmp_path, flat("y = relu(x);"), {})
    assert import_nnef(folder, {"x": [2, 3]}).tensors["y"].shape == (2, 3)
    with pytest.raises(InputError, match="NNEF has no open dimensions"):
        import_nnef(folder, {"x": 2})


def test_large_constants_of_one_value_stay_small(tmp_path: pathlib.Path) -> None:
    text = flat(
        "c = constant(shape = [1,4,3000,3000], value = [0.5]); y = add(x, c);", shape="[1,4,3000,3000]"
    )
    graph = import_nnef(write_model(tmp_path, text, {}))
    assert sum(t.data.nbytes for t in graph.tensors.values() if t.data is not None) < 1000


def test_labels_are_compared_without_case(tmp_path: pathlib.Path) -> None:
    text = flat(
        "a = variable(shape = [1,4], label = 'Net/V'); b = variable(shape = [1,4], label = 'net/v');\n"
        "    s = add(a, b); y = update(b, s);",
        shape="[1,4]",
    )
    graph = import_nnef(write_model(tmp_path, text, {"Net/V": np.ones((1, 4), np.float32)}))
    assert list(graph.states) == ["Net/V.state"] and graph.outputs == ["y", "Net/V.next"]
