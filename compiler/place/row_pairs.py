"""Which tensors lie in activation memory with a word between their rows, so that the array reads two rows at once."""

from tosaic.compiler.emit.convolution import tile_columns
from tosaic.compiler.fuse.layers import ARRAY_OPERATORS, POOLS, Layer
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.place.geometry import View, window_of
from tosaic.compiler.place.strides import dense_strides
from tosaic.compiler.place.weights import fits_pairs, odd_pitch
from tosaic.hw.config import Config


def paired_pitches(
    graph: Graph, layers: list[Layer], storage: dict[str, str], config: Config
) -> dict[str, int]:
    """Tensor name -> bytes from row to row.

    Such a tensor is the input of a depthwise convolution that pairs rows; a convolution makes it or LOAD brings it, and
    nobody reads it but windows, which step from row to row anyway."""
    pitches: dict[str, int] = {}
    made_by = {layer.output: layer for layer in layers}
    for layer in layers:
        base = layer.base
        if base is None or base.op != "DEPTHWISE_CONV2D":
            continue
        name = base.inputs[0]
        tensor = graph.tensors[name]
        if tensor.dtype is not DType.INT8 or tile_columns(layer, graph, config) != config.columns:
            continue
        strides = dense_strides(tensor.shape, 1)
        window = window_of(graph, base, View(name, 0, strides[1], strides[0]))
        if graph.tensors[base.inputs[1]].shape[3] != 1 or not fits_pairs(window, config):
            continue
        if name in graph.outputs or [other for other, root in storage.items() if root == storage[name]] != [
            name
        ]:
            continue
        readers = graph.consumers(name)
        if any(r.op not in (*ARRAY_OPERATORS, *POOLS) or r.inputs.count(name) > 1 for r in readers):
            continue
        if any(reader.inputs[0] != name for reader in readers):
            continue
        maker = made_by.get(name)
        if maker is None and name not in graph.inputs:
            continue
        if maker is not None and (maker.base is None or maker.base.op not in ARRAY_OPERATORS):
            continue
        if odd_pitch(strides[1], config) != strides[1]:
            pitches[name] = odd_pitch(strides[1], config)
    return pitches
