"""`tosaic run --bundle FILE.zip` writes all that a run was made of, and `tosaic run FILE.zip` makes it again."""

import io
import json
import zipfile

import numpy as np
import pytest

RUN = ("run", "tiny.tosa", "--config", "nano", "--on", "emulator", "-i", "x.npy", "--bundle", "b.zip")


def members(path="b.zip"):
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write(found, path="b.zip"):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in found.items():
            archive.writestr(name, data)


def array(value, **how):
    stream = io.BytesIO()
    np.save(stream, value, **how)
    return stream.getvalue()


def scores(outcome):
    return next(line for line in outcome.out.splitlines() if line.startswith("scores"))


@pytest.mark.parametrize(
    "options",
    [(), ("--check",), ("-O0", "--memory-bandwidth", "2"), ("--set", "unpackers=1", "--compress", "fast")],
)
def test_a_run_is_made_again(options, tosaic):
    first = tosaic(*RUN, *options)
    assert first.code == 0, first
    again = tosaic("run", "b.zip")
    assert again.code == 0, again
    assert scores(again) == scores(first)
    cycles = [line for line in first.out.splitlines() if "cycles on nano" in line]
    assert [line for line in again.out.splitlines() if "cycles on nano" in line] == cycles
    assert again.out.splitlines()[-3:-1] == [
        "bit-exact: 1 outputs equal golden",
        "1 outputs equal those in the bundle",
    ]


def test_on_another_target(tosaic):
    first = tosaic(*RUN)
    again = tosaic("run", "b.zip", "--on", "golden", "-o", "out")
    assert scores(again) == scores(first)
    assert np.load("out/scores.npy").tolist() == [np.load(io.BytesIO(members()["outputs/0.npy"])).tolist()[0]]


def test_a_program(tosaic):
    assert tosaic("compile", "tiny.tosa", "--config", "nano", "-o", "tiny.tsc").code == 0
    first = tosaic("run", "tiny.tsc", "--on", "emulator", "-i", "x.npy", "--bundle", "b.zip")
    assert "program.tsc" in members()
    again = tosaic("run", "b.zip")
    assert (again.code, scores(again)) == (0, scores(first))


def test_a_run_that_fails_fails_again(tosaic):
    first = tosaic(*RUN, "--max-cycles", "100")
    assert first.code == 4
    again = tosaic("run", "b.zip")
    assert (again.code, again.err) == (4, first.err)
    assert first.err.removeprefix("tosaic: error: ").strip() in again.out


def test_another_output_than_the_bundles(tosaic):
    tosaic(*RUN)
    found = members()
    value = np.load(io.BytesIO(found["outputs/0.npy"]))
    value[0, 7] ^= 1
    write({**found, "outputs/0.npy": array(value)})
    again = tosaic("run", "b.zip")
    assert again.code == 3
    assert "output 'scores' differs from the bundle's in 1 of 10 elements, first at [0, 7]" in again.err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"graph.tosa": None}, "is no whole bundle of a run"),
        ({"inputs/0.npy": b"no array"}, "is no whole bundle of a run"),
        ({"inputs/0.npy": array(np.array([{}]), allow_pickle=True)}, "is no whole bundle of a run"),
        ({"bundle.json": b"[]"}, "is no whole bundle of a run"),
        (
            {"bundle.json": json.dumps({"format": 2}).encode()},
            "of format 2, this version reads 1: update Tosaic",
        ),
    ],
)
def test_a_damaged_bundle(change, says, tosaic, refused):
    tosaic(*RUN)
    write({name: data for name, data in {**members(), **change}.items() if data is not None})
    assert says in refused("run", "b.zip")


def test_what_is_no_bundle(here, refused):
    (here / "b.zip").write_bytes(b"PK and more")
    assert "is no whole bundle of a run" in refused("run", "b.zip")
    assert "there is no such file" in refused("run", "c.zip")
    with zipfile.ZipFile("d.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bundle.json", bytes(50 << 20))
    assert "its members take 52428800 bytes, more than the file" in refused("run", "d.zip")


def test_a_bundle_does_not_choose_a_device_nor_write_to_the_terminal(tosaic, refused):
    tosaic(*RUN)
    found = members()
    text = json.loads(found["bundle.json"])
    write(
        {
            **found,
            "bundle.json": json.dumps(
                {**text, "target": "tcp://example.org:7626", "ended": "\x1b[2J"}
            ).encode(),
        }
    )
    outcome = tosaic("run", "b.zip")
    assert outcome.code == 1 and outcome.out.endswith("it ended: ?[2J\n")
    assert (
        "the run was on tcp://example.org:7626: say where to make it again, as --on emulator" in outcome.err
    )
    assert tosaic("run", "b.zip", "--on", "golden").code == 0
