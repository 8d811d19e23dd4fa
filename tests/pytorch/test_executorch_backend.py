"""The package tosaic-executorch: .pte files that ExecuTorch's runtime runs, with the bits of `Session`."""

import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

import tosaic

sys.path.append(str(Path(__file__).parents[2] / "bench"))
import pte_networks  # noqa: E402
from torch_roads import NETWORKS  # noqa: E402

pytestmark = [pytest.mark.xdist_group("nano"), pytest.mark.long]
PACKAGE = Path(__file__).parents[2] / "integrations" / "executorch"
TOKEN = "a token of this test"


class Classifier(torch.nn.Module):
    """A convolution and a dense layer."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)).mean((2, 3)))


class Parted(torch.nn.Module):
    """A sort, which TOSA does not have, between two dense layers."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x):
        return self.last(torch.topk(self.first(x), 8)[0])


class Remembering(torch.nn.Module):
    """A recurrence whose state is a buffer."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.register_buffer("state", torch.full((1, 8), 0.25))

    def forward(self, x):
        state = torch.relu(self.first(x) + self.state) * 0.5
        self.state.copy_(state)
        return state * 2


def converted(module, example, int16=False):
    """Quantized by ExecuTorch's TOSA quantizer."""
    return pte_networks.converted(module, [example] * 4, int16)


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    with torch.no_grad():
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module", autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def runtime():
    from tosaic_executorch import runtime

    yield runtime
    runtime.use()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A session of the module on golden, its input, its program, and the .pte file."""
    from tosaic_executorch import lower

    torch.manual_seed(0)
    example = (torch.randn(1, 3, 8, 8),)
    with torch.no_grad():
        module = converted(Classifier(), example)
        lowered = lower(torch.export.export(module, example), "nano", on_host="refuse")
    path = tmp_path_factory.mktemp("pte") / "net.pte"
    lowered.save(path)
    session = tosaic.from_torch(module, example, road="executorch", target="golden")
    return session, example, lowered, path


def executed(path, *inputs):
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(path).load_method("forward")
    return [method.execute(each)[0].clone() for each in inputs]


def test_every_node_is_told(classifier):
    *_, lowered, _ = classifier
    report = lowered.report
    assert str(report) == (
        "21 nodes on the NPU in 1 part, 0 on the host, and 2 on the host that quantize or dequantize"
    )
    (convolution,) = (node for node in report.nodes if node.operator == "convolution")
    assert (convolution.layer, convolution.place, convolution.part) == ("first", "NPU", 0)


@pytest.mark.parametrize(
    "target",
    ["emulator", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("sim", "native:sim://nano"))],
)
def test_the_bits_are_those_of_a_session(classifier, runtime, target):
    session, example, _, path = classifier
    others = [(torch.randn(1, 3, 8, 8),) for _ in range(2)]
    runtime.use(target)
    for given, inputs in zip(executed(path, example, *others), (example, *others), strict=True):
        assert torch.equal(given, session(*inputs))


def test_figures_of_a_part_that_is_loaded(classifier, runtime):
    from executorch.runtime import Runtime

    *_, example, _, path = classifier
    runtime.use("emulator")
    method = Runtime.get().load_program(path).load_method("forward")
    method.execute(example)
    (session,) = runtime.parts.sessions()
    assert session.stats["cycles"] > 0 and session.config.name == "nano"
    del method
    assert runtime.parts.sessions() == []


@pytest.mark.nightly
def test_a_board_server_without_python(classifier, runtime, monkeypatch):
    *_, example, _, path = classifier
    runtime.use("emulator")
    (wanted,) = executed(path, example)
    command = [sys.executable, "-m", "tosaic", "serve", "sim://nano", "--port", "0"]
    environment = {**os.environ, "TOSAIC_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    monkeypatch.setenv("TOSAIC_TOKEN", TOKEN)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as serving:
        try:
            address = next(
                found[0]
                for line in serving.stdout
                if (found := re.search(r"tcp://[\w.]+:\d+", line.decode()))
            )
            runtime.use(f"native:{address}")
            assert torch.equal(executed(path, example)[0], wanted)
        finally:
            serving.terminate()
    with pytest.raises(RuntimeError):
        executed(path, example)
    assert runtime.problem().endswith("nobody answers: Connection refused")


def test_what_cannot_run_is_told_in_words(classifier, runtime, tmp_path):
    *_, example, _, path = classifier
    damaged = tmp_path / "damaged.pte"
    damaged.write_bytes(path.read_bytes().replace(b"TOSAICX2", b"TOSAICX0"))
    runtime.use("emulator")
    with pytest.raises(RuntimeError):
        executed(damaged, example)
    assert runtime.problem() == "the part is damaged or of another version: lower the program again"
    runtime.use("golden")
    with pytest.raises(RuntimeError):
        executed(path, example)
    assert runtime.problem().startswith("a compiled program cannot run on golden")
    with pytest.raises(tosaic.InputError, match="there is no target 'emulater'; did you mean emulator"):
        runtime.use("emulater")
    runtime.use("emulator", max_cycles=10)
    with pytest.raises(RuntimeError):
        executed(path, example)
    assert runtime.problem().endswith("not at its end after 10 instructions: an endless loop?")


@pytest.mark.nightly
def test_a_node_that_stays_on_the_host_is_told(runtime, tmp_path):
    from tosaic_executorch import HostWarning, lower

    torch.manual_seed(1)
    example = (torch.randn(1, 8),)
    module = converted(Parted(), example)
    program = torch.export.export(module, example)
    with pytest.raises(
        tosaic.UnsupportedError, match=r"^nodes would run on the host: host: topk '\w+' float32"
    ):
        lower(program, "nano", on_host="refuse")
    with pytest.warns(
        HostWarning, match=r"in 2 parts, 1 on the host, and 4 on the host that quantize or dequantize"
    ):
        lowered = lower(program, "nano")
    assert lowered.report.parts == 2
    assert [node.operator.split(".")[0] for node in lowered.report.on_host] == ["topk"]
    lowered.save(tmp_path / "parted.pte")
    runtime.use("emulator")
    assert torch.allclose(executed(tmp_path / "parted.pte", example)[0], module(*example), atol=0.02)


@pytest.mark.nightly
def test_the_partitioner_alone_warns_as_well():
    from executorch.exir import to_edge_transform_and_lower
    from tosaic_executorch import HostWarning, TosaicPartitioner, report

    example = (torch.randn(1, 8),)
    partitioner = TosaicPartitioner("nano")
    program = torch.export.export(converted(Parted(), example), example)
    with pytest.warns(HostWarning, match="^these nodes stay on the host: topk 'aten_topk_default': [^;]*$"):
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    (node,) = report(edge, partitioner.reasons).on_host
    assert node.reason
    with pytest.raises(tosaic.InputError, match="'nono'"):
        TosaicPartitioner("nono")


@pytest.mark.nightly
def test_what_a_module_remembers(runtime, tmp_path):
    from tosaic_executorch import lower

    torch.manual_seed(2)
    example = (torch.randn(1, 8),)
    module = converted(Remembering(), example)
    lower(torch.export.export(module, example), "nano", on_host="refuse").save(tmp_path / "state.pte")
    runtime.use("emulator")
    # The state that the calibration left is where both begin.
    inputs = [(torch.randn(1, 8),) for _ in range(4)]
    for given, each in zip(executed(tmp_path / "state.pte", *inputs), inputs, strict=True):
        assert torch.allclose(given, module(*each), atol=0.03)


@pytest.mark.nightly
def test_int16_activations(runtime, tmp_path):
    from tosaic_executorch import lower

    torch.manual_seed(3)
    example = (torch.randn(1, 8),)
    module = converted(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid()), example, int16=True)
    lowered = lower(torch.export.export(module, example), "nano", int16=True, on_host="refuse")
    lowered.save(tmp_path / "wide.pte")
    session = tosaic.from_torch(module, example, road="executorch", target="golden")
    runtime.use("emulator")
    assert torch.equal(executed(tmp_path / "wide.pte", example)[0], session(*example))


def test_a_float_program_is_refused():
    from tosaic_executorch import lower

    example = (torch.randn(1, 8),)
    with pytest.raises(
        tosaic.UnsupportedError, match="quantize its module by prepare_pt2e and convert_pt2e, and export"
    ):
        lower(torch.export.export(Parted().eval(), example))


@pytest.mark.nightly
@pytest.mark.parametrize("int16", [False, True], ids=["int8", "int16"])
@pytest.mark.parametrize("name", [name for name in NETWORKS if "RMS" not in name])
def test_networks_have_the_bits_of_a_session(runtime, tmp_path, name, int16):
    """The networks of docs/records/pytorch_roads.md that ExecuTorch takes give the bits of a session."""
    from tosaic_executorch import lower

    make, shape = NETWORKS[name]
    torch.manual_seed(4)
    example = (torch.randn(shape),)
    module = converted(make(), example, int16)
    lower(torch.export.export(module, example), "base", int16=int16, on_host="refuse").save(
        tmp_path / "net.pte"
    )
    session = tosaic.from_torch(module, example, road="executorch", target="golden")
    runtime.use("emulator")
    other = (torch.randn(shape),)
    for given, inputs in zip(executed(tmp_path / "net.pte", example, other), (example, other), strict=True):
        assert torch.equal(given, session(*inputs))


IN_WHEELS = "torchvision and timm are not installed; make test-torch installs them"


@pytest.mark.nightly
@pytest.mark.parametrize("name", pte_networks.NETWORKS)
def test_a_network_of_the_zoo_or_a_topology(runtime, tmp_path, name):
    """Six networks of the zoo, and six topologies of torchvision and timm; each node runs on the accelerator."""
    if name not in pte_networks.ZOO and not importlib.util.find_spec("timm"):
        pytest.skip(IN_WHEELS)
    row = pte_networks.measured(name, "base", tmp_path)
    assert row.equal and (row.values > 9 or name in pte_networks.ZOO)
    assert row.report.on_host == [] and row.report.parts == 1


@pytest.mark.nightly
def test_the_wheel_alone(classifier, tmp_path):
    """Built, unpacked, and used from there: the runtime knows the back end, and a program runs."""
    shutil.copytree(
        PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("build", "*.egg-info", "*.so")
    )
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*command, str(tmp_path / "package")], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    assert (tmp_path / "site" / "tosaic_executorch" / "libtosaic_executorch.so").is_file()
    script = (
        "import sys, torch\n"
        "from executorch.runtime import Runtime\n"
        "from tosaic_executorch import runtime\n"
        f"assert runtime.__file__.startswith({str(tmp_path)!r})\n"
        "assert 'TosaicBackend' in Runtime.get().backend_registry.registered_backend_names\n"
        f"method = Runtime.get().load_program({str(classifier[3])!r}).load_method('forward')\n"
        "print(tuple(method.execute((torch.zeros(1, 3, 8, 8),))[0].shape))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.strip().endswith("(1, 4)"), done.stderr
