"""Which argument of an invocation belongs to which parameter (3.3.2)."""

from collections.abc import Mapping

from tosaic.compiler.importers.nnef.errors import NnefError
from tosaic.compiler.importers.nnef.syntax import Argument, Expression, Fragment, Invocation
from tosaic.compiler.importers.nnef.type_system import kinds


def declaration(operations: Mapping[str, Fragment], invocation: Invocation) -> Fragment:
    """The declaration of the invoked operation. Raises NnefError if there is none."""
    found = operations.get(invocation.name)
    if found is None:
        raise NnefError(
            "V037",
            invocation.position,
            f"the operation {invocation.name} is not declared",
            "NNEF 1.0.3 has no such operation: define it as a fragment, or use others",
        )
    return found


def arguments_of(fragment: Fragment, invocation: Invocation) -> dict[str, Expression]:
    """Argument expressions by parameter; defaults are left out. Raises NnefError for a wrong structure."""
    parameters = {parameter.name: parameter for parameter in fragment.parameters}
    if len(invocation.arguments) > len(parameters):
        raise NnefError(
            "V038",
            invocation.position,
            f"{fragment.name} gets {len(invocation.arguments)} arguments",
            f"it has {len(parameters)} parameters: {', '.join(parameters)}",
        )
    given: dict[str, Expression] = {}
    positions = iter(fragment.parameters)
    by_name: set[str] = set()
    for argument in invocation.arguments:
        if argument.name is None:
            if by_name:
                raise NnefError(
                    "V040", argument.position, f"a positional argument of {fragment.name} follows a named one"
                )
            parameter = next(positions)
            if kinds(parameter.type) == {False}:
                raise NnefError(
                    "V041",
                    argument.position,
                    f"the attribute {parameter.name} of {fragment.name} is given by position",
                    f"write {parameter.name} = ...",
                )
            given[parameter.name] = argument.value
        else:
            _check_name(fragment, argument, by_name, given)
            by_name.add(argument.name)
            given[argument.name] = argument.value
    for parameter in fragment.parameters:
        if parameter.default is None and parameter.name not in given:
            raise NnefError(
                "V039",
                invocation.position,
                f"{fragment.name} gets no {parameter.name}",
                "it has no default value",
            )
    return given


def _check_name(
    fragment: Fragment, argument: Argument, by_name: set[str], given: dict[str, Expression]
) -> None:
    names = [parameter.name for parameter in fragment.parameters]
    if argument.name not in names:
        raise NnefError(
            "V042",
            argument.position,
            f"{fragment.name} has no parameter {argument.name}",
            f"its parameters are {', '.join(names)}",
        )
    if argument.name in by_name:
        raise NnefError(
            "V043", argument.position, f"{argument.name} of {fragment.name} is given twice by name"
        )
    if argument.name in given:
        raise NnefError(
            "V044", argument.position, f"{argument.name} of {fragment.name} is given by position and by name"
        )
