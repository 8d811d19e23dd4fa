"""Resource variables: what a model remembers from run to run, against LiteRT over many runs."""

from functools import partial

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tflite_graphs import CHANNELS, streaming_model
from tflite_operator_cases import Case, Tensor, feeds_of, model_of

import tosaic
from tosaic.compiler.importers import import_model
from tosaic.errors import UnsupportedError

_RUNS = 50


def _weights(random: np.random.Generator, *shape: int) -> Tensor:
    return Tensor(shape, "float32", data=random.normal(0, 0.5, shape))


def _lstm(random: np.random.Generator, coupled: bool, clip: float = 0.9) -> Case:
    """Five steps of three features, four units; `coupled`: the input gate is 1 - forget. 0 clips no cell."""
    features, units = 3, 4
    gates = [None if coupled and gate == 0 else gate for gate in range(4)]
    rows = [
        *(None if gate is None else _weights(random, units, features) for gate in gates),
        *(None if gate is None else _weights(random, units, units) for gate in gates),
        *(None,) * 3,
        *(None if gate is None else _weights(random, units) for gate in gates),
        None,
        None,
        Tensor([2, units], "float32", variable=True),
        Tensor([2, units], "float32", variable=True),
    ]
    fields = {"fusedActivationFunction": 4, "cellClip": clip, "timeMajor": False}
    x, y = Tensor([2, 5, features], "float32"), Tensor([2, 5, units], "float32")
    return Case("UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions", fields, [x, *rows], [y])


def _integer_lstm(random: np.random.Generator, *parts: str) -> Case:
    """Seven steps of five features, six units (four outputs with a projection), as the converter quantizes them."""
    features, units = 5, 6
    outputs = 4 if "projection" in parts else units
    gates = [None if "coupled" in parts and gate == 0 else gate for gate in range(4)]
    hidden, output = (0.0078125, -3), (0.0061, 5) if "projection" in parts else (0.0078125, -3)

    def weights(*shape: int) -> Tensor:
        scale = float(random.uniform(0.004, 0.02))
        return Tensor(shape, "int8", scale, 0, random.integers(-127, 128, shape))

    peepholes: list[Tensor | None] = [None] * 3
    if "peepholes" in parts:
        peepholes = [
            Tensor([units], "int16", 3e-5, 0, random.integers(-32767, 32768, units)) for _ in range(3)
        ]
        peepholes[0] = None if "coupled" in parts else peepholes[0]
    rows = [
        *(None if gate is None else weights(units, features) for gate in gates),
        *(None if gate is None else weights(units, outputs) for gate in gates),
        *peepholes,
        *(
            None if gate is None else Tensor([units], "int32", 1e-4, 0, random.integers(-3000, 3000, units))
            for gate in gates
        ),
        weights(outputs, units) if "projection" in parts else None,
        Tensor([outputs], "int32", 1e-4, 0, random.integers(-300, 300, outputs)) if "bias" in parts else None,
        Tensor([2, outputs], "int8", *output, variable=True),
        Tensor([2, units], "int16", 2.0**-11, 0, variable=True),
        *(None,) * 4,
    ]
    time_major = "time first" in parts
    shape = [7, 2] if time_major else [2, 7]
    limits = {"cellClip": 0.9, "projClip": 0.3} if "clipped" in parts else {"cellClip": 0.0, "projClip": 0.0}
    fields = {"fusedActivationFunction": 4, "timeMajor": time_major, **limits}
    x, y = Tensor([*shape, features], "int8", 0.02, 7), Tensor([*shape, outputs], "int8", *output)
    inner = [Tensor([1], "float32") for _ in range(4)] + [Tensor([1], "int8", *hidden)]
    return Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", "UnidirectionalSequenceLSTMOptions", fields, [x, *rows], [y], inner
    )


_INTEGER_LSTMS = {
    "int8 lstm": (),
    "int8 lstm, time first": ("time first",),
    "int8 lstm, coupled": ("coupled",),
    "int8 lstm, clipped": ("clipped",),
    "int8 lstm, peepholes": ("peepholes",),
    "int8 lstm, coupled peepholes": ("coupled", "peepholes"),
    "int8 lstm, projection": ("projection", "bias"),
    "int8 lstm, projection without a bias": ("projection", "clipped"),
}


def _rnn(random: np.random.Generator) -> Case:
    parts = [_weights(random, 4, 3), _weights(random, 4, 4), _weights(random, 4)]
    state = Tensor([2, 4], "float32", variable=True)
    fields = {"fusedActivationFunction": 4, "timeMajor": False}
    x, y = Tensor([2, 5, 3], "float32"), Tensor([2, 5, 4], "float32")
    return Case("UNIDIRECTIONAL_SEQUENCE_RNN", "SequenceRNNOptions", fields, [x, *parts, state], [y])


def _svdf(random: np.random.Generator, dtype: str) -> Case:
    """Six filters of rank two with a memory of five, on seven features."""
    if dtype == "float32":
        parts = [_weights(random, 6, 7), _weights(random, 6, 5), _weights(random, 3)]
        state = Tensor([2, 30], "float32", variable=True)
        x, y = Tensor([2, 7], "float32"), Tensor([2, 3], "float32")
    else:
        parts = [
            Tensor([6, 7], "int8", 0.01, 0, random.integers(-127, 128, (6, 7))),
            Tensor([6, 5], "int16", 0.0001, 0, random.integers(-30000, 30000, (6, 5))),
            Tensor([3], "int32", 1e-7, 0, random.integers(-3000, 3000, 3)),
        ]
        state = Tensor([2, 30], "int16", 0.001, 0, variable=True)
        x, y = Tensor([2, 7], "int8", 0.05, -3), Tensor([2, 3], "int8", 0.1, 5)
    return Case("SVDF", "SVDFOptions", {"rank": 2, "fusedActivationFunction": 1}, [x, *parts, state], [y])


@pytest.mark.parametrize(
    "kind", ["lstm", "plain lstm", "coupled lstm", "rnn", "svdf", "svdf int8", *_INTEGER_LSTMS]
)
def test_what_operators_remember(kind: str, tmp_path) -> None:
    random = np.random.default_rng(5)
    makers = {
        "lstm": lambda: _lstm(random, False),
        "plain lstm": lambda: _lstm(random, False, 0.0),
        "coupled lstm": lambda: _lstm(random, True),
        "rnn": lambda: _rnn(random),
        "svdf": lambda: _svdf(random, "float32"),
        "svdf int8": lambda: _svdf(random, "int8"),
    }
    makers |= {name: partial(_integer_lstm, random, *parts) for name, parts in _INTEGER_LSTMS.items()}
    case = makers[kind]()
    path, data = tmp_path / "model.tflite", model_of(case)
    path.write_bytes(data)
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    session = tosaic.Session(path, target="golden")
    assert session.graph is not None and len(session.graph.states) == (2 if "lstm" in kind else 1)
    (name,) = [each.name for each in session.inputs]
    for _ in range(8):
        (x,) = feeds_of(case, random)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        wanted = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        found = session.run({name: x})[session.outputs[0].name]
        if found.dtype == np.int8:
            np.testing.assert_array_equal(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_state_over_many_runs(tmp_path) -> None:
    path, data = tmp_path / "ring.tflite", streaming_model()
    path.write_bytes(data)
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    session, random = tosaic.Session(path, target="emulator"), np.random.default_rng(1)
    assert session.graph is not None and list(session.graph.states) == ["ring.state"]
    for _ in range(_RUNS):
        frame = random.integers(-128, 128, (1, 1, CHANNELS)).astype(np.int8)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], frame)
        interpreter.invoke()
        wanted = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_array_equal(session.run({"frame": frame}, check=True)["mean"], wanted)


def test_a_variable_without_a_value(tmp_path) -> None:
    path = tmp_path / "ring.tflite"
    path.write_bytes(streaming_model(initialized=False))
    with pytest.raises(
        UnsupportedError, match=r"READ_VARIABLE 'held' .*'ring' has no initial value; give it one"
    ):
        import_model(path)
