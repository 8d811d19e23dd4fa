"""`graph.quant`: how tensors of the graph body are quantized (5.3)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tosaic.compiler.importers.nnef.budget import Budget, deep_recursion
from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.evaluator import Environment, Evaluator
from tosaic.compiler.importers.nnef.expression_types import ExpressionTypes, mismatch
from tosaic.compiler.importers.nnef.expressions import ExpressionParser
from tosaic.compiler.importers.nnef.graph import Value
from tosaic.compiler.importers.nnef.standard_library import standard_operations
from tosaic.compiler.importers.nnef.syntax import Fragment, Invocation
from tosaic.compiler.importers.nnef.token_stream import TokenStream
from tosaic.compiler.importers.nnef.type_system import TensorType, castable

ALGORITHMS = ("linear_quantize", "logarithmic_quantize")


@dataclass(frozen=True, slots=True)
class QuantizationEntry:
    """An algorithm with all its parameters but the tensor, such as min, max and bits."""

    algorithm: str
    parameters: dict[str, Value]
    position: Position


def parse_quantization(
    text: str, tensors: Collection[str], file: str = "graph.quant"
) -> dict[str, QuantizationEntry]:
    """Quantization by identifier of the graph body; `tensors` are the identifiers there are. Raises NnefError."""
    with deep_recursion():
        stream = TokenStream(text, file)
        found: dict[str, QuantizationEntry] = {}
        while stream.token.kind != "end":
            key = stream.next()
            if key.kind != "string":
                raise NnefError(
                    "V107",
                    key.position,
                    f"found {key.text[:40]}",
                    "a line starts with a tensor's name in quotes",
                )
            name = str(key.value)
            if name not in tensors:
                raise NnefError(
                    "V103",
                    key.position,
                    f"the graph body has no tensor {name!r}",
                    "use identifiers of the graph, not labels of variables",
                )
            if name in found:
                raise NnefError("V103", key.position, f"the tensor {name!r} is quantized twice")
            stream.take(":", "after a tensor's name")
            found[name] = _algorithm(stream, standard_operations())
            if not stream.accept(";"):
                raise stream.unexpected("';'", "V107")
        return found


def _algorithm(stream: TokenStream, operations: Mapping[str, Fragment]) -> QuantizationEntry:
    expressions = ExpressionParser(stream, extended=True)
    node = expressions.expression()
    if not isinstance(node, Invocation) or node.name not in ALGORITHMS:
        what = node.name if isinstance(node, Invocation) else "an expression"
        raise NnefError("V105", node.position, f"{what} is no quantization", f"known are {ALGORITHMS}")
    fragment = operations[node.name]
    tensor, *rest = fragment.parameters
    names = [parameter.name for parameter in rest]
    types = ExpressionTypes(operations, generic=False)
    evaluator = Evaluator(Budget(), _no_operation, operations)
    values: dict[str, Value] = {}
    for argument in node.arguments:
        if argument.name is None or argument.name == tensor.name:
            raise NnefError(
                "V106",
                argument.position,
                f"{node.name} gets a tensor",
                "name the tensor before the colon only",
            )
        if argument.name not in names or argument.name in values:
            rule = "V043" if argument.name in values else "V042"
            raise NnefError(
                rule, argument.position, f"{argument.name} of {node.name}", f"it has {names}, once each"
            )
        parameter = rest[names.index(argument.name)]
        of = types.of(argument.value, {})
        if isinstance(of, TensorType) or not castable(of, parameter.type):
            raise mismatch(node.name, argument.name, of, parameter.type, argument.position)
        values[argument.name] = evaluator.value(argument.value, Environment({}, None))
    missing = [name for name in names if name not in values]
    if missing:
        raise NnefError("V104", node.position, f"{node.name} gets no {', '.join(missing)}", "all are needed")
    bits = values["bits"]
    if not isinstance(bits, int) or not 1 <= bits <= 64:
        raise NnefError("V104", node.position, f"bits is {bits}", "it is 1 to 64")
    return QuantizationEntry(node.name, values, node.position)


def _no_operation(name: str, generic: str | None, given: dict[str, Value], position: Position) -> Value:
    raise NnefError("V106", position, f"{name} makes a tensor", "parameters are compile-time expressions")
