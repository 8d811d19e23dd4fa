"""Core ML networks of every kind of input, judged by NumPy, as no other interpreter runs outside of Apple's systems.

Inputs are images, which are planes of reals of 0..255 and one sample, or arrays of float or int32: masks are numbers
that are not 0, and layers compute in float32 whatever comes in.
"""

import numpy as np
from coreml_models import FLOAT32, INT32, array, floats, image, layer, model
from input_kinds import FEATURES, ROWS, SAMPLES, SCALE, Kind, assert_near, formula, kinds

from tosaic.compiler.importers.coreml import import_coreml
from tosaic.sim.golden import evaluate


def constant(name: str, value: np.ndarray):
    value = np.atleast_1d(value)
    return layer("loadConstantND", [], [name], shape=value.shape, data=floats(value))


def inputs_of(kind: Kind) -> list[np.ndarray]:
    """The samples in a type that the format has."""
    samples = kind.samples(SAMPLES)
    if kind.use == "codes":
        return [((x.astype(int) - kind.zero_point) * SCALE).astype(np.float32) for x in samples]
    return [x.astype(np.float32 if kind.use in ("reals", "image") else np.int32) for x in samples]


def network(kind: Kind):
    """The model that `USES` tells of."""
    shape = kind.shape
    dtype = FLOAT32 if kind.use in ("reals", "codes", "image") else INT32
    feature, result = array("x", shape, dtype), FLOAT32
    match kind.use:
        case "reals" | "codes":
            if len(shape) == 1:
                layers = [
                    constant("w", kind.constant(*shape)),
                    layer("multiplyBroadcastable", ["x", "w"], ["p"]),
                ]
            else:
                sizes = {"weightMatrixFirstDimension": shape[-1], "weightMatrixSecondDimension": FEATURES}
                weight = floats(kind.constant(shape[-1], FEATURES).T)
                layers = [layer("batchedMatmul", ["x"], ["p"], weights=weight, **sizes)]
            how = {"ReLU": {}} if kind.use == "codes" else {"tanh": {}}
            layers.append(layer("activation", ["p"], ["y"], **how))
        case "image":
            channels = 1 if shape[-1] == 1 else 3
            weight = kind.constant(4, channels, 3, 3)
            layers, planes = [], "x"
            if kind.channels_last:
                layers, planes = [layer("transpose", ["x"], ["t"], axes=[0, 3, 1, 2])], "t"
            else:
                feature = image("x", *shape[2:], 20)
            window = {"outputChannels": 4, "kernelChannels": channels, "kernelSize": [3, 3], "same": {}}
            layers += [
                layer("activation", [planes], ["r"], linear={"alpha": 1 / 64, "beta": -127.5 / 64}),
                layer("convolution", ["r"], ["c"], weights=floats(weight), **window),
                layer("activation", ["c"], ["y"], ReLU={}),
            ]
        case "numbers":
            result = INT32
            layers = [
                layer("activation", ["x"], ["a"], linear={"alpha": 1.0, "beta": 3.0}),
                layer("activation", ["x"], ["b"], linear={"alpha": -1.0, "beta": 5.0}),
                layer("maxBroadcastable", ["a", "b"], ["y"]),
            ]
        case "ids":
            layers = [
                constant("table", kind.constant(ROWS, FEATURES)),
                layer("gather", ["table", "x"], ["g"], axis=0),
                layer("activation", ["g"], ["h"], tanh={}),
                layer(
                    "batchedMatmul",
                    ["h"],
                    ["y"],
                    weights=floats(kind.constant(FEATURES, 3).T),
                    weightMatrixFirstDimension=FEATURES,
                    weightMatrixSecondDimension=3,
                ),
            ]
        case "mask":
            layers = [
                constant("s", kind.constant(*shape) * 4),
                constant("low", np.float32(-1e4)),
                layer("whereBroadcastable", ["x", "s", "low"], ["v"]),
                layer("softmaxND", ["v"], ["y"], axis=-1),
            ]
    return model(layers, [feature], [array("y", [], result)], imageInputShapeMapping=1)


@kinds("reals", "image", "codes", "ids", "mask")
def test_floats_are_numpy_s_and_integers_near(kind: Kind) -> None:
    graph = import_coreml(network(kind).SerializeToString())
    wanted = [formula(kind, x).astype(np.float32) for x in kind.samples(SAMPLES)]
    assert_near(graph, kind, wanted, inputs_of(kind))


@kinds("numbers")
def test_integers_are_computed_in_floats(kind: Kind) -> None:
    """float32 holds all integers up to 2 to the power of 24."""
    graph = import_coreml(network(kind).SerializeToString())
    for x, given in zip(kind.samples(SAMPLES), inputs_of(kind), strict=True):
        got, wanted = evaluate(graph, {"x": given})["y"], formula(kind, x)
        assert got.dtype == np.int32
        assert np.all(np.abs(got - wanted) <= np.abs(wanted) // 2**23)
