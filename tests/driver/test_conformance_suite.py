"""`tosaic conformance` on small suites made here: every verdict, the comparison, the pool, the reports."""

import os
import pathlib
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
from suite_folders import make_folder, negation

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Tensor
from tosaic.driver.conformance import (
    Verdict,
    bake,
    choose,
    find_cases,
    markdown_table,
    reason_counts,
    run_cases,
    write_junit,
    write_page,
)
from tosaic.driver.conformance.compare import difference
from tosaic.driver.conformance.execute import run_case
from tosaic.driver.jobs import LocalProcesses, RecordFile
from tosaic.errors import InputError

X = np.array([[1, -2, 127, -128]], np.int8)
NEGATED = {"y": np.array([[-1, 2, -127, 127]], np.int8)}
MODEL = shutil.which("tosa_reference_model")
needs_model = pytest.mark.skipif(
    MODEL is None, reason="needs tosa_reference_model on PATH, of tosa-tools (the extra dev)"
)


def only_case(root: pathlib.Path):
    (case,) = find_cases(root)
    return case


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_a_right_output_passes(tmp_path, target):
    make_folder(tmp_path, "a", negation(), {"x": X}, NEGATED)
    result = run_case(only_case(tmp_path), target, "nano")
    assert (result.verdict, result.reason) == (Verdict.PASS, "")


def test_a_mismatch_names_the_first_element(tmp_path):
    make_folder(tmp_path, "a", negation(), {"x": X}, {"y": np.array([[-1, 2, 0, 9]], np.int8)})
    result = run_case(only_case(tmp_path), "golden", "base")
    assert (result.verdict, result.reason) == (
        Verdict.MISMATCH,
        "output 'y' differs at [0, 2]: got -127, the reference model gives 0 (2 of 4 elements differ)",
    )


@pytest.mark.parametrize(
    "expected, reason",
    [
        (np.zeros((4,), np.int8), "output 'y' is int8[1, 4], the reference model gives int8[4]"),
        (np.zeros((1, 4), np.int16), "output 'y' is int8[1, 4], the reference model gives int16[1, 4]"),
    ],
)
def test_shape_and_type_are_compared(tmp_path, expected, reason):
    make_folder(tmp_path, "a", negation(), {"x": X}, {"y": expected})
    result = run_case(only_case(tmp_path), "golden", "base")
    assert (result.verdict, result.reason) == (Verdict.MISMATCH, reason)


def custom_graph():
    tensors = {name: Tensor(name, (4,), DType.INT8) for name in ("x", "y")}
    operator = Operator("CUSTOM", ["x"], ["y"], {"operator_name": "mine", "domain_name": "here"}, "CUSTOM_0")
    return Graph("main", ["x"], ["y"], tensors, [operator])


def test_an_unsupported_graph_is_rejected_with_the_reason(tmp_path):
    x = np.zeros(4, np.int8)
    make_folder(tmp_path, "a", custom_graph(), {"x": x}, {"y": x}, operator="CUSTOM")
    result = run_case(only_case(tmp_path), "golden", "base")
    assert result.verdict is Verdict.REJECTED
    assert result.reason == (
        "CUSTOM_0: TOSA does not define what CUSTOM operator 'mine' of domain 'here' computes; "
        "register a kernel with tosaic.register_custom, or replace it by operators of the specification"
    )
    assert result.fails(allow_unsupported=False) and not result.fails(allow_unsupported=True)


def test_a_negative_test_passes_when_the_graph_is_called_illegal(tmp_path):
    graph = negation()
    graph.tensors["y"].shape = (1, 5)
    make_folder(tmp_path, "a_ERRORIF_x", graph, {"x": X}, negative=True)
    for target in ("golden", "emulator"):
        result = run_case(only_case(tmp_path), target, "base")
        assert result.verdict is Verdict.PASS
        assert "NEGATE" in result.reason


def test_an_accepted_negative_test_fails(tmp_path):
    make_folder(tmp_path, "a", negation(), {"x": X}, negative=True)
    result = run_case(only_case(tmp_path), "golden", "base")
    assert (result.verdict, result.reason) == (
        Verdict.ACCEPTED,
        "the graph is illegal and was not rejected",
    )
    assert result.fails(allow_unsupported=True)


def test_an_unsupported_negative_test_is_not_excused(tmp_path):
    x = np.zeros(4, np.int8)
    make_folder(tmp_path, "a", custom_graph(), {"x": x}, negative=True)
    result = run_case(only_case(tmp_path), "golden", "base")
    assert result.verdict is Verdict.REJECTED
    assert result.reason.startswith("rejected as unsupported, not as illegal: ")
    assert result.fails(allow_unsupported=True)


def test_a_legal_graph_called_illegal_is_an_error(tmp_path):
    folder = make_folder(tmp_path, "a", negation(), {"x": X}, NEGATED)
    (folder / "test.tosa").write_bytes(b"nonsense")
    result = run_case(only_case(tmp_path), "golden", "base")
    assert result.verdict is Verdict.ERROR
    assert result.reason.startswith("ModelError: ")


def test_an_exception_is_an_error(tmp_path):
    folder = make_folder(tmp_path, "a", negation(), {"x": X}, NEGATED)
    (folder / "x.npy").unlink()
    result = run_case(only_case(tmp_path), "golden", "base")
    assert result.verdict is Verdict.ERROR
    assert result.reason.startswith("FileNotFoundError: ")


# --- inexact outputs


@pytest.mark.parametrize(
    "values, problem",
    [
        ([-1, 2, -127, 127], None),
        (
            [-1, 3, -127, 127],
            "output 'y' at [0, 1]: got 3, allowed are 1 to 2 (1 of 4 elements are outside)",
        ),
    ],
)
def test_a_range_is_honoured(tmp_path, values, problem):
    make_folder(tmp_path, "a", negation(), {"x": X}, mode="RESCALE_INEXACT")
    case = only_case(tmp_path)
    assert not case.baked()
    np.save(case.limits("y"), np.array([[[-1, 1, -127, 126]], [[0, 2, -127, 127]]]))
    assert case.baked()
    assert difference(case, {"y": np.array([values], np.int8)}) == problem


def test_an_unsigned_range_compares_bit_patterns(tmp_path):
    make_folder(tmp_path, "a", negation(), {"x": X}, mode="RESCALE_INEXACT", unsigned=True)
    case = only_case(tmp_path)
    np.save(case.limits("y"), np.array([[[127, 128, 255, 0]], [[128, 129, 255, 1]]]))
    assert difference(case, {"y": np.array([[-128, -128, -1, 1]], np.int8)}) is None
    assert difference(case, {"y": np.array([[-128, 127, -1, 1]], np.int8)}) == (
        "output 'y' at [0, 1]: got 127, allowed are 128 to 129 (1 of 4 elements are outside)"
    )


# --- finding and choosing


def test_no_tests_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="there is no conformance test"):
        find_cases(tmp_path)


def test_a_damaged_description_is_an_input_error(tmp_path):
    folder = make_folder(tmp_path, "a", negation(), {"x": X}, NEGATED)
    (folder / "desc.json").write_text('{"tosa_file": "test.tosa"}')
    with pytest.raises(InputError, match="is not the description of a conformance test"):
        find_cases(tmp_path)


def test_a_sample_is_even_and_reproducible(tmp_path):
    for operator, count in (("NEGATE", 9), ("ABS", 2), ("CLZ", 5)):
        for number in range(count):
            make_folder(tmp_path, f"t{number}", negation(), {"x": X}, operator=operator)
    cases = find_cases(tmp_path)
    sample = choose(cases, [], 8, seed=3)
    assert sample == choose(cases, [], 8, seed=3)
    assert sample != choose(cases, [], 8, seed=4)
    counts = {name: sum(case.operator == name for case in sample) for name in ("NEGATE", "ABS", "CLZ")}
    assert counts == {"NEGATE": 3, "ABS": 2, "CLZ": 3}
    assert [case.operator for case in choose(cases, ["abs"], None, 0)] == ["ABS", "ABS"]
    with pytest.raises(InputError, match="no test of 'TANH'; it tests ABS, CLZ, NEGATE"):
        choose(cases, ["TANH"], None, 0)


def test_a_sample_has_every_mode(tmp_path):
    for number in range(20):
        make_folder(tmp_path, f"a{number}", negation(), {"x": X}, NEGATED)
    make_folder(tmp_path, "b", negation(), {"x": X}, NEGATED, extensions=("int16",))
    make_folder(tmp_path, "c", negation(), {"x": X}, negative=True)
    cases = find_cases(tmp_path)
    for seed in range(5):
        assert {case.name for case in choose(cases, [], 3, seed)} >= {"b", "c"}
        assert "b" in {case.name for case in choose(cases, [], 2, seed)}


# --- many tests


def test_the_pool_survives_a_test_that_hangs(tmp_path):
    hanging = make_folder(tmp_path, "b", negation(), {"x": X}, NEGATED)
    (hanging / "x.npy").unlink()
    os.mkfifo(hanging / "x.npy")
    for name in "ac":
        make_folder(tmp_path, name, negation(), {"x": X}, NEGATED)
    cases, told = find_cases(tmp_path), []
    results = run_cases(
        cases,
        "golden",
        "base",
        LocalProcesses(1, 20),
        progress=lambda what, done, total: told.append((done, total)),
    )
    assert [result.case for result in results] == cases
    assert [result.verdict for result in results] == [Verdict.PASS, Verdict.ERROR, Verdict.PASS]
    assert results[1].reason == "not finished after 20 s"
    assert told == [(2, 3), (3, 3)], "two tests are equal"


def test_a_second_run_takes_what_is_recorded(tmp_path):
    for name in "ab":
        make_folder(tmp_path / "suite", name, negation(), {"x": X}, NEGATED if name == "a" else {"y": X})
    cases, records = find_cases(tmp_path / "suite"), tmp_path / "records.jsonl"
    first = run_cases(cases, "golden", "base", records=RecordFile(records))
    assert [result.verdict for result in first] == [Verdict.PASS, Verdict.MISMATCH]
    assert run_cases(cases, "golden", "base", executor=None, records=RecordFile(records)) == first
    assert len(records.read_text().splitlines()) == 2


# --- reports


def results_of_each_kind(tmp_path):
    make_folder(tmp_path, "a", negation(), {"x": X}, NEGATED)
    make_folder(tmp_path, "b", negation(), {"x": X}, {"y": X})
    make_folder(tmp_path, "c", negation(), {"x": X}, negative=True)
    x = np.zeros(4, np.int8)
    make_folder(tmp_path, "d", custom_graph(), {"x": x}, {"y": x}, operator="CUSTOM")
    return [run_case(case, "golden", "base") for case in find_cases(tmp_path)]


def test_the_table_counts_verdicts(tmp_path):
    assert markdown_table(results_of_each_kind(tmp_path)).splitlines() == [
        "| operator | pass | mismatch | rejected | error | negative pass | negative rejected | negative accepted | "
        "negative error |",
        "| -------- | ---: | -------: | -------: | ----: | ------------: | ----------------: | ----------------: | "
        "-------------: |",
        "| CUSTOM   |      |          |        1 |       |               |                   |                   | "
        "               |",
        "| NEGATE   |    1 |        1 |          |       |               |                   |                 1 | "
        "               |",
        "| all      |    1 |        1 |        1 |       |               |                   |                 1 | "
        "               |",
    ]


def test_reasons_are_grouped_without_names(tmp_path):
    x = np.zeros(4, np.int8)
    for name in "ab":
        make_folder(tmp_path, name, custom_graph(), {"x": x}, {"y": x}, operator="CUSTOM")
    results = [run_case(case, "golden", "base") for case in find_cases(tmp_path)]
    ((count, operator, reason, _),) = reason_counts(results, Verdict.REJECTED)
    assert (count, operator) == (2, "CUSTOM")
    assert reason == (
        "CUSTOM_N: TOSA does not define what CUSTOM operator … of domain … computes; "
        "register a kernel with tosaic.register_custom, or replace it by operators of the specification"
    )


@pytest.mark.parametrize("allow, failures, skipped", [(False, "3", "0"), (True, "2", "1")])
def test_junit(tmp_path, allow, failures, skipped):
    results = results_of_each_kind(tmp_path)
    write_junit(tmp_path / "j.xml", "suite", results, allow_unsupported=allow)
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    counts = {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped")}
    assert counts == {
        "name": "suite",
        "tests": "4",
        "failures": failures,
        "errors": "0",
        "skipped": skipped,
    }
    names = [(case.get("classname"), case.get("name"), len(case)) for case in suite]
    assert names == [("CUSTOM", "d", 1), ("NEGATE", "a", 0), ("NEGATE", "b", 1), ("NEGATE", "c", 1)]


def test_the_page_has_a_section_for_each_target(tmp_path):
    results, page = results_of_each_kind(tmp_path), tmp_path / "page.md"
    write_page(page, "emulator", "base", results, suite_size=4, command=["tosaic", "conformance", "a b"])
    first = page.read_text()
    write_page(page, "golden", "base", results[1:], suite_size=4, command=["tosaic"])
    write_page(page, "emulator", "base", results, suite_size=4, command=["tosaic", "conformance", "a b"])
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## golden",
        "## emulator, configuration base",
    ]
    assert text.endswith(first[first.index("## emulator") :])
    assert first.split("## emulator, configuration base\n\n")[1].splitlines() == [
        "    tosaic conformance 'a b'",
        "",
        "1 of 4 tests pass, 1 are rejected with a reason, 2 go wrong.",
        "",
        first.splitlines()[first.splitlines().index("    tosaic conformance 'a b'") + 4],
        "",
        "| operator | positive | pass | rejected | wrong | negative | pass | wrong |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        "| CUSTOM | 1 |  | 1 |  |  |  |  |",
        "| NEGATE | 2 | 1 |  | 1 | 1 |  | 1 |",
        "| all | 3 | 1 | 1 | 1 | 1 |  | 1 |",
        "",
        "### Tests that do not pass",
        "",
        "- CUSTOM, rejected, 1: TOSA does not define what CUSTOM operator … of domain … computes; register a kernel "
        "with tosaic.register_custom, or replace it by operators of the specification",
        "  - `d`",
        "- NEGATE, WRONG (accepted), 1: the graph is illegal and was not rejected",
        "  - `c`",
        "- NEGATE, WRONG (mismatch), 1: output … differs at […]: got N, the reference model gives N (N of N elements "
        "differ)",
        "  - `b`",
    ]
    assert "The tests are a sample of 4, drawn evenly from all operators and modes." in text


# --- baking


def test_the_page_keeps_a_head_of_its_own(tmp_path):
    page = tmp_path / "draft.md"
    page.write_text("# The draft\n\nAnother suite.\n")
    for target in ("emulator", "golden", "emulator"):
        write_page(page, target, "base", [], suite_size=0, command=["tosaic"])
    assert page.read_text().startswith("# The draft\n\nAnother suite.\n\n## golden\n")
    assert page.read_text().count("## emulator") == 1


def rescale_graph(rounding: str):
    build = GraphBuilder("rescale")
    x = build.input("x", (1, 4), DType.INT8)
    parameters = [
        build.constant([1 << 30], DType.INT32),
        build.constant([31], DType.INT8),
        build.constant([0], DType.INT8),
        build.constant([0], DType.INT8),
    ]
    build.output(
        build.add(
            "RESCALE",
            [x, *parameters],
            dtype=DType.INT8,
            output="y",
            scale32=True,
            rounding_mode=rounding,
            per_channel=False,
            input_unsigned=False,
            output_unsigned=False,
        )
    )
    return build.finish()


@needs_model
def test_baked_outputs_are_those_of_the_reference_model(tmp_path):
    graph = negation()
    make_folder(tmp_path, "a", graph, {"x": X})
    make_folder(tmp_path, "b", graph, {"x": X}, negative=True)
    cases = find_cases(tmp_path)
    assert bake(cases) == 1
    np.testing.assert_array_equal(np.load(cases[0].expected("y")), NEGATED["y"])
    assert bake(cases) == 0
    assert sorted(file.name for file in cases[0].folder.iterdir()) == [
        "Conformance-y.npy",
        "desc.json",
        "test.tosa",
        "x.npy",
    ]


@needs_model
@pytest.mark.parametrize("rounding", ["INEXACT_ROUND"])
def test_an_inexact_range_is_baked(tmp_path, rounding):
    make_folder(tmp_path, "a", rescale_graph(rounding), {"x": X}, operator="RESCALE", mode="RESCALE_INEXACT")
    case = only_case(tmp_path)
    bake([case])
    low, high = np.load(case.limits("y"))
    assert low.dtype == np.int64
    exact = X / 2
    assert (low <= exact).all() and (exact <= high).all() and (high - low <= 2).all()
    assert run_case(case, "golden", "base").verdict is Verdict.PASS


@needs_model
@pytest.mark.parametrize("graph", [negation()])
def test_what_the_reference_model_refuses_cannot_be_baked(tmp_path, graph):
    folder = make_folder(tmp_path, "a", graph, {"x": X})
    (folder / "test.tosa").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="the reference model fails on it"):
        bake(find_cases(tmp_path))


@needs_model
@pytest.mark.parametrize("size", [-1])
def test_the_reason_that_the_reference_model_gives_stands_first(tmp_path, size):
    """A backtrace and warnings come after it."""
    tensors = {name: Tensor(name, (size,), DType.INT32) for name in "xy"}
    graph = Graph("abs", ["x"], ["y"], tensors, [Operator("ABS", ["x"], ["y"], {}, "ABS_0")])
    make_folder(tmp_path, "a", graph, {"x": X})
    with pytest.raises(InputError, match="fails on it: .*invalid shape with dimension -1$"):
        bake(find_cases(tmp_path))
