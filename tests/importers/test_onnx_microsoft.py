"""Operators that ONNX Runtime's optimizers write: its own numbers, integers on the emulator, and refusals by name."""

import pathlib
import sys
from dataclasses import replace

import microsoft_cases as cases
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state
from shared_files import ABSENT, SHARED

from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.importers.onnx_models.microsoft_signatures import SIGNATURES
from tosaic.errors import Error, ModelError, UnsupportedError
from tosaic.sim.golden import evaluate

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "quantizer"))

from float_networks import quantize_graph, run_everywhere, worst_db  # noqa: E402 (the path comes first)

CLOSE = 1e-4
CASES = SHARED / "cases/models"


def case(name, seed):
    return cases.FORMS[name](np.random.default_rng([seed, len(name)]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", cases.FORMS)
def test_as_onnx_runtime_computes(name, seed):
    assert max(cases.judged(case(name, seed)).values()) < CLOSE


@pytest.mark.nightly
@pytest.mark.parametrize("name", cases.FORMS)
def test_many_as_onnx_runtime_computes(name):
    for seed in range(100, 300):
        assert max(cases.judged(case(name, seed)).values()) < CLOSE, seed


def samples(made, count=8):
    random = np.random.default_rng(9)
    return {
        name: np.stack(
            [
                value + random.standard_normal(value.shape).astype(np.float32)
                if value.dtype.kind == "f"
                else value
                for _ in range(count)
            ]
        )
        for name, value in (
            (name, cases.HELD.get(value.dtype.name, lambda x: x)(value))
            for name, value in made.feeds().items()
        )
    }


@pytest.mark.parametrize("name", sorted(set(cases.FORMS) - {"tensor_scatter"}))
def test_integers(name):
    """Quantized, they run on the emulator bit for bit as golden, and are near the reals."""
    made = case(name, 1)
    quantization = quantize_graph(import_onnx(made.model()), samples(made))
    assert worst_db(quantization) > 24
    run_everywhere(quantization)


def test_signatures_are_those_of_onnx_runtime():
    """Names, order and types; what a newer ONNX Runtime adds is refused all the same."""
    theirs = {
        schema.name: schema
        for schema in onnxruntime_pybind11_state.get_all_operator_schema()
        if schema.domain == "com.microsoft" or schema.name == "SimplifiedLayerNormalization"
    }
    for name, signature in SIGNATURES.items():
        if name == "LayerNormalization":
            continue
        schema = theirs[name]
        for own, parameters in ((signature.inputs, schema.inputs), (signature.outputs, schema.outputs)):
            assert [each.name for each in own] == [each.name for each in parameters][: len(own)], name
            needed = [str(each.option).endswith("Single") for each in parameters]
            assert [not each.optional for each in own] == needed[: len(own)], name
        for attribute in signature.attributes:
            assert attribute.optional != schema.attributes[attribute.name].required, (name, attribute.name)


@pytest.mark.parametrize("name", ["tensorscatter", "matmulnbits"])
def test_shared_case(name):
    path = CASES / f"{name}.onnx"
    if not path.exists():
        pytest.skip(ABSENT)
    random = np.random.default_rng(2)
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in onnx.load(path).graph.input
    }
    feeds = {n: random.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    wanted = onnxruntime.InferenceSession(str(path)).run(None, feeds)[0]
    np.testing.assert_allclose(evaluate(import_onnx(path), feeds)["y"], wanted, atol=1e-6)


# --- forms that ONNX Runtime's CPU has not ------------------------------------------------------------------------


def test_packed_queries_keys_and_values():
    """One tensor for three, and one for keys and values, give what three tensors give."""
    random = np.random.default_rng(4)
    q, k, v = (random.standard_normal((2, 3, 2, 4)).astype(np.float32) for _ in range(3))
    bias = random.standard_normal(24).astype(np.float32)

    def result(**inputs):
        made = cases.Case("MultiHeadAttention", inputs, ["y"], {"num_heads": 2})
        return evaluate(import_onnx(made.model()), made.feeds())["y"]

    flat = [each.reshape(2, 3, 8) for each in (q, k, v)]
    plain = result(q=flat[0], k=flat[1], v=flat[2], b=bias)
    whole = result(q=np.stack([q, k, v], 3), k=None, v=None, b=bias)
    pair = result(q=flat[0], k=np.stack([k, v], 3), v=None, b=bias)
    np.testing.assert_array_equal(plain, whole)
    np.testing.assert_array_equal(plain, pair)


def test_cache_is_written_at_a_place_that_only_the_run_tells():
    """One program for each step of a language model: two sequences, of two lengths."""
    random = np.random.default_rng(6)
    cache, new = (random.standard_normal(s).astype(np.float32) for s in ((2, 2, 8, 4), (2, 2, 1, 4)))
    inputs = {"cache": cache, "new": new, "first": np.array([3, 5], np.int64)}
    made = cases.Case("TensorScatter", inputs, ["y"], {}, (), "", 24)
    graph = import_onnx(made.model())
    for first in ((0, 7), (4, 2)):
        feeds = {"cache": cache, "new": new, "first": np.array(first, np.int32)}
        wanted = cache.copy()
        for batch, place in enumerate(first):
            wanted[batch, :, place] = new[batch, :, 0]
        np.testing.assert_array_equal(evaluate(graph, feeds)["y"], wanted)


# --- refusals -----------------------------------------------------------------------------------------------------


def changed(name, seed=0, **attributes):
    made = case(name, seed)
    return replace(made, attributes=made.attributes | attributes)


def with_input(name, extra, seed=0):
    made = case(name, seed)
    return replace(made, inputs=made.inputs | extra)


def full(name, count, **extra):
    """The case with inputs left out up to `count`, and more behind."""
    made = case(name, 0)
    inputs = made.inputs | {f"none_{i}": None for i in range(count - len(made.inputs))}
    return replace(made, inputs=inputs | extra)


INT = np.zeros(1, np.int32)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (changed("packed_attention", do_rotary=1), "attribute do_rotary of 1 is not imported"),
        (changed("packed_attention", new=1), "attribute 'new' is not known"),
        (changed("rotary", scale=2.0), "attribute scale of 2 is not imported"),
        (changed("group_query_attention", k_quant_type="PER_TENSOR"), "k_quant_type of PER_TENSOR"),
        (changed("group_query_attention", sliding_window_cache=1), "sliding_window_cache of 1"),
        (full("group_query_attention", 16, query_seqlens=INT), "input query_seqlens is not imported"),
        (full("multi_head_attention", 8, past_length=INT), "input past_sequence_length is not imported"),
        (with_input("blocked_product", {"g_idx": INT}), "input g_idx is not imported"),
        (changed("blocked_product", weight_prepacked=1), "weight_prepacked of 1 is not imported"),
        (changed("blocked_product", bits=3), "weights of 3 bits"),
        (replace(case("blocked_product", 0), constants=()), "'B'. is computed at run time"),
        (replace(case("activations", 0), op="PackedAttention"), "operator PackedAttention of domain"),
        (replace(case("activations", 0), op="DecoderMaskedMultiHeadAttention"), "beam search"),
        (changed("gemm", activation="Cos"), "its activation 'Cos' is not known"),
    ],
)
def test_refused_by_name(made, told):
    with pytest.raises(UnsupportedError, match=told) as caught:
        import_onnx(made.model())
    assert made.op in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (
            replace(case("skip_norms", 0), inputs={"x": np.ones((1, 2, 8), np.float32)}),
            "input skip is missing",
        ),
        (
            replace(case("multi_head_attention", 0), attributes={}),
            "required attribute 'num_heads' is missing",
        ),
        (changed("multi_head_attention", num_heads=3), "elements of 3 heads"),
        (changed("multi_head_attention", num_heads=0), "elements of 0 heads"),
        (changed("blocked_product", K=1), "weights"),
        (changed("blocked_product", block_size=0), "weights"),
        (changed("group_query_attention", kv_num_heads=0), "heads in 0 groups"),
        (changed("tensor_scatter", mode="diagonal"), "mode 'diagonal'"),
        (changed("tensor_scatter", axis=0), "axis 0"),
    ],
)
def test_contradictions(made, told):
    with pytest.raises(ModelError, match=told):
        import_onnx(made.model())


def test_damaged_forms_end_in_one_line():
    """Shapes that do not fit, attributes out of range: an error of one line each."""
    for name in cases.FORMS:
        for seed in range(12):
            random = np.random.default_rng([seed, 77])
            made = case(name, seed)
            inputs = dict(made.inputs)
            given = [key for key, value in inputs.items() if value is not None and value.ndim]
            key = given[int(random.integers(len(given)))]
            value = inputs[key]
            inputs[key] = (value[..., :1], value[None], value.reshape(-1)[:3])[int(random.integers(3))]
            try:
                import_onnx(replace(made, inputs=inputs).model())
            except Error as error:
                assert "\n" not in str(error)


def test_node_of_an_unknown_domain():
    made = case("activations", 0).model()
    made.graph.node[0].domain = "other"
    made.opset_import.append(helper.make_opsetid("other", 1))
    with pytest.raises(UnsupportedError, match="give it as a local function"):
        import_onnx(made)


BLOCK = """<ir_version: 8, opset_import: ["" : 13]>
block (float[2,4,8] x) => (float[2,4,8] y)
<float[1] two = {2}, float half = {0.5}, float one = {1}, float root = {1.4142135}, float small = {0.00001}>
{
    a = MatMul(x, w)  b = Add(a, c)
    e0 = Div(b, root)  e1 = Erf(e0)  e2 = Add(e1, one)  e3 = Mul(b, e2)  gelu = Mul(e3, half)
    t = Transpose<perm = [0, 2, 1]>(gelu)  scores = MatMul(gelu, t)  mixed = MatMul(scores, x)
    s = Add(mixed, x)
    m = ReduceMean<axes = [-1]>(s)  d = Sub(s, m)  p = Pow(d, two)  v = ReduceMean<axes = [-1]>(p)
    u = Add(v, small)  r = Sqrt(u)  n = Div(d, r)  g = Mul(n, gamma)  y = Add(g, beta)
}"""


def test_model_that_onnx_runtime_optimized(tmp_path):
    """At level "extended" it writes FusedMatMul, a Gelu and SkipLayerNormalization, in a model of opset 13."""
    random = np.random.default_rng(8)
    model = onnx.parser.parse_model(BLOCK)
    for name, shape in (("w", (8, 8)), ("c", (8,)), ("gamma", (8,)), ("beta", (8,))):
        values = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    written = {node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node}
    assert {"FusedMatMul", "SkipLayerNormalization"} < written
    feeds = {"x": random.standard_normal((2, 4, 8)).astype(np.float32)}
    (wanted,) = session.run(None, feeds)
    got = evaluate(import_onnx(tmp_path / "optimized.onnx"), feeds)["y"]
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_layout_of_one_processor_is_refused_with_the_way_out():
    made = case("activations", 0).model()
    made.graph.node[0].domain = "com.microsoft.nchwc"
    made.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(UnsupportedError, match="optimize it to level 'extended'"):
        import_onnx(made)


def test_attributes_and_domains_of_other_types():
    """Numbers where names are wanted, and a domain that is no text."""
    made = changed("gemm", activation=0.5).model()
    with pytest.raises(ModelError, match="FusedGemm"):
        import_onnx(made)
    made = case("activations", 0).model()
    data = made.SerializeToString().replace(b"com.microsoft", b"com.\xffmicrosof")
    with pytest.raises(Error):
        import_onnx(onnx.ModelProto.FromString(data))
