"""NumPy functions as models: FILE.py:FUNCTION in every verb, and declared ranges that files keep."""

import json

import numpy as np
import pytest

SOURCE = """import numpy as np
import tosaic


@tosaic.function(x="uint16[5]", ranges={"x": (10, 1000)})
def squared(x):
    return x.astype(np.int32) * x


def added(x, y):
    return x // 3 + y


def branching(x):
    if x[0] > 3:
        return x
    return -x


def mismatched(x):
    return x + np.zeros(7, np.uint8)
"""
INSIDE = np.array([10, 1000, 11, 12, 13], np.uint16)
ADDED = ("--input", "x=uint8[3]", "--input", "y=int8[3]")


@pytest.fixture(autouse=True)
def source(here):
    (here / "f.py").write_text(SOURCE)
    np.save("in.npy", INSIDE)
    np.save("out.npy", np.array([10, 11, 12, 1001, 13], np.uint16))


def test_a_function_runs(tosaic):
    np.save("y.npy", np.array([1, 2, -3], np.int8))
    np.save("x.npy", np.array([9, 255, 7], np.uint8))
    outcome = tosaic("run", "f.py:added", "-i", "x=x.npy", "-i", "y=y.npy", "--on", "emulator", "--check")
    assert outcome.code == 0 and outcome.out.startswith("y0 int16[3]: 4 87 -1\n")
    assert "bit-exact: 1 outputs equal golden\n" in outcome.out
    typed = tosaic("run", "f.py:added", "-i", "x=uint8[2]", "-i", "y=uint32", "--random", 3, "--on", "golden")
    assert typed.code == 0 and typed.out.startswith("y0 uint32[2]: ")


def test_outputs_are_written_in_the_functions_types(tosaic, here):
    (here / "f.py").write_text(
        "def several(x):\n    return {'bits': ~x, 'sum': x.sum(), 'place': x.argmax(), 'flag': x > 3}\n"
    )
    np.save("x.npy", np.array([3, 250, 7], np.uint8))
    outcome = tosaic("run", "f.py:several", "-i", "x=x.npy", "--on", "golden", "-o", "out")
    assert outcome.out.splitlines()[:4] == [
        "bits uint8[3]: 252 5 248",
        "sum uint64[]: 260",
        "place int64[]: 1",
        "flag bool[3]: 0 1 1",
    ]
    found = {path.stem: np.load(path) for path in (here / "out").iterdir()}
    assert {name: (str(each.dtype), each.tolist()) for name, each in found.items()} == {
        "bits": ("uint8", [252, 5, 248]),
        "sum": ("uint64", 260),
        "place": ("int64", 1),
        "flag": ("bool", [False, True, True]),
    }


def test_files_keep_declared_ranges(tosaic, refused, here):
    imported = tosaic("import", "f.py:squared", "-o", "f.tosa")
    assert imported.out.splitlines()[1:] == [
        "input 'x' int16[5]",
        "output 'y0' int32[5]",
        "next: tosaic run f.tosa --random 1 --check",
    ]
    assert tosaic("compile", "f.py:squared", "-o", "f.tsc").code == 0
    for model in ("f.py:squared", "f.tosa", "f.tsc"):
        good = tosaic("run", model, "--on", "emulator", "-i", "x=in.npy")
        assert good.out.startswith("y0 int32[5]: 100 1000000 121 144 169\n")
        assert tosaic("run", model, "--on", "emulator", "--random", 3).code == 0
        assert refused("run", model, "--on", "emulator", "-i", "x=out.npy").startswith(
            "input 'x' has 1001 at [3], outside of the declared range 10..1000: give values inside (np.clip), or trace"
        )
    kept = json.loads((here / "f.quant.json").read_text())["declared"]
    assert kept["x"] == {"dtype": "uint16", "shape": [5], "low": 10, "high": 1000}
    (here / "f.quant.json").write_text('{"inputs": {}, "outputs": {}, "declared": {"x": 3}}')
    assert "f.quant.json: is no file of encodings (TypeError" in refused(
        "run", "f.tosa", "--on", "golden", "-i", "x=in.npy"
    )


def test_a_value_is_bound_in_the_functions_type(tosaic, refused):
    values = ("--value", "x=200,6,9", "--value", "y=-1,2,3")
    outcome = tosaic(
        "run", "f.py:added", *(each.replace("--input", "-i") for each in ADDED), *values, "--on", "golden"
    )
    assert outcome.out.startswith("y0 int16[3]: 65 4 6\n")
    assert refused("run", "f.py:squared", "--value", "x=7", "--on", "golden") == (
        "--value x: [7] is outside of the declared range 10..1000: give a value inside, or trace the function with "
        "wider ranges"
    )


def test_other_verbs_take_a_function(tosaic):
    checked = tosaic("check", "f.py:added", *ADDED)
    assert checked.code == 0 and checked.out.splitlines()[-2].endswith(" operators run on base")
    assert "nothing is wrong" in tosaic("verify", "f.py:squared").out
    assert "| added " in tosaic("bench", "f.py:added", *ADDED, "--on", "emulator", "--check").out
    explained = tosaic("compile", "f.py:added", *ADDED, "--explain")
    assert explained.code == 0 and "1 legalize: " in explained.out


@pytest.mark.parametrize(
    "call,wanted",
    [
        (
            ("run", "f.py:branching", "-i", "x=int8[3]", "--random", 1),
            "f.py:15: the truth of a traced array ",
        ),
        (("run", "f.py:mismatched", "-i", "x=uint8[3]", "--random", 1), "f.py:21: ValueError: "),
        (
            ("run", "f.py:missing"),
            "f.py: has no function 'missing'; it has squared, added, branching, mismatched",
        ),
        (("run", "g.py:missing"), "g.py: cannot be read: there is no such file; give FILE.py:FUNCTION"),
        (
            ("run", "f.py"),
            "f.py: is Python, which has no importer; name the function in it: FILE.py:FUNCTION",
        ),
        (
            ("check", "f.py:added"),
            "f.py:added: added: say shape and type of each argument, as x=((240, 320, 3), np.",
        ),
        (("check", "f.py:added", "--shape", "x=3"), "f.py:added: x=3 has no type: write --input x=uint8[3]"),
        (
            ("check", "f.py:added", "--input", "x=uint8[3]"),
            "f.py:added: the function's arguments are x, y; there are",
        ),
        (
            ("check", "tiny.tosa", "--input", "image=int8[1,8,8,1]"),
            "tiny.tosa: image=int8[1,8,8,1] is for a NumPy",
        ),
    ],
)
def test_what_is_wrong_is_one_line(refused, call, wanted):
    assert refused(*call).startswith(wanted)


def test_a_file_that_fails_is_one_line(refused, here):
    (here / "broken.py").write_text("x = 1\n1 / 0\n")
    wanted = (
        "broken.py:2: the file fails: ZeroDivisionError: division by zero; make `python broken.py` work first"
    )
    assert refused("check", "broken.py:f") == wanted
    (here / "broken.py").write_text("x = (\n")
    assert refused("check", "broken.py:f").startswith("broken.py:1: the file fails: SyntaxError: ")
