"""`torch.compile(module, backend="tosaic")`: the module's own numbers, a float module refused with the way out."""

import importlib.metadata
import logging
import pathlib
import tomllib
import warnings

import pytest
import torch

import tosaic
from tosaic.driver.torch_compile import compile_graph_module

pytestmark = pytest.mark.long


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def converted():
    """A module that PT2E quantized, for batches of any size, and its input."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    image = torch.randn(2, 6)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        dynamic = {"x": {0: torch.export.Dim("batch", min=1, max=64)}}
        module = torch.export.export(Network().eval(), (image,), dynamic_shapes=dynamic).module(
            check_guards=False
        )
        quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config())
        prepared = prepare_pt2e(module, quantizer)
        for _ in range(4):
            prepared(torch.randn(2, 6))
        return convert_pt2e(prepared), image


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.disable()  # PyTorch's traces
        yield
        logging.disable(logging.NOTSET)


def test_the_name_is_an_entry_point():
    text = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text()
    value = tomllib.loads(text)["project"]["entry-points"]["torch_dynamo_backends"]["tosaic"]
    assert (
        importlib.metadata.EntryPoint("tosaic", value, "torch_dynamo_backends").load() is compile_graph_module
    )


def test_a_converted_module_gives_its_own_numbers(converted):
    module, image = converted
    step = tosaic.from_torch(module, image, target="golden").outputs[0].encoding.scale
    compiled = torch.compile(
        module, backend=compile_graph_module, options={"target": "golden"}, fullgraph=True
    )
    for rows in (image, image + 0.5, torch.cat([image, image])[:3]):
        given, wanted = compiled(rows), module(rows)
        assert given.dtype == torch.float32 and given.shape == wanted.shape
        assert (given - wanted).abs().max() < 1.01 * step


def test_a_changed_weight_is_seen(converted):
    module, image = converted
    compiled = torch.compile(module, backend=compile_graph_module)
    before = compiled(image)
    weights = [tensor for tensor in module.state_dict().values() if tuple(tensor.shape) == (4, 8)]
    kept = [tensor.clone() for tensor in weights]
    try:
        for tensor in weights:
            tensor.zero_()
        after = compiled(image)
        assert not torch.equal(before, after)
        assert torch.allclose(after[0], after[1])  # the bias is left
    finally:
        for tensor, values in zip(weights, kept, strict=True):
            tensor.copy_(values)


def test_a_float_module_is_refused_with_the_way_out():
    compiled = torch.compile(Network().eval(), backend=compile_graph_module)
    with pytest.raises(
        tosaic.UnsupportedError, match=r"or give it to tosaic.from_torch\(module, example_inputs, cal"
    ):
        compiled(torch.randn(2, 6))


def test_gradients_are_refused(converted):
    module, image = converted
    compiled = torch.compile(module, backend=compile_graph_module)
    with (
        torch.enable_grad(),
        pytest.raises(tosaic.InputError, match=r"no gradients: call the module within torch.no_grad\(\)"),
    ):
        compiled(image.clone().requires_grad_())
