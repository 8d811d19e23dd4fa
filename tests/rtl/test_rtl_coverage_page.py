"""The measurement of the RTL's coverage reads Verilator's file, and names every hole that has no reason."""

import pathlib
import sys

import pytest
from one_machine import assembled

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import rtl_netlist  # noqa: E402 (the path comes first)
from functional_coverage import FunctionalCoverage, class_of, classes  # noqa: E402 (the path comes first)
from rtl_coverage import Measured, Reason, Verilog, page, read_points, reasons  # noqa: E402 (the path comes first)
from rtl_mutants import score  # noqa: E402 (the path comes first)
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


def test_the_score_counts_what_was_not_judged_apart():
    kinds = ["memory", "memory", "registers: CYCLES", "survived", "not judged"]
    mutate = "mutate -mode inv -module tosaic -cell $or$plain.v:1$2 -port A"
    found = [(Mutant("load", "load", f"{mutate} -portbit {number}"), how) for number, how in enumerate(kinds)]
    text = score(found)
    assert "| load | 5 | 3 | 1 | 1 | 1 |" in text and "| all | 5 | 3 | 1 | 1 | 1 |" in text
    assert text.endswith("Survived:\n\n- load: inv at A[3] of $or of line 1")


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
    changed = rtl_netlist.with_differences(text, 1)
    assert "  connect $is_1 \\chosen_mutants [0]\n" in changed and "$auto$1" not in changed
    assert "    connect \\A { " + 31 * "1'0 " + "$right }\n" in changed
    assert "    connect \\B { " + 31 * "1'0 " + "1'1 }\n" in changed
    verilog = "module tosaic(clk);\n  assign differs_0 = a ^ b;\nendmodule\n"
    watching = rtl_netlist.watching(verilog, 1)
    assert "assign differs_0" not in watching and "seen_0 <= seen_0 | (a ^ b);" in watching
    assert "if (watch_mutants == 65535) begin" in watching
