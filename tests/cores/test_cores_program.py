"""Programs of several cores in a `.tsc`, and what runs them."""

import dataclasses
import json

import numpy as np
import pytest
from cascade_graphs import inverted_bottleneck
from layer_graphs import feeds
from two_cores import machine, ping_pong, place

from tosaic import Session
from tosaic.compiler.ir import DType
from tosaic.compiler.program import MAGIC, Port, Program
from tosaic.compiler.program_header import HeaderError
from tosaic.driver.batches import run_samples
from tosaic.driver.c_kit.folder import write_c_kit
from tosaic.driver.encodings import Encodings
from tosaic.driver.targets import make_runner
from tosaic.errors import ModelError, UnsupportedError
from tosaic.hw.isa import CoreProgram

CONFIG = machine(2)


def program():
    """64 bytes at 0 in, the same place out: ping-pong adds 9 to each."""
    image = np.zeros(0xC000, np.uint8)
    first, others = place(image, ping_pong(CONFIG, 3))
    data = Port("data", (64,), DType.INT8, 0, 64)
    return Program(CONFIG, image.tobytes(), *first, len(image), [data], [data], [], others=others)


def test_the_file_has_all_programs():
    made = program()
    read = Program.load(made.to_bytes())
    assert read.streams == made.streams
    assert len(read.streams) == 2
    assert isinstance(read.others[0], CoreProgram)


def test_the_file_of_one_core_has_no_others():
    raw = dataclasses.replace(program(), others=()).to_bytes()
    start = len(MAGIC) + 4
    assert "others" not in json.loads(raw[start : start + int.from_bytes(raw[len(MAGIC) : start], "little")])
    assert Program.load(raw).others == ()


@pytest.mark.parametrize(
    ("others", "reason"),
    (
        ((CoreProgram(0, 16), CoreProgram(0, 16)), "others must have 1 elements, not 2"),
        ((CoreProgram(0xBFF8, 16),), r"others\[0\] reaches beyond the image"),
        ((CoreProgram(0, -16),), r"others\[0\].bytes must be an integer in 0\.\.4294967296, not -16"),
    ),
)
def test_wrong_programs(others, reason):
    with pytest.raises((HeaderError, ModelError), match=reason):
        Program.load(dataclasses.replace(program(), others=others).to_bytes())


def test_the_emulator_runs_all():
    made = program()
    memory = made.memory()
    memory[:64] = np.arange(64)
    result = make_runner("emulator", made)(memory)
    np.testing.assert_array_equal(memory[:64], np.arange(64) + 9)
    assert len(result.cores) == 2


def test_many_samples():
    data = np.arange(5 * 64, dtype=np.int8).reshape(5, 64)
    np.testing.assert_array_equal(run_samples(program(), {"data": data})["data"], data + np.int8(9))


def test_c_takes_one_core(tmp_path):
    with pytest.raises(
        UnsupportedError, match="the C runtime starts one core: compile for a machine with cores=1"
    ):
        write_c_kit(tmp_path / "model.h", program(), Encodings())


@pytest.mark.parametrize("config", ["base,cores=2,semaphores=14", "base,cores=4,semaphores=16"])
def test_the_fewest_semaphores_are_enough(config):
    graph = inverted_bottleneck(14, 1, channels=32, wide=96)
    values = feeds(graph, 1)
    computed, expected = (Session(graph, target, config).run(values) for target in ("emulator", "golden"))
    np.testing.assert_equal(computed, expected)
