"""Which tensors lie in activation memory with a word between their rows, so that the array reads two rows at once."""

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.machine import KIND, WINDOWED, Kind
from tosaic.compiler.place.geometry import View, window_of
from tosaic.compiler.place.strides import dense_strides
from tosaic.compiler.place.tap_passes import pairs_rows, tap_passes
from tosaic.compiler.place.tensors import Tensors
from tosaic.compiler.place.weights import odd_pitch


def paired_pitches(tensors: Tensors, layers: list[Layer]) -> dict[str, int]:
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
        row_bytes = dense_strides(tensors.shape(name), 1)[1]
        pitch = odd_pitch(row_bytes, tensors.config)
        maker = made_by.get(name)
        made = maker.base is not None and KIND[maker.base.op] is Kind.ARRAY if maker is not None else None
        if made is None:
            made = name in tensors.graph.inputs
        if made and pitch != row_bytes and _pairs(tensors, base) and _windows_only(tensors, name):
            pitches[name] = pitch
    return pitches


def _pairs(tensors: Tensors, base: Operator) -> bool:
    """Whether a depthwise layer takes two rows of its input at once."""
    name, config = base.inputs[0], tensors.config
    if tensors[name].dtype is not DType.INT8:
        return False
    strides = dense_strides(tensors.shape(name), 1)
    window = window_of(tensors.graph, base, View(name, 0, strides[1], strides[0]))
    single = tensors.shape(base.inputs[1])[3] == 1
    return single and pairs_rows(window, tap_passes(window, config), config)


def _windows_only(tensors: Tensors, name: str) -> bool:
    """Whether nobody reads a tensor but windows that slide over it, under its own name."""
    graph = tensors.graph
    if name in graph.outputs or tensors.sharing(name) != [name]:
        return False
    return all(
        KIND[reader.op] in WINDOWED and reader.inputs[0] == name and reader.inputs.count(name) == 1
        for reader in tensors.index.consumers(name)
    )
