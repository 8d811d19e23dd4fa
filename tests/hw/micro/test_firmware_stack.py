"""The stack of compiled code, told from its assembly."""

import pytest

from tosaic.hw.micro.firmware.stack import StackError, StackFrame, deepest_path, functions


def assembly(**bodies):
    """Functions of these names, and behind them the table `steps` of left and right."""
    text = ""
    for name, body in bodies.items():
        lines = "".join(f"\t{line}\n" for line in body.split("; "))
        text += f"\t.type\t{name},@function\n{name}:\n{lines}.Lend_{name}:\n"
    return text + "steps:\n\t.word\t0\n\t.word\tleft\n\t.word\tright\n"


def test_frames_and_calls():
    code = functions(
        assembly(
            main="addi\tsp, sp, -16; call\tleft; jalr\ta0; addi\tsp, sp, 16; ret",
            left="addi\tsp, sp, -32; sw\tra, 28(sp); beqz\ta0, .Lout; tail\tleaf",
            right="lui\ta0, %hi(.LJTI0_0); jr\ta0",
            leaf="jr\tra",
        )
    )
    assert code == {
        "main": StackFrame(16, frozenset({"left", "right"})),
        "left": StackFrame(32, frozenset({"leaf"})),
        "right": StackFrame(0, frozenset()),
        "leaf": StackFrame(0, frozenset()),
    }
    assert deepest_path(code, "main") == (48, ["main", "left", "leaf"])


@pytest.mark.parametrize("body", ["sub\tsp, sp, a0", "mv\tsp, a0", "addi\tsp, sp, -16; addi\tsp, sp, -32"])
def test_a_frame_that_is_not_constant(body):
    with pytest.raises(StackError, match="^main moves the stack pointer by more than one constant$"):
        functions(assembly(main=body))


def test_a_jump_to_anywhere():
    with pytest.raises(StackError, match="^main jumps to an address that no table of a switch has$"):
        functions(assembly(main="jr\ta0"))


def test_functions_that_call_each_other():
    code = {
        "main": StackFrame(1, frozenset({"ping"})),
        "ping": StackFrame(10, frozenset({"pong"})),
        "pong": StackFrame(100, frozenset({"ping", "leaf"})),
        "leaf": StackFrame(1000, frozenset()),
    }
    assert deepest_path(code, "main") == (1111, ["main", "ping", "pong", "leaf"])
    assert deepest_path(code, "main", {"ping": 2, "pong": 2}) == (
        1221,
        ["main", "ping", "pong", "ping", "pong", "leaf"],
    )
