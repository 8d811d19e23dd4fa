"""`tosaic explore`: what it prints and writes, and what is refused."""


def test_explores_and_writes_the_page(tosaic, here):
    sizes = ("columns=4", "am_bytes=32K", "wm_bytes=16K", "cabac_engines=0")
    outcome = tosaic(
        *(
            "explore",
            "tiny.tosa",
            "--part",
            "ecp5-85f",
            "--points",
            "3",
            "--goal",
            "area",
            "--config",
            "nano",
        ),
        *(word for size in sizes for word in ("--set", size)),
        *("--records", "r.jsonl", "--report", "front.html"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert "on the front" in lines[0] and lines[1].startswith("best")
    assert lines[-1].startswith("next: tosaic verilog --config nano") and lines[-1].endswith(" -o verilog/")
    page = (here / "front.html").read_text()
    assert lines[-1].removeprefix("next: ") in page and "Machines for tiny" in page


def test_what_is_refused(tosaic, here):
    outcome = tosaic("explore", "tiny.tosa", "--part", "xc7z0")
    assert outcome.code == 1
    assert outcome.err.startswith(
        "tosaic: error: no part is called 'xc7z0'; did you mean xc7z020? there are ecp5-25f, "
    )
    outcome = tosaic("explore", "tiny.tosa", "--part", "ecp5-25f", "--set", "columns=32", "--points", "1")
    assert (outcome.code, outcome.err) == (
        1,
        "tosaic: error: no machine of the space fits ecp5-25f: take a larger part, or let go of a --set\n",
    )
