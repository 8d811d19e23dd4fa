"""Weights in blocks of few bits, each with a scale: MatMulNBits and GatherBlockQuantized of ONNX Runtime's domain."""

import math

import numpy as np

from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import HANDLERS, handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue, constant_value

_BITS = (2, 4, 8)
_SMALLEST_BLOCK = 16
_INT4 = ("int4", "uint4")


@handles("com.microsoft.MatMulNBits")
def matmul_n_bits(node: OnnxNode) -> OnnxValue:
    """A times weights of N rows of blocks, in reals, and a bias; A is never rounded to integers."""
    low = node.low
    depth, width, block = (int(node.attr(name)) for name in ("K", "N", "block_size"))
    bits = _bits(node, 4)
    blocks = math.ceil(depth / block) if depth > 0 and _is_block(block) else 0
    packed = node.const(1)
    if packed.size == 0:
        node.unsupported("weights without elements", "leave the operator out")
    if not blocks or width < 1 or packed.size != width * blocks * block * bits // 8:
        raise ValueError(f"weights {list(packed.shape)} for K={depth}, N={width}, blocks of {block}")
    low.make_room((4, width, blocks * block))
    whole = _unpacked(packed.reshape(-1), bits).reshape(width, blocks, block)
    scales = node.const(2).astype(np.float32).reshape(width, blocks, 1)
    real = (whole - _zero_points(node, bits, width, blocks)) * scales
    weights = low.constant(real.reshape(width, blocks * block)[:, :depth].T, low.dtype(node.raw(0)))
    y = matmul(low, node.raw(0), weights)
    return node.out(low.add(y, node.raw(5)) if node.has(5) else y)


def _zero_points(node: OnnxNode, bits: int, width: int, blocks: int) -> np.ndarray:
    """[rows, blocks, 1]: half of the range, reals, or integers packed as the weights are."""
    if not node.has(3):
        return np.full((1, 1, 1), 1 << (bits - 1), np.float32)
    given = node.const(3)
    if given.dtype != np.uint8:
        return given.astype(np.float32).reshape(width, blocks, 1)
    row = _unpacked(given.reshape(-1), bits).reshape(width, -1)
    if row.shape[1] < blocks or given.size != width * math.ceil(blocks * bits / 8):
        raise ValueError(f"zero points {list(given.shape)} for {blocks} blocks of {width} rows")
    return row[:, :blocks].reshape(width, blocks, 1)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Unsigned numbers of a few bits, the lowest bits of each byte first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.astype(np.float32).reshape(-1)


def _bits(node: OnnxNode, default: int) -> int:
    bits = int(node.attr("bits", default))
    if bits not in _BITS:
        node.unsupported(f"weights of {bits} bits", "use 2, 4 or 8")
    return bits


def _is_block(size: int) -> bool:
    return size >= _SMALLEST_BLOCK and size & (size - 1) == 0


@handles("com.microsoft.GatherBlockQuantized")
def gather_block_quantized(node: OnnxNode) -> OnnxValue:
    """Rows of a table of blocks, in reals: the table is decoded, and Gather takes its rows."""
    low, table, kind = node.low, node.const(0), node.kind(0)
    scales = node.const(2)
    if kind not in ("uint8", *_INT4):
        node.unsupported(f"a table of {kind}", "use uint8, int4 or uint4")
    bits, block = _bits(node, 4), int(node.attr("block_size", 128))
    if not _is_block(block):
        raise ValueError(f"blocks of {block}")
    axis = int(node.attr("quantize_axis", 1)) % table.ndim
    packed = kind == "uint8" and bits < 8
    low.make_room((4, table.size * (8 // bits if packed else 1)))
    whole = _by_last_axis(table, bits) if packed else table.astype(np.float32)
    zero = np.array(1 << (bits - 1) if kind == "uint8" else 0, np.float32)
    if node.has(3):
        given = node.const(3)
        zero = _by_last_axis(given, bits)[..., : scales.shape[-1]] if packed else given.astype(np.float32)
    spread = [
        np.take(each, np.arange(whole.shape[axis]) // block, axis) if each.ndim else each
        for each in (zero, scales.astype(np.float32))
    ]
    real = (whole - spread[0]) * spread[1]
    if real.shape != whole.shape:
        raise ValueError(f"scales {list(scales.shape)} for a table of {list(whole.shape)}")
    decoded = constant_value("", real.astype(scales.dtype))
    attributes = {"axis": int(node.attr("gather_axis", 0))}
    inner = OnnxNode(
        low, node.op, node.name, node.opset, attributes, [decoded, node.value(1)], node.output_names
    )
    result = HANDLERS["Gather"](inner)
    assert isinstance(result, OnnxValue)
    return result


def _by_last_axis(packed: np.ndarray, bits: int) -> np.ndarray:
    return _unpacked(packed.reshape(-1), bits).reshape(*packed.shape[:-1], packed.shape[-1] * 8 // bits)
