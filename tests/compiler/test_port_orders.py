"""Images of planes: the host writes them pixel by pixel, and nothing is turned. Users and graphs go on with planes."""

import dataclasses
import json
import zlib

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.program import MAGIC, Port, Program
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config

FORTH, BACK = [0, 2, 3, 1], [0, 3, 1, 2]
LAYOUT = (0, 2, 3, 1)


def network(*, scaled: bool = False, back: bool = True, readers: int = 1, images: int = 2) -> Graph:
    """A convolution of an image of planes; `scaled`: behind RESCALEs. The result is one of planes, if it is turned
    `back`."""
    build = LayerBuilder(1)
    x = build.input("x", (images, 3, 12, 14), DType.INT8)
    for _ in range(readers):
        y = build.rescale(build.rescale(x, DType.INT32, shift=31), DType.INT8, shift=31) if scaled else x
        y = build.rescale(
            build.conv(build.add("TRANSPOSE", [y], perms=FORTH), 20, (3, 3)), DType.INT8, shift=36
        )
        if back:
            y = build.add("TRANSPOSE", [y], perms=BACK)
            y = build.add("CLAMP", [y], min_val=-50, max_val=90, nan_mode="PROPAGATE")
        build.output(y)
    return build.finish()


def sequence() -> Graph:
    """The same of one axis, as importers write it: with an axis of one element between."""
    build = LayerBuilder(2)
    x = build.add("RESHAPE", [build.input("x", (1, 40, 60), DType.INT8), build.shape([1, 1, 40, 60])])
    x = build.add("TRANSPOSE", [x], perms=[0, 1, 3, 2])
    y = build.rescale(build.conv(x, 24, (1, 3)), DType.INT8, shift=36)
    y = build.add("RESHAPE", [y, build.shape([1, 58, 24])])
    build.output(build.add("TRANSPOSE", [y], perms=[0, 2, 1]))
    return build.finish()


def layers(session: Session) -> list[str]:
    return [layer["op"] for layer in session.stats["layers"]]


def assert_exact(graph: Graph, target: str, config: str) -> Session:
    values = feeds(graph, 2)
    session = Session(graph, target, config)
    found = session.run(values)
    for name, wanted in Session(graph, "golden").run(values).items():
        assert (found[name].shape, found[name].dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(found[name], wanted)
    return session


@pytest.mark.parametrize(
    "target, config", [("emulator", "base"), ("emulator", "base,cores=2"), ("sim", "nano")]
)
@pytest.mark.parametrize("graph", [network(), network(scaled=True), network(back=False), sequence()])
def test_nothing_is_turned_and_the_integers_are_those_of_golden(graph, target, config):
    session = assert_exact(graph, target, config)
    assert layers(session)[-1] == "CONV2D"
    assert set(layers(session)) <= {"CONV2D", "RESCALE"}
    (x,), (y,) = session.program.inputs, session.program.outputs
    assert (x.shape, y.shape) == tuple(
        tuple(graph.tensors[name].shape) for name in (*graph.inputs, *graph.outputs)
    )


def test_two_readers_of_one_image():
    session = assert_exact(network(readers=2), "emulator", "base")
    assert layers(session) == ["CONV2D", "CONV2D"]
    assert [port.order for port in (*session.program.inputs, *session.program.outputs)] == [LAYOUT] * 3


def test_an_image_that_is_read_as_planes_stays_so():
    build = LayerBuilder(3)
    x = build.input("x", (1, 3, 12, 14), DType.INT8)
    build.output(
        build.rescale(build.conv(build.add("TRANSPOSE", [x], perms=FORTH), 20, (3, 3)), DType.INT8, shift=36)
    )
    build.output(build.add("REDUCE_MAX", [x], axis=3, nan_mode="PROPAGATE"))
    session = assert_exact(build.finish(), "emulator", "base")
    assert [port.order for port in session.program.inputs] == [()]


@pytest.mark.parametrize("moved", ["input", "output"])
def test_a_network_that_only_turns(moved):
    """Its input is its output: one of them would have to be in two orders."""
    build = LayerBuilder(3)
    x = build.input("x", (1, 3, 12, 14), DType.INT16)
    build.output(build.add("TRANSPOSE", [x], perms=FORTH))
    if moved == "input":
        build.output(x)
    assert_exact(build.finish(), "emulator", "base")


def test_without_optimizing_memory_has_what_the_graph_has():
    program = compile_graph(network(), get_config("base"), optimize=False)
    assert [port.order for port in (*program.inputs, *program.outputs)] == [(), ()]


def test_samples_at_once():
    graph = network(images=1)
    samples = np.random.default_rng(4).integers(-128, 128, (3, 3, 12, 14), dtype=np.int8)
    found = Session(graph, "emulator", "base").run({"x": samples})
    for name, wanted in Session(graph, "golden").run({"x": samples}).items():
        np.testing.assert_array_equal(found[name], wanted)


def test_program_files_tell_the_order(tmp_path):
    graph, path = network(), tmp_path / "net.tsc"
    compile_graph(graph, get_config("nano")).save(path)
    values = feeds(graph, 5)
    found = tosaic.run(path, values, target="emulator")
    for name, wanted in Session(graph, "golden").run(values).items():
        np.testing.assert_array_equal(found[name], wanted)
    again = Program.load(path)
    assert [port.order for port in (*again.inputs, *again.outputs)] == [LAYOUT, LAYOUT]
    assert again.inputs[0].stored_shape == (2, 12, 14, 3)


@pytest.mark.parametrize(
    "order, message",
    [
        ([0, 2, 3], r"each of the 4 axes once, not \[0, 2, 3\]"),
        ([0, 1, 1, 2], "once"),
        ([0, 1, 2, 9], "0..5"),
    ],
)
def test_an_order_that_is_none(tmp_path, order, message):
    raw = compile_graph(network(), get_config("nano")).to_bytes()
    start = len(MAGIC) + 4
    length = int.from_bytes(raw[len(MAGIC) : start], "little")
    header = json.loads(raw[start : start + length])
    header["inputs"][0]["order"] = order
    text = json.dumps(header).encode()
    body = MAGIC + len(text).to_bytes(4, "little") + text + raw[start + length : -4]
    with pytest.raises(tosaic.ModelError, match=rf"inputs\[0\]\.order.*{message}"):
        Program.load(body + zlib.crc32(body).to_bytes(4, "little"))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.INT32, DType.BOOL])
def test_ports_write_and_read_in_their_order(dtype):
    port = Port("x", (2, 3, 5), dtype, 16, 30 * np.dtype(dtype.numpy).itemsize, (2, 0, 1))
    values = np.arange(30).reshape(port.shape).astype(dtype.numpy)
    memory = np.zeros(16 + port.bytes + 8, np.uint8)
    port.write(memory, values)
    inside = memory[16 : 16 + port.bytes]
    np.testing.assert_array_equal(inside.view(dtype.numpy), values.transpose(2, 0, 1).ravel())
    np.testing.assert_array_equal(port.read(memory), values)
    assert not memory[:16].any() and not memory[16 + port.bytes :].any()
    many = np.stack([values, values[::-1]])
    np.testing.assert_array_equal(port.loaded(port.stored(many)), many)


def test_a_port_of_one_element_has_no_axes():
    port = Port("x", (), DType.INT32, 0, 4)
    memory = np.zeros(4, np.uint8)
    port.write(memory, np.array(-5, np.int32))
    assert (port.read(memory).shape, int(port.read(memory))) == ((), -5)
    many = np.arange(3, dtype=np.int32)
    np.testing.assert_array_equal(port.loaded(port.stored(many)), many)


def test_certificates_hold_a_program_to_its_order():
    graph = network(images=1)
    program = compile_graph(graph, get_config("nano"))
    assert tosaic.certify(graph, program).verdict == "EQUAL"
    other = [dataclasses.replace(port, order=(0, 3, 2, 1)) for port in program.inputs]
    assert tosaic.certify(graph, dataclasses.replace(program, inputs=other)).verdict == "DIFFERENT"
