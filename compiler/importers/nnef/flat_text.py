"""A flat graph as a flat document (chapter 6): only primitives, and compounds that were kept whole."""

from tosaic.compiler.importers.nnef.graph import FlatGraph, NnefOperation, TensorValue, Value


def flat_text(graph: FlatGraph) -> str:
    """A document in flat syntax with the same operations, tensors and shapes. Aliases become `copy`."""
    lines = [
        "version 1.0;",
        "",
        f"graph {graph.name}( {', '.join(graph.inputs)} ) -> ( {', '.join(graph.outputs)} )",
        "{",
    ]
    for operation in graph.operations:
        lines.append(f"    {_assignment(operation)}")
    for name, tensor in graph.tensors.items():
        if tensor.name != name:
            lines.append(f"    {name} = copy({tensor.name});")
    return "\n".join([*lines, "}", ""])


def _assignment(operation: NnefOperation) -> str:
    targets = ", ".join(_shown(result) for result in operation.results.values())
    generic = "" if operation.data is None else f"<{operation.data}>"
    arguments = ", ".join(f"{name} = {_shown(value)}" for name, value in operation.arguments.items())
    return f"{targets} = {operation.name}{generic}({arguments});"


def _shown(value: Value | list[TensorValue]) -> str:
    if isinstance(value, TensorValue):
        return value.name
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return repr(value)
