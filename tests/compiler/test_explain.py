"""The text that shows a network in every stage."""

import pathlib

from tosaic.compiler.explain import explain
from tosaic.compiler.ir import read_tosa
from tosaic.hw.config_text import get_config

TINY = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"


def test_every_stage_is_shown() -> None:
    lines = list(explain(read_tosa(TINY), get_config("base")))
    headings = [before for before, line in zip(lines, lines[1:], strict=False) if line and set(line) == {"-"}]
    assert [heading.split(":")[0] for heading in headings] == [
        "the model",
        *["1 legalize"] * 7,
        "2 fuse",
        "3 place, 4 tile",
        "5 emit",
        "6 schedule",
    ]


def test_a_layer_is_followed_from_its_operators_to_its_instructions() -> None:
    text = "\n".join(explain(read_tosa(TINY), get_config("base")))
    assert (
        "layer 1: CONV2D_21 + RESCALE_22 + CLAMP_23 -> conv2\n    array: CONV2D_21, 4608 multiplications"
        in text
    )
    assert (
        "    reads conv1: 128 bytes at activation+65536\n    writes conv2: 64 bytes at activation+0" in text
    )
    assert "ARRAY: reads activation[65536:65664], streams weight[768:2304]" in text
    assert "     0  BEGIN" in text and text.endswith("  END")
