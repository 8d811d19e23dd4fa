"""Which operators share a layer: what joins, and what must be in memory between."""

from collections.abc import Callable

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element

I8, I16, I32 = DType.INT8, DType.INT16, DType.INT32
IMAGE = (1, 4, 5, 16)
BASE = get_config("base")


def layers(
    make: Callable[[LayerBuilder], list[str]], machine: str = "base", *, fuse: bool = True
) -> list[str]:
    """The operators of each layer, by the first letters of their names; outputs are what `make` returns."""
    build = LayerBuilder(1)
    for name in make(build):
        build.output(name)
    graph = build.finish()
    free = {number for number, operator in enumerate(graph.operators) if operator.op == "RESHAPE"}
    found = Fuser(graph, get_config(machine), fuse=fuse).layers(free)
    return ["+".join(operator.op for operator in layer.operators) for layer in found]


def image(build: LayerBuilder, dtype: DType = I8, shape: tuple[int, ...] = IMAGE) -> str:
    return build.input(f"x{len(build.graph.inputs)}", shape, dtype)


def sums(build: LayerBuilder, channels: int = 16, x: str | None = None, taps: int = 1) -> str:
    return build.conv(x or image(build), channels, (taps, taps), pad=(taps // 2,) * 4)


def tail(build: LayerBuilder, x: str) -> str:
    return build.rescale(x, I8, per_channel=True)


def one_layer(build: LayerBuilder) -> list[str]:
    return [build.clamp(tail(build, sums(build)), 0, 90)]


def test_a_convolution_and_all_behind_it() -> None:
    assert layers(one_layer) == ["CONV2D+RESCALE+CLAMP"]
    assert layers(one_layer, fuse=False) == ["CONV2D", "RESCALE", "CLAMP"]


def test_a_result_in_between_is_stored() -> None:
    def made(build: LayerBuilder) -> list[str]:
        y = tail(build, sums(build))
        return [y, build.clamp(y, 0, 90)]

    assert layers(made) == ["CONV2D+RESCALE", "CLAMP"]


def test_what_two_layers_read_is_stored() -> None:
    def made(build: LayerBuilder) -> list[str]:
        y = tail(build, sums(build))
        return [build.clamp(y, 0, 90), build.clamp(y, -90, 0)]

    assert layers(made) == ["CONV2D+RESCALE", "CLAMP", "CLAMP"]


def test_what_one_layer_reads_twice_is_not() -> None:
    def made(build: LayerBuilder) -> list[str]:
        y = build.rescale(sums(build), I32, shift=36)
        return [build.add("MAXIMUM", [y, build.add("ABS", [y])], nan_mode="PROPAGATE")]

    assert layers(made) == ["CONV2D+RESCALE+ABS+MAXIMUM"]


def test_a_convolution_reads_memory() -> None:
    def made(build: LayerBuilder) -> list[str]:
        return [tail(build, sums(build, x=tail(build, sums(build))))]

    assert layers(made) == ["CONV2D+RESCALE", "CONV2D+RESCALE"]


def test_a_pool_reads_memory_and_what_follows_joins_it() -> None:
    def made(build: LayerBuilder) -> list[str]:
        how = dict(kernel=[2, 2], stride=[1, 1], pad=[0] * 4, nan_mode="PROPAGATE")
        return [build.clamp(build.add("MAX_POOL2D", [build.clamp(image(build), 0, 9)], **how), 0, 5)]

    assert layers(made) == ["CLAMP", "MAX_POOL2D+CLAMP"]


@pytest.mark.parametrize("first, second, joined", [(24, 16, 0), (16, 24, 1), (16, 16, 0)])
def test_of_two_convolutions_the_heavier_one_is_the_base(first: int, second: int, joined: int) -> None:
    """Output channels and taps decide which is heavier; the other one's result is an operand. If both are equal, the
    first is the base."""

    def made(build: LayerBuilder) -> list[str]:
        wide = [
            build.rescale(sums(build, taps=taps), I32, shift=36)
            for taps in (3 if first > 16 else 1, 3 if second > 16 else 1)
        ]
        return [tail(build, build.add("ADD", wide))]

    found = layers(made)
    assert sorted(found, key=len) == ["CONV2D+RESCALE", "CONV2D+RESCALE+ADD+RESCALE"]
    build = LayerBuilder(1)
    for name in made(build):
        build.output(name)
    graph = build.finish()
    last = Fuser(graph, BASE).layers(set())[-1]
    convolutions = [operator for operator in graph.operators if operator.op == "CONV2D"]
    assert last.base is convolutions[joined]


def test_an_operand_of_another_shape_is_stored() -> None:
    def made(build: LayerBuilder) -> list[str]:
        line = build.add("ABS", [image(build, I32, (1, 1, 1, 16))])
        return [build.add("ADD", [build.add("ABS", [image(build, I32)]), line])]

    assert layers(made) == ["ABS", "ABS+ADD"]


def test_parameters_are_read_from_memory() -> None:
    """Scales that are computed, even of the data's shape."""

    def made(build: LayerBuilder) -> list[str]:
        x = image(build, I32, (16,))
        scale = build.add("ABS", [image(build, I32, (16,))])
        y = build.rescale(x, I8, per_channel=True)
        build.graph.operators[-1].inputs[1] = scale
        return [y]

    assert layers(made) == ["ABS", "RESCALE"]


# --- reductions


def test_terms_are_computed_on_the_way_into_a_reduction() -> None:
    def made(build: LayerBuilder) -> list[str]:
        return [build.add("ABS", [build.add("REDUCE_SUM", [build.add("ABS", [image(build, I32)])], axis=1)])]

    assert layers(made) == ["ABS+REDUCE_SUM+ABS"]


def test_reductions_of_neighbouring_axes() -> None:
    def summed(axes: tuple[int, ...], op: str = "REDUCE_SUM") -> Callable[[LayerBuilder], list[str]]:
        def made(build: LayerBuilder) -> list[str]:
            x = image(build, I32)
            for axis in axes:
                x = build.add("REDUCE_SUM" if axis != axes[-1] else op, [x], axis=axis, **(
                    {} if op == "REDUCE_SUM" or axis != axes[-1] else dict(nan_mode="PROPAGATE")
                ))  # fmt: skip
            return [x]

        return made

    assert layers(summed((1, 2))) == ["REDUCE_SUM+REDUCE_SUM"]
    assert layers(summed((2, 1))) == ["REDUCE_SUM+REDUCE_SUM"]
    assert layers(summed((1, 3))) == ["REDUCE_SUM", "REDUCE_SUM"]
    assert layers(summed((1, 2), "REDUCE_MAX")) == ["REDUCE_SUM", "REDUCE_MAX"]


def test_bytes_that_leave_the_array_do_not_join_a_reduction() -> None:
    """Bytes that are in memory do."""

    def made(build: LayerBuilder, source: str) -> list[str]:
        y = build.rescale(source, I8)
        return [build.add("REDUCE_MAX", [y], axis=3, nan_mode="PROPAGATE")]

    assert layers(lambda build: made(build, sums(build))) == ["CONV2D+RESCALE", "REDUCE_MAX"]
    assert layers(lambda build: made(build, image(build, I32))) == ["RESCALE+REDUCE_MAX"]
    through = layers(lambda build: made(build, build.add("ABS", [build.rescale(sums(build), I32, shift=36)])))
    assert through == ["CONV2D+RESCALE+ABS+RESCALE", "REDUCE_MAX"]


def test_argmax_reads_memory() -> None:
    def made(build: LayerBuilder) -> list[str]:
        y = build.clamp(image(build), 0, 9)
        return [build.add("ABS", [build.add("ARGMAX", [y], axis=3, nan_mode="PROPAGATE")])]

    assert layers(made) == ["CLAMP", "ARGMAX+ABS"]


# --- limits


def test_operands_that_no_stream_is_left_for_are_stored() -> None:
    """Three loads at most: a fourth operand is added by another layer."""

    def made(build: LayerBuilder, count: int) -> list[str]:
        names = [image(build, I32) for _ in range(count)]
        total = names[0]
        for name in names[1:]:
            total = build.add("ADD", [total, name])
        return [total]

    found = [layers(lambda build, count=count: made(build, count)) for count in (2, 3, 4)]  # type: ignore[misc]
    assert found[:2] == [["ADD"], ["ADD+ADD"]]
    assert found[2] == ["ADD", "ADD+ADD"]


def test_a_second_table_is_another_layer() -> None:
    def made(build: LayerBuilder) -> list[str]:
        y = tail(build, sums(build))
        for _ in range(2):
            y = build.add("TABLE", [y, build.random_constant((256,), I8, -9, 9)])
        return [y]

    assert layers(made) == ["CONV2D+RESCALE+TABLE", "TABLE"]


def test_an_unsigned_result_ends_a_layer() -> None:
    def made(build: LayerBuilder) -> list[str]:
        y = build.rescale(image(build, I16), I8)
        build.graph.operators[-1].attributes["output_unsigned"] = True
        return [build.clamp(y, 0, 90)]

    assert layers(made) == ["RESCALE", "CLAMP"]


def test_operands_behind_a_window_have_its_shape() -> None:
    """Or they are constant lines along its channels."""

    def made(build: LayerBuilder, operand: str) -> list[str]:
        y = build.rescale(sums(build), I32, shift=36)
        return [build.add("MAXIMUM", [y, operand], nan_mode="PROPAGATE")]

    line = (1, 1, 1, 16)
    assert layers(lambda build: made(build, image(build, I32))) == ["CONV2D+RESCALE+MAXIMUM"]
    assert layers(lambda build: made(build, image(build, I32, line))) == ["CONV2D+RESCALE", "MAXIMUM"]
    constant = layers(lambda build: made(build, build.random_constant(line, I32, -(1 << 20), 1 << 20)))
    assert constant == ["CONV2D+RESCALE+MAXIMUM"]
    column = layers(lambda build: made(build, build.random_constant((1, 4, 1, 1), I32, -(1 << 20), 1 << 20)))
    assert column == ["CONV2D+RESCALE", "MAXIMUM"]


def test_sums_of_two_convolutions_come_through_memory_once() -> None:
    def made(build: LayerBuilder) -> list[str]:
        return [tail(build, build.add("ADD", [sums(build), sums(build)]))]

    assert sorted(layers(made)) == ["CONV2D", "CONV2D+ADD+RESCALE"]


@pytest.mark.parametrize(
    "ends, element",
    [
        ([-128, 127], Element.INT8),
        ([-129, 0], Element.INT16),
        ([0, 128], Element.INT16),
        ([-32768, 32767], Element.INT16),
        ([-32769, 0], Element.INT32),
        ([0, 32768], Element.INT32),
        ([-(1 << 31), (1 << 31) - 1], Element.INT32),
    ],
)
def test_the_narrowest_elements_of_a_line(ends: list[int], element: Element) -> None:
    """A load takes a cycle for each byte."""
    build = LayerBuilder(1)
    line = build.constant(np.resize(ends, (1, 1, 1, 16)), I32)
    scaled = build.rescale(sums(build), I32, shift=36)
    build.output(build.add("MAXIMUM", [scaled, line], nan_mode="PROPAGATE"))
    (layer,) = Fuser(build.finish(), BASE).layers(set())
    assert [load.element for load in layer.program.loads] == [element]


@pytest.mark.parametrize("channels, apart", [(16, True), (512, False)])
def test_a_running_sum_grows_with_each_product_where_the_array_would_wait(channels: int, apart: bool) -> None:
    def made(build: LayerBuilder) -> list[str]:
        found = build.rescale(sums(build, x=image(build, shape=(1, 4, 5, channels))), I32, shift=36)
        for _ in range(3):
            further = build.rescale(sums(build, x=image(build, shape=(1, 4, 5, channels))), I32, shift=36)
            found = build.rescale(build.add("ADD", [found, further]), I8, shift=36)
            found = build.rescale(found, I32, shift=20)
        return [found]

    joined = [layer for layer in layers(made) if layer.count("ADD") > 1]
    assert joined == [] if apart else len(joined) == 1


def test_what_makes_elements_narrower_comes_before_memory() -> None:
    """A layer has one table: the other one's result is stored, in two bytes."""

    def made(build: LayerBuilder) -> list[str]:
        line = build.constant(np.arange(-256, 257), I16)
        halves = [build.rescale(sums(build), I16, shift=36) for _ in range(2)]
        first, second = (build.add("TABLE", [half, line], dtype=I32) for half in halves)
        narrow = build.rescale(build.rescale(second, I16, shift=33), I32, shift=20)
        return [
            build.rescale(build.add("MUL", [first, narrow, build.constant([0], I8)], dtype=I32), I8, shift=38)
        ]

    assert layers(made) == ["CONV2D+RESCALE+TABLE+RESCALE", "CONV2D+RESCALE+TABLE+RESCALE+MUL+RESCALE"]
