"""Programs for several cores as users get them: when a network is split, and when it is not."""

import numpy as np
import pytest
from cascade_graphs import inverted_bottleneck
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.cores.cores_plan import plan_cores
from tosaic.compiler.emit.commands import Work, command
from tosaic.compiler.explain import explain
from tosaic.compiler.ir import DType, State
from tosaic.compiler.program import Program
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.schedule.tracker import Tracker
from tosaic.compiler.search import Choices, task_of
from tosaic.compiler.tile.work import LayerWork
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, Unit
from tosaic.sim.emulator import Emulator

TWO, FOUR = (get_config(f"base,cores={cores},bus_words=2") for cores in (2, 4))


def cycles(program: Program, values: dict[str, np.ndarray]) -> int:
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    emulator = Emulator(program.config)
    return emulator.run(memory, program.program_address, program.program_bytes, others=program.others).cycles


@pytest.mark.long
def test_more_cores_take_fewer_cycles():
    graph = inverted_bottleneck(56, 1, channels=32, wide=96)
    programs = [compile_graph(graph, config) for config in (get_config("base"), TWO, FOUR)]
    assert [len(program.others) for program in programs] == [0, 1, 3]
    one, two, four = (cycles(program, feeds(graph, 1)) for program in programs)
    assert two < 0.6 * one and four < 0.36 * one
    assert programs[2].macs == programs[0].macs
    assert Program.load(programs[2].to_bytes()).others == programs[2].others
    stored = [sum(weights.bytes for weights in program.weights) for program in programs]
    assert stored[2] <= stored[0], "equal weights lie in the image once"


def test_what_is_too_small_stays_on_one_core():
    build = LayerBuilder(1)
    build.output(build.rescale(build.input("x", (1, 4, 4, 8), DType.INT8), DType.INT8))
    graph = build.finish()
    assert compile_graph(graph, FOUR).others == ()
    assert_equal_to_golden(graph, FOUR)


@pytest.mark.parametrize("options", ({"optimize": False}, {"keep_layers": True}))
def test_what_must_show_every_layer_stays_on_one_core(options):
    graph = inverted_bottleneck(28, 1)
    assert compile_graph(graph, TWO, **options).others == ()
    assert_equal_to_golden(graph, TWO, **options)


def test_states_stay_on_one_core():
    build = LayerBuilder(1)
    x = build.input("x", (1, 28, 28, 16), DType.INT8)
    build.output(build.rescale(build.conv(x, 16, (3, 3), pad=(1, 1, 1, 1)), DType.INT8))
    graph = build.finish()
    assert plan_cores(task_of(graph, Choices(TWO))) is not None
    graph.states = {"x": State(graph.outputs[0], np.zeros((1, 28, 28, 16), np.int8))}
    assert plan_cores(task_of(graph, Choices(TWO))) is None


def test_parameters_come_while_the_share_before_computes():
    """They lie elsewhere in activation memory than what the last layer of the share before uses."""
    build = LayerBuilder(2)
    x = build.input("x", (8, 1, 1, 256), DType.INT8)
    for _ in range(3):
        x = build.rescale(build.conv(x, 256, (1, 1), input_zp=1), DType.INT8, per_channel=True)
    build.output(x)
    plan = plan_cores(task_of(build.finish(), Choices(FOUR)))
    assert plan is not None and len(plan.segments) == 3
    works = [each.shares[0].plan.main.steps[0].work for each in plan.segments]
    places = [work.params.address for work in works if isinstance(work, LayerWork)]
    assert len(places) == len(set(places)) == 3


def test_explain_tells_what_each_core_makes():
    lines = list(explain(inverted_bottleneck(56, 1), TWO))
    first = next(number for number, line in enumerate(lines) if line.startswith("layers 0 to"))
    assert "2 parts of the" in lines[first]
    assert lines[first + 1].startswith("    core 0 makes ") and lines[first + 2].startswith(
        "    core 1 makes "
    )


def test_a_load_that_waits_for_a_core_stays_behind_all_before_it():
    """The other core may wait for the store, which a full queue of loads would hold up."""
    tracker = Tracker()
    wait = command(Opcode.LOAD_WAIT, semaphore=12, count=1)
    store = Work(Unit.STORE, [command(Opcode.STORE_SIGNAL, semaphore=13, count=1, cores=2)])
    for work in (store, Work(Unit.LOAD, [wait], waits_for_core=True), store):
        tracker.add(work)
    assert [item.unit for item in interleave(tracker.items)] == [Unit.STORE, Unit.LOAD, Unit.STORE]
    free = Tracker()
    for work in (store, Work(Unit.LOAD, [wait]), store):
        free.add(work)
    assert [item.unit for item in interleave(free.items)] == [Unit.LOAD, Unit.STORE, Unit.STORE]
