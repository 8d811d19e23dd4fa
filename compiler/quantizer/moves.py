"""Operators that pick elements: they work in whatever encoding their reader asks for."""

from tosaic.compiler.ir import DType, Operator, Trait, operators_with
from tosaic.compiler.quantizer.emission import MOVE, Emission
from tosaic.compiler.quantizer.encoding import Encoding


@MOVE.of("GATHER")
@MOVE.of_each(operators_with(Trait.MOVES | Trait.PICKS))
def _first_operand(emission: Emission, op: Operator, encoding: Encoding) -> str:
    """RESHAPE, TRANSPOSE, ...: the other operands are shapes and indices."""
    source = emission.request(op.inputs[0], encoding)
    if op.op == "IDENTITY":
        return source
    others = [emission.plain(name) for name in op.inputs[1:]]
    return emission.emit(op.op, source, *others, **op.attributes)


@MOVE.of("PAD")
def _pad(emission: Emission, op: Operator, encoding: Encoding) -> str:
    """The padding is encoded too."""
    source = emission.request(op.inputs[0], encoding)
    value = emission.data(op.inputs[2])
    assert value is not None
    return emission.emit(
        "PAD",
        source,
        emission.plain(op.inputs[1]),
        emission.low.constant(encoding.quantize(value), encoding.dtype),
    )


@MOVE.of("CONCAT")
def _concat(emission: Emission, op: Operator, encoding: Encoding) -> str:
    """All parts in one encoding."""
    parts = [emission.request(name, encoding) for name in op.inputs]
    return emission.emit("CONCAT", *parts, axis=op.attributes["axis"])


@MOVE.of("SCATTER")
def _scatter(emission: Emission, op: Operator, encoding: Encoding) -> str:
    values, indices, source = op.inputs
    return emission.emit(
        "SCATTER",
        emission.request(values, encoding),
        emission.plain(indices),
        emission.request(source, encoding),
    )


@MOVE.of("MAX_POOL2D")
def _max_pool(emission: Emission, op: Operator, encoding: Encoding) -> str:
    """Pools int8 and int16 only."""
    if encoding.dtype not in (DType.INT8, DType.INT16):
        found = emission.activation(op.outputs[0], DType.INT16)
        return emission.convert(found, encoding)
    return _first_operand(emission, op, encoding)
