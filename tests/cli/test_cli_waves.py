"""What `tosaic run --wave` says to what cannot be; the waveforms themselves: tests/rtl/test_rtl_waves.py."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--wave", "w.png"], "a waveform is written to a file that ends in .fst or .vcd, not 'w.png'"),
        (["--wave", "w.vcd", "--on", "emulator"], "emulator: a waveform shows the RTL's signals: run on sim"),
        (["--wave", "w.vcd", "--on", "golden"], "golden: a waveform shows the RTL's signals: run on sim"),
        (["--wave-cycles", "1:2"], "--wave-cycles is for a waveform: give --wave FILE.fst too"),
        (["--wave-layer", "conv1"], "--wave-layer is for a waveform: give --wave FILE.fst too"),
        (["--wave", "w.vcd", "--wave-cycles", "7"], "--wave-cycles 7: write FIRST:END, such as 1000:2000"),
        (["--wave", "w.vcd", "--wave-cycles", "9:9"], "cycles 9:9 are none"),
        (["--wave", "w.vcd", "--wave-layer", "conv9"], "the program has no layer 'conv9'; it has 'conv"),
        (["--wave", "no/folder/w.vcd"], "no/folder"),
    ],
)
def test_what_cannot_be_is_refused(arguments, says, tosaic, here) -> None:
    before = sorted(here.iterdir())
    outcome = tosaic("run", "tiny.tosa", "--config", "nano", "--random", "1", *arguments)
    assert outcome.code != 0
    assert says in " ".join(outcome.err.replace("│", " ").split())
    assert sorted(here.iterdir()) == before
