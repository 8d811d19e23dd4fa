"""WHILE_LOOP and COND_IF by branches: emulator and RTL against golden, and what a program must keep over a branch."""

import numpy as np
import pytest
from control_graphs import Control, endless, finished, plus
from hypothesis import given, settings
from hypothesis import strategies as st
from rtl_configs import on_rtl

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.driver.session import Session
from tosaic.driver.targets import make_runner
from tosaic.errors import DeviceError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Condition, Opcode, decode, encode, make
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate
from tosaic.sim.program import decode_program

INT8, INT16, INT32, BOOL = DType.INT8, DType.INT16, DType.INT32, DType.BOOL


def values_of(graph, seed=1, **given_values):
    rng, values = np.random.default_rng(seed), {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        low, high = (
            (0, 1) if tensor.dtype is BOOL else (max(tensor.dtype.min, -(1 << 30)), tensor.dtype.max >> 1)
        )
        made = rng.integers(low, high, tensor.shape, endpoint=True)
        values[name] = np.full(tensor.shape, given_values.get(name, made)).astype(tensor.dtype.numpy)
    return values


def check(graph, config="small", targets=("emulator",), optimize=True, **given_values):
    """Every target computes what golden does, and no access of the program races another; the program."""
    config, values = get_config(config), values_of(graph, **given_values)
    program = compile_graph(graph, config, optimize=optimize)
    wanted = evaluate(graph, values)
    for target in targets:
        got = Session(program, target).run(values)
        for name, value in got.items():
            np.testing.assert_array_equal(value, wanted[name], err_msg=f"{name} on {target}")
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    Emulator(config, check_hazards=True).run(memory, program.program_address, program.program_bytes)
    return program


def instructions(program):
    start = program.program_address
    return decode_program(program.image[start : start + program.program_bytes])


def count(program, opcode):
    return sum(instruction.opcode == opcode for instruction in instructions(program))


# --- loops


def sums(shape, turns_shape=()):
    build = Control()
    turns, x = build.input("turns", turns_shape, INT32), build.input("x", shape, INT32)
    return finished(build, build.counted(turns, [x], plus(3)))


@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 9])
@pytest.mark.parametrize(("shape", "turns_shape"), [((), ()), ((5,), (1,)), ((3, 7, 11), (1, 1, 1))])
def test_loops_of_any_number_of_turns(turns, shape, turns_shape):
    check(sums(shape, turns_shape), "nano", turns=turns)


@pytest.mark.parametrize("config", ["nano", "small", "base", "large"])
def test_state_larger_than_the_activation_memory(config):
    elements = get_config(config).am_bytes // 4
    program = check(sums((3, elements)), config, turns=2)
    assert program.memory_bytes > 2 * elements * 4


@pytest.mark.parametrize("config", [on_rtl("small"), on_rtl("base")])
@pytest.mark.parametrize("turns", [0, 3])
def test_loops_on_the_rtl(config, turns):
    build = Control()
    count_, x = build.input("turns", (), INT32), build.input("x", (1, 6, 5, 8), INT8)
    rng = np.random.default_rng(3)

    def body(g, names):
        kernel = g.constant(rng.integers(-9, 9, (8, 3, 3, 8)), INT8)
        zero = [g.number(0, (1,), INT8), g.number(0, (1,), INT8)]
        shape = {"pad": [1, 1, 1, 1], "stride": [1, 1], "dilation": [1, 1], "acc_type": INT32}
        y = g.add("CONV2D", [names[0], kernel, g.number(5, (8,)), *zero], **shape)
        scale = [
            g.constant([1 << 30], INT32),
            g.constant([36], INT8),
            g.number(0, (1,)),
            g.number(0, (1,), INT8),
        ]
        modes = {"scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": False}
        return [g.add("RESCALE", [y, *scale], dtype=INT8, **modes)]

    graph = finished(build, build.counted(count_, [x], body))
    check(graph, config, ("emulator", "sim"), turns=turns)


@pytest.mark.parametrize("shape", [(), (4, 9), (1, 20_000)])
@pytest.mark.parametrize("turns", [0, 1, 2, 4])
def test_a_body_that_permutes_its_arguments(shape, turns):
    build = Control()
    count_ = build.input("turns", (), INT32)
    state = [build.input(name, shape, INT32) for name in "abcd"]

    def body(g, names):
        a, b, c, d = names
        return [b, c, a, g.add("ADD", [d, a])]

    check(finished(build, build.counted(count_, state, body)), "nano", turns=turns)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_results_that_are_constants_arguments_or_renamed(turns):
    build = Control()
    count_ = build.input("turns", (1,), INT32)
    state = [
        build.input("a", (2, 3), INT16),
        build.input("b", (2, 3), INT16),
        build.input("c", (2, 3), INT16),
    ]

    def body(g, names):
        flat = g.add("RESHAPE", [names[1], g.shape([6])])
        mixed = g.add("RESHAPE", [g.add("REVERSE", [flat], axis=0), g.shape([2, 3])])
        return [g.constant(np.arange(6).reshape(2, 3), INT16), mixed, g.add("IDENTITY", [names[0]])]

    check(finished(build, build.counted(count_, state, body)), "small", turns=turns)


@pytest.mark.parametrize("dtype", [INT8, INT16, INT32])
@pytest.mark.parametrize("turns", [0, 4])
def test_integer_types(dtype, turns):
    build = Control()
    count_, x = build.input("turns", (), INT32), build.input("x", (5, 13), dtype)
    mask = build.input("mask", (5, 13), BOOL)

    def body(g, names):
        x, mask = names
        turned = g.add("REVERSE", [g.add("BITWISE_NOT", [x])], axis=1)
        return [g.add("SELECT", [mask, x, turned]), g.add("LOGICAL_NOT", [mask])]

    check(finished(build, build.counted(count_, [x, mask], body)), "small", turns=turns)


def test_int48_goes_round():
    build = Control()
    state = [build.input("turns", (), INT32), *(build.input(name, (3, 5), DType.INT48) for name in "ab")]
    results = build.counted(state[0], state[1:], lambda g, names: names[::-1])
    check(finished(build, results), "small", turns=3)


def test_what_does_not_change_stays_a_constant():
    build = Control()
    count_, x = build.input("turns", (), INT32), build.input("x", (3, 40), INT8)
    table = build.constant(np.arange(255, -1, -1) - 128, INT8)

    def body(g, names):
        return [g.add("TABLE", [names[0], names[1]]), names[1]]

    results = build.counted(count_, [x, table], body)
    check(finished(build, results), "small", turns=3)


def test_tensors_live_across_a_loop():
    build = Control()
    count_, x = build.input("turns", (), INT32), build.input("x", (60, 50), INT32)
    before = build.add("ABS", [x])
    (around,) = build.counted(count_, [build.add("BITWISE_NOT", [x])], plus(-7))
    (again,) = build.counted(count_, [around], plus(1))
    graph = finished(build, [build.add("MAXIMUM", [before, again]), build.add("SUB", [before, around])])
    for config in ("nano", "base"):
        check(graph, config, turns=3)
        check(graph, config, turns=3, optimize=False)


def test_a_subgraph_that_is_used_twice():
    build = Control()
    count_, x = build.input("turns", (), INT32), build.input("x", (4,), INT32)
    first = build.counted(count_, [x], plus(5))
    operator = build.graph.operators[-1]
    again = build.call("WHILE_LOOP", [count_, *first], [count_, x], **operator.attributes)
    check(finished(build, again), "small", turns=4)


@pytest.mark.xdist_group("base")
def test_loops_in_loops():
    build = Control()
    count_, x = build.input("turns", (), INT32), build.input("x", (6, 9), INT32)

    def middle(g, names):
        inner = g.counted(g.number(2), [names[0]], lambda h, n: h.counted(h.number(2), n, plus(1)))
        return [g.add("ADD", [inner[0], names[0]])]

    graph = finished(build, build.counted(count_, [x], middle))
    check(graph, "nano", turns=3)
    check(graph, "base", ("emulator", "sim"), turns=3)


# --- choices


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("config", ["nano", "base"])
def test_a_branch_that_is_not_taken_may_be_endless(flag, config):
    build = Control()
    condition, x = build.input("flag", (1,), BOOL), build.input("x", (4, 5), INT32)
    bodies = (plus(1), endless) if flag else (endless, plus(2))
    check(finished(build, build.choose(condition, [x], *bodies)), config, flag=flag)


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize(
    "targets", [("emulator",), pytest.param(("emulator", "sim"), marks=pytest.mark.xdist_group("base"))]
)
def test_large_branches(flag, resident, targets):
    """`resident`: the branches find their argument in the activation memory, and it is read behind them."""
    build = Control()
    condition, x = build.input("flag", (), BOOL), build.input("x", (70, 80), INT32)
    if resident:
        x = build.add("ABS", [x])
    y, z = build.choose(
        condition,
        [x, x],
        lambda g, names: [names[1], *plus(5)(g, names[:1])],
        lambda g, names: [
            g.constant(np.arange(5600).reshape(70, 80), INT32),
            g.add("REVERSE", [names[1]], axis=0),
        ],
    )
    outputs = [y, z, build.add("SUB", [x, y])]
    program = check(finished(build, outputs), "base", targets, flag=flag)
    assert count(program, Opcode.BRANCH)


def test_small_branches_need_no_branch():
    build = Control()
    condition, x = build.input("flag", (), BOOL), build.input("x", (7,), INT32)
    program = check(finished(build, build.choose(condition, [x], plus(1), plus(2))), flag=True)
    assert not count(program, Opcode.BRANCH)


@pytest.mark.parametrize("turns", [0, 1, 6])
def test_choices_in_loops(turns):
    build = Control()
    count_, x = build.input("turns", (), INT32), build.input("x", (3, 5), INT32)

    def body(g, names):
        odd = g.add("EQUAL", [names[1], g.number(1)])
        then = lambda h, n: h.counted(h.number(2), n, plus(10))  # noqa: E731
        return [*g.choose(odd, [names[0]], then, plus(1)), g.add("SUB", [g.number(1), names[1]])]

    check(finished(build, build.counted(count_, [x, build.number(0)], body)), "small", turns=turns)


# --- random nests


class Nest:
    """Random nests of loops and choices on int32 state; `draw(low, high)` decides."""

    def __init__(self, draw):
        self.draw, self.left = draw, 8

    def body(self, g, names, depth=0):
        names = list(names)
        for _ in range(self.draw(1, 2)):
            kind = self.draw(0, 4) if depth < 3 and self.left else self.draw(0, 1)
            self.left -= 1
            place = self.draw(0, len(names) - 1)
            if kind == 0:
                names[place : place + 1] = plus(self.draw(-9, 9))(g, [names[place]])
            elif kind == 1:
                names[place] = g.add("BITWISE_XOR", [names[place], names[self.draw(0, len(names) - 1)]])
            elif kind == 2:
                names = g.counted(g.number(self.draw(0, 2)), names, lambda h, n: self.body(h, n, depth + 1))
            elif kind == 3:
                largest = g.add("RESHAPE", [g.add("REDUCE_MAX", [names[place]], axis=0), g.shape([1])])
                bit = g.add("BITWISE_AND", [largest, g.number(1, (1,))])
                flag = g.add("GREATER", [bit, g.number(0, (1,))])
                names = g.choose(
                    flag,
                    names,
                    lambda h, n: self.body(h, n, depth + 1),
                    lambda h, n: self.body(h, n, depth + 1),
                )
            else:
                names = names[1:] + names[:1]
        return names


@settings(max_examples=15, derandomize=True, deadline=None, database=None)
@given(st.data(), st.sampled_from(["nano", "small", "base"]), st.sampled_from([3, 2000]))
def test_random_nests(data, config, elements):
    nest = Nest(lambda low, high: data.draw(st.integers(low, high)))
    build = Control()
    state = [build.input(name, (elements,), INT32) for name in "abc"[: nest.draw(1, 3)]]
    check(finished(build, nest.body(build, state)), config)


# --- the program


def test_a_block_leaves_the_semaphores_as_they_were():
    build = Control()
    x = build.input("x", (30, 40), INT32)
    results = build.counted(build.number(40), [x], plus(1))
    program = check(finished(build, results), "nano")
    balance = dict.fromkeys(range(16), 0)
    for instruction in instructions(program):
        if instruction.opcode in (Opcode.BRANCH, Opcode.END):
            assert not any(balance.values())
        elif instruction.opcode.name.endswith("_SIGNAL"):
            balance[instruction.semaphore] += instruction.count
        elif instruction.opcode.name.endswith("_WAIT"):
            balance[instruction.semaphore] -= instruction.count


@pytest.mark.parametrize("config", [on_rtl("small"), on_rtl("base")])
def test_cycles_of_loops_are_predicted(config):
    graph = sums((100, 30))
    program, values = compile_graph(graph, get_config(config)), values_of(graph, turns=12)
    predicted, counted = (Session(program, target) for target in ("emulator", "sim"))
    predicted.run(values)
    counted.run(values)
    assert abs(predicted.stats["cycles"] / counted.stats["cycles"] - 1) <= 0.03


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
def test_a_loop_without_end_is_ended_by_the_time_limit(target):
    build = Control()
    x = build.input("x", (4,), INT32)
    session = Session(finished(build, endless(build, [x])), target, "base", max_cycles=3000)
    for _ in range(2):
        with pytest.raises(
            DeviceError, match="(3000 instructions: an endless loop|did not end in 3000 cycles; UNITS)"
        ):
            session.run({"x": np.arange(4, dtype=np.int32)})


def looping():
    graph = sums((4,))
    program, memory = compile_graph(graph, get_config("base")), None
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values_of(graph, turns=3)[port.name])
    return program, memory


@pytest.mark.parametrize("target", ["emulator", pytest.param("sim", marks=pytest.mark.xdist_group("base"))])
@pytest.mark.parametrize("offset", [8, -16])
def test_a_branch_to_nowhere_is_illegal(target, offset):
    program, memory = looping()
    number, instruction = next(
        (number, instruction)
        for number, instruction in enumerate(instructions(program))
        if instruction.opcode == Opcode.BRANCH and instruction.condition == Condition.ALWAYS
    )
    place = program.program_address + 16 * number
    wrong = program.program_bytes if offset < 0 else instruction.target + offset
    raw = encode(make(Opcode.BRANCH, target=wrong, condition=Condition.ALWAYS))
    memory[place : place + 16] = np.frombuffer(raw, np.uint8)
    assert decode(raw).target == wrong
    with pytest.raises(DeviceError, match=f"^ILLEGAL .*at program counter {16 * number} "):
        make_runner(target, program)(memory)
