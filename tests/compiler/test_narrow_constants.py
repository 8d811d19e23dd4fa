"""int32 constants of few values beside products: bytes that are scaled, on the products' way out of the array."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session


def masked(
    heads: int,
    rows: int,
    keys: int,
    mask: np.ndarray,
    *,
    op: str = "ADD",
    groups: int = 1,
    seen: bool = False,
) -> Graph:
    """Scores of heads with a mask, as an int16; in `groups` of heads that have the same keys. `seen`: the scores
    themselves are an output, too."""
    build = LayerBuilder(7)
    query = build.input("query", (heads // groups, groups * rows, 64), DType.INT8)
    key = build.input("key", (heads // groups, 64, keys), DType.INT8)
    zero = [build.zero_point(DType.INT8) for _ in range(2)]
    scores = build.add("MATMUL", [query, key, *zero], dtype=DType.INT32)
    if groups > 1:
        scores = build.add("RESHAPE", [scores, build.shape([heads // groups, groups, rows, keys])])
    shift = [build.zero_point(DType.INT8)] if op == "MUL" else []
    result = build.add(op, [scores, build.constant(mask, DType.INT32), *shift])
    build.output(result if op == "GREATER" else build.rescale(result, DType.INT16, shift=33))
    if seen:
        build.output(scores)
    return build.finish()


def causal(rank: int, size: int, value: int) -> np.ndarray:
    mask = np.triu(np.full((size, size), value), 1)
    return mask.reshape((1,) * (rank - 2) + mask.shape)


def cycles(graph: Graph) -> int:
    session = Session(graph, target="emulator", config="base")
    session.run(feeds(graph, 2))
    return session.stats["cycles"]


CASES = {
    "a causal mask": dict(heads=3, rows=64, keys=64, mask=causal(3, 64, -130_203)),
    "heads that share keys": dict(heads=6, rows=48, keys=48, groups=3, mask=causal(4, 48, -(1 << 29) + 1)),
    "the largest number": dict(heads=2, rows=64, keys=64, mask=causal(3, 64, -(1 << 31))),
    "many values": dict(heads=2, rows=64, keys=64, mask=np.arange(64 * 64).reshape(1, 64, 64) ** 2),
    "a maximum": dict(heads=2, rows=64, keys=64, mask=causal(3, 64, 5_003) - 2 * 5_003, op="MAXIMUM"),
    "a difference": dict(heads=2, rows=64, keys=64, mask=causal(3, 64, 127 * 77) + 77, op="SUB"),
    "a comparison": dict(heads=2, rows=64, keys=64, mask=causal(3, 64, 900) - 450, op="GREATER"),
    "a product": dict(heads=2, rows=64, keys=64, mask=causal(3, 64, -3) + 5, op="MUL"),
    "scores that are seen": dict(heads=2, rows=64, keys=64, mask=causal(3, 64, -5_000), seen=True),
}


@pytest.mark.parametrize("config", ["small", "base"])
@pytest.mark.parametrize("name", CASES)
def test_masked_products_equal_golden(name, config):
    graph = masked(**CASES[name])
    values = {key: np.clip(value, -90, 90) for key, value in feeds(graph, 3).items()}
    assert_equal_to_golden(graph, config, values)


@pytest.mark.parametrize("heads", [3, 24])
def test_a_causal_mask_costs_a_few_cycles_for_sixteen_scores(heads):
    """128 tokens: the array takes four cycles for 16 scores. Through memory as int32 they took 16."""
    graph = masked(heads, 128, 128, causal(3, 128, -130_203))
    assert cycles(graph) <= 8 * heads * 128 * 128 // 16


def test_a_mask_of_many_values_is_as_it_was():
    few, many = (masked(**CASES[name]) for name in ("a causal mask", "many values"))
    assert cycles(few) / 3 < 0.7 * cycles(many) / 2
