"""Variables of TOSA files (EXT-VARIABLE), as Arm's tools write and run them: states of the graph."""

import dataclasses
import shutil
import subprocess

import numpy as np
import pytest

import tosaic
from tosaic.compiler.ir import DType, Graph, Operator, State, Tensor, read_tosa, validate, write_tosa
from tosaic.compiler.ir.schema_1_0 import variables, writer
from tosaic.driver.session import Session
from tosaic.errors import ModelError, UnsupportedError

TOSA_OPT, MODEL = shutil.which("tosa-opt"), shutil.which("tosa_reference_model")
needs_tools = pytest.mark.skipif(not (TOSA_OPT and MODEL), reason="needs tosa-tools (the extra dev)")

PLAIN = """
  tosa.variable @count = dense<[7, 8]> : tensor<2xi32>
  tosa.variable @last : tensor<2xi32>
  func.func @main(%x: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>) {
    %0 = tosa.variable_read @count : tensor<2xi32>
    %1 = tosa.add %0, %x : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    tosa.variable_write @count, %1 : tensor<2xi32>
    %2 = tosa.variable_read @count : tensor<2xi32>
    %3 = tosa.variable_read @last : tensor<2xi32>
    tosa.variable_write @last, %0 : tensor<2xi32>
    %4 = tosa.sub %2, %3 : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    return %2, %4 : tensor<2xi32>, tensor<2xi32>
  }
"""
BRANCHES = """
  tosa.variable @count = dense<[7, 8]> : tensor<2xi32>
  tosa.variable @other = dense<[1, 2]> : tensor<2xi32>
  func.func @main(%x: tensor<2xi32>, %go: tensor<i1>) -> tensor<2xi32> {
    %0 = tosa.cond_if %go (%a = %x) : tensor<i1> (tensor<2xi32>) -> tensor<2xi32> {
      ^bb0(%a: tensor<2xi32>):
      %1 = tosa.variable_read @count : tensor<2xi32>
      %2 = tosa.add %1, %a : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
      tosa.variable_write @count, %2 : tensor<2xi32>
      tosa.yield %2 : tensor<2xi32>
    } else {
      ^bb0(%a: tensor<2xi32>):
      tosa.variable_write @other, %a : tensor<2xi32>
      tosa.yield %a : tensor<2xi32>
    }
    %3 = tosa.variable_read @other : tensor<2xi32>
    %4 = tosa.add %0, %3 : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    return %4 : tensor<2xi32>
  }
"""
INPUTS = [{"TosaInput_0": np.array(x, np.int32)} for x in ([1, 2], [30, 40], [-5, 5], [9, 9])]
GO = [
    {**values, "TosaInput_1": np.array(go)}
    for values, go in zip(INPUTS, (True, False, True, True), strict=True)
]


def serialized(folder, text):
    """The file that Arm's serializer makes of MLIR text."""
    (folder / "model.mlir").write_text(f"module {{ {text} }}")
    command = [TOSA_OPT, "--tosa-serialize", f"--tosa-flatbuffer-filename={folder / 'model.tosa'}"]
    subprocess.run([*command, folder / "model.mlir"], check=True, capture_output=True)
    return folder / "model.tosa"


def referenced(folder, graph, states, inputs):
    """What the reference model gives for the graph whose variables begin as `states`."""
    begun = {name: State(state.output, states[name]) for name, state in graph.states.items()}
    write_tosa(dataclasses.replace(graph, states=begun), folder / "again.tosa")
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
    options = {
        "tosa_file": folder / "again.tosa",
        "flatbuffer_dir": folder,
        "output_dir": folder,
        "ifm_name": ",".join(inputs),
        "ifm_file": ",".join(str(folder / f"{name}.npy") for name in inputs),
        "ofm_name": ",".join(graph.run_outputs),
        "ofm_file": ",".join(f"{name}.out.npy" for name in graph.run_outputs),
    }
    subprocess.run([MODEL, *(f"--{key}={value}" for key, value in options.items())], capture_output=True)
    return {name: np.load(folder / f"{name}.out.npy") for name in graph.run_outputs}


@needs_tools
@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_runs_equal_the_reference_model(target, tmp_path):
    session = Session(serialized(tmp_path, PLAIN), target, "nano")
    assert dict(session.state).keys() == {"count", "last"}
    for values in INPUTS:
        wanted = referenced(tmp_path, session.graph, session.state, values)
        found = session.run(values)
        assert {name: value.tolist() for name, value in found.items()} == {
            name: value.tolist() for name, value in wanted.items()
        }


@needs_tools
@pytest.mark.parametrize("target", ["golden", "emulator"])
@pytest.mark.parametrize("again", [False, True])
def test_branches_read_and_write(target, again, tmp_path):
    graph = read_tosa(serialized(tmp_path, BRANCHES))
    session = Session(read_tosa(write_tosa(graph)) if again else graph, target, "nano")
    found = [session.run(values)[session.outputs[0].name].tolist() for values in GO]
    assert found == [[9, 12], [60, 80], [33, 55], [42, 64]]
    assert session.state["count"].tolist() == [12, 24] and session.state["other"].tolist() == [30, 40]


def counting():
    graph = Graph("main", ["x", "n"], ["y", "n.next"])
    graph.tensors = {name: Tensor(name, (2,), DType.INT32) for name in ("x", "n", "y", "n.next")}
    graph.operators = [
        Operator("SUB", ["n", "x"], ["y"], {}, "SUB_0"),
        Operator("ADD", ["n", "x"], ["n.next"], {}, "ADD_0"),
    ]
    graph.states = {"n": State("n.next", np.array([3, 4], np.int32))}
    return graph


def test_a_written_graph_is_read_as_it_was():
    graph = counting()
    again = read_tosa(write_tosa(graph))
    validate(again)
    assert (again.inputs, again.outputs, list(again.tensors)) == (
        graph.inputs,
        graph.outputs,
        list(graph.tensors),
    )
    assert [op.op for op in again.operators] == ["SUB", "ADD"]
    assert again.states["n"].output == "n.next" and again.states["n"].initial.tolist() == [3, 4]


def test_the_specification_s_own_numbers(monkeypatch):
    """Operators numbered VARIABLE_READ and VARIABLE_WRITE, and the declaration that Arm's serializer leaves out."""
    monkeypatch.setattr(writer.tables, "VARIABLE_ATTRIBUTES", ())
    written = writer.variables_of

    def declared(graph):
        parts = written(graph)
        places = [tensor.name for tensor in parts.tensors.values()]
        return dataclasses.replace(
            parts, reads=[Operator("VARIABLE", [], [place], {}, place) for place in places] + parts.reads
        )

    monkeypatch.setattr(writer, "variables_of", declared)
    again = read_tosa(write_tosa(counting()))
    assert again.inputs == ["x", "n"] and len(again.operators) == 2


@pytest.mark.parametrize(
    "change,wanted",
    [
        (
            lambda parts: parts.reads[0].inputs.append("x"),
            r"it must have one input and one output.*VARIABLE_READ",
        ),
        (lambda parts: parts.reads[0].inputs.__setitem__(0, "x"), "tensor 'x' is no variable"),
        (
            lambda parts: parts.writes[0].inputs.__setitem__(0, "flag"),
            "must have the variable's shape and type.*'flag' bool",
        ),
    ],
)
def test_files_that_are_wrong(change, wanted, monkeypatch):
    graph = counting()
    graph.tensors["flag"] = Tensor("flag", (2,), DType.BOOL)
    graph.inputs.append("flag")

    def changed(graph):
        parts = variables.variables_of(graph)
        if graph.states:
            change(parts)
        return parts

    monkeypatch.setattr(writer, "variables_of", changed)
    data = write_tosa(graph)
    with pytest.raises(ModelError, match=wanted):
        read_tosa(data)


def test_old_files_have_no_variables():
    with pytest.raises(
        UnsupportedError, match="^TOSA 0.30 has no variables, and the graph remembers 'n'; write TOSA 1.0$"
    ):
        write_tosa(counting(), version=(0, 30))


def test_operators_of_variables_are_for_files():
    graph = counting()
    graph.operators.append(Operator("VARIABLE_READ", [], ["z"], {}, "read"))
    graph.tensors["z"] = Tensor("z", (2,), DType.INT32)
    with pytest.raises(tosaic.ModelError, match="read: a graph has `states` in the place of VARIABLE_READ"):
        validate(graph)
