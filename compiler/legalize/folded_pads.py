"""PADs of images in front of convolutions as these' own padding (clauses 2.3.3 and 2.3.4), which costs nothing.

TFLite pads one row and one column in front of a convolution with stride 2, networks of sequences what was before.
"""

from tosaic.compiler.ir import Graph, GraphIndex, Operator
from tosaic.compiler.legalize.resize import HEIGHT, WIDTH
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import KIND, Kind


def fold_pads(graph: Graph) -> Graph:
    """A graph with the same outputs, without PADs of a convolution's zero point that only convolutions read."""
    if not any(operator.op == "PAD" for operator in graph.operators):
        return graph
    graph = graph.copy()
    for operator in [each for each in graph.operators if each.op == "PAD"]:
        readers = _convolutions(graph, graph.index(), operator)
        pads = [_around(graph, operator, reader) for reader in readers]
        if pads and None not in pads:
            replaced: dict[int, list[Operator]] = {id(operator): []}
            for reader, own in zip(readers, pads, strict=True):
                assert own is not None
                replaced[id(reader)] = _padded(graph, operator.inputs[0], reader, own)
            graph.operators = [new for old in graph.operators for new in replaced.get(id(old), [old])]
            graph.operators = _without_unread(graph)
    return graph


def _convolutions(graph: Graph, index: GraphIndex, pad: Operator) -> list[Operator]:
    """The convolutions that read a PAD's result, under this shape or another; none where others read it, too."""
    found, names = list[Operator](), list(pad.outputs)
    while names:
        name = names.pop()
        for reader in index.consumers(name):
            if KIND.get(reader.op) is Kind.RENAMING:
                names.append(reader.outputs[0])
            elif reader.op in ("CONV2D", "DEPTHWISE_CONV2D") and name not in reader.inputs[1:]:
                found.append(reader)
            else:
                return []
        if name in graph.outputs:
            return []
    return found


def _around(graph: Graph, pad: Operator, reader: Operator) -> list[int] | None:
    """Rows above and below and columns before and behind that a PAD adds to a convolution's image; None where it adds
    others, or others than zero, or more than the kernel reaches."""
    values = [graph.const(name) for name in (*pad.inputs[1:], reader.inputs[3])]
    padded, image = graph.tensors[pad.outputs[0]].shape, graph.tensors[reader.inputs[0]].shape
    if any(value is None for value in values):
        return None
    amounts, filling, zero_point = values
    assert amounts is not None and filling is not None and zero_point is not None
    if filling.reshape(-1)[0] != zero_point.reshape(-1)[0]:
        return None
    own = [axis for axis, size in enumerate(image) if size > 1]
    pairs = [tuple(pair) for pair, size in zip(amounts.reshape(-1, 2), padded, strict=True) if size > 1]
    if [image[axis] for axis in own] != [size for size in padded if size > 1]:
        return None
    added = dict(zip(own, pairs, strict=True))
    if any(any(pair) for axis, pair in added.items() if axis not in (HEIGHT, WIDTH)):
        return None
    around = [int(n) for axis in (HEIGHT, WIDTH) for n in added.get(axis, (0, 0))]
    weight = graph.tensors[reader.inputs[1]].shape
    kernel = weight[1:3] if reader.op == "CONV2D" else weight[:2]
    reach = [(k - 1) * d for k, d in zip(kernel, reader.attributes["dilation"], strict=True)]
    whole = [old + new for old, new in zip(reader.attributes["pad"], around, strict=True)]
    return around if all(n <= reach[place // 2] for place, n in enumerate(whole)) else None


def _padded(graph: Graph, source: str, reader: Operator, around: list[int]) -> list[Operator]:
    """A convolution of what was padded, with that padding."""
    new, (n, height, width, channels) = Rewriting(graph, reader), graph.tensors[reader.inputs[0]].shape
    top, bottom, left, right = around
    image = new.reshape(source, (n, height - top - bottom, width - left - right, channels))
    pad = [old + more for old, more in zip(reader.attributes["pad"], around, strict=True)]
    (result,), attributes = reader.outputs, {**reader.attributes, "pad": pad}
    inputs = [image, *reader.inputs[1:]]
    new.add(reader.op, inputs, new.shape(result), new.dtype(result), result, **attributes)
    return new.operators


def _without_unread(graph: Graph) -> list[Operator]:
    """The operators without RESHAPEs that nobody reads any more."""
    needed, live = set(graph.outputs), list[Operator]()
    for operator in reversed(graph.operators):
        if KIND.get(operator.op) is not Kind.RENAMING or needed.intersection(operator.outputs):
            live.append(operator)
            needed.update(operator.inputs)
    return live[::-1]
