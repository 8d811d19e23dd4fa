"""How the command line and the package start: what is imported, `python -m tosaic`, completion of the shell."""

import importlib
import os
import re
import shlex
import subprocess
import sys

import page_models
import pytest

import tosaic as api
from tosaic.cli.verbs import DEV, HIDDEN, VERBS

HEAVY = ("numpy", "amaranth", "rich", "flatbuffers")


def python(code, **variables):
    """What a Python of its own prints."""
    done = subprocess.run(
        [sys.executable, *code], capture_output=True, text=True, env=os.environ | variables, check=True
    )
    return done.stdout


def test_import_loads_no_heavy_package():
    code = f"import sys, tosaic; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(["-c", code]) == "[]\n"


def test_version_loads_no_heavy_package():
    code = (
        "import sys, tosaic.cli.app as app; sys.argv[1:] = ['--version']\n"
        f"try: app.main()\nfinally: print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert python(["-c", code]) == f"tosaic {api.__version__}\n[]\n"


def test_pytest_plugin_loads_no_heavy_package():
    code = f"import sys, tosaic.pytest_plugin; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(["-c", code]) == "[]\n"


def test_public_names():
    assert set(api._HOMES) == set(api.__all__)
    for name in api.__all__:
        value = getattr(api, name)
        assert value is getattr(importlib.import_module(api._HOMES[name]), name)
        assert value.__module__ == api._HOMES[name]
        assert name in dir(api)
    assert api.nnr is sys.modules["tosaic.nnr"]


def test_name_that_is_not_there():
    with pytest.raises(AttributeError, match="^module 'tosaic' has no attribute 'Sesion'$"):
        api.Sesion  # noqa: B018


def test_virtual_boards_are_known_after_import():
    code = (
        "import tosaic; from tosaic.driver.transports import open_transport; open_transport('virtual://none')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(
        "tosaic.errors.InputError: there is no virtual board 'none'; there are ulx3s-85f, "
    )


def test_module_is_the_command():
    assert python(["-m", "tosaic", "--version"]) == f"tosaic {api.__version__}\n"


def test_help_is_short_and_loads_no_heavy_package():
    code = (
        "import sys, tosaic.cli.app as app; sys.argv[1:] = ['--help']\n"
        f"try: app.main()\nfinally: print([name for name in {HEAVY} if name in sys.modules])"
    )
    *lines, loaded = python(["-c", code], COLUMNS="80").splitlines()
    assert loaded == "[]"
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    groups = ["Run:", "Hardware:", "Study:", "Maintain:"]
    assert [line for line in lines if line in groups] == groups
    assert {line.split()[0] for line in lines if line.startswith("  ")} >= set(VERBS)


PLUGINS = (
    "tosaic.boards.micro",
    "tosaic.compiler.importers.coreml",
    "tosaic.compiler.importers.nnef",
    "tosaic.compiler.importers.onnx_models",
    "tosaic.compiler.importers.torch_models",
    "tosaic.hw.micro",
)
HARDWARE = ("amaranth", "litex", "migen", "tosaic.hw.top")
FRAMEWORKS = ("ai_edge_litert", "executorch", "google.protobuf", "numba", "onnx", "onnxruntime", "torch")
PAGES = ("jinja2", "rich")
NETWORK = ("asyncio", "distributed", "http.client", "ssl", "urllib.request")
QUANTIZER = ("tosaic.compiler.quantizer", "tosaic.driver.quantize")
DEVICES = ("tosaic.driver.device", "tosaic.driver.transports", "tosaic.sim.rtl")
ALWAYS = (*PLUGINS, *HARDWARE, *FRAMEWORKS, *NETWORK)
INTEGERS = (*ALWAYS, *PAGES, *QUANTIZER, *DEVICES, "tosaic.nnr.encoder", "tosaic.sim.golden")


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["check", "tiny.tosa"], (*INTEGERS, "tosaic.sim.emulator", "tflite")),
        (["check", "int8.tflite"], (*INTEGERS, "tosaic.sim.emulator")),
        (["check", "float.tflite"], (*ALWAYS, *PAGES, *DEVICES)),
        (
            ["check", "net.onnx"],
            ({*ALWAYS} - {"tosaic.compiler.importers.onnx_models", "onnx", "google.protobuf"}),
        ),
        (["compile", "tiny.tosa", "-o", "tiny.tsc"], (*INTEGERS, "tosaic.sim.emulator", "tflite")),
        (["run", "tiny.tosa", "--random", "1", "--on", "emulator"], (*INTEGERS, "tflite")),
        (["run", "tiny.tosa", "--random", "1", "--on", "golden"], ({*INTEGERS} - {"tosaic.sim.golden"})),
        (
            ["import", "int8.tflite", "-o", "net.tosa"],
            (*INTEGERS, "tosaic.sim.emulator", "tosaic.compiler.build"),
        ),
        (["boards"], (*ALWAYS, *PAGES, "tosaic.compiler", "tosaic.sim")),
        (["configs"], (*ALWAYS, *PAGES, "numpy", "tosaic.compiler", "tosaic.sim")),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_a_verb_does_not_need_is_not_imported(here, words, absent):
    page_models.write_tflite(here / "int8.tflite", floats=False)
    page_models.write_tflite(here / "float.tflite", floats=True)
    page_models.write_onnx(here / "net.onnx")
    code = (
        f"import sys, tosaic.cli.app as app; sys.argv[1:] = {words}\n"
        "try: app.main()\n"
        f"finally: print([name for name in {sorted(absent)} if name in sys.modules])"
    )
    assert python(["-c", code]).splitlines()[-1] == "[]"


def test_help_of_verbs_imports_no_plug_in_and_no_other_package():
    """In one process: no verb's help does."""
    code = (
        "import sys, tosaic.cli.app as app\n"
        f"for verb in {list(VERBS)}:\n"
        "    sys.argv[1:] = [verb, '--help']\n"
        "    try: app.main()\n"
        "    except SystemExit: pass\n"
        f"    assert [name for name in {sorted({*ALWAYS, *PAGES})} if name in sys.modules] == [], verb\n"
    )
    assert python(["-c", code]).count("Usage: tosaic ") == len(VERBS)


def test_examples_have_verbs_and_options_that_exist(tosaic):
    for name, verb in (VERBS | HIDDEN).items():
        for example in verb.examples:
            words = shlex.split(example)
            assert name in words[1:3] and words[0] == "tosaic"
            own = words[1:3] if words[1] in ("dev", "nnr") else words[1:2]
            text = tosaic(*own, "--help").out
            assert [word for word in words if re.match(r"--?[A-Za-z]", word) and word not in text] == [], (
                example
            )
            if name not in ("dev", "nnr"):
                assert f"  {example}\n" in text


@pytest.mark.parametrize("verb", [*VERBS, *HIDDEN])
def test_every_verb_has_help(tosaic, verb):
    outcome = tosaic(verb, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: tosaic {verb} ")


def test_what_maintains_is_in_a_group_of_its_own(tosaic, refused):
    outcome = tosaic("dev", "--help")
    assert outcome.code == 0
    listed = [line.split()[0] for line in outcome.out.partition("Maintain:\n")[2].splitlines()]
    assert listed == list(DEV) == ["verify", "certify", "check-certificate", "conformance", "judge"]
    assert refused("dev", code=2) == "Missing command; see `tosaic dev --help`"
    assert refused("dev", "run", code=2) == "No such command 'run'; see `tosaic dev --help`"
    assert tosaic("compile", "tiny.tosa", "-o", "tiny.tsc").code == 0
    inside, alone = (tosaic(*words, "tiny.tsc") for words in (("dev", "verify"), ("verify",)))
    assert (inside.code, inside.out) == (0, alone.out)


CONTRACT = (
    "bench boards boot-image build certify check check-certificate compile configs conformance demo evaluate explore "
    "import nnr operators quantize report run serve verify verilog"
)


def test_every_spelling_of_the_contract_stays_valid(tosaic):
    """What help lists may be grouped anew; scripts of users go on."""
    for verb in CONTRACT.split():
        assert tosaic(verb, "--help").code == 0, verb
    for verb in ("encode", "decode", "inspect"):
        assert tosaic("nnr", verb, "--help").code == 0, verb


def test_verb_without_its_verb(refused):
    assert refused("nnr", code=2) == "Missing command; see `tosaic nnr --help`"


def test_completion_script(tosaic):
    script = python(["-m", "tosaic"], _TOSAIC_COMPLETE="source_bash")
    assert script.rstrip().endswith("complete -o default -F _tosaic_completion tosaic")
    assert "--install-completion" in tosaic("--help").out


@pytest.mark.parametrize(("words", "found"), [("tosaic veril", "verilog"), ("tosaic run --re", "--report")])
def test_completion(words, found):
    variables = {"_TOSAIC_COMPLETE": "complete_bash", "COMP_WORDS": words}
    place = str(len(words.split()) - 1)
    assert python(["-m", "tosaic"], COMP_CWORD=place, **variables).split() == [found]


def test_an_interrupt_when_all_is_done_changes_nothing():
    """While Python takes itself apart: the process was killed by the signal then, though its files were whole."""
    code = (
        "import os, signal, sys\n"
        "from tosaic.cli.app import main\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, me=os.getpid(), interrupt=signal.SIGINT):\n"
        "        kill(me, interrupt)\n"
        "late = Late()\n"
        "sys.argv = ['tosaic', '--version']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tosaic ")
