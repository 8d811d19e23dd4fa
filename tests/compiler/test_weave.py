"""Products begin while VECTOR still makes what they read, where that does not stay in activation memory."""

from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session

HEADS, ROWS, DEPTH = 4, 256, 24


def attention(*, weights: bool, products: bool, heads: int = HEADS, rows: int = ROWS) -> Graph:
    """Scores to int8 weights by a table, and two products with these; or only one of both, with the weights as the
    output or the input of the graph."""
    build = LayerBuilder(3)
    if weights:
        scores = build.input("scores", (heads, rows, rows), DType.INT16)
        table = build.random_constant((256,), DType.INT8, -128, 127)
        small = build.rescale(scores, DType.INT8, double=False, shift=38)
        read = build.add("TABLE", [small, table], dtype=DType.INT8)
    else:
        read = build.input("weights", (heads, rows, rows), DType.INT8)
    if not products:
        build.output(read)
        return build.finish()
    zero = build.zero_point(DType.INT8)
    for name, channels in (("values", DEPTH), ("ones", 1)):
        values = build.input(name, (heads, rows, channels), DType.INT8)
        sums = build.add("MATMUL", [read, values, zero, zero], dtype=DType.INT32)
        build.output(build.rescale(sums, DType.INT8, double=False, shift=44))
    return build.finish()


def _cycles(graph: Graph) -> int:
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1), check=True)
    return int(session.stats["cycles"])


def test_array_and_vector_work_on_two_layers_at_once() -> None:
    """Clearly less than what both take one after the other, and never less than the longer one."""
    apart = [
        _cycles(attention(weights=True, products=False)),
        _cycles(attention(weights=False, products=True)),
    ]
    assert max(apart) < _cycles(attention(weights=True, products=True)) < 0.92 * sum(apart)


def test_the_new_order_computes_the_same() -> None:
    """No unit reads what another has yet to write, on machines of other sizes too."""
    for config, rows in (("base", ROWS), ("small", 96), ("nano", 48), ("base,am_bytes=64K", 100)):
        assert_equal_to_golden(attention(weights=True, products=True, rows=rows), config, check_hazards=True)


def test_each_layer_ends_in_its_order() -> None:
    session = Session(attention(weights=True, products=True), "emulator", "base")
    session.run(feeds(attention(weights=True, products=True), 1))
    assert [layer["op"] for layer in session.stats["layers"]] == ["TABLE", "MATMUL", "MATMUL"]
    assert all(layer["cycles"] > 0 for layer in session.stats["layers"])
