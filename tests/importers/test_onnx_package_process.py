"""The process in which the package onnx infers shapes: what crashes there is an error of one line here."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tosaic.compiler.importers.onnx_models import import_onnx, package_process
from tosaic.errors import ModelError


def model(nodes: list, inputs: dict, constants: dict, opset: int = 17) -> ModelProto:
    """A model with the output y; inputs are float32 or uint8 ones by name."""
    graph = helper.make_graph(
        nodes,
        "test",
        [
            helper.make_tensor_value_info(
                name, TensorProto.UINT8 if name.startswith("q") else TensorProto.FLOAT, shape
            )
            for name, shape in inputs.items()
        ],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def sound() -> ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], {"x": [2]}, {})


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


BYTE, BYTES = np.ones((), np.uint8), np.ones((1, 1, 1, 1), np.uint8)
CRASHES = {
    "weights of a lower rank": (
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"])],
        {"x": [1, 1, 3]},
        {"w": ones(1, 2)},
    ),
    "weights of a higher rank": (
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"])],
        {"x": [1, 1, 3]},
        {"w": ones(1, 2, 3, 3)},
    ),
    "behind a node that is right": (
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("ConvTranspose", ["r", "w"], ["y"]),
            helper.make_node("Neg", ["y"], ["z"]),
        ],
        {"x": [1, 1, 3]},
        {"w": ones(1, 2)},
    ),
    "quantized": (
        [helper.make_node("QLinearConv", ["q", "s", "b", "w", "s", "b", "s", "b"], ["y"])],
        {"q": [1, 7, 7]},
        {"w": BYTES, "s": np.float32(1).reshape(()), "b": BYTE},
    ),
    "inside a branch": (
        [
            helper.make_node(
                "If",
                ["yes"],
                ["y"],
                **{
                    name: helper.make_graph(
                        [helper.make_node("ConvTranspose", ["x", "w"], [name])],
                        name,
                        [],
                        [helper.make_empty_tensor_value_info(name)],
                    )
                    for name in ("then_branch", "else_branch")
                },
            )
        ],
        {"x": [1, 1, 3]},
        {"w": ones(1, 2), "yes": np.array(True)},
    ),
}


@pytest.mark.parametrize("case", CRASHES)
def test_a_crash_is_an_error_that_names_the_node(case: str) -> None:
    crashing = model(*CRASHES[case])
    culprit = next(
        node for node in crashing.graph.node if node.op_type in ("ConvTranspose", "QLinearConv", "If")
    )
    with pytest.raises(ModelError) as caught:
        import_onnx(crashing)
    assert str(caught.value) == (
        f"{culprit.op_type} 'y' is malformed: inferring its types and shapes, the onnx package crashes (SIGABRT)"
    )
    assert import_onnx(sound()).outputs == ["y"]


def test_memory_is_limited() -> None:
    """The inference of this operator makes room for each output before it counts them."""
    greedy = model([helper.make_node("Split", ["x"], ["y"], num_outputs=1 << 30)], {"x": [2, 8]}, {}, 18)
    with pytest.raises(package_process.PackageCrashError, match="more memory than 1 GiB"):
        package_process.check_types(greedy)
    package_process.check_types(sound())


def test_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    package_process.check_types(sound())
    os.kill(process_number(), signal.SIGSTOP)
    monkeypatch.setattr(package_process, "LIMIT_SECONDS", 0)
    with pytest.raises(ModelError, match="the model is malformed: .* the onnx package takes more than 0 s"):
        import_onnx(sound())


def test_functions_that_call_themselves() -> None:
    recursive = sound()
    body = helper.make_function(
        "own", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="own")],
        [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
    )  # fmt: skip
    recursive.functions.append(body)
    recursive.opset_import.append(helper.make_opsetid("own", 1))
    recursive.graph.node[0].CopyFrom(helper.make_node("F", ["x"], ["y"], domain="own"))
    with pytest.raises(ModelError, match="local functions"):
        import_onnx(recursive)


def process_number() -> int:
    process = package_process._worker.process
    assert process is not None
    return process.pid


def test_one_process_serves_many_imports() -> None:
    import_onnx(sound())
    first = process_number()
    import_onnx(sound())
    assert process_number() == first


def test_a_process_that_was_ended_is_replaced() -> None:
    import_onnx(sound())
    first = process_number()
    os.kill(first, signal.SIGKILL)
    while package_process._worker.process.poll() is None:  # type: ignore[union-attr]  # it is there
        time.sleep(0.01)
    import_onnx(sound())
    assert process_number() != first


def test_threads_take_turns() -> None:
    crashing = model(*CRASHES["weights of a lower rank"])
    told: list[str] = []

    def work(given: Any, wanted: str) -> None:
        for _ in range(3):
            try:
                told.append(f"{wanted} {import_onnx(given).outputs[0]}")
            except ModelError as error:
                told.append(f"{wanted} {'SIGABRT' if 'SIGABRT' in str(error) else error}")

    threads = [threading.Thread(target=work, args=(sound(), "y")) for _ in range(3)]
    threads.append(threading.Thread(target=work, args=(crashing, "SIGABRT")))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == ["SIGABRT SIGABRT"] * 3 + ["y y"] * 9


def test_a_fork_has_a_process_of_its_own() -> None:
    import_onnx(sound())
    first = process_number()

    def child() -> None:
        assert package_process._worker.process is None
        import_onnx(sound())
        assert process_number() != first
        package_process._worker.stop()

    assert forked(child) == 0
    import_onnx(sound())
    assert process_number() == first


def forked(work: Callable[[], None]) -> int:
    number = os.fork()
    if not number:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


PROGRAM = """
import sys
from tosaic.compiler.importers.onnx_models import import_onnx, package_process
print(import_onnx(sys.argv[1]).outputs, package_process._worker.process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [False, True])
def test_the_process_ends_with_a_program_without_a_main_guard(tmp_path: pathlib.Path, killed: bool) -> None:
    (tmp_path / "model.onnx").write_bytes(sound().SerializeToString())
    (tmp_path / "program.py").write_text(PROGRAM)
    program = subprocess.Popen(
        [sys.executable, "program.py", "model.onnx"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None and program.stdout is not None
    outputs, number = program.stdout.readline().rsplit(maxsplit=1)
    assert outputs == "['y']"
    if killed:
        program.kill()
    rest, _ = program.communicate()
    assert rest == "" and program.returncode == (-signal.SIGKILL if killed else 0)
    for _ in range(1000):  # until whoever inherits it has taken note
        if not running(int(number)):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {number} is still there")


def running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    state = pathlib.Path(f"/proc/{number}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
