"""The Python API: sessions, one-shot runs, measurements, errors."""

from pathlib import Path

import numpy as np
import pytest

import tosaic
from tosaic.compiler.ir import DType, GraphBuilder, read_tosa
from tosaic.hw.config_text import get_config
from tosaic.sim.golden import evaluate

TINY = Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"


@pytest.fixture
def image():
    return np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)


@pytest.fixture
def scores(image):
    return evaluate(read_tosa(TINY), {"image": image})["scores"]


def test_session_shows_what_it_is():
    sides = "inputs=['image' int8[1, 8, 8, 1]], outputs=['scores' int8[1, 10]])"
    session = tosaic.Session(TINY, target="emulator", config="nano")
    assert repr(session) == f"Session('{TINY}', 'emulator', 'nano', {sides}"
    assert session.program is not None
    assert (
        repr(tosaic.Session(session.program, "emulator"))
        == f"Session('<Program>', 'emulator', 'nano', {sides}"
    )
    assert repr(tosaic.Session(read_tosa(TINY), "golden")) == f"Session('<Graph>', 'golden', 'base', {sides}"


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_session(target, image, scores):
    session = tosaic.Session(TINY, target=target, config="small")
    assert session.inputs == [tosaic.NodeArg("image", (1, 8, 8, 1), DType.INT8)]
    assert session.outputs == [tosaic.NodeArg("scores", (1, 10), DType.INT8)]
    assert session.inputs[0].numpy == np.int8
    assert session.stats == {}
    outputs = session.run({"image": image})
    assert list(outputs) == ["scores"]
    assert outputs["scores"].dtype == np.int8
    np.testing.assert_array_equal(outputs["scores"], scores)
    assert (session.stats["target"], session.stats["config"]) == (target, "small")
    assert session.stats["bit_exact"] is None
    session.run({"image": image}, check=True)
    assert session.stats["bit_exact"] is True


def test_a_session_runs_again_from_a_clean_memory(image, scores):
    session = tosaic.Session(TINY, target="emulator")
    first = session.run({"image": image})["scores"]
    cycles = session.stats["cycles"]
    other = session.run({"image": -1 - image})["scores"]
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(session.run({"image": image})["scores"], scores)
    assert session.stats["cycles"] == cycles
    np.testing.assert_array_equal(first, scores)


def test_models_as_objects(image, scores, tmp_path):
    session = tosaic.Session(str(TINY), target="emulator", config=get_config("nano"))
    program = session.program
    program.save(tmp_path / "tiny.tsc")
    for model in (TINY, str(TINY), read_tosa(TINY), program, tmp_path / "tiny.tsc"):
        np.testing.assert_array_equal(
            tosaic.run(model, {"image": image}, target="emulator")["scores"], scores
        )


def test_one_shot_run(image, scores):
    for options in ({"target": "golden"}, {"target": "emulator", "config": "large", "optimize": False}):
        np.testing.assert_array_equal(tosaic.run(TINY, {"image": image}, **options)["scores"], scores)


def test_layers_are_kept(image):
    session = tosaic.Session(TINY, target="emulator", keep_layers=True, optimize=False)
    session.run({"image": image}, check=True)
    golden = evaluate(read_tosa(TINY), {"image": image}, keep=True)
    assert len(session.kept) > 5
    for name, value in session.kept.items():
        np.testing.assert_array_equal(value, golden[name])


def test_memory_that_is_not_contiguous_or_not_an_array(image, scores):
    session = tosaic.Session(TINY, target="emulator")
    np.testing.assert_array_equal(session.run({"image": np.asfortranarray(image)})["scores"], scores)
    np.testing.assert_array_equal(session.run({"image": np.repeat(image, 2, 3)[..., ::2]})["scores"], scores)


def test_progress_is_told():
    told = []
    tosaic.Session(TINY, target="emulator", progress=lambda *what: told.append(what))
    assert [what[1:] for what in told] == [(0, 3), (1, 3), (2, 3)]
    assert all(what[0].startswith("compile ") for what in told)


def raised(error, call):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert isinstance(caught.value, tosaic.Error)
    return str(caught.value)


def test_error_classes():
    codes = {
        tosaic.ModelError: 1,
        tosaic.UnsupportedError: 1,
        tosaic.InputError: 1,
        tosaic.UnpredictableError: 1,
        tosaic.MismatchError: 3,
        tosaic.DeviceError: 4,
    }
    assert {error: error.exit_code for error in codes} == codes


def test_wrong_inputs(image):
    session = tosaic.Session(TINY, target="emulator")
    assert raised(tosaic.InputError, lambda: session.run({})) == (
        "input 'image' is missing: give an int8 array of shape [1, 8, 8, 1]"
    )
    assert raised(tosaic.InputError, lambda: session.run({"image": image, "y": image})) == (
        "the model has no input 'y'; it has 'image'"
    )
    assert raised(tosaic.InputError, lambda: session.run({"image": image[0]})) == (
        "input 'image' has shape [8, 8, 1], the model wants [1, 8, 8, 1]: give x[None]"
    )
    assert raised(tosaic.InputError, lambda: session.run({"image": image.astype(np.int32)})) == (
        "input 'image' has dtype int32, the model wants int8: give np.asarray(x, np.int8) of integers that were "
        "quantized"
    )


def test_wrong_sessions(tmp_path):
    assert raised(tosaic.InputError, lambda: tosaic.Session(TINY, target="gpu")) == (
        "there is no target 'gpu'; use one of golden, emulator, sim, cocotb, or a device: "
        "serial:///dev/ttyUSB1?baud=1000000, udp://192.168.1.50, uio:///dev/uio0?memory=/dev/udmabuf0, "
        "tcp://host:7626, virtual://ulx3s-85f"
    )
    assert raised(tosaic.InputError, lambda: tosaic.Session(TINY, target="jtag://fpga")).startswith(
        "jtag://fpga: there is no transport 'jtag'; there are pool, serial, sim, tcp, tcps, udp, uio, virtual: "
    )
    assert raised(tosaic.InputError, lambda: tosaic.Session(TINY, config="huge")) == (
        "no configuration is called 'huge'; there are nano, small, base, large, each of which takes other sizes "
        "(base,rows=8), and TOML files"
    )
    assert raised(tosaic.InputError, lambda: tosaic.Session(TINY, memory_bandwidth=0)) == (
        "memory bandwidth must be at least 0.01 bytes per cycle, not 0"
    )
    assert raised(tosaic.InputError, lambda: tosaic.Session(TINY, memory_latency=-1)) == (
        "memory latency must be at least 0 cycles, not -1"
    )
    program = tosaic.Session(TINY, target="emulator", config="small").program
    assert raised(tosaic.InputError, lambda: tosaic.Session(program, target="emulator", config="base")) == (
        "the program was compiled for configuration small, not base: compile the model for base, "
        "or do not name a configuration"
    )


@pytest.mark.parametrize(
    "target, option, reason",
    [
        ("golden", "memory_bandwidth", "golden has neither cycles nor a memory"),
        ("golden", "memory_latency", "golden has neither cycles nor a memory"),
        ("golden", "max_cycles", "golden has neither cycles nor a memory"),
        ("cocotb", "memory_bandwidth", "the bench's memory answers at random times"),
        ("cocotb", "memory_latency", "the bench's memory answers at random times"),
        ("sim://nano", "memory_bandwidth", "a device's memory is as it is"),
        ("sim://nano", "memory_latency", "a device's memory is as it is"),
    ],
)
def test_an_option_that_a_target_cannot_honour_is_refused_by_name(target, option, reason):
    text = raised(tosaic.InputError, lambda: tosaic.Session(TINY, target, **{option: 8}))
    assert text == f"{target}: {reason}: leave {option.replace('_', ' ')} out"


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("nano"))])
def test_the_time_limit_is_in_cycles(target):
    image = {"image": np.zeros((1, 8, 8, 1), np.int8)}
    free = tosaic.Session(TINY, target, "nano")
    free.run(image)
    cycles = free.stats["cycles"]
    if target == "emulator":
        tosaic.Session(TINY, target, "nano", max_cycles=cycles).run(image)
    # The simulator's limit includes what the interrupt takes from the program's end to the pin.
    tosaic.Session(TINY, target, "nano", max_cycles=cycles + 20).run(image)
    for limit in (cycles - 1, 200):
        text = raised(
            tosaic.DeviceError,
            lambda limit=limit: tosaic.Session(TINY, target, "nano", max_cycles=limit).run(image),
        )
        assert text.startswith(f"the program did not end in {limit} cycles; ")


def test_accelerators_refuse_float_graphs_by_the_name_of_the_first_float_tensor():
    build = GraphBuilder()
    whole = build.input("whole", (4,), DType.INT32)
    build.output(build.add("CAST", [whole], dtype=DType.FP32))
    graph = build.finish()
    assert raised(tosaic.UnsupportedError, lambda: tosaic.Session(graph, target="emulator")) == (
        "tensor 'cast_0' fp32[4] is floating point and Tosaic computes integers: quantize the model to int8 first"
        ": tosaic quantize NET -c calib.npz -o NET.tosa"
    )


def test_golden_runs_float_graphs():
    build = GraphBuilder()
    half = build.add(
        "MUL",
        [build.input("x", (3,), DType.FP32), build.constant([0.5], DType.FP32)]
        + [build.constant([0], DType.INT8)],
    )
    build.output(build.add("CAST", [half], dtype=DType.BF16, output="y"))
    session = tosaic.Session(build.finish(), target="golden")
    outputs = session.run({"x": np.array([2, np.inf, 0.1], np.float32)}, check=True)
    assert outputs["y"].dtype == np.float32
    np.testing.assert_array_equal(outputs["y"], np.array([1, np.inf, 0.050048828125], np.float32))
    message = raised(tosaic.InputError, lambda: session.run({"x": np.zeros(3, np.float64)}))
    assert message == (
        "input 'x' has dtype float64, the model wants float32: convert it with .astype(np.float32)"
    )


def test_tensor_that_the_configuration_cannot_hold():
    build = GraphBuilder()
    x = build.input("x", (1, 8), DType.INT48)
    build.output(build.add("IDENTITY", [x]))
    graph = build.finish()
    message = raised(tosaic.UnsupportedError, lambda: tosaic.Session(graph, target="emulator", config="nano"))
    assert message == (
        "tensor 'x' int48[1, 8] has elements of 8 bytes on a 4-byte machine; use a larger configuration than 'nano'"
    )


def test_layers_larger_than_the_memory_or_a_field_run():
    for dtype, op, attributes in (
        (DType.INT32, "REDUCE_SUM", {}),
        (DType.INT8, "REDUCE_MAX", {"nan_mode": "PROPAGATE"}),
    ):
        build = GraphBuilder()
        x = build.input("x", (1, 200_000), dtype)
        build.output(build.add(op, [x], axis=1, **attributes))
        session = tosaic.Session(build.finish(), target="emulator", config="nano")
        values = np.random.default_rng(1).integers(-100, 100, (1, 200_000))
        session.run({"x": values.astype(dtype.numpy)}, check=True)
