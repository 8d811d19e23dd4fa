"""A small model of each kind of layer that has a lowering, with parameters that make sense."""

import numpy as np
from coreml_models import array, floats, layer, model

IMAGE, SEQUENCE = (1, 4, 4, 4), (3, 1, 2, 1, 1)
_GATES = ("inputGate", "forgetGate", "blockInput", "outputGate")


def _ones(*shape):
    return floats(np.ones(shape))


def _lstm():
    weights = {f"{gate}WeightMatrix": _ones(2, 2) for gate in _GATES}
    return weights | {f"{gate}RecursionMatrix": _ones(2, 2) for gate in _GATES}


_ACTIVATIONS = [{"sigmoid": {}}, {"tanh": {}}, {"tanh": {}}]
_SIZES = {"inputVectorSize": 2, "outputVectorSize": 2}
_CONVOLUTION = {"outputChannels": 2, "kernelChannels": 4, "kernelSize": [3, 3], "weights": _ones(2, 4, 3, 3)}
_KERNEL3D = {f"kernel{axis}": 2 for axis in ("Depth", "Height", "Width")} | {
    f"stride{axis}": 1 for axis in ("Depth", "Height", "Width")
}
_BORDERS = {"borderAmounts": [{"startEdgeSize": 1, "endEdgeSize": 1}] * 2}

CASES = [
    ("convolution", [IMAGE], {**_CONVOLUTION, "valid": {"paddingAmounts": _BORDERS}, "stride": [2, 2]}),
    (
        "convolution",
        [IMAGE],
        {**_CONVOLUTION, "isDeconvolution": True, "weights": _ones(4, 2, 3, 3), "same": {}},
    ),
    (
        "convolution3d",
        [(1, 1, 3, 3, 3)],
        {**_KERNEL3D, "outputChannels": 1, "inputChannels": 1, "nGroups": 1, "weights": _ones(8)},
    ),
    (
        "pooling",
        [IMAGE],
        {"type": 1, "kernelSize": [2, 2], "stride": [2, 2], "includeLastPixel": {"paddingAmounts": [0, 0]}},
    ),
    ("pooling3d", [(1, 1, 3, 3, 3)], {**_KERNEL3D, "type": 1}),
    ("padding", [IMAGE], {"reflection": {}, "paddingAmounts": _BORDERS}),
    ("upsample", [IMAGE], {"scalingFactor": [2, 3], "mode": 1}),
    ("resizeBilinear", [IMAGE], {"targetSize": [2, 7], "mode": {"samplingMethod": 3}}),
    ("cropResize", [(1, *IMAGE), (2, 1, 4, 1, 1)], {"targetSize": [2, 2]}),
    (
        "innerProduct",
        [(2, 3)],
        {"inputChannels": 3, "outputChannels": 2, "weights": _ones(2, 3), "hasBias": True, "bias": _ones(2)},
    ),
    ("batchedMatmul", [(2, 3), (3, 4)], {}),
    ("embeddingND", [(3, 1)], {"vocabSize": 4, "embeddingSize": 2, "weights": _ones(2, 4)}),
    ("batchnorm", [IMAGE], {"channels": 4, **{f: _ones(4) for f in ("gamma", "beta", "mean", "variance")}}),
    ("mvn", [IMAGE], {"normalizeVariance": True}),
    ("lrn", [IMAGE], {"alpha": 1.0, "beta": 0.5, "localSize": 3}),
    ("layerNormalization", [(2, 3)], {"normalizedShape": [3], "gamma": _ones(3), "beta": _ones(3)}),
    ("activation", [IMAGE], {"PReLU": {"alpha": _ones(4)}}),
    ("unary", [(2, 3)], {"type": 3, "alpha": 2.0}),
    (
        "scale",
        [IMAGE],
        {"shapeScale": [4], "scale": _ones(4), "hasBias": True, "shapeBias": [1], "bias": _ones(1)},
    ),
    (
        "loadConstantND",
        [],
        {
            "shape": [2, 3],
            "data": {
                "rawValue": b"123",
                "quantization": {
                    "numberOfBits": 4,
                    "linearQuantization": {"scale": [1.0, 2.0], "bias": [0.5]},
                },
            },
        },
    ),
    ("fillStatic", [], {"value": 1.0, "targetShape": [2, 3]}),
    ("rangeStatic", [], {"endValue": 5.0, "stepSizeValue": 1.0}),
    ("reshape", [(1, 1, 2, 3, 4)], {"targetShape": [4, 3, 2], "mode": 1}),
    ("permute", [(2, 1, 2, 3, 4)], {"axis": [3, 1, 2, 0]}),
    ("transpose", [(2, 3)], {"axes": [1, 0]}),
    ("reorganizeData", [IMAGE], {"mode": 1, "blockSize": 2}),
    ("reshapeStatic", [(2, 3)], {"targetShape": [3, -1]}),
    ("expandDims", [(2, 3)], {"axes": [0, -1]}),
    ("flattenTo2D", [(2, 3)], {"axis": 1}),
    ("broadcastToStatic", [(2, 3)], {"targetShape": [4, 2, 3]}),
    ("tile", [(2, 3)], {"reps": [2, 2]}),
    ("sequenceRepeat", [SEQUENCE], {"nRepetitions": 2}),
    ("concatND", [(2, 3), (2, 3)], {"axis": 1, "interleave": True}),
    ("stack", [(2, 3), (2, 3)], {"axis": 1}),
    ("slice", [IMAGE], {"startIndex": 1, "endIndex": -1, "stride": 1, "axis": 2}),
    (
        "sliceStatic",
        [(4,)],
        {
            "beginIds": [3],
            "endIds": [0],
            "strides": [-2],
            "beginMasks": [False],
            "endMasks": [False],
            "squeezeMasks": [False],
        },
    ),
    ("sliceBySize", [(4,), (1,)], {"size": 2, "axis": 0}),
    ("crop", [IMAGE], {"cropAmounts": _BORDERS}),
    ("slidingWindows", [(6,)], {"axis": 0, "windowSize": 2, "step": 2}),
    ("constantPad", [(2, 3)], {"padAmounts": [1, 0, 0, 2]}),
    ("matrixBandPart", [(3, 3)], {"numLower": 1, "numUpper": 0}),
    ("gather", [(4, 2), (3,)], {"axis": 0}),
    ("gatherND", [(4, 2), (3, 1)], {}),
    ("scatter", [(4, 2), (2,), (2, 2)], {"axis": 0, "mode": 5}),
    ("scatterND", [(4, 2), (2, 1), (2, 2)], {}),
    ("oneHot", [(3,)], {"oneHotVectorSize": 4, "axis": -1, "onValue": 1.0}),
    ("reverseSeq", [(2, 3), (2,)], {"batchAxis": 0, "sequenceAxis": 1}),
    ("topK", [(2, 5)], {"axis": 1, "K": 2}),
    ("cumSum", [(2, 5)], {"axis": 1}),
    ("reduce", [IMAGE], {"mode": 3, "axis": 1}),
    ("reduceLogSumExp", [(2, 3)], {"axes": [1]}),
    (
        "simpleRecurrent",
        [SEQUENCE],
        {**_SIZES, "activation": {"tanh": {}}, "weightMatrix": _ones(2, 2), "recursionMatrix": _ones(2, 2)},
    ),
    (
        "uniDirectionalLSTM",
        [SEQUENCE],
        {**_SIZES, "activations": _ACTIVATIONS, "params": {}, "weightParams": _lstm()},
    ),
    (
        "biDirectionalLSTM",
        [SEQUENCE],
        {
            **_SIZES,
            "activationsForwardLSTM": _ACTIVATIONS,
            "activationsBackwardLSTM": _ACTIVATIONS,
            "params": {"sequenceOutput": True},
            "weightParams": [_lstm(), _lstm()],
        },
    ),
]


def models():
    """One model for each case, and one with a loop and a branch."""
    made = []
    for kind, shapes, params in CASES:
        names = [f"x{i}" for i in range(len(shapes))]
        outputs = ["y", "z"] if kind == "topK" else ["y"]
        features = [array(name, shape) for name, shape in zip(names, shapes, strict=True)] or [
            array("unused", [1])
        ]
        made.append(model([layer(kind, names, outputs, **params)], features, [array("y", [])]))
    step = [layer("multiply", ["s"], ["t"], alpha=2.0), layer("copy", ["t"], ["s"])]
    leave = layer(
        "branch",
        ["s"],
        [],
        name="b",
        ifBranch={"layers": [layer("loopBreak", [], [], name="out")]},
        elseBranch={},
    )
    layers = [
        layer("copy", ["x"], ["s"]),
        layer("loop", [], [], name="l", maxLoopIterations=3, bodyNetwork={"layers": [*step, leave]}),
        layer("copy", ["s"], ["y"]),
    ]
    made.append(model(layers, [array("x", [1])], [array("y", [])]))
    return made
