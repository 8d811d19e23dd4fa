"""The slices of a run on the RTL are measured: GO by GO they are held against the cycle model's."""

import json
import pathlib

import numpy as np
import pytest
from rtl_configs import on_rtl

import tosaic.examples
from tosaic.driver.session import Session
from tosaic.driver.trace import write_trace

EXAMPLES = pathlib.Path(tosaic.examples.__path__[0])
UNITS = ("LOAD", "ARRAY", "VECTOR", "STORE")
LATENCY_CYCLES = 50
CASES = [
    *(on_rtl(config, "digits/digits.tosa", None) for config in ("nano", "small", "base")),
    pytest.param(
        "nano", "chat/chat.tosa", None, marks=[pytest.mark.nightly, pytest.mark.xdist_group("nano")]
    ),
    on_rtl("small", "digits/digits.tosa", "nnr-stream"),
]


def both(config, model, compress):
    """Sessions on the RTL and on the emulator after a run with the same inputs."""
    random = np.random.default_rng(5)
    sessions = [Session(EXAMPLES / model, on, config, compress=compress) for on in ("sim", "emulator")]
    inputs = {p.name: random.integers(0, 64, p.shape).astype(p.numpy) for p in sessions[0].inputs}
    for session in sessions:
        session.run(inputs)
    return sessions


@pytest.mark.filterwarnings("ignore:each run decodes weights")
@pytest.mark.parametrize(("config", "model", "compress"), CASES)
def test_each_go_has_measured_cycles_near_the_predicted_ones(config, model, compress):
    rtl, emulator = both(config, model, compress)
    cycles, counters = rtl.stats["cycles"], rtl.stats["counters"]
    assert all(piece.measured for piece in rtl.timeline())
    assert not any(piece.measured for piece in emulator.timeline())
    for unit in UNITS:
        seen = [piece for piece in rtl.timeline() if piece.unit == unit]
        predicted = [piece for piece in emulator.timeline() if piece.unit == unit]
        assert [(p.name, p.bytes, p.work) for p in seen] == [(p.name, p.bytes, p.work) for p in predicted]
        assert all(0 <= piece.start < piece.end <= cycles for piece in seen)
        # A model's slice of a transfer goes on until its token: STORE's until the last answer.
        further = {"LOAD": 3, "STORE": LATENCY_CYCLES + 1}.get(unit, 0)
        off = [
            (here, there)
            for here, there in zip(seen, predicted, strict=True)
            if abs(here.start - there.start) > max(cycles // 100, 4)
            or abs(here.end - (there.end - further)) > max(cycles // 100, 4)
        ]
        assert not off
    work = {"LOAD": "load_beats", "ARRAY": "array_active", "VECTOR": "vector_active", "STORE": "store_beats"}
    for unit, counter in work.items():
        assert sum(p.work for p in rtl.timeline() if p.unit == unit) == counters[counter]


@pytest.mark.xdist_group("nano")
def test_slices_of_array_and_vector_are_what_the_machine_counted():
    rtl, _ = both("nano", "digits/digits.tosa", None)
    counters = rtl.stats["counters"]
    for unit, counted in {
        "ARRAY": ("array_active", "array_stall_am", "array_stall_vector", "array_stall_weights"),
        "VECTOR": ("vector_active", "vector_stall_am", "vector_stall_array"),
    }.items():
        pieces = [piece for piece in rtl.timeline() if piece.unit == unit]
        assert all(a.end <= b.start for a, b in zip(pieces, pieces[1:], strict=False))
        # Slots that do nothing are no events: the taps of depthwise kernels, registers that are waited for.
        assert sum(p.end - p.start for p in pieces) >= sum(counters[name] for name in counted)
    array = [p for p in rtl.timeline() if p.unit == "ARRAY" and p.name == "convolution"]
    assert sum(p.work for p in array) <= sum(p.end - p.start for p in array)


@pytest.mark.xdist_group("nano")
def test_a_trace_and_a_page_say_where_the_cycles_are_from(tmp_path):
    for session, says in zip(
        both("nano", "digits/digits_tiny.tosa", None),
        ("as measured on the RTL", "by the cycle model"),
        strict=True,
    ):
        tosaic.write_report(tmp_path / "page.html", "page", session)
        assert f"units {says}." in (tmp_path / "page.html").read_text()
        write_trace(tmp_path / "t.json", session.stats, session.timeline())
        assert f"units {says}," in json.loads((tmp_path / "t.json").read_text())["otherData"]["units"]
