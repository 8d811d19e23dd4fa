"""`Session.state` on every kind of target: read, set and reset by name, never shared, in the device's memory."""

import numpy as np
import pytest

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, GraphBuilder, State
from tosaic.driver.server import BoardServer
from tosaic.driver.transports import RtlTransport
from tosaic.hw.config_text import get_config

pytestmark = pytest.mark.xdist_group("nano")
TOKEN = "0123456789abcdef"


def counter(first=10):
    """Adds up its inputs; what it gives is the sum so far, and what it remembers."""
    build = GraphBuilder("counter")
    x, total = build.input("x", (3,), DType.INT32), build.input("total", (3,), DType.INT32)
    following = build.add("ADD", [total, x])
    build.output(build.add("SUB", [following, x]))
    build.graph.outputs.append(following)
    build.graph.states["total"] = State(following, np.full(3, first, np.int32))
    return build.finish()


X = np.array([1, 2, -3], np.int32)


def step(session, x=X):
    """The sum before a run."""
    (before,) = session.run({"x": x}).values()
    return before.tolist()


class Recorded(RtlTransport):
    """A machine that notes where memory is written."""

    def __init__(self):
        super().__init__(get_config("nano"))
        self.written = []

    def write_memory(self, address, data):
        self.written.append(address)
        super().write_memory(address, data)


@pytest.fixture(scope="module")
def transport():
    made = Recorded()
    yield made
    made.close()


@pytest.fixture
def device(transport):
    return tosaic.Device(transport)


@pytest.mark.parametrize("target", ["golden", "emulator", "sim", "device"])
def test_read_set_and_reset(target, device):
    session = tosaic.Session(counter(), device if target == "device" else target, "nano")
    assert [each.name for each in session.inputs] == ["x"] and len(session.outputs) == 1
    assert [step(session) for _ in range(3)] == [[10, 10, 10], [11, 12, 7], [12, 14, 4]]
    assert list(session.state) == ["total"] and session.state["total"].tolist() == [13, 16, 1]
    session.state["total"] = np.zeros(3, np.int32)
    assert [step(session) for _ in range(2)] == [[0, 0, 0], [1, 2, -3]]
    session.state.reset("total")
    assert session.state["total"].tolist() == [10, 10, 10]
    session.run({"x": X}, check=True)
    session.state.reset()
    assert step(session) == [10, 10, 10]


def test_a_program_remembers_without_its_graph(tmp_path):
    path = tmp_path / "counter.tsc"
    compile_graph(counter(), get_config("nano")).save(path)
    session = tosaic.Session(path, "emulator")
    assert [step(session) for _ in range(2)] == [[10, 10, 10], [11, 12, 7]]


def test_it_stays_in_the_device(device, transport):
    session = tosaic.Session(counter(), device)
    place = session.program.states[0].address
    for wanted in ([10, 10, 10], [11, 12, 7], [12, 14, 4]):
        transport.written.clear()
        assert step(session) == wanted
        assert (place in transport.written) == (wanted[0] == 10)
    session.state["total"] = X
    transport.written.clear()
    assert step(session) == X.tolist() and place in transport.written


def test_sessions_of_one_program_on_one_device(device):
    program = compile_graph(counter(), get_config("nano"))
    one, two = (tosaic.Session(program, device) for _ in range(2))
    other = tosaic.Session(counter(100), device)
    assert [step(one), step(one), step(two), step(other), step(one), step(two), step(other)] == [
        [10, 10, 10],
        [11, 12, 7],
        [10, 10, 10],
        [100, 100, 100],
        [12, 14, 4],
        [11, 12, 7],
        [101, 102, 97],
    ]


def test_a_machine_that_is_reset_forgets(device, transport):
    session = tosaic.Session(counter(), device, max_cycles=100_000)
    assert [step(session) for _ in range(2)] == [[10, 10, 10], [11, 12, 7]]
    with pytest.raises(tosaic.InputError, match="input 'x' is missing"):
        session.run({})
    assert step(session) == [12, 14, 4]
    transport.set_errors(transport.identity.memory_base + session.program.states[0].address, None)
    try:
        with pytest.raises(tosaic.DeviceError, match="BUS_READ"):
            step(session)
    finally:
        transport.set_errors(None, None)
    assert session.state["total"].tolist() == [10, 10, 10]
    assert [step(session) for _ in range(2)] == [[10, 10, 10], [11, 12, 7]]


def test_clients_of_a_server(transport, monkeypatch):
    monkeypatch.setenv("TOSAIC_TOKEN", TOKEN)
    server = BoardServer(transport, TOKEN)
    try:
        uri = "tcp://{}:{}".format(*server.address)
        with tosaic.Session(counter(), uri) as one, tosaic.Session(counter(), uri) as two:
            sums = [step(session) for session in (one, one, two, one, two)]
    finally:
        server.close()
    assert sums == [[10, 10, 10], [11, 12, 7], [10, 10, 10], [12, 14, 4], [11, 12, 7]]


def test_names_and_values_that_do_not_fit():
    session = tosaic.Session(counter(), "emulator", "nano")
    with pytest.raises(tosaic.InputError, match="^the model does not remember 'sum'; it remembers 'total'$"):
        session.state["sum"] = X
    with pytest.raises(KeyError, match="does not remember 'sum'"):
        session.state.reset("sum")
    with pytest.raises(tosaic.InputError, match=r"^input 'total' has shape \[2\], the model wants \[3\]"):
        session.state["total"] = X[:2]
    with pytest.raises(tosaic.InputError, match="^the model always remembers 'total'"):
        del session.state["total"]
    with pytest.raises(tosaic.InputError, match="^the model has no input 'total'"):
        session.run({"x": X, "total": X})
    assert step(session) == [10, 10, 10]
