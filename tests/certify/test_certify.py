"""Certificates: programs of the compiler are EQUAL, programs with a fault are not, and nothing is claimed that was not
shown."""

import dataclasses
import json

import pytest
from changed_certified import code, network
from control_graphs import Control, finished, plus
from layer_graphs import LayerBuilder

import tosaic
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph, write_tosa
from tosaic.compiler.ir.examples import examples
from tosaic.compiler.program import Program
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, decode, encode, make

NANO = get_config("nano")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return network()


@pytest.fixture(scope="module")
def program(graph: Graph) -> Program:
    return compile_graph(graph, NANO)


def with_field(program: Program, opcode: Opcode, name: str, by: int, which: int = 0) -> tuple[Program, int]:
    """The program with a field of one instruction changed, and that one's place."""
    number = [k for k, each in enumerate(code(program)) if each.opcode == opcode][which]
    old = code(program)[number]
    new = make(old.opcode, **{**old.fields, name: old.fields[name] + by})
    place, image = program.program_address + number * INSTRUCTION_BYTES, bytearray(program.image)
    image[place : place + INSTRUCTION_BYTES] = encode(new)
    return dataclasses.replace(program, image=bytes(image)), number * INSTRUCTION_BYTES


@pytest.mark.parametrize("config", ["nano", "base"])
def test_a_compiled_program_is_equal(graph: Graph, config: str) -> None:
    done = tosaic.certify(graph, config=config)
    assert (done.verdict, done.reason, done.witness, done.place) == ("EQUAL", "", None, None)
    assert [each.verdict for each in done.outputs.values()] == ["EQUAL"]
    assert done.log2_error < -60 and done.assumptions == {}
    assert {"RESCALE", "CLAMP", "MAX"} <= done.lemmas.keys()


def test_more_points_make_accidents_rarer(graph: Graph) -> None:
    one, three = (tosaic.certify(graph, config="nano", seeds=seeds) for seeds in (1, 3))
    assert one.log2_error - three.log2_error == pytest.approx(2 * 61, abs=0.1)
    assert one.log2_error > -60


def test_hashing_that_withstands_strangers_comes_to_the_same(graph: Graph, program: Program) -> None:
    own, strange = (tosaic.certify(graph, program, keyed=keyed) for keyed in (False, True))
    assert (own.verdict, strange.verdict, strange.keyed) == ("EQUAL", "EQUAL", True)
    assert tosaic.certify(graph, program).keyed
    assert own.values == strange.values


FAULTS = [
    (Opcode.ARRAY_INPUT, "input_zp", 1),
    (Opcode.ARRAY_INPUT, "height", -1),
    (Opcode.ARRAY_WINDOW, "y_start", 1),
    (Opcode.STORE_GO, "row_bytes", -1),
    (Opcode.LOAD_GO, "row_bytes", -1),
    (Opcode.VECTOR_PARAM, "address", 8),
    (Opcode.ARRAY_GO, "weights", 1),
]


@pytest.mark.parametrize(("opcode", "name", "by"), FAULTS)
def test_a_wrong_field_is_seen(graph: Graph, program: Program, opcode: Opcode, name: str, by: int) -> None:
    faulty, _ = with_field(program, opcode, name, by)
    done = tosaic.certify(graph, faulty)
    assert done.verdict == "DIFFERENT" and done.witness is not None
    wanted = tosaic.run(graph, dict(done.witness.inputs), target="golden")[done.witness.output]
    found = tosaic.Session(faulty, target="emulator").run(dict(done.witness.inputs))[done.witness.output]
    index = done.witness.index
    assert (wanted[index], found[index]) == (done.witness.wanted, done.witness.found)
    assert done.witness.wanted != done.witness.found


def test_the_first_wrong_instruction_is_named(graph: Graph, program: Program) -> None:
    """The limits of a VECTOR_GO: the layer, and the GO behind the instruction at fault."""
    faulty, place = with_field(program, Opcode.VECTOR_BOUNDS, "low", 1)
    done = tosaic.certify(graph, faulty)
    assert done.place is not None and done.place.program_counter is not None
    assert done.place.program_counter > place
    assert done.place.instruction.startswith("VECTOR_GO")
    assert done.place.layer == program.layers[0].name
    assert done.place.tensor == program.layers[0].output


def test_programs_of_several_cores_and_with_compressed_weights(graph: Graph) -> None:
    for config, compress in (("nano,cores=2", None), ("base,cores=2", "nnr"), ("base", "nnr")):
        program = compile_graph(graph, get_config(config), compress=compress)
        assert bool(program.others) == (config[:4] == "nano") and (program.boot is None) == (compress is None)
        assert tosaic.certify(graph, program).verdict == "EQUAL"


def test_a_fault_of_another_core(graph: Graph) -> None:
    """The limits of a VECTOR_GO, which only the second core's program has wrong. What is named is an instruction of the
    core that is named."""
    program = compile_graph(graph, get_config("nano,cores=2"))
    ((start, size_bytes),) = program.others
    image = bytearray(program.image)
    for place in range(start, start + size_bytes, INSTRUCTION_BYTES):
        old = decode(bytes(image[place : place + INSTRUCTION_BYTES]))
        if old.opcode == Opcode.VECTOR_BOUNDS:
            new = make(old.opcode, **{**old.fields, "low": old.fields["low"] + 1})
            image[place : place + INSTRUCTION_BYTES] = encode(new)
            break
    done = tosaic.certify(graph, dataclasses.replace(program, image=bytes(image)))
    assert done.verdict == "DIFFERENT" and done.witness is not None
    assert done.place is not None and done.place.program_counter is not None
    first = (program.program_address, start)[done.place.core] + done.place.program_counter
    assert done.place.instruction == str(decode(bytes(image[first : first + INSTRUCTION_BYTES])))


def constant_changed(graph: Graph, operand: int, by: int) -> Graph:
    """Returns the graph with one element of a constant of the first operator changed."""
    own = graph.copy()
    name = own.operators[0].inputs[operand]
    data = own.tensors[name].data.copy()
    data.reshape(-1)[1] += by
    own.tensors[name] = dataclasses.replace(own.tensors[name], data=data)
    return own


@pytest.mark.parametrize(("operand", "by"), [(1, 1), (2, 1), (2, -1)])
def test_a_constant_that_is_off_by_one(graph: Graph, operand: int, by: int) -> None:
    """A weight or a bias, which hardly an input shows."""
    faulty = compile_graph(constant_changed(graph, operand, by), NANO)
    done = tosaic.certify(graph, faulty)
    assert done.verdict != "EQUAL"
    assert sum(each.differing for each in done.outputs.values()) > 0
    if done.verdict == "UNDECIDED":
        assert done.reason.endswith("a lemma is missing, or the difference is rare")


def test_a_program_of_another_graph_is_undecided_or_different(graph: Graph, program: Program) -> None:
    build = LayerBuilder(3)
    build.output(build.clamp(build.input("y", (1, 2), DType.INT8), 0, 5))
    done = tosaic.certify(build.finish(), compile_graph(build.graph, NANO))
    assert done.verdict == "EQUAL"
    outputs = [dataclasses.replace(program.outputs[0], name="other")]
    done = tosaic.certify(graph, dataclasses.replace(program, outputs=outputs))
    assert (done.verdict, done.witness) == ("UNDECIDED", None)
    assert "whose outputs or states are not those of its graph" in done.reason


def test_a_certificate_is_a_file(graph: Graph, program: Program, tmp_path) -> None:
    done = tosaic.certify(graph, program)
    done.save(tmp_path / "c.json")
    told = json.loads((tmp_path / "c.json").read_text())
    assert told["verdict"] == "EQUAL" and told["configuration"] == "nano" and told["log2_error"] < -60
    assert tosaic.Certificate.from_json((tmp_path / "c.json").read_text()) == done
    again = tosaic.check_certificate(tmp_path / "c.json", graph, program)
    assert (again.verdict, again.keyed) == ("EQUAL", True)
    assert tosaic.check_certificate(done, graph).verdict == "EQUAL"


def test_a_certificate_is_for_one_program(graph: Graph, program: Program) -> None:
    done = tosaic.certify(graph, program)
    faulty, _ = with_field(program, Opcode.ARRAY_INPUT, "input_zp", 1)
    with pytest.raises(tosaic.MismatchError, match="for another program or configuration: certify this one"):
        tosaic.check_certificate(done, graph, faulty)
    with pytest.raises(tosaic.MismatchError, match="for another graph: certify this one"):
        tosaic.check_certificate(done, constant_changed(graph, 2, 1), program)


def test_a_witness_is_run_again(graph: Graph, program: Program, tmp_path) -> None:
    faulty, _ = with_field(program, Opcode.ARRAY_INPUT, "input_zp", 1)
    tosaic.certify(graph, faulty).save(tmp_path / "c.json")
    assert tosaic.check_certificate(tmp_path / "c.json", graph, faulty).verdict == "DIFFERENT"
    told = json.loads((tmp_path / "c.json").read_text())
    right = hash_of(program)
    (tmp_path / "c.json").write_text(json.dumps({**told, "image_sha256": right}))
    with pytest.raises(tosaic.MismatchError, match="inputs show no difference"):
        tosaic.check_certificate(tmp_path / "c.json", graph, program)


def hash_of(program: Program) -> str:
    return tosaic.certify(network(), program).image_sha256


@pytest.mark.parametrize("text", ["", "{}", '{"tosaic_certificate": 1}', "[]", '{"tosaic_certificate": 9}'])
def test_what_is_no_certificate(graph: Graph, tmp_path, text: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(tosaic.InputError, match="certify the model again"):
        tosaic.check_certificate(tmp_path / "c.json", graph)


NOT_REACHED = "the method does not reach more than 1024 turns of WHILE_LOOP_0"


def endless() -> Graph:
    """A loop that never ends where an input says so."""
    build = Control()
    again = [build.input("c", (1,), DType.BOOL), build.input("x", (2, 5), DType.INT32)]
    return finished(
        build,
        build.loop(
            again,
            lambda g, names: [g.add("IDENTITY", names[:1])],
            lambda g, names: [names[0], *plus(7)(g, names[1:])],
        ),
    )


def test_what_the_method_does_not_reach_is_undecided() -> None:
    done = tosaic.certify(endless(), config="nano")
    assert (done.verdict, done.witness, done.outputs) == ("UNDECIDED", None, {})
    assert done.reason == NOT_REACHED


def test_inputs_without_axes_are_tried_too() -> None:
    """Inputs of rank 0 get the values that may show a difference, as others do."""
    build = LayerBuilder(1)
    build.output(build.clamp(build.input("x", (), DType.INT8), -5, 90))
    faulty, _ = with_field(compile_graph(build.graph, NANO), Opcode.VECTOR_BOUNDS, "low", 1)
    done = tosaic.certify(build.finish(), faulty)
    assert done.verdict == "DIFFERENT" and done.witness is not None and done.witness.index == ()


def test_an_input_that_requires_more_than_intervals_show() -> None:
    """Sums of int32 may overflow: the certificate says that it relies on the specification's REQUIRE."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 5), DType.INT32)
    build.output(build.add("ADD", [x, x]))
    done = tosaic.certify(build.finish(), config="nano")
    assert done.verdict == "EQUAL" and sum(done.assumptions.values()) == 5


def test_what_a_program_reads_and_nobody_wrote_differs(graph: Graph, program: Program) -> None:
    """Zeros that an emulator happens to have are not what the memory of a machine holds."""
    faulty, _ = (
        with_field(program, Opcode.STORE_GO, "rows", -1)
        if code(program)[-1].fields.get("rows")
        else (with_field(program, Opcode.STORE_GO, "row_bytes", -1))
    )
    assert tosaic.certify(graph, faulty).verdict != "EQUAL"


@pytest.fixture
def here(tmp_path, monkeypatch: pytest.MonkeyPatch, graph: Graph, program: Program):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.tosa").write_bytes(write_tosa(graph))
    program.save(tmp_path / "m.tsc")
    with_field(program, Opcode.ARRAY_INPUT, "input_zp", 1)[0].save(tmp_path / "wrong.tsc")
    return tmp_path


def called(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str]:
    import sys

    from tosaic.cli import app

    monkeypatch.setattr(sys, "argv", ["tosaic", *words])
    with pytest.raises(SystemExit) as ended:
        app.main()
    done = capsys.readouterr()
    return int(ended.value.code or 0), done.out + done.err


def test_the_verbs(here, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*words: str) -> tuple[int, str]:
        return called(capsys, monkeypatch, *words)

    code, told = call("certify", "m.tosa", "--config", "nano", "-o", "c.json")
    assert code == 0 and told.startswith("m.tosa: EQUAL for all inputs on nano, but for a probability of 2^-")
    assert call("certify", "m.tsc", "--model", "m.tosa")[0] == 0
    code, told = call("certify", "m.tsc")
    assert (code, told) == (
        1,
        "tosaic: error: m.tsc does not hold its model: give it with --model MODEL.tosa\n",
    )
    code, told = call("certify", "wrong.tsc", "--model", "m.tosa", "-o", "w.json")
    assert code == 3 and told.startswith("wrong.tsc: DIFFERENT: output ")
    assert "the first term that is not the model's: tensor " in told
    code, told = call("check-certificate", "c.json", "m.tosa")
    assert code == 0 and told.startswith("c.json: holds: EQUAL for all inputs on nano")
    assert call("check-certificate", "w.json", "wrong.tsc", "--model", "m.tosa")[0] == 0
    assert call("check-certificate", "c.json", "wrong.tsc", "--model", "m.tosa")[0] == 3
    code, told = call("compile", "m.tosa", "--config", "nano", "-o", "again.tsc", "--certify")
    assert code == 0 and "EQUAL for all inputs" in told
    assert tosaic.Certificate.from_json((here / "again.certificate.json").read_text()).verdict == "EQUAL"


def test_an_undecided_model_ends_with_1(here, capsys, monkeypatch) -> None:
    (here / "a.tosa").write_bytes(write_tosa(endless()))
    code, told = called(capsys, monkeypatch, "certify", "a.tosa", "--config", "nano")
    assert (code, told) == (1, f"a.tosa: UNDECIDED: {NOT_REACHED}\n")


@pytest.mark.parametrize(
    ("config", "step"),
    [("nano", 12), *(pytest.param(name, 1, marks=pytest.mark.nightly) for name in ("nano", "base"))],
)
def test_every_integer_operator_and_mode_is_equal(config: str, step: int) -> None:
    machine, counted, undecided = get_config(config), 0, []
    for example in list(examples())[::step]:
        graph = example.graph
        integer = all(
            each.dtype.is_integer or each.dtype.name in ("BOOL", "SHAPE") for each in graph.tensors.values()
        )
        operator = graph.operators[-1].op
        if not integer:
            continue
        try:
            program = compile_graph(graph, machine)
        except tosaic.UnsupportedError:
            # int48 and int16 need wider words.
            continue
        counted += 1
        done = tosaic.certify(graph, program, keyed=False)
        if done.verdict != "EQUAL":
            undecided.append((operator, example.mode, example.label, done.verdict, done.reason))
    assert undecided == [] and counted > 140 // step - 6
