"""Products of two computed matrices."""

from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.tflite.multipliers import quantized_multiplier, rescale
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles


@handles("BATCH_MATMUL")
def batch_matmul(node: TfliteNode) -> str:
    """[..., rows, inner] by [..., inner, columns]; either may come transposed."""
    low = node.low
    operands = [node.x(0), node.x(1)] if node.is_quantized else [node.real(0), node.real(1)]
    for index, option in enumerate(("AdjX", "AdjY")):
        if node.option(option, False):
            rank = low.rank(operands[index])
            order = [*range(rank - 2), rank - 1, rank - 2]
            operands[index] = low.transpose(operands[index], order)
    if not node.is_quantized:
        return matmul(low, operands[0], operands[1])
    a, b, result = node.value(0), node.value(1), node.result()
    if low.dtype(a.tensor) is not low.dtype(b.tensor):
        node.unsupported(f"{a.kind.lower()} by {b.kind.lower()}", "give both operands one type")
    product = matmul(low, operands[0], operands[1], (a.zero_point, b.zero_point))
    ratio = float(a.scale) * float(b.scale) / float(result.scale)
    return rescale(node, product, [quantized_multiplier(ratio)], node.result_type(), 0, result.zero_point)
