"""Random COND_IF and WHILE_LOOP for random graphs: their branches are random graphs too."""

from tosaic.compiler.ir import DType, Operator

from .elementwise import zero_point
from .graph import DATA, RandomGraph, full, least


def _branch(g: RandomGraph, state: list[str], name: str) -> RandomGraph:
    """An empty branch that takes tensors like `state`, with any values of their types."""
    inner = RandomGraph(g.draw, f"{name}_{len(g.graph.subgraphs)}")
    inner.graph.subgraphs = g.graph.subgraphs
    inner.wide_shifts = g.wide_shifts
    for position, outer in enumerate(state):
        inner.put(inner.input(f"argument_{position}", g.extent(outer), g.dtype(outer)))
    g.graph.subgraphs[inner.graph.name] = inner.graph
    return inner


def _altered(g: RandomGraph, name: str) -> str:
    """A tensor of the same shape and type, by one or two operators."""
    for _ in range(g.draw(1, 2)):
        dtype, shape = g.dtype(name), g.extent(name)
        kinds = ["SELECT", "IDENTITY"] + (["REVERSE"] if shape else [])
        kinds += (
            ["LOGICAL_NOT", "LOGICAL_XOR"]
            if dtype is DType.BOOL
            else ["BITWISE_XOR", "NEGATE", "BITWISE_NOT"]
        )
        if dtype is DType.INT8:
            kinds.append("TABLE")
        match g.pick(kinds):
            case "REVERSE":
                name = g.put(g.add("REVERSE", [name], axis=g.draw(0, len(shape) - 1)), g.bounds[name])
            case "SELECT":
                condition = g.fixed(shape, DType.BOOL)
                name = g.put(g.add("SELECT", [condition, name, g.fixed(shape, dtype)]))
            case "TABLE":
                name = g.put(g.add("TABLE", [name, g.fixed((256,), DType.INT8)]))
            case "NEGATE":
                name = g.within(name, least(dtype)) if dtype is DType.INT32 else name
                name = g.put(g.add("NEGATE", [name, zero_point(g, dtype), zero_point(g, dtype)]))
            case ("BITWISE_XOR" | "LOGICAL_XOR") as op:
                name = g.put(g.add(op, [name, g.fixed(shape, dtype)]))
            case op:
                name = g.put(g.add(op, [name]))
    return name


def _call(g: RandomGraph, op: str, inputs: list[str], results: list[str], **graphs: str) -> list[str]:
    """Adds a control-flow operator; its outputs look like `results`."""
    names = [g.declare(g.extent(name), g.dtype(name)) for name in results]
    g.graph.operators.append(Operator(op, inputs, names, dict(graphs), f"{op} of {names[0]}"))
    return names


def cond_if(g: RandomGraph) -> None:
    state = [g.operand(DATA) for _ in range(g.draw(1, 2))]
    condition = g.operand([DType.BOOL], fits=lambda shape: all(size == 1 for size in shape), ranks=(0, 2))
    graphs = {}
    for side in ("then_graph", "else_graph"):
        inner = _branch(g, state, side)
        for name in inner.graph.inputs:
            inner.output(_altered(inner, name))
        graphs[side] = inner.graph.name
    for name in _call(g, "COND_IF", [condition, *state], state, **graphs):
        g.put(name)


def while_loop(g: RandomGraph) -> None:
    shape = g.pick(((), (1,), (1, 1)))
    counter = g.source(shape, DType.INT32, (-1, 3))
    state = [counter, *(g.operand(DATA) for _ in range(g.draw(1, 2)))]
    test, body = _branch(g, state, "cond_graph"), _branch(g, state, "body_graph")
    limit = test.fixed(shape, DType.INT32, (0, 6))
    test.output(test.add("GREATER", [limit, test.graph.inputs[0]]))
    body.bounds[body.graph.inputs[0]] = (-1, 6)
    step = body.fixed(shape, DType.INT32, (1, 2))
    body.output(body.add("ADD", [body.graph.inputs[0], step]))
    for name in body.graph.inputs[1:]:
        body.output(_altered(body, name))
    graphs = {"cond_graph": test.graph.name, "body_graph": body.graph.name}
    results = _call(g, "WHILE_LOOP", state, state, **graphs)
    g.put(results[0], (-1, 8))
    for name in results[1:]:
        g.put(name, full(g.dtype(name)))


GROWTHS = {"COND_IF": cond_if, "WHILE_LOOP": while_loop}
