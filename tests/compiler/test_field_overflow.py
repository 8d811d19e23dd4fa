"""A value that no instruction holds is told with its tensor and the way out; any other ValueError is a fault of the
compiler and is not taken for one."""

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.emit import graph_emission
from tosaic.compiler.emit.convolution import FirstUse
from tosaic.compiler.ir import DType, Graph
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import FieldRangeError, Opcode, make


def clamped() -> Graph:
    builder = LayerBuilder(1)
    builder.graph.outputs.append(builder.clamp(builder.input("x", (1, 2, 2, 4), DType.INT8), 0, 5))
    return builder.graph


def test_a_field_has_its_range() -> None:
    with pytest.raises(FieldRangeError, match=r"^LOAD_WAIT\.semaphore must be in 0\.\.15, not 16$"):
        make(Opcode.LOAD_WAIT, semaphore=16, count=1)
    with pytest.raises(ValueError, match="^LOAD_WAIT has no field other$") as told:
        make(Opcode.LOAD_WAIT, semaphore=1, other=1)
    assert not isinstance(told.value, FieldRangeError)


def fail_to_emit(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> list[object]:
    """Lets the emission of layers fail `times` times; the list of all attempts."""
    attempts: list[object] = []
    emit_layer = graph_emission._emit_layer

    def emit_or_fail(emitter: object, work: object, first_use: FirstUse) -> None:
        attempts.append(work)
        if len(attempts) <= times:
            raise error
        emit_layer(emitter, work, first_use)  # type: ignore[arg-type]

    monkeypatch.setattr(graph_emission, "_emit_layer", emit_or_fail)
    return attempts


def test_a_layer_beyond_the_fields_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_emit(monkeypatch, FieldRangeError("LOAD_GO.rows must be in 0..3, not 4"), times=1000)
    with pytest.raises(
        UnsupportedError, match=r"CLAMP.*rows must be in 0\.\.3, not 4; split the tensor"
    ) as told:
        compile_graph(clamped(), get_config("small"))
    assert "\n" not in str(told.value)


def test_another_plan_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = fail_to_emit(monkeypatch, FieldRangeError("LOAD_GO.rows must be in 0..3, not 4"), times=1)
    compile_graph(clamped(), get_config("small"))
    assert len(attempts) == 2


def test_other_value_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_to_emit(monkeypatch, ValueError("zip() argument 2 is shorter than argument 1"), times=1)
    with pytest.raises(ValueError, match=r"^zip\(\) argument 2 is shorter"):
        compile_graph(clamped(), get_config("small"))
