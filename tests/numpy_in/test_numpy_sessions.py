"""Sessions of NumPy functions: their types and shapes, declared ranges, states, loops, and what files keep of them."""

import collections
import subprocess
import sys

import numpy as np
import pytest

import tosaic
from tosaic.compiler.ir import read_tosa, write_tosa
from tosaic.compiler.program import Program

Pair = collections.namedtuple("Pair", "low high")


@tosaic.function(x="uint16[5]", ranges={"x": (10, 1000)})
def squared(x):
    return x.astype(np.int32) * x


INSIDE, OUTSIDE = np.array([10, 1000, 11, 12, 13], np.uint16), np.array([10, 11, 12, 1001, 13], np.uint16)
SAID = (
    r"^input 'x' has 1001 at \[3\], outside of the declared range 10\.\.1000: give values inside \(np.clip\)"
)


def test_a_session_takes_and_gives_numpys_types():
    @tosaic.function
    def every(a, b, c):
        return {"sum": a.sum(), "wrapped": a + b, "words": c >> 3, "flag": c > 5, "place": a.argmax()}

    arrays = [np.array([250, 7], np.uint8), np.uint8(9), np.uint32(2**32 - 1)]
    got = every.check(*arrays)
    wanted = every(*arrays)
    assert {name: (str(each.dtype), each.shape, each.tolist()) for name, each in got.items()} == {
        name: (str(np.asarray(each).dtype), np.shape(each), np.asarray(each).tolist())
        for name, each in wanted.items()
    }
    session = every.session("golden", a="uint8[2]", b=np.uint8, c=((), np.uint32))
    assert session(*arrays)["words"] == 2**29 - 1
    with pytest.raises(
        tosaic.InputError, match="^input 'b' has dtype int64, the function was traced for uint8: convert"
    ):
        session(arrays[0], np.array(9), arrays[2])


def test_results_have_the_functions_structure():
    x = np.array([3, -4], np.int8)
    assert isinstance(tosaic.function(lambda x: Pair(x.min(), x.max())).check(x), Pair)
    assert isinstance(tosaic.function(lambda x: [x, x + x]).check(x), list)
    assert tosaic.function(lambda x: -x).check(x).tolist() == [-3, 4]


def test_a_difference_is_found_and_told():
    calls = []

    @tosaic.function
    def other_at_first(x):
        calls.append(0)
        return x + np.int8(1 if len(calls) == 1 else 2)

    wanted = (
        r"^other_at_first: tensor 'y0' differs at \[0\]: got 5, the function 4 \(2 of 2 elements differ\)$"
    )
    with pytest.raises(tosaic.MismatchError, match=wanted):
        other_at_first.check(np.array([3, 4], np.int8))


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_declared_ranges_are_checked_at_every_run(target):
    graph = squared.graph()
    assert squared.session(target)(INSIDE).tolist() == [100, 1000000, 121, 144, 169]
    for run in (
        lambda: squared.session(target)(OUTSIDE),
        lambda: tosaic.run(graph, {"x": OUTSIDE}, target),
        lambda: tosaic.run(graph, {"x": OUTSIDE.view(np.int16)}, target),
        lambda: next(tosaic.Session(graph, target).map([{"x": OUTSIDE}])),
    ):
        with pytest.raises(tosaic.InputError, match=SAID):
            run()
    with pytest.raises(
        tosaic.InputError, match=r"^input 'x' has 1001 at \[1, 3\], outside of the declared range"
    ):
        tosaic.Session(graph, target).run_batch({"x": np.stack([INSIDE, OUTSIDE])})
    twice = tosaic.Session(graph, target, batch=2)
    assert twice.run({"x": np.concatenate([INSIDE, INSIDE])})["y0"][6] == 1000000
    with pytest.raises(
        tosaic.InputError, match=r"^input 'x' has 1001 at \[8\], outside of the declared range"
    ):
        twice.run({"x": np.concatenate([INSIDE, OUTSIDE])})


def test_a_program_file_keeps_types(tmp_path):
    program = tosaic.Session(squared.graph(), "emulator").program
    again = Program.load(program.to_bytes())
    assert again.declared == program.declared
    assert [each.own for each in tosaic.Session(again, "emulator").inputs] == [np.uint16]


# --- states


def biquad(x, s):
    """Direct form 2, transposed, in 14 fractional bits."""
    y = np.clip((x * 4000 + s[0] + 8192) >> 14, -32768, 32767)
    first = s[1] + x * 7000 + y * 6000
    return y.astype(np.int16), np.clip(np.stack([first, x * 4000 - y * 3000]), -(2**29), 2**29)


@pytest.mark.parametrize("target", ["golden", "emulator", pytest.param("sim", marks=pytest.mark.nightly)])
def test_a_state_goes_from_run_to_run(target):
    start = np.array([5, -9], np.int32)
    function = tosaic.function(
        lambda x, s: biquad(x.astype(np.int32), s), states=("s",), ranges={"s": (-(2**29), 2**29)}
    )
    session = function.session(target, "nano", x=np.int16, s=start)
    state = start
    for sample in np.random.default_rng(4).integers(-32768, 32767, 50):
        wanted, state = biquad(np.int32(sample), state)
        assert session(np.int16(sample)) == wanted
        assert session.state["s"].tolist() == state.tolist()
    session.state.reset()
    assert session.state["s"].tolist() == start.tolist()


def test_a_state_must_keep_its_type_and_its_range():
    with pytest.raises(
        tosaic.InputError, match=r"^state 's' is int16\[3\], its new value int32\[3\]: convert it \(astype\)$"
    ):
        tosaic.trace(lambda x, s: (x, s.astype(np.int32)), states=("s",), x="int8[3]", s="int16[3]")
    wanted = r"^state 's' is not proved to stay in 0\.\.9: its new value may be 1\.\.10; np.clip it in the function$"
    with pytest.raises(tosaic.InputError, match=wanted):
        tosaic.trace(lambda x, s: (x, s + 1), ranges={"s": (0, 9)}, states="s", x="int8", s=np.int16)
    with pytest.raises(
        tosaic.InputError, match="^the function gives 1: return its results, then the new values of s$"
    ):
        tosaic.trace(lambda x, s: x, states="s", x="int8", s="int8")


# --- loops


def test_a_loop_reads_what_is_outside_of_it():
    @tosaic.function
    def powers(x, limit, step):
        def body(y, count):
            inside = tosaic.while_loop(
                lambda z: (z < step).all(), lambda z: (z + step,), (np.zeros(3, np.int32),)
            )[0]
            return y + inside, count + np.int32(1)

        return tosaic.while_loop(lambda y, count: (y < limit).any() & (count < 9), body, (x, np.int32(0)))

    arrays = np.array([1, 2, 3], np.int32), np.int32(50), np.array([7, 8, 9], np.int32)
    got = powers.check(*arrays)
    assert [each.tolist() for each in got] == [[50, 58, 66], 7]
    graph = powers.graph(x="int32[3]", limit="int32", step="int32[3]")
    again = tosaic.run(
        read_tosa(write_tosa(graph)),
        {"x": arrays[0], "limit": arrays[1].reshape(1), "step": arrays[2]},
        "golden",
    )
    assert again["y0"].tolist() == [50, 58, 66]


def test_a_loop_that_changes_a_type_is_refused():
    def function(x):
        return tosaic.while_loop(lambda y: (y < 9).all(), lambda y: (y + np.int32(1),), (x,))

    with pytest.raises(
        tosaic.TraceError, match=r"value 0 of a loop changes from int8\[2\] to int32\[2\]: convert it"
    ):
        tosaic.trace(function, x="int8[2]")


def test_rescale_is_numpys_fixed_point():
    x = np.array([-(2**31), 2**31 - 1, 0, 5, -5], np.int32)
    wanted = np.clip(((x.astype(np.int64) * 1518500250 + (1 << 39)) >> 40) + 3, -128, 127)
    function = tosaic.function(lambda x: tosaic.rescale(x, 1518500250, 40, np.int8, 3))
    assert function.check(x).tolist() == function(x).tolist() == wanted.tolist()
    assert (
        len(
            tosaic.trace(
                lambda x: (x.astype(np.int64) * 99 + 64) >> 7, x="int32[5]", ranges={"x": (-9, 9)}
            ).operators
        )
        < 4
    )


# --- what it costs


def test_products_are_as_fast_as_those_built_by_hand():
    """One layer each, with the same inputs; the margins are 1.15 and 1.2."""
    rng = np.random.default_rng(0)
    w, k = rng.integers(-128, 128, (256, 16), np.int8), rng.integers(-128, 128, (8, 3, 3, 16), np.int8)

    def dense(x):
        return x.astype(np.int32) @ w.astype(np.int32)

    def convolved(x):
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(0, 1)).astype(np.int32)
        return np.tensordot(windows, k.astype(np.int32), ([2, 3, 4], [0, 1, 2]))

    assert cycles(dense, ((64, 256), np.int8)) <= 1.15 * by_hand(
        (64, 256), (1, 64, 1, 256), w.T.reshape(16, 1, 1, 256)
    )
    assert cycles(convolved, ((16, 16, 8), np.int8)) <= 1.2 * by_hand(
        (16, 16, 8), (1, 16, 16, 8), k.transpose(3, 1, 2, 0)
    )


def cycles(function, spec):
    session = tosaic.Session(tosaic.trace(function, x=spec), "emulator", "base")
    session.run({"x": np.zeros(*spec)})
    assert len(session.program.layers) == 1
    return session.stats["cycles"]


def by_hand(given, shape, weights):
    from tosaic.compiler.ir import DType, GraphBuilder

    build = GraphBuilder("hand")
    zero = build.constant([0], DType.INT8)
    bias = build.constant(np.zeros(len(weights), np.int32), DType.INT32)
    pixels = build.add("RESHAPE", [build.input("x", given, DType.INT8), build.shape(shape)])
    operands = [pixels, build.constant(weights, DType.INT8), bias, zero, zero]
    same = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1], "acc_type": DType.INT32}
    build.output(build.add("CONV2D", operands, **same))
    session = tosaic.Session(build.finish(), "emulator", "base")
    session.run({"x": np.zeros(given, np.int8)})
    return session.stats["cycles"]


@pytest.mark.parametrize("dtype, each", [(np.int8, 1.2), (np.int16, 2.5), (np.int32, 5)])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_up_to_each_element_are_products(dtype, each, axis):
    """Adding by doubling took 5.7 cycles an element."""
    function = tosaic.function(lambda x: np.cumsum(x, axis, np.int32))
    session = function.session("emulator", "base", x=((128, 64), dtype))
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, (128, 64), dtype, endpoint=True)
    assert np.array_equal(session.call({"x": x}, check=True), function(x))
    assert session.stats["cycles"] <= each * x.size


@pytest.mark.parametrize(
    "shape, axis", [((3,), 0), ((33,), 0), ((2, 70, 3), 1), ((5, 65), None), ((2, 2), 0)]
)
def test_sums_up_to_each_element_of_any_shape(shape, axis):
    for dtype in (np.int8, np.uint16, np.int32, bool):
        x = np.random.default_rng(1).integers(0, 256, shape).astype(dtype)
        tosaic.function(lambda x: np.cumsum(x, axis, dtype=np.uint32)).check(x, config="nano")
        tosaic.function(lambda x: np.add.accumulate(x.ravel(), dtype=np.int8)).check(x, config="nano")


def test_a_turn_of_a_loop_costs_less_than_200_cycles():
    @tosaic.function(ranges={"turns": (0, 1000)})
    def smoothed(turns, y):
        def step(i, y):
            return i - 1, (3 * y + 7) >> 2

        return tosaic.while_loop(lambda i, y: i > 0, step, (turns, y))[1]

    session = smoothed.session("emulator", "base", turns="int32[]", y="int32[16]")
    spent = []
    for turns in (10, 60):
        session.call({"turns": np.int32(turns), "y": np.arange(16, dtype=np.int32) << 20}, check=True)
        spent.append(session.stats["cycles"])
    assert spent[1] - spent[0] <= 50 * 200


def test_importing_tosaic_does_not_import_the_tracer():
    code = "import sys, tosaic; print([m for m in sys.modules if 'numpy_in' in m or 'golden' in m], end='')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]"


@pytest.mark.long
def test_golden_runs_without_the_tracer(tmp_path):
    write = (
        "import numpy, sys, tosaic; print(tosaic.run('g.tosa', {'x': numpy.ones(3, 'int8')}, 'golden')['y0'])"
    )
    (tmp_path / "g.tosa").write_bytes(write_tosa(tosaic.trace(lambda x: x + x, x="int8[3]")))
    code = f"{write}; print([m for m in sys.modules if 'numpy_in' in m])"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout == "[2 2 2]\n[]\n"


def test_an_older_numpy_is_refused_by_name():
    code = "import numpy; numpy.__version__ = '1.26.4'\nimport tosaic\n"
    code += "try: tosaic.trace\nexcept tosaic.InputError as error: print(error)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == (
        "tracing needs NumPy 2, whose types follow other rules; this is 1.26.4: pip install 'numpy>=2'\n"
    )


def test_a_session_of_a_function_says_how():
    with pytest.raises(
        tosaic.InputError, match=r"^squared is a function: tosaic.function\(f\).session\(target, config, x="
    ):
        tosaic.Session(squared)
