"""`tosaic bring-up` on the command line; tests/driver/test_bring_up.py has the faults."""

import pytest


def test_all_faults_are_listed(tosaic):
    outcome = tosaic("bring-up", "icebreaker", "--faults")
    assert (outcome.code, outcome.err) == (0, "")
    names = [line.partition(":")[0] for line in outcome.out.splitlines()[::3]]
    assert names[:2] == ["no-answer", "noisy-link"] and len(names) == 17


@pytest.mark.xdist_group("nano")
def test_another_configuration_is_named_with_a_way_out(tosaic, tmp_path):
    bundle = tmp_path / "board.zip"
    outcome = tosaic("bring-up", "arty-a7-100t", "--on", "sim://nano", "--bundle", str(bundle))
    assert outcome.code == 4 and outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0] == "sim://nano, configuration small"
    assert lines[2].startswith("FAULT machine: other-configuration: its configuration hash is 0x")
    assert lines[3:] == [
        f"bundle: {bundle}",
        "meaning: the bitstream was built with --config or --set",
        "way out: give the same --config to this kit, or load the board's own bitstream",
    ]
    assert bundle.is_file()
