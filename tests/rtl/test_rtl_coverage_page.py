"""The measurement of the RTL's coverage reads Verilator's file, and names every hole that has no reason."""

import json
import pathlib
import sys

import pytest
from one_machine import assembled

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import rtl_netlist  # noqa: E402 (the path comes first)
import rtl_toggles  # noqa: E402 (the path comes first)
import sign_off  # noqa: E402 (the path comes first)
from functional_coverage import FunctionalCoverage, class_of, classes  # noqa: E402 (the path comes first)
from rtl_coverage import Measured, Reason, Verilog, page, read_points, reasons  # noqa: E402 (the path comes first)
from rtl_mutants import Judge, read_records  # noqa: E402 (the path comes first)
from rtl_mutants_page import mutants_page, samples_page  # noqa: E402 (the path comes first)
from rtl_netlist import Mutant, place_of  # noqa: E402
from rtl_stimulus import Case, Seen  # noqa: E402

from tosaic.hw.config import CONFIGS  # noqa: E402
from tosaic.hw.isa import Element, Error, Field, Op, Opcode, Source, Unit  # noqa: E402

VERILOG = """module \\tosaic.accelerator.load.lane_3 (clk);
  if (\\$auto$verilog_backend.cc:2355:dump_module$57 ) begin end
  if (taken) begin
  assign a = b ? c : d;
"""


def entry(line, kind, side, count, module="tosaic.accelerator.load.lane_3"):
    fields = {"f": "x.v", "l": line, "n": 5, "page": f"v_{kind}/{module}", "o": side, "h": "bench"}
    return "C '" + "".join(f"\x01{name}\x02{value}" for name, value in fields.items()) + f"' {count}\n"


def points(tmp_path, *entries):
    path = tmp_path / "coverage.dat"
    path.write_text("# SystemC::Coverage-3\n" + "".join(entries))
    return read_points(path, VERILOG)


def test_places_of_the_accelerator_are_counted(tmp_path):
    found = points(
        tmp_path,
        entry(2, "branch", "if", 0),
        entry(3, "branch", "if", 7),
        entry(3, "branch", "if", 2),
        entry(4, "branch", "cond_then", 0),
        entry(1, "line", "block", 1, module="bench"),
    )
    assert {(p.module, p.kind, p.line, p.what, p.text): count for p, count in found.items()} == {
        ("load.lane_", "branch", 3, "if", "if (taken) begin"): 9,
        ("load.lane_", "branch", 4, "cond_then", "assign a = b ? c : d;"): 0,
    }


def test_a_hole_without_a_reason_is_named(tmp_path):
    found = points(tmp_path, entry(1, "line", "block", 1), entry(3, "branch", "if", 0))
    text, unexplained = page(Measured(found, FunctionalCoverage(CONFIGS["nano"]), 5, 1000), CONFIGS["nano"])
    assert unexplained[0] == "nano: load.lane_: branch if has no reason: if (taken) begin"
    assert all("load.lane_" not in each for each in unexplained[1:])
    assert "| branches | 1 | 0 | 0.00% |" in text and "| `load.lane_` | 1 | 1 | 1 | 0 |" in text


def test_a_reason_is_for_a_module_a_text_and_a_side(tmp_path):
    (hole,) = points(tmp_path, entry(3, "branch", "else", 0))
    for module, text, side, explained in (
        (r"load\..*", "taken", "", True),
        (r"load\..*", "taken", "else", True),
        (r"load\..*", "taken", "if", False),
        ("load", "taken", "", False),
        (r"load\..*", "given", "", False),
    ):
        assert Reason(module, text, "because", side).explains(hole, "nano") == explained
    assert not Reason("load.*", "taken", "because", config="small").explains(hole, "nano")


def test_numbered_wires_are_replaced_by_what_they_are():
    verilog = Verilog("""module \\tosaic.a (clk);
  assign \\$1  = \\lane$7.sum & full;
  assign \\$2  = \\$1  ? 1'h0 : \\$1 ;
  if (\\$2 ) begin
module \\tosaic.b (clk);
  if (\\$1 ) begin
""")
    assert verilog.line(3) == "assign \\$2  = (\\lane$7.sum & full)  ? 1'h0 : (\\lane$7.sum & full) ;"
    assert verilog.line(4) == "if (((\\lane$7.sum & full)  ? 1'h0 : (\\lane$7.sum & full)) ) begin"
    assert verilog.line(6) == "if (\\$1 ) begin"


def test_bins_that_are_not_hit_have_reasons():
    functions = FunctionalCoverage(CONFIGS["nano"])
    missing = dict(functions.missing())
    assert missing["STORE, reasons to wait: STORE_STALL_BUS on a quiet bus"].startswith("The bench's")
    assert "VECTOR, errors: WATCHDOG" in functions.unexplained()
    assert "VECTOR, errors: WATCHDOG" in functions.page()


def test_every_reason_says_something():
    assert all(reason.reason.endswith(".") and reason.module != ".*" for reason in reasons())


def test_the_written_model_counts_what_a_program_does():
    config = CONFIGS["nano"]
    functions = FunctionalCoverage(config)
    program = assembled(
        config,
        (Opcode.VECTOR_STREAM, {"stream": 1, "element": Element.INT16}),
        (Opcode.VECTOR_UOP, {"op": Op.MAX, "a_source": Source.LOAD, "a_index": 1, "clamp": 1}),
        (Opcode.VECTOR_GO, {"vectors": 9, "uops": 1}),
    )
    functions.observe(Case("ends", program), Seen("ended", registers=(("ERROR", 0), ("FETCH_WAIT", 7))))
    wanted = {
        ("fields", "VECTOR", "VECTOR_GO.vectors is few"),
        ("fields", "VECTOR", "VECTOR_STREAM.stream is 1"),
        ("operations", "VECTOR", "MAX of A from LOAD"),
        ("operations", "VECTOR", "MAX loads INT16"),
        ("operations", "VECTOR", "MAX with clamp 1"),
        ("reasons to wait", "FETCH", "FETCH_WAIT on a quiet bus"),
    }
    assert wanted <= set(functions.hits) & set(functions.bins)
    assert ("operations", "VECTOR", "MAX stores INT8") not in functions.hits
    code = Error.WATCHDOG | Unit.STORE << 8
    functions.observe(Case("fails", program), Seen("ended", registers=(("ERROR", code),)))
    assert functions.hits["errors", "STORE", "WATCHDOG"] == 1
    # What a program that failed would have done does not count.
    assert functions.hits["fields", "VECTOR", "VECTOR_GO.vectors is few"] == 1
    assert "| VECTOR | errors | 2 | 0 |" in functions.page()


@pytest.mark.parametrize(("value", "name"), [(-7, "negative"), (0, "0"), (1, "1"), (15, "few"), (16, "many")])
def test_classes_of_values(value, name):
    field = Field("wide", 24, True, "")
    assert class_of(field, value) == name and name in classes(field)
    assert classes(Field("narrow", 2, False, "")) == ["0", "1", "2", "3"]


def test_a_mutant_is_named_without_paths():
    cell = "$flatten\\accelerator.\\vector.\\lanes$280.\\lane_0.$or$plain.v:2690$418"
    change = f"mutate -mode cnot0 -module tosaic -cell {cell} -port A -portbit 29 -ctrlbit 6"
    assert Mutant("vector", "vector", change).name == "cnot0 at A[29] of $or of line 2690"
    assert place_of(change) == "vector.lanes.lane_0"
    register = "mutate -mode inv -module tosaic -cell $auto$ff.cc:337:slice$5 -port Q -portbit 1"
    change = f"{register} -wire accelerator.load.descriptors.produce -wirebit 1"
    assert place_of(change) == "load.descriptors" and place_of(register) == ""
    assert Mutant("load", "", change).name == "inv at Q[1] of $auto$ff.cc:337:slice$5 (produce[1])"


def test_the_score_leaves_out_what_is_no_change():
    kinds = ["memory", "memory", "registers: CYCLES", "survived", "equivalent", "open"]
    records = [
        {"unit": "load", "module": "load", "name": f"change {number}", "how": how, "program": ""}
        for number, how in enumerate(kinds)
    ]
    page = mutants_page("nano", records, programs=3, cycles=1000)
    assert "| load | 6 | 2 | 1 | 1 | 1 | 1 | 60.0% |" in page
    assert "Survivors of all programs" in page and "- `load`: change 3\n" in page
    assert "Open:" in page and page.endswith("- `load`: change 5\n") and "change 4" not in page


def test_records_that_were_cut_short_or_are_of_another_netlist_do_not_count(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [{"netlist": "a", "change": "x", "how": how} for how in ("survived", "memory")]
    lines.append({"netlist": "b", "change": "y", "how": "memory"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"netlist": "a", "cha')
    assert read_records(path, "a") == {"x": lines[1]}
    assert read_records(tmp_path / "none", "a") == {}


def test_a_part_of_the_page_is_kept_while_its_sources_are(tmp_path, monkeypatch):
    monkeypatch.setattr(sign_off, "KEPT", tmp_path)
    texts = iter(["one", "two"])

    def make():
        return sign_off.Part(next(texts))

    assert sign_off.kept("part", "key", make, wanted=False).text == ""
    assert [sign_off.kept("part", "key", make).text for _ in range(2)] == ["one", "one"]
    assert "earlier state" in sign_off.kept("part", "other key", make, wanted=False).text
    assert sign_off.kept("part", "other key", make).text == "two"


def test_a_part_that_is_not_measured_stays_as_the_page_has_it():
    names = ["coverage of `nano`", "coverage of `small`", "toggles of `nano`", "mutants of the RTL of `nano`"]
    names += ["mutants of the Python", "campaigns and planted faults"]
    titles = [
        "`nano`: 7 programs",
        "`small`: 8 programs",
        "Toggles of `nano`: 9 bits",
        "Mutants of `nano`: 3",
    ]
    titles += ["Mutants of golden, compiler and emulator: 1000", "Campaigns"]
    parts = {
        name: sign_off.Part(f"## {title}\n\nWhat is known.\n", seconds=number)
        for number, (name, title) in enumerate(zip(names, titles, strict=True))
    }
    page = sign_off.page(parts)
    kept = {name: sign_off.on_page(page, name) for name in names}
    assert kept == parts and sign_off.page(kept) == page
    missing = sign_off.on_page(page, "coverage of `medium`")
    assert missing == sign_off.Part("## coverage of `medium`\n\nNot run.\n")


def test_samples_have_their_score():
    rows = [line for line in samples_page().splitlines() if line.startswith("| `--")]
    assert "| `--count 310 --seed 11` | e3a6219 | 297 | 280 | 274 | 97.9% | 277 |" in rows


def test_mutants_of_the_python_are_counted_by_folder():
    files = ["compiler/a.py", "compiler/tile/b.py", "sim/emulator/c.py", "sim/emulator/timing_d.py"]
    records = [
        {"file": file, "mutant": f"{file}: change", "by": by}
        for file, by in zip(files, ["make test", "survived"] * 2, strict=True)
    ]
    file = "compiler/tile/e.py"
    records.append({"file": file, "mutant": f"{file}: change", "by": "no change", "reason": "It is."})
    page = sign_off.mutation_page(records)
    assert "| `compiler` | 1 | 1 | 0 | 0 | 100.0% |" in page
    assert "| `compiler/tile` | 2 | 0 | 1 | 1 | 0.0% |" in page
    assert "| `sim/emulator/timing` | 1 | 0 | 0 | 1 | 0.0% |" in page
    assert "| **all** | 5 | 2 | 1 | 2 | 50.0% |" in page
    assert "- `compiler/tile/e.py: change`: It is." in page


def test_registers_of_a_netlist_have_names_by_bit():
    text = """  wire width 3 \\accelerator.load.a
  wire \\accelerator.load.b
  wire width 8 \\accelerator.am.c
  cell $sdffe $auto$1
    parameter \\WIDTH 4
    connect \\Q { \\accelerator.load.a \\accelerator.load.b }
  end
  cell $dff $auto$2
    connect \\Q \\accelerator.am.c [5:4]
  end
"""
    first, second = rtl_toggles.registers(text)
    assert first.names[:2] == ("\\accelerator.load.b", "\\accelerator.load.a[0]") and first.bits == 4
    assert second.names == ("\\accelerator.am.c[4]", "\\accelerator.am.c[5]")
    assert rtl_toggles.active_bits([first, second]) == 32
    bits = dict.fromkeys((*first.names, *second.names), True) | {"\\accelerator.am.c[5]": False}
    page = rtl_toggles.toggles_page("nano", bits, ["load", "am"])
    assert page.startswith("## Toggles of `nano`: 6 bits of registers, 83.33% of which have been 0 and 1")
    assert "| `am` | 2 | 1 | `c` 5 |" in page and "| `load` | 4 | 4 |  |" in page
    assert "| `am` | 1 | No reason is known. |" in page


def test_modules_of_registers_are_the_deepest_that_fit():
    verilog = "module \\tosaic.accelerator.load (clk);\nmodule \\tosaic.accelerator.load.queue$5 (clk);\n"
    modules = rtl_toggles.modules_of(verilog)
    assert rtl_toggles.module_of("\\accelerator.load.queue$5.level[3]", modules) == "load.queue"
    assert rtl_toggles.module_of("\\accelerator.load.record.field[3]", modules) == "load"
    assert rtl_toggles.module_of("\\accelerator.arlen[3]", modules) == "accelerator"


def test_mutants_are_judged_together_and_found_one_by_one(monkeypatch):
    judge = object.__new__(Judge)
    judge.programs = [Case(name, None) for name in ("long", "short")]
    judge.keys, judge._costs = ["l", "s"], [9, 1]
    # Mutant 40 changes no bit in the long program, so the short one alone may show it.
    judge._active = [set(range(1, 40)), set(range(1, 41))]
    shown, runs = {0: {7, 21}, 1: {3}}, []

    def difference(index, numbers):
        runs.append((index, len(numbers)))
        return "memory" if shown[index] & set(numbers) else ""

    monkeypatch.setattr(judge, "_difference", difference)
    passed = {number: set() for number in range(1, 41)}
    found = list(judge.judge_together(passed, float("inf")))
    assert sorted(found) == [(3, "memory", "short"), (7, "memory", "long"), (21, "memory", "long")]
    assert passed[3] == set() and passed[7] == {"s"} and passed[40] == {"l", "s"}
    assert [index for index, _ in runs] == sorted((index for index, _ in runs), reverse=True)
    assert len(runs) < 40


def test_a_mutated_netlist_chooses_by_bits_and_tells_what_differs():
    text = """module \\tosaic
  wire width 16 input 3 \\watch_mutants
  cell $eq $auto$1
    parameter \\A_SIGNED 0
    connect \\A \\watch_mutants
    connect \\B 16'0000000000000001
    connect \\Y $is_1
  end
  cell $mux $auto$2
    connect \\A $right
    connect \\B 1'1
    connect \\S $is_1
    connect \\Y $mutated
  end
end
"""
    changed = rtl_netlist._with_differences(text, 1)
    assert "  connect $is_1 \\chosen_mutants [0]\n" in changed and "$auto$1" not in changed
    assert "    connect \\A { " + 31 * "1'0 " + "$right }\n" in changed
    assert "    connect \\B { " + 31 * "1'0 " + "1'1 }\n" in changed
    verilog = "module tosaic(clk);\n  assign differs_0 = a ^ b;\nendmodule\n"
    watching = rtl_netlist._watching(verilog, 1)
    assert "assign differs_0" not in watching and "seen_0 <= seen_0 | (a ^ b);" in watching
    assert "if (watch_mutants == 65535) begin" in watching
