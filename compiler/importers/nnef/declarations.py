"""Which declarations are valid (3.3.2)."""

from collections.abc import Iterable, Mapping

from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.syntax import (
    ArrayExpression,
    Expression,
    Fragment,
    Literal,
    Parameter,
    TupleExpression,
)
from tosaic.compiler.importers.nnef.type_system import (
    ArrayType,
    TupleType,
    Type,
    bind,
    candidates,
    castable,
    common_type,
    is_generic,
    kinds,
    literal_type,
)


def declare(standard: Mapping[str, Fragment], fragments: Iterable[Fragment]) -> dict[str, Fragment]:
    """The operations that a document can invoke: the standard ones and its own. Raises NnefError."""
    known = dict(standard)
    for fragment in fragments:
        if fragment.name in known:
            of = "the standard" if fragment.name in standard else "this document"
            raise NnefError(
                "V021", fragment.position, f"a fragment {fragment.name} exists already, in {of}", "rename one"
            )
        check_declaration(fragment)
        known[fragment.name] = fragment
    return known


def check_declaration(fragment: Fragment) -> None:
    """Raises NnefError for the first rule that a declaration breaks."""
    names: set[str] = set()
    attribute = ""
    for parameter in (*fragment.parameters, *fragment.results):
        if parameter.name in names:
            raise NnefError(
                "V022", parameter.position, f"{fragment.name} declares {parameter.name} twice", "rename one"
            )
        names.add(parameter.name)
        _check_type(parameter.type, parameter)
    for parameter in fragment.parameters:
        if kinds(parameter.type) == {False}:
            attribute = attribute or parameter.name
        elif attribute:
            raise NnefError(
                "V023", parameter.position, f"the tensor {parameter.name} follows the attribute {attribute}"
            )
        _check_default(parameter)
    if len(set().union(*(kinds(result.type) for result in fragment.results))) > 1:
        raise NnefError(
            "V024", fragment.position, f"{fragment.name} returns tensors and attributes", "use two fragments"
        )
    for result in fragment.results:
        if _has_unbound(result.type) and fragment.body is not None:
            raise NnefError("result type", result.position, f"the result {result.name} is an unbound tensor")
    _check_generic(fragment)


def _check_type(of: Type, parameter: Parameter) -> None:
    match of:
        case ArrayType(item) if item is not None:
            _check_type(item, parameter)
        case TupleType(items):
            if len(kinds(of)) > 1:
                raise NnefError(
                    "V028",
                    parameter.position,
                    f"the type {of} of {parameter.name} mixes tensors and attributes",
                    "use two parameters",
                )
            for item in items:
                _check_type(item, parameter)


def _has_unbound(of: Type) -> bool:
    match of:
        case ArrayType(item):
            return item is not None and _has_unbound(item)
        case TupleType(items):
            return any(map(_has_unbound, items))
    return getattr(of, "data", "") is None


def _check_default(parameter: Parameter) -> None:
    if parameter.default is None:
        return
    given, wanted = _default_type(parameter.default), parameter.type
    standing_for = candidates(wanted, given)
    if not castable(given, bind(wanted, *standing_for) if len(standing_for) == 1 else wanted):
        raise NnefError(
            "V025",
            parameter.default.position,
            f"the default value of {parameter.name} is {given}, its type {wanted}",
            "scalars need a decimal point" if "scalar" in str(wanted) else "",
        )


def _default_type(value: Expression) -> Type:
    match value:
        case Literal(value=literal):
            return literal_type(literal)
        case TupleExpression(items=items):
            return TupleType(tuple(map(_default_type, items)))
        case ArrayExpression(items=items, position=position):
            return array_type([_default_type(item) for item in items], position)
    raise AssertionError(value)


def array_type(items: list[Type], position: Position) -> ArrayType:
    """The type of an array built from items. Raises NnefError if they have no common type."""
    common: Type | None = None
    for item in items:
        wider = item if common is None else common_type(common, item)
        if wider is None:
            raise NnefError(
                "V050",
                position,
                f"an array has items of types {common} and {item}",
                "give all items one type",
            )
        common = wider
    return ArrayType(common)


def _check_generic(fragment: Fragment) -> None:
    uses = any(is_generic(each.type) for each in (*fragment.parameters, *fragment.results))
    if fragment.generic and not uses:
        raise NnefError(
            "V026", fragment.position, f"{fragment.name} is generic without using ?", "remove <?>"
        )
    if uses and not fragment.generic:
        raise NnefError("V027", fragment.position, f"{fragment.name} uses ?", f"declare {fragment.name}<?>")
