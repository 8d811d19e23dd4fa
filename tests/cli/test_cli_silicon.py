"""`tosaic silicon`: what is wrong with a command line is told before the synthesis."""

import pytest


@pytest.mark.parametrize(
    "given, code, message",
    [
        ((), 2, "Missing option '--liberty'; see `tosaic silicon --help`"),
        (("--liberty", "none.lib"), 1, "none.lib cannot be read: No such file or directory"),
        (("--liberty", __file__), 1, f"{__file__} is not a Liberty file with cells"),
        (
            ("--liberty", __file__, "--memory", "um2=3"),
            1,
            "--memory um2=3: give a value from 0 on of one of um2",
        ),
        (
            ("--liberty", __file__, "--memory", "um2_per_bit=x"),
            1,
            "--memory um2_per_bit=x: 'x' is not a number",
        ),
        (
            ("--liberty", __file__, "--network", "none.tosa"),
            1,
            "none.tosa: cannot be read: there is no such file",
        ),
        (("--liberty", __file__, "--config", "nona"), 1, "no configuration"),
    ],
)
def test_wrong_command_lines(tosaic, tmp_path, given, code, message):
    outcome = tosaic("silicon", "--config", "nano", "-o", str(tmp_path / "chip"), *given)
    assert outcome.code == code and outcome.out == ""
    assert message in outcome.err and outcome.err.count("\n") == 1
