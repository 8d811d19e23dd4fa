"""The command line with machines of several cores."""

import json

from tosaic.compiler.program import Program

CORES, ON = "nano,cores=2,bus_words=2", ("--on", "emulator")
COMPRESSING = "small,cores=2,bus_words=2"
FOUR = ("--batch", 4)
"""Samples: a single one is too small to be split."""


def test_run_with_report_trace_and_measurements(tosaic, here):
    files = ("--report", "r.html", "--trace", "t.json", "--stats", "s.json")
    outcome = tosaic("run", "tiny.tosa", *FOUR, "--random", 1, "--check", "--config", CORES, *files, *ON)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-4:-1] == [
        "bit-exact: 1 outputs equal golden",
        "trace: t.json; open it in a browser, at ui.perfetto.dev",
        "report: r.html; open it in a browser",
    ]
    stats = json.loads((here / "s.json").read_text())
    assert (stats["config"], stats["bit_exact"], stats["memory_bandwidth"]) == (CORES, True, 8)
    assert f"{stats['cycles']:,} cycles on {CORES}" in outcome.out
    assert CORES in (here / "r.html").read_text()
    tracks = {event["args"].get("name") for event in json.loads((here / "t.json").read_text())["traceEvents"]}
    assert {"ARRAY 0", "ARRAY 1"} <= tracks


def test_compile_and_run_the_program(tosaic, here):
    made = tosaic("compile", "tiny.tosa", *FOUR, "--config", CORES, "-o", "p.tsc")
    program = Program.load((here / "p.tsc").read_bytes())
    assert len(program.others) == 1
    microcode = sum(stream.bytes for stream in program.streams)
    assert f" {microcode:,} bytes of microcode," in made.out
    straight = tosaic("run", "tiny.tosa", *FOUR, "--random", 1, "--config", CORES, *ON)
    outcome = tosaic("run", "p.tsc", "--random", 1, *ON)
    assert outcome.code == 0
    assert outcome.out.splitlines()[:2] == straight.out.splitlines()[:2]


def test_explain_has_a_part_for_each_core(tosaic):
    outcome = tosaic("compile", "tiny.tosa", *FOUR, "--config", CORES, "--explain")
    assert "    core 1 makes " in outcome.out


def test_bench_of_a_batch(tosaic):
    outcome = tosaic("bench", "tiny.tosa", *FOUR, "--check", "--config", CORES, *ON)
    assert outcome.code == 0, outcome.err
    assert f"| {CORES} |" in outcome.out and "outputs equal golden" in outcome.out


def test_compressed_weights(tosaic):
    """Decoded at boot by core 0, in every run by the core that needs them, or unpacked."""
    for method in ("nnr", "nnr-stream", "fast"):
        outcome = tosaic(
            "run",
            "tiny.tosa",
            *FOUR,
            "--random",
            1,
            "--check",
            "--config",
            COMPRESSING,
            "--compress",
            method,
            *ON,
        )
        assert outcome.code == 0, outcome.err
        assert outcome.out.splitlines()[-2] == "bit-exact: 1 outputs equal golden"


def test_what_one_core_alone_can_do_is_refused_by_name(refused, tosaic):
    assert "decoder" in refused("run", "tiny.tosa", "--config", CORES, "--compress", "nnr", *ON)
    tosaic("compile", "tiny.tosa", *FOUR, "--config", CORES, "-o", "p.tsc")
    assert "cores" in refused("compile", "tiny.tosa", *FOUR, "--config", CORES, "-o", "p.c")
