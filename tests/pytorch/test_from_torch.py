"""`tosaic.from_torch`: both roads, what goes in and comes out, and what is refused."""

import re
import sys

import numpy as np
import pytest
import torch
from rest_nightly import first_of
from torch_modules import Classifier, Counter, Sorted, Tokens, classifier

import tosaic
from tosaic.install import install_command

ROADS = pytest.mark.parametrize("road", ["onnx", "executorch"])
ONE_ROAD = pytest.mark.parametrize("road", first_of(["onnx", "executorch"], 1))
"""What is behind the road is the same for both."""


def decibels(wanted, got):
    """Signal to quantization noise ratio."""
    return 10 * np.log10((wanted**2).sum() / ((got - wanted) ** 2).sum())


@ROADS
@pytest.mark.parametrize(("activations", "least"), [("int8", 30), ("int16", 40)])
def test_floats_in_floats_out(road, activations, least):
    module, image, calibration = classifier()
    session = tosaic.from_torch(
        module, image, calibration, road=road, activations=activations, target="emulator", config="nano"
    )
    assert module.training  # the module's own mode came back
    assert [(each.name, each.type.name.lower(), each.shape) for each in session.inputs] == [
        ("image", activations, (1, 2, 8, 8))
    ]
    got = session.run({"image": image}, check=True)
    with torch.no_grad():
        wanted = module.eval()(image)["logits"].numpy()
    assert list(got) == ["logits"]
    assert got["logits"].dtype == np.float32
    assert decibels(wanted, got["logits"]) > least
    assert session.stats["cycles"] > 0


@ONE_ROAD
def test_arguments_named_as_functions_of_python(road):
    """ExecuTorch and PT2E call `input` `input_1`; a Sequential's argument has that name. One channel, one scale."""
    torch.manual_seed(0)
    module, rows = (
        torch.nn.Sequential(torch.nn.Linear(4, 1), torch.nn.Softmax(1)).eval(),
        torch.randn(8, 6, 4),
    )
    session = tosaic.from_torch(module, rows[:1], rows, road=road, target="golden")
    assert [each.name for each in session.inputs] == ["input"]
    assert decibels(module(rows[:1]).detach().numpy(), session.run({"input": rows[:1]})["output"]) > 30

    class Ratio(torch.nn.Module):
        def forward(self, max, unused, input):
            return max - 2 * input

    example = tuple(torch.randn(2, 3) for _ in range(3))
    session = tosaic.from_torch(Ratio(), example, [example], road=road, target="golden")
    got = session.run({"input": example[2], "max": example[0], "unused": example[1]})["output"]
    assert decibels(Ratio()(*example).numpy(), got) > 30


@ROADS
def test_integers_on_request(road):
    module, image, calibration = classifier()
    options = {"road": road, "target": "golden"}
    floats = tosaic.from_torch(module, image, calibration, **options)
    integers = tosaic.from_torch(module, image, calibration, values="integers", **options)
    encoding = integers.inputs[0].encoding
    got = integers.run({"image": encoding.quantize(image.numpy())})["logits"]
    assert got.dtype == np.int8
    reals = integers.outputs[0].encoding.dequantize(got).astype(np.float32)
    assert np.array_equal(reals, floats.run({"image": image})["logits"])


def tokens():
    """Tokens of a sentence, and samples of them."""
    torch.manual_seed(0)
    return torch.randint(0, 16, (1, 6)), [(torch.randint(0, 16, (1, 6)),) for _ in range(8)]


def test_int64_tokens_and_indices():
    sentence, samples = tokens()
    module = Tokens(choosing=True).eval()
    session = tosaic.from_torch(module, sentence, samples, target="golden")
    got = session.run({"tokens": sentence})
    assert [(name, each.dtype.name) for name, each in got.items()] == [
        ("output_0", "float32"),
        ("output_1", "int64"),
    ]
    assert decibels(module(sentence)[0].detach().numpy(), got["output_0"]) > 25
    assert np.array_equal(got["output_1"], got["output_0"].argmax(-1))
    with pytest.raises(tosaic.InputError, match="'tokens' has values beyond int32"):
        session.run({"tokens": sentence + 2**40})


class Camera(torch.nn.Module):
    """Takes images as cameras give them, and gives one back beside its scores."""

    def __init__(self, last):
        super().__init__()
        self.last, self.filters = last, torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, image):
        x = image.permute(0, 3, 1, 2) if self.last else image
        scores = self.filters((255 - x).float() / 255)
        return scores, (scores.sigmoid() * 255).round().to(torch.uint8), 255 - image


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_images_of_uint8(last, target):
    torch.manual_seed(0)
    shape = (1, 8, 8, 3) if last else (1, 3, 8, 8)
    images = [torch.randint(0, 256, shape, dtype=torch.uint8) for _ in range(8)]
    images[0].reshape(-1)[:4] = torch.tensor([0, 127, 128, 255], dtype=torch.uint8)
    module = Camera(last).eval()
    session = tosaic.from_torch(module, images[0], images, target=target, config="nano")
    scores, picture, negative = session.run({"image": images[0]}, check=True).values()
    wanted = [each.detach().numpy() for each in module(images[0])]
    assert decibels(wanted[0], scores) > 35
    assert picture.dtype == negative.dtype == np.uint8
    assert np.abs(picture.astype(int) - wanted[1]).max() <= 2
    assert np.array_equal(negative, wanted[2])
    # Integers of other types that uint8 holds are taken as well.
    again = session.run({"image": images[0].numpy().astype(np.int64)})
    assert np.array_equal(again["output_0"], scores)


def test_images_that_uint8_does_not_hold():
    module, image = Camera(False).eval(), torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    with pytest.raises(tosaic.InputError) as raised:
        tosaic.from_torch(module, image, torch.rand(8, 3, 8, 8), target="golden")
    assert str(raised.value) == (
        "the calibration data for input 'image' has float32 values that uint8, the module's type, does not hold; give "
        "what forward() takes"
    )
    session = tosaic.from_torch(module, image, torch.full((8, 3, 8, 8), 200), target="golden")
    for wrong in (torch.rand(1, 3, 8, 8), torch.full((1, 3, 8, 8), 256), torch.full((1, 3, 8, 8), -1)):
        with pytest.raises(
            tosaic.InputError, match="'image' has values beyond uint8, the module's type; give what"
        ):
            session.run({"image": wrong})


def test_a_module_of_integers_alone():
    image = torch.arange(12, dtype=torch.uint8).reshape(1, 12)

    class Negative(torch.nn.Module):
        def forward(self, image):
            return 255 - image

    session = tosaic.from_torch(Negative(), image, [image], target="golden")
    assert np.array_equal(session.run({"image": image})["output"], 255 - image.numpy())


class Attention(torch.nn.Module):
    """A mask of keys in one of torch's forms."""

    def __init__(self, form):
        super().__init__()
        self.form, self.scores, self.values = form, torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x, mask):
        keys = self.values(x)
        if self.form == "scaled_dot_product":
            operands = [each[:, None] for each in (self.scores(x), keys, x, (mask > 0).expand(5, 5)[None])]
            return torch.nn.functional.scaled_dot_product_attention(*operands)[:, 0]
        scores, least = self.scores(x) @ keys.mT, torch.finfo(torch.float32).min
        hidden = 1.0 - mask[:, None].expand(1, 5, 5).to(scores.dtype)
        if self.form == "filled":
            hidden = hidden.masked_fill(hidden.bool(), least)
        if self.form == "causal":
            hidden = hidden * least + torch.triu(torch.full((5, 5), least), 1)
        if self.form == "added":
            hidden = mask[:, None]
        return (scores + hidden).softmax(-1) @ x


@pytest.mark.parametrize("form", ["scaled_dot_product", "filled", "causal", "added"])
def test_masks(form):
    torch.manual_seed(0)
    module = Attention(form).eval()
    kept = torch.rand(12, 1, 5) < 0.6
    kept[:, :, 0] = True
    masks = torch.where(kept, 0.0, -torch.inf) if form == "added" else kept.long()
    samples = list(zip(torch.randn(12, 1, 5, 8), masks, strict=True))
    session = tosaic.from_torch(module, samples[0], samples, target="golden")
    got = np.stack([session.run({"x": x, "mask": mask})["output"] for x, mask in samples])
    wanted = np.stack([module(*sample).detach().numpy() for sample in samples])
    assert decibels(wanted, got) > 25


def test_int64_tokens_through_executorch():
    sentence, samples = tokens()
    module = Tokens(choosing=False).eval()
    session = tosaic.from_torch(module, sentence, samples, road="executorch", target="golden")
    got = session.run({"tokens": sentence})
    assert decibels(module(sentence).detach().numpy(), got["output"]) > 25


def test_executorch_says_why_argmax_stays_in_floats():
    sentence, samples = tokens()
    with pytest.raises(tosaic.UnsupportedError) as raised:
        tosaic.from_torch(Tokens(choosing=True), sentence, samples, road="executorch", target="golden")
    assert str(raised.value).startswith(
        "argmax 'aten_argmax_default' int64[1, 6] is not lowered to integers by ExecuTorch: TOSA ARGMAX produces int32 "
        "but aten.argmax returns int64."
    )


def prepared(training, normalized=True):
    """The classifier, prepared by PT2E with ExecuTorch's quantizer; its example and samples."""
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e, prepare_qat_pt2e

    module, image, calibration = classifier(normalized)
    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True, is_qat=training))
    module = module if training else module.eval()
    exported = torch.export.export(module, (image,)).module(check_guards=False)
    return (prepare_qat_pt2e if training else prepare_pt2e)(exported, quantizer), image, calibration


@ROADS
def test_a_module_trained_with_fake_quantizers(road):
    # ExecuTorch 1.5 leaves the batch normalization of such a module in floats, and is refused.
    module, image, calibration = prepared(training=True, normalized=road == "onnx")
    optimizer = torch.optim.SGD(module.parameters(), 0.01)
    for batch in calibration.split(1)[:3]:
        optimizer.zero_grad()
        module(batch)["logits"].square().sum().backward()
        optimizer.step()
    session = tosaic.from_torch(module, image, road=road, target="golden")
    logits = session.run({"image": image})["logits"]
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    wanted = convert_pt2e(move_exported_model_to_eval(module))(image)["logits"].detach().numpy()
    step = session.outputs[0].encoding.scale
    assert np.abs(logits - wanted).max() <= 2 * step


@ROADS
def test_a_converted_module_keeps_its_encodings(road):
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    module, image, calibration = prepared(training=False)
    for batch in calibration.split(1):
        module(batch)
    converted = convert_pt2e(module)
    session = tosaic.from_torch(converted, image, road=road, target="golden")
    wanted = converted(image)["logits"].detach().numpy()
    step = session.outputs[0].encoding.scale
    assert np.abs(session.run({"image": image})["logits"] - wanted).max() <= 2 * step


class Normalized(torch.nn.Module):
    """Tokens, a norm of their embedding, a product."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm = torch.nn.Embedding(30, 16), torch.nn.LayerNorm(16)
        self.linear = torch.nn.Linear(16, 8)

    def forward(self, ids):
        return self.linear(self.norm(self.embedding(ids)))


class Masked(torch.nn.Module):
    """Attention whose scores a boolean mask fills."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(16, 16) for _ in "qkvo")

    def forward(self, x, mask):
        scores = torch.matmul(self.q(x), self.k(x).transpose(1, 2)) / 4
        return self.o(torch.matmul(torch.softmax(scores.masked_fill(mask, -1e4), -1), self.v(x)))


def sentence(seed):
    return (torch.randint(0, 30, (1, 6), generator=torch.Generator().manual_seed(seed)),)


def sequence(seed):
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(1, 6, 16, generator=chance), torch.rand(1, 1, 6, generator=chance) < 0.3


@pytest.mark.parametrize(("kind", "inputs"), [(Normalized, sentence), (Masked, sequence)])
def test_converted_modules_with_tokens_and_masks(kind, inputs):
    """Ranges are those of all tokens and of masks both ways, not of zeros."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    module = torch.export.export(kind().eval(), inputs(0)).module()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    module = prepare_pt2e(module, quantizer)
    for seed in range(8):
        module(*inputs(seed))
    converted = convert_pt2e(module)
    session = tosaic.from_torch(converted, inputs(0), target="golden")
    step = session.outputs[0].encoding.scale
    for seed in range(50, 53):
        feed = {each.name: value.numpy() for each, value in zip(session.inputs, inputs(seed), strict=True)}
        wanted = converted(*inputs(seed)).detach().numpy()
        assert np.abs(next(iter(session.run(feed).values())) - wanted).max() <= 1.001 * step


def test_calibration_data_of_a_prepared_module_by_name():
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    torch.manual_seed(0)
    module, rows = torch.nn.Sequential(torch.nn.Linear(4, 3)), torch.randn(8, 4)
    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    quantizer.set_global(get_symmetric_quantization_config())
    exported = torch.export.export(module.eval(), (rows[:1],)).module(check_guards=False)
    session = tosaic.from_torch(prepare_pt2e(exported, quantizer), rows[:1], {"input": rows}, target="golden")
    assert decibels(module(rows[:1]).detach().numpy(), session.run({"input": rows[:1]})["output"]) > 30


def test_an_operator_that_stays_in_floats_is_named():
    torch.manual_seed(0)
    with pytest.raises(tosaic.UnsupportedError) as raised:
        tosaic.from_torch(Sorted(), torch.randn(2, 6), torch.randn(8, 6), road="executorch", target="golden")
    said = str(raised.value)
    assert said.startswith(
        "sort 'aten_sort_default' float32[2, 6], int64[2, 6] is not lowered to integers by ExecuTorch: "
    )
    assert said.endswith("use road='onnx', or compute it outside the module")


def test_a_changed_buffer_is_refused():
    with pytest.raises(
        tosaic.UnsupportedError, match="the module changes 'total' when it runs; make it an input"
    ):
        tosaic.from_torch(Counter(), torch.ones(4), torch.rand(8, 4), target="golden")


def test_what_cannot_be_exported_is_refused():
    class Branching(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(tosaic.UnsupportedError, match="torch.export cannot export Branching"):
        tosaic.from_torch(Branching(), torch.ones(4), torch.rand(8, 4), target="golden")


@pytest.mark.parametrize(
    ("calibration", "said"),
    [
        (torch.randn(4, 3, 8, 8), r"input 'image' has shape \[3, 8, 8\]"),
        ({"picture": torch.randn(4, 2, 8, 8)}, "the module's inputs are image"),
        ([], "the calibration data has no samples"),
        ([(torch.randn(1, 2, 8, 8), torch.zeros(1))], "has 2 tensors, the module takes 1: image"),
    ],
)
def test_calibration_data_that_does_not_fit(calibration, said):
    module, image, _ = classifier()
    with pytest.raises(tosaic.InputError, match=said):
        tosaic.from_torch(module, image, calibration, target="golden")


def test_without_calibration_data_a_warning():
    module, image, _ = classifier()
    with pytest.warns(tosaic.ModelWarning, match="the ranges are those of the example inputs"):
        tosaic.from_torch(module, image, target="golden")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(
        tosaic.UnsupportedError, match=re.escape("need the package onnxscript: " + install_command("torch"))
    ):
        tosaic.from_torch(Classifier(), torch.randn(1, 2, 8, 8), torch.randn(4, 2, 8, 8), target="golden")


@ONE_ROAD
def test_called_like_the_module_and_compared_with_it(road):
    module, image, calibration = classifier()
    session = tosaic.from_torch(module, image, calibration, road=road, target="golden")
    assert session.source_agreement.source == "Classifier (torch)"
    (line,) = session.source_agreement.lines
    assert line.startswith("against Classifier (torch): logits: SQNR ") and line in repr(session)
    images = calibration[:3]
    with torch.no_grad():
        wanted = module.eval()(images)["logits"]
    got = session(images)["logits"]
    assert isinstance(got, torch.Tensor) and got.shape == wanted.shape
    assert decibels(wanted.numpy(), got.numpy()) > 25
    assert torch.equal(session(image=images)["logits"], got)
    assert np.array_equal(session.run(None, {"image": images})[0], got.numpy())
    session.run(images, check=("golden", "source"))
    assert session.stats["bit_exact"] is True
    figures = session.stats["source"]
    assert (figures["network"], figures["samples"]) == ("Classifier (torch)", 3)
    with pytest.raises(tosaic.MismatchError, match="wanted are 90.0 dB, as asked"):
        session.run({"image": image}, check="source", limit_db=90)
    (port,) = session.get_inputs()
    assert (port.name, port.shape, port.type) == ("image", [1, 2, 8, 8], "tensor(float)")
    with pytest.raises(tosaic.InputError, match="the module takes 1 tensors, not 2"):
        session(image, image)


def test_a_module_is_no_model_of_a_session():
    module, _, _ = classifier()
    with pytest.raises(
        tosaic.InputError, match=r"Classifier is a PyTorch module: give it to tosaic.from_torch\("
    ):
        tosaic.Session(module)


def test_integers_that_are_not_near_the_module_are_warned_of():
    """Ratios of powers: neither 8 nor 16 bits tell which of two near ones is larger."""

    class Ratio(torch.nn.Module):
        def forward(self, mels):
            return torch.tanh(torch.log(mels[..., :4] / mels[..., 4:]))

    torch.manual_seed(0)
    powers = 10 ** (torch.rand(20, 1, 8) * 7 - 6)
    with pytest.warns(tosaic.ModelWarning) as warned:
        tosaic.from_torch(Ratio(), powers[0], [(each,) for each in powers], target="golden")
    texts = [str(each.message) for each in warned]
    assert any(
        each.startswith("the integers are not near the module's floats: against Ratio (torch)")
        for each in texts
    )
    assert any("most of its noise comes in at 'node_tanh'" in each for each in texts)
