"""16 bits for some layers: two bytes of weights, layers by name, as many as a target takes."""

import dataclasses

import numpy as np
import pytest
from float_networks import IMAGE, Floats, activations, quantize_graph, run_everywhere, samples, worst_db

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType
from tosaic.driver.quantize import measure, mixed_precision
from tosaic.errors import InputError

POINT = [AxisWindow(1)] * 2


def network():
    low = Floats()
    x = low.input("x", IMAGE)
    for channels in (16, 16, 4):
        weight = low.normal(channels, 1, 1, low.shape(x)[-1], scale=0.4)
        x = activations.relu(low, convolution.convolve(low, x, weight, None, POINT))
    return low.finish(x)


def kinds(found) -> list[str]:
    graph = found.graph
    return [graph.tensors[op.inputs[0]].dtype.name.lower() for op in graph.operators if op.op == "CONV2D"]


def test_weights_of_two_bytes():
    graph = network()
    decibels = [
        worst_db(quantize_graph(graph, samples(graph), activations="int16", weights=kind))
        for kind in ("int8", "int16")
    ]
    assert 35 < decibels[0] < 50
    assert decibels[1] > 70


@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_two_bytes_run_everywhere(kind):
    graph = network()
    found = quantize_graph(graph, samples(graph), activations=kind, weights="int16")
    assert kinds(found) == [kind] * 6
    run_everywhere(found)


def test_a_layer_by_name():
    graph = network()
    second = [op for op in graph.operators if op.op == "CONV2D"][1]
    found = quantize_graph(graph, samples(graph), keep_int16=[second.outputs[0]])
    assert kinds(found) == ["int8", "int16", "int16", "int8"]
    run_everywhere(found)
    with pytest.raises(InputError, match="no layer with products is called 'nowhere'"):
        quantize_graph(graph, samples(graph), keep_int16=["nowhere"])


def test_what_a_layer_reads_by_name():
    graph = network()
    between = [op.outputs[0] for op in graph.operators if op.op == "CLAMP"]
    found = quantize_graph(graph, samples(graph), keep_int16=between[:1])
    assert kinds(found) == ["int8", "int16", "int8"]
    run_everywhere(found)


def test_what_several_layers_read_and_are_added_to_by_name():
    low = Floats()
    weights = [low.normal(16, 1, 1, 16, scale=0.4) for _ in range(3)]
    x = low.input("x", (1, 4, 4, 16))
    stream = activations.relu(low, convolution.convolve(low, x, weights[0], None, POINT))
    reads = [convolution.convolve(low, stream, weight, None, POINT) for weight in weights[1:]]
    graph = low.finish(low.add(low.add(stream, reads[0]), reads[1]))
    plain, found = (
        quantize_graph(graph, samples(graph), keep_int16=names, outputs="int16") for names in ([], [stream])
    )
    assert kinds(plain) == ["int8"] * 3 and kinds(found) == ["int8", "int16", "int16"]
    assert worst_db(found) > worst_db(plain) + 1
    run_everywhere(found)


def test_inputs_and_outputs_by_name():
    graph = network()
    found = quantize_graph(graph, samples(graph), keep_int16=[*graph.inputs, *graph.outputs])
    ends = {**found.result.inputs, **found.result.outputs}
    assert {name: each.dtype for name, each in ends.items()} == dict.fromkeys(ends, DType.INT16)
    run_everywhere(found)


def test_a_target_takes_no_more_than_it_needs():
    graph = network()
    arrays, unseen = samples(graph, 40), samples(graph, 8, seed=6)
    plain, better, best = (quantize_graph(graph, arrays, target_sqnr=db) for db in (20, 38, 60))
    assert kinds(plain) == ["int8"] * 3
    assert set(kinds(best)) == {"int16"}
    assert len(plain.graph.operators) < len(better.graph.operators) < len(best.graph.operators)
    reached = [measure(found, held_out=unseen).outputs[0].sqnr_db for found in (plain, better, best)]
    assert reached == sorted(reached)
    assert reached[1] > 36
    with pytest.raises(InputError, match="no choice of 16-bit layers reaches 200 dB: all of them give"):
        quantize_graph(graph, arrays, target_sqnr=200)


def growing(graph, factor):
    """Samples of which the last quarter goes `factor` times as far as the others."""
    arrays = samples(graph, 40)
    arrays["x"][30:] *= factor
    return arrays


def test_with_a_target_ranges_are_those_of_all_samples():
    """Without 16-bit layers the result is plain int8's, but for equalization, which the judges take no part in."""
    graph = network()
    arrays = samples(graph, 40)
    arrays["x"][4, 0, 0, 0, 0] = 1.05 * np.abs(arrays["x"]).max()
    plain, found = (
        quantize_graph(graph, arrays, equalization=False, target_sqnr=target) for target in (None, -10)
    )
    assert found.calibration is arrays
    assert kinds(found) == kinds(plain) == ["int8"] * 3
    assert found.result.inputs == plain.result.inputs and found.result.outputs == plain.result.outputs
    assert worst_db(found) == worst_db(plain)


def test_what_leaves_its_range_has_16_bits_and_room():
    graph = network()
    arrays = growing(graph, 3.0)
    plain, found = quantize_graph(graph, arrays), quantize_graph(graph, arrays, target_sqnr=5)
    assert kinds(plain) == ["int8"] * 3
    assert kinds(found) == ["int16"] * 3
    further = {"x": 2 * arrays["x"][30:]}
    decibels = [measure(each, held_out=further).outputs[0].sqnr_db for each in (plain, found)]
    assert decibels[1] > decibels[0] + 20


def test_the_result_tells_what_its_target_was_judged_on():
    graph = network()
    found = quantize_graph(graph, samples(graph, 40), target_sqnr=38)
    assert found.reached is not None and found.reached.samples == 10 and not found.reached.plain_taken
    assert " dB on 10 samples kept out of the choice's calibration, " in found.reached.told
    assert found.reached.told.endswith(f" dB in the noisiest of them (output {graph.outputs[0]!r})")
    assert found.reached.chosen_db >= found.reached.step_db >= 40
    few = quantize_graph(graph, samples(graph, 3), target_sqnr=20)
    assert few.reached is not None and " dB on 3 calibration samples, " in few.reached.told


def test_plain_integers_are_the_result_where_they_are_better(monkeypatch):
    graph = network()
    judge = mixed_precision.judge

    def but_for_16_bits(found, judges):
        judged = judge(found, judges)
        return judged if kinds(found) == ["int8"] * 3 else dataclasses.replace(judged, db=0.0)

    monkeypatch.setattr(mixed_precision, "judge", but_for_16_bits)
    found = quantize_graph(graph, samples(graph, 40), target_sqnr=37)
    assert kinds(found) == ["int8"] * 3
    assert found.reached is not None and found.reached.plain_taken
    assert found.reached.told.endswith("without it the SQNR is better there, so the result is without it")


def test_a_channel_that_is_silent_in_most_samples_is_not_evened_out():
    """Evened out by what most samples hold, it would saturate where it speaks."""
    low = Floats()
    x = low.input("x", IMAGE)
    first = low.normal(16, 1, 1, 8, scale=0.4)
    weight = np.array(low.graph.tensors[first].data)
    weight[0] = 0
    weight[0, ..., 0] = 1.0
    y = activations.relu(low, convolution.convolve(low, x, low.constant(weight, DType.FP32), None, POINT))
    graph = low.finish(convolution.convolve(low, y, low.normal(4, 1, 1, 16, scale=0.4), None, POINT))
    arrays = samples(graph, 40)
    arrays["x"][:30, ..., 0] = -np.abs(arrays["x"][:30, ..., 0]) + 1e-3
    found = quantize_graph(graph, arrays, target_sqnr=20)
    unseen = samples(graph, 8, seed=6)
    assert measure(found, held_out=unseen).outputs[0].step_db > 20


def test_operands_of_a_matmul_have_one_type():
    low = Floats()
    x, y = low.input("x", (1, 6, 8)), low.input("y", (1, 8, 4))
    zero = low.constant(np.zeros(1), DType.FP32)
    graph = low.finish(low.op("MATMUL", x, y, zero, zero, dtype=DType.FP32))
    found = quantize_graph(graph, samples(graph), keep_int16=[graph.outputs[0]])
    assert {e.dtype for e in found.result.inputs.values()} == {DType.INT16}
    assert worst_db(found) > 40


def row_and_picture(side: int, gain: float):
    """A matrix of one row, whose results are `gain` times as large, and a convolution of side * side pixels."""
    low = Floats()
    row, picture = low.input("row", (1, 1, 256)), low.input("picture", (1, side, side, 16))
    weight = low.normal(16, 1, 1, 16, scale=0.25)
    first = matmul(low, row, low.normal(256, 256, scale=gain / 16))
    second = convolution.convolve(low, picture, weight, None, POINT)
    return low.finish(
        low.concat([low.reshape(first, (1, 256)), low.reshape(second, (1, side * side * 16))], 1)
    )


def types_above_plain(graph, gain_db: float) -> dict[str, DType]:
    """Types of the inputs where the noisiest sample is to have so much more than plain integers give it."""
    arrays = samples(graph, 32)
    plain = quantize_graph(graph, arrays, weights="int16", outputs="int16", target_sqnr=-10).reached.step_db
    found = quantize_graph(graph, arrays, weights="int16", outputs="int16", target_sqnr=plain + gain_db - 2)
    run_everywhere(found)
    return {name: each.dtype for name, each in found.result.inputs.items()}


def test_what_costs_few_cycles_has_16_bits_first():
    """Both parts have as many products, and the matrix more noise, but it takes 16 times the cycles."""
    graph = row_and_picture(16, gain=6.0)
    assert types_above_plain(graph, 0.6) == {"row": DType.INT8, "picture": DType.INT16}


def test_what_a_later_layer_makes_needless_has_8_bits():
    """The convolution costs next to nothing, and comes first; the matrix, which the target takes, is enough."""
    graph = row_and_picture(4, gain=2.0)
    assert types_above_plain(graph, 2.5) == {"row": DType.INT16, "picture": DType.INT8}
