"""Semantic validity of a document before anything is expanded (3.3)."""

from collections.abc import Iterable, Mapping

from tosaic.compiler.importers.nnef.declarations import declare
from tosaic.compiler.importers.nnef.errors import NnefError
from tosaic.compiler.importers.nnef.expression_types import ExpressionTypes
from tosaic.compiler.importers.nnef.standard_library import standard_operations
from tosaic.compiler.importers.nnef.syntax import (
    ArrayExpression,
    Assignment,
    Document,
    Expression,
    Fragment,
    GraphDefinition,
    Identifier,
    Invocation,
    TupleExpression,
    children,
    identifiers_of,
)
from tosaic.compiler.importers.nnef.type_system import (
    ArrayType,
    TensorType,
    TupleType,
    Type,
    castable,
)


def check_document(document: Document) -> dict[str, Fragment]:
    """Declarations that the document may invoke, by name. Raises NnefError for the first rule it breaks."""
    operations = declare(standard_operations(), document.fragments)
    for fragment in document.fragments:
        check_fragment(fragment, operations)
    _check_graph(document.graph, operations)
    return operations


def check_fragment(fragment: Fragment, operations: Mapping[str, Fragment]) -> None:
    """Types and identifiers of a fragment's body."""
    assert fragment.body is not None
    for assignment in fragment.body:
        _refuse_external(assignment.value)
    types = ExpressionTypes(operations, fragment.generic)
    parameters = {parameter.name: parameter.type for parameter in fragment.parameters}
    names: dict[str, Type] = dict(parameters)
    results = {result.name: result.type for result in fragment.results}
    for assignment in fragment.body:
        _check_targets(assignment, names, parameters, results)
        for identifier, of in _unpack(assignment.target, types.of(assignment.value, names)):
            names[identifier.name] = of
            if identifier.name in results:
                wanted = results[identifier.name]
                if not castable(of, wanted, as_input=False):
                    raise NnefError(
                        "result type",
                        identifier.position,
                        f"the result {identifier.name} of {fragment.name} becomes {of}, not {wanted}",
                    )
                # Inside the body the result has its declared type, also where [] was assigned.
                names[identifier.name] = wanted
    for result in fragment.results:
        if result.name not in names:
            raise NnefError(
                "V030", result.position, f"{fragment.name} never assigns its result {result.name}"
            )


def _check_graph(graph: GraphDefinition, operations: Mapping[str, Fragment]) -> None:
    seen: set[str] = set()
    for parameter in graph.parameters:
        if parameter.name in seen:
            raise NnefError("V022", parameter.position, f"the graph has the parameter {parameter.name} twice")
        seen.add(parameter.name)
    outputs: set[str] = set()
    for result in graph.results:
        if result.name in outputs:
            raise NnefError("V022", result.position, f"the graph has the result {result.name} twice")
        outputs.add(result.name)
    types = ExpressionTypes(operations, generic=False)
    names: dict[str, Type] = {}
    for assignment in graph.body:
        _check_targets(assignment, names, (), ())
        for identifier, of in _unpack(assignment.target, types.of(assignment.value, names)):
            if not isinstance(of, TensorType):
                raise NnefError(
                    "V036",
                    identifier.position,
                    f"{identifier.name} is {of} in the graph body",
                    "unpack arrays and tuples into single names, and write attributes where they are used",
                )
            names[identifier.name] = of
    for result in graph.results:
        if result.name not in names:
            raise NnefError("V033", result.position, f"the graph never assigns its result {result.name}")
    for parameter in graph.parameters:
        if parameter.name not in names:
            raise NnefError(
                "V034",
                parameter.position,
                f"the graph never assigns its parameter {parameter.name}",
                f"write {parameter.name} = external(shape = [...]);",
            )


def _check_targets(
    assignment: Assignment, names: Mapping[str, Type], parameters: Iterable[str], results: Iterable[str]
) -> None:
    new: set[str] = set()
    for identifier in identifiers_of(assignment.target):
        if identifier.name in parameters:
            raise NnefError("V029", identifier.position, f"the parameter {identifier.name} is assigned")
        if identifier.name in names or identifier.name in new:
            rule = "V030" if identifier.name in results else "V032"
            raise NnefError(
                rule, identifier.position, f"{identifier.name} is assigned again", "choose a new name"
            )
        new.add(identifier.name)


def _unpack(target: Expression, of: Type) -> Iterable[tuple[Identifier, Type]]:
    match target, of:
        case Identifier(), _:
            yield target, of
        case ArrayExpression(items=items), ArrayType(item) if item is not None or not items:
            for each in items:
                assert item is not None
                yield from _unpack(each, item)
        case TupleExpression(items=items), TupleType(types) if len(items) == len(types):
            for each, part in zip(items, types, strict=True):
                yield from _unpack(each, part)
        case _:
            raise NnefError("unpacking", target.position, f"{of} is unpacked to names of another structure")


def _refuse_external(root: Expression) -> None:
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Invocation) and node.name == "external":
            raise NnefError(
                "V020",
                node.position,
                "a fragment invokes external",
                "make the tensor a parameter of the fragment",
            )
        pending += children(node)
