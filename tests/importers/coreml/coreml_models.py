"""Builds .mlmodel files from our own schema, and runs them through the importer and golden."""

import warnings

import numpy as np

from tosaic.compiler.importers.coreml import import_coreml
from tosaic.compiler.importers.coreml.schema import messages
from tosaic.sim.golden import evaluate

FLOAT32, DOUBLE, FLOAT16, INT32 = 65568, 65600, 65552, 131104


def floats(values):
    """A WeightParams of float32."""
    return {"floatValue": [np.asarray(values, "<f4").tobytes()]}


def layer(kind, inputs, outputs, /, name="", **params):
    """One layer; parameters are those of its message, in dictionaries and lists."""
    message = messages()["NeuralNetworkLayer"](
        name=name or outputs[0] if outputs else name, input=inputs, output=outputs
    )
    field = getattr(message, kind)
    field.SetInParent()
    field.MergeFrom(type(field)(**params))
    return message


def array(name, shape, dtype=FLOAT32, **flexible):
    """The description of a multi-array."""
    return {"name": name, "type": {"multiArrayType": {"shape": shape, "dataType": dtype, **flexible}}}


def image(name, height, width, colours, **flexible):
    """The description of an image; `colours` is 10 gray, 20 RGB, 30 BGR."""
    return {
        "name": name,
        "type": {"imageType": {"height": height, "width": width, "colorSpace": colours, **flexible}},
    }


def model(layers, inputs, outputs, kind="neuralNetwork", exact=True, version=5, description=(), **network):
    """A Model message."""
    described = {"input": inputs, "output": outputs, **dict(description)}
    result = messages()["Model"](specificationVersion=version, description=described)
    inner = getattr(result, kind)
    inner.SetInParent()
    inner.MergeFrom(type(inner)(layers=layers, arrayInputShapeMapping=int(exact), **network))
    return result


def single(kind, inputs, params, outputs=1, exact=True):
    """A model of one layer, fed with the arrays `inputs`."""
    names = [f"x{i}" for i in range(len(inputs))]
    results = [f"y{i}" for i in range(outputs)]
    features = [array(name, np.shape(value)) for name, value in zip(names, inputs, strict=True)]
    return model(
        [layer(kind, names, results, **params)], features, [array(name, []) for name in results], exact=exact
    )


def run(message, feeds, shapes=None):
    """Golden's outputs of a model."""
    graph = import_coreml(message.SerializeToString(), shapes)
    values = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        values[name] = np.asarray(feeds[name]).reshape(tensor.shape).astype(tensor.dtype.numpy)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return evaluate(graph, values)


def run_single(kind, inputs, params, outputs=1, exact=True):
    """Golden's outputs of a model of one layer, in order."""
    results = run(single(kind, inputs, params, outputs, exact), {f"x{i}": x for i, x in enumerate(inputs)})
    return [results[f"y{i}"] for i in range(outputs)]


def check(kind, inputs, params, expected, exact=True, rtol=1e-5, atol=1e-5):
    """A layer against its reference: shapes equal, values close."""
    wanted = expected if isinstance(expected, list) else [expected]
    got = run_single(kind, inputs, params, len(wanted), exact)
    for value, reference in zip(got, wanted, strict=True):
        assert value.shape == np.shape(reference), (kind, value.shape, np.shape(reference))
        np.testing.assert_allclose(value, reference, rtol=rtol, atol=atol)
