"""Which samples are kept out of the calibration to measure on."""

import numpy as np
import pytest

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.driver.quantize import hold_out, measure, quantize_graph
from tosaic.errors import InputError


def doubled(batch: int) -> Graph:
    build = GraphBuilder()
    x = build.input("x", (batch, 3), DType.FP32)
    build.output(build.add("ADD", [x, x]))
    return build.finish()


def test_the_last_of_every_five_runs_is_held_out_with_its_labels():
    x = np.arange(36, dtype=np.float32).reshape(12, 3)
    (stay, labels), (out, out_labels) = hold_out(doubled(1), {"x": x}, np.arange(12) % 3, 0.2)
    np.testing.assert_array_equal(out["x"], x[[4, 9]])
    np.testing.assert_array_equal(stay["x"], np.delete(x, [4, 9], 0))
    assert out_labels is not None and labels is not None
    assert out_labels.tolist() == [1, 0] and len(labels) == 10


@pytest.mark.parametrize("stacked", [False, True])
def test_a_run_of_several_samples_stays_together(stacked):
    x = np.arange(36, dtype=np.float32).reshape(12, 3)
    given = x.reshape(4, 3, 3) if stacked else x
    (stay, _), (out, labels) = hold_out(doubled(3), {"x": given}, np.arange(12), 0.5)
    np.testing.assert_array_equal(out["x"].reshape(-1, 3), x[[3, 4, 5, 9, 10, 11]])
    assert labels is not None and labels.tolist() == [3, 4, 5, 9, 10, 11]
    assert len(stay["x"].reshape(-1, 3)) == 6


@pytest.mark.parametrize(("samples", "share"), [(4, 0.2), (12, 0.0)])
def test_nothing_is_held_out_of_few_samples_or_of_no_share(samples, share):
    x = np.ones((samples, 3), np.float32)
    (stay, _), (out, _) = hold_out(doubled(1), {"x": x}, None, share)
    assert len(stay["x"]) == samples and not out


@pytest.mark.parametrize(("share", "held"), [(0.4, [2, 4, 7, 9, 12, 14, 17, 19]), (0.15, [6, 13, 19])])
def test_other_shares_are_met(share, held):
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    (stay, _), (out, labels) = hold_out(doubled(1), {"x": x}, np.arange(20), share)
    np.testing.assert_array_equal(out["x"], x[held])
    assert labels is not None and labels.tolist() == held and len(stay["x"]) == 20 - len(held)


def test_a_share_that_is_none():
    with pytest.raises(InputError, match=r"must be in 0..0.5, not 0.9"):
        hold_out(doubled(1), {"x": np.ones((9, 3), np.float32)}, None, 0.9)


def test_figures_are_those_of_the_held_out_samples():
    """They leave the range that was calibrated, which the calibration's own samples do not."""
    graph, x = doubled(1), np.linspace(-1, 1, 30, dtype=np.float32).reshape(10, 3)
    found = quantize_graph(graph, {"x": x})
    seen, unseen = measure(found), measure(found, held_out={"x": 8 * x[:4]})
    assert seen.told_samples == "10 calibration samples" and unseen.told_samples == "4 held-out samples"
    assert seen.outputs[0].sqnr_db > 35 > 10 > unseen.outputs[0].sqnr_db
