"""The text that shows a network in every stage."""

import pathlib

import pytest
from cascade_graphs import SMALL_MEMORY, inverted_bottleneck
from control_graphs import Control, finished, plus

from tosaic.compiler.build import compile_graph
from tosaic.compiler.explain import explain
from tosaic.compiler.ir import DType, read_tosa
from tosaic.compiler.legalize.passes import PASSES
from tosaic.errors import ModelError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import INSTRUCTION_BYTES

TINY = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"


def test_every_stage_is_shown() -> None:
    lines = list(explain(read_tosa(TINY), get_config("base")))
    headings = [before for before, line in zip(lines, lines[1:], strict=False) if line and set(line) == {"-"}]
    assert [heading.split(":")[0] for heading in headings] == [
        "the model",
        *["1 legalize"] * len(PASSES),
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


def test_a_cascade_is_told_stripe_by_stripe() -> None:
    text = list(explain(inverted_bottleneck(28, 1), SMALL_MEMORY))
    begin = text.index(
        "layers 0 to 3: a cascade in 10 stripes of rows; what one layer hands to the next is never there as a whole"
    )
    assert text[begin + 1 : text.index("    stripe 1")] == [
        "    layer 0: rescale_0",
        "        reads x: 12544 bytes at data+0",
        "        brings in 112 bytes from constants+256 to activation+32656 once",
        "        buffer for window x: 1792 bytes at 23296 and 25088",
        "    layer 1: rescale_1",
        "        brings in 672 bytes from constants+1920 to activation+31984 once",
        "    layer 2: rescale_2",
        "        brings in 672 bytes from constants+3520 to activation+31312 once",
        "    layer 3: rescale_3",
        "        writes rescale_3: 12544 bytes at data+12544",
        "        brings in 112 bytes from constants+5760 to activation+31200 once",
        "        buffer for result rescale_3: 1344 bytes at 29856 and 28512",
    ]
    second = text.index("    stripe 2")
    assert text[second + 1 : text.index("    stripe 3")] == [
        "        layer 0 computes rows 4 to 6 of 28, to activation+0",
        "        layer 1 computes rows 4 to 6 of 28, to activation+7168",
        "        brings back 5376 bytes of rows from data+25088 to activation+1792",
        "        layer 2 computes rows 3 to 5 of 28, to activation+15232",
        "        keeps 5376 bytes of rows that the next stripe reads, too: activation+9856 to data+25088",
        "        layer 3 computes rows 3 to 5 of 28, to data+13888",
    ]
    assert "        layer 2 computes row 27 of 28, to activation+15232" in text
    fused = [line for line in text[:begin] if line.startswith("layer ") and " -> " in line]
    assert [line.split(" -> ")[-1] for line in fused] == ["rescale_0", "rescale_1", "rescale_2", "rescale_3"]


def test_a_model_that_is_wrong_is_not_shown() -> None:
    graph = read_tosa(TINY)
    graph.operators.reverse()
    with pytest.raises(ModelError):
        next(explain(graph, get_config("base")))


def test_the_instructions_are_those_of_the_program() -> None:
    graph, config = read_tosa(TINY), get_config("base")
    lines = list(explain(graph, config))
    stream = lines[lines.index("6 schedule: the instruction stream") + 2 :]
    program = compile_graph(graph, config)
    assert len(stream) == program.program_bytes // INSTRUCTION_BYTES
    assert [int(line.split()[0]) for line in stream] == [INSTRUCTION_BYTES * n for n in range(len(stream))]


def test_branches_lead_to_labels() -> None:
    """The branches of a loop lead to labels; the layers inside come before the operator that runs them."""
    build = Control()
    x = build.input("x", (1, 16), DType.INT32)
    outputs = build.counted(build.number(4, (1,)), [x], plus(3))
    lines = list(explain(finished(build, outputs), get_config("small")))
    plan = lines[lines.index("2 fuse: layers and their micro-programs") :]
    branching = [line.split(": ")[1] for line in plan if line.endswith("(branches between the layers above)")]
    assert [line.split(" (")[0] for line in branching] == ["WHILE_LOOP_0"]
    labels = {line[:-1] for line in lines if line.endswith(":")}
    targets = {line.split(" to ")[1] for line in lines if line.startswith("branch ")}
    assert targets and targets <= labels
