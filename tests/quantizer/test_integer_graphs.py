"""The integer graphs that float networks become, operator by operator: `integer_graphs.txt` has them.

That they are close to the floats is tested elsewhere, with room for a step more or less; here no scale, zero point,
bound or choice may change unseen. `python tests/quantizer/integer_listing.py` writes them again."""

from collections.abc import Callable

import numpy as np
import pytest
import small_networks
from float_networks import Floats
from integer_listing import integers_of, listing, recorded
from onnx_pairs import Pairs
from test_quantizer_graphs import stretched_network
from test_quantizer_logarithms import spectrum
from test_quantizer_onnx_pairs import attention, convolutions, products, trained_unfused
from test_quantizer_operators import NETWORKS
from test_quantizer_recurrent import gru, lstm
from test_quantizer_slopes import LAYERS
from test_streams import joined, pooled_and_padded, relu, residual, slopes

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.quantizer import Quantized
from tosaic.driver.quantize import import_encoded

LARGE = {
    "three_transformer_blocks",
    "mobilenet_v3_blocks",
    "inverted_residuals",
    "gru_of_five_steps",
    "u_net",
}
"""Many layers of kinds that other networks have, too."""
OPTIONS = {
    "int8": {},
    "int16": {"activations": "int16"},
    "weights of int16": {"weights": "int16"},
    "percentile": {"method": "percentile"},
}
MORE = {
    "weights of int16": ("conv2d_relu", "depthwise_conv2d", "fully_connected"),
    "percentile": ("conv2d_relu", "residual_add"),
}
GRAPHS: dict[str, Callable[[], Graph]] = {
    "stretched channels": stretched_network,
    "LSTM": lambda: lstm(3, 1, 5),
    "all states of an LSTM": lambda: lstm(2, 2, 3, outputs=True, reverse=True),
    "GRU": lambda: gru(3, 1, 4),
}
FUNCTIONS: dict[str, Callable] = {
    **{name: network for name, network in NETWORKS.items() if name not in LARGE},
    **small_networks.NETWORKS,
    **{f"slopes {network.__name__}": network for network in LAYERS},
    "stream": lambda low: residual(low, relu),
    "stream that is pooled": lambda low: pooled_and_padded(low, slopes),
    "streams that are joined": lambda low: joined(low, slopes),
    "spectrum": lambda low: spectrum(low, filters=False),
    "filtered spectrum": lambda low: spectrum(low, filters=True),
}
ENCODED = {
    f"encoded {network.__name__}": network for network in (attention, convolutions, products, trained_unfused)
}
CASES = [(name, kind) for name in (*FUNCTIONS, *GRAPHS) for kind in ("int8", "int16")]
CASES += [(name, kind) for name in ENCODED for kind in ("int8", "uint8")]
CASES += [(name, kind) for kind, names in MORE.items() for name in names]


class Coarse(Floats):
    """Constants are eighths."""

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        values = np.rint(self.random.standard_normal(shape) * scale * 8) / 8
        return self.constant(values, DType.FP32)


def integers(name: str, kind: str) -> Quantized:
    if name in ENCODED:
        found = import_encoded(ENCODED[name](Pairs(kind)))
        assert found is not None
        return found
    if name in GRAPHS:
        return integers_of(GRAPHS[name](), **OPTIONS[kind])
    low = Coarse()
    outputs = FUNCTIONS[name](low)
    graph = low.finish(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    return integers_of(graph, **OPTIONS[kind])


@pytest.mark.parametrize("name, kind", CASES)
def test_the_integer_graph(name: str, kind: str) -> None:
    assert list(listing(integers(name, kind))) == recorded()[f"{name} {kind}"]
