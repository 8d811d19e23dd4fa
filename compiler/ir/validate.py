"""Checks a graph against the operator table: TOSA's ERROR_IF conditions."""

import math
from typing import Any

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.operators import OPERATORS, Attribute, Mode, Operand, OperatorSpec, OpView, rule_of
from tosaic.compiler.ir.operators.spec import MAX_RANK, REQUIRED
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.compiler.ir.topology import check_names
from tosaic.errors import ModelError, UnsupportedError

MAX_ELEMENTS = 1 << 31
"""Largest tensor at TOSA 1.0's level 8K."""

MAX_NESTING = 6
"""Deepest nesting of control flow at TOSA 1.0's level 8K."""


def validate(graph: Graph) -> None:
    """Checks names, types, shapes and every operator's rules, in the branches too.

    Raises ModelError at the first rule broken; the message names the operator, its tensors, the rule and its
    clause. UnsupportedError where TOSA allows what Tosaic does not do (int64). Operators must be in topological order.
    """
    for part in graph.walk():
        check_names(part)
        _check_order(part)
        for tensor in part.tensors.values():
            _check_tensor(tensor)
        for op in part.operators:
            check_operator(part, op)
    _check_nesting(graph)


def check_operator(graph: Graph, op: Operator) -> None:
    """Checks one operator: operand counts, attributes, ranks, types, its own rules, output shapes."""
    spec = OPERATORS.get(op.op)
    if spec is None:
        raise ModelError(f"{op}: {op.op} is not a TOSA operator")
    if spec.versions == ("0.30",):
        raise ModelError(f"{op}: {op.op} exists in 0.30 files only; the reader lowers it to 1.0 operators")
    if spec.extension == "EXT-VARIABLE":
        raise ModelError(
            f"{op}: a graph has `states` in the place of {op.op}; the reader of files makes them"
        )
    node = OpView(graph, op, spec)
    _check_count(node, spec.operands, op.inputs, "input")
    _check_count(node, spec.results, op.outputs, "output")
    for attribute in spec.attributes:
        _check_attribute(node, attribute)
    for operand in (*spec.operands, *spec.results):
        for tensor in node.tensors(operand.name):
            _check_rank(node, operand, tensor)
    match_mode(node)
    for check in spec.checks:
        found = check(node)
        if found is not None:
            node.fail(rule_of(check), found)
    _check_shapes(node)


def check_operand_counts(graph: Graph, op: Operator) -> None:
    """Checks that an operator has as many operands and results as the operator table says."""
    spec = OPERATORS[op.op]
    node = OpView(graph, op, spec)
    _check_count(node, spec.operands, op.inputs, "input")
    _check_count(node, spec.results, op.outputs, "output")


def check_shapes(graph: Graph, op: Operator) -> None:
    """Checks that an operator's results have the shapes of the operator table's rule, whatever their types."""
    _check_shapes(OpView(graph, op, OPERATORS[op.op]))


def match_mode(node: OpView) -> Mode | None:
    """The row of the operator's type table that its tensors fit; None if the operator takes any type."""
    _check_fixed_types(node)
    spec = node.spec
    if not spec.modes:
        return None
    present = _type_variables(node)
    for mode in spec.modes:
        if all(mode.types[variable] is dtype for variable, dtype, _ in present if variable in mode.types):
            return mode
    found = ", ".join(f"{where} {dtype.spelling}" for _, dtype, where in present)
    if any(dtype is DType.INT64 for _, dtype, _ in present):
        raise unsupported_int64(node.op, found)
    node.fail("the data types must be one of the operator's supported combinations", found)


def unsupported_int64(op: Operator, found: str) -> UnsupportedError:
    """The error for an operator of 1.1 that has 64-bit elements, or indices."""
    return UnsupportedError(f"{op}: int64_t (EXT-INT64) is not supported; found {found}")


def _check_fixed_types(node: OpView) -> None:
    for operand in (*node.spec.operands, *node.spec.results):
        if isinstance(operand.type, DType):
            for tensor in node.tensors(operand.name):
                if tensor.dtype is DType.INT64:
                    raise unsupported_int64(node.op, f"{operand.name} {tensor}")
                if tensor.dtype is not operand.type:
                    node.fail(f"{operand.name} must be {operand.type.spelling}", str(tensor))


def _type_variables(node: OpView) -> list[tuple[str, DType, str]]:
    """(type variable, type, where it was seen) of every operand and type-valued attribute."""
    found = [
        (operand.type, tensor.dtype, operand.name)
        for operand in (*node.spec.operands, *node.spec.results)
        if isinstance(operand.type, str) and operand.type
        for tensor in node.tensors(operand.name)
    ]
    for attribute in node.spec.attributes:
        if attribute.type is not None and node.attribute(attribute.name) is not None:
            found.append((attribute.type, node.attribute(attribute.name), attribute.name))
    return found


def _check_tensor(tensor: Tensor) -> None:
    if tensor.dtype is not DType.SHAPE and any(size < 1 for size in tensor.shape):
        raise ModelError(
            f"tensor {tensor}: every axis must have at least one element [TOSA 0.30 section 3.2.1]"
        )
    if len(tensor.shape) > MAX_RANK:
        raise ModelError(f"tensor {tensor}: a tensor must have rank 0 to {MAX_RANK} [TOSA 1.0 level 8K]")
    if math.prod(tensor.shape) >= MAX_ELEMENTS:
        raise ModelError(f"tensor {tensor}: a tensor must have fewer than 2^31 elements [TOSA 1.0 level 8K]")
    data = tensor.data
    if data is None:
        return
    if data.shape != tensor.shape or data.dtype != tensor.dtype.numpy:
        raise ModelError(
            f"constant {tensor}: its value is {data.dtype}{list(data.shape)}, "
            f"not {tensor.dtype.numpy}{list(tensor.shape)}"
        )
    if tensor.dtype in (DType.INT4, DType.INT48) and data.size:
        low, high = int(data.min()), int(data.max())
        if low < tensor.dtype.min or high > tensor.dtype.max:
            raise ModelError(
                f"constant {tensor}: {tensor.dtype.spelling} must be in the range {tensor.dtype.min} to "
                f"{tensor.dtype.max}; found {low} to {high} [TOSA 0.30 section 1.8]"
            )


def _check_order(graph: Graph) -> None:
    known = set(graph.inputs) | {name for name, tensor in graph.tensors.items() if tensor.data is not None}
    for op in graph.operators:
        for name in op.inputs:
            if name not in known:
                raise ModelError(f"{op}: input {name!r} is used before the operator that defines it")
        known.update(op.outputs)


def _check_count(node: OpView, operands: tuple[Operand, ...], names: list[str], side: str) -> None:
    variadic = bool(operands) and operands[-1].variadic
    fixed = len(operands) - variadic
    if len(names) == fixed or (variadic and len(names) > fixed):
        return
    wanted = ", ".join(operand.name for operand in operands) or "none"
    node.fail(f"it must have {'at least ' if variadic else ''}{fixed} {side}s ({wanted})", f"{len(names)}")


def _check_attribute(node: OpView, attribute: Attribute) -> None:
    if attribute.name not in node.op.attributes:
        if attribute.default is REQUIRED:
            node.fail(f"attribute {attribute.name} must be given", "none")
        return
    value = node.op.attributes[attribute.name]
    if not _fits(attribute, value):
        node.fail(f"attribute {attribute.name} must be {_wanted(attribute)}", repr(value))


def _fits(attribute: Attribute, value: Any) -> bool:
    match attribute.kind:
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "bool":
            return isinstance(value, bool)
        case "string" | "graph":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, bytes)
        case "dtype":
            return isinstance(value, DType) or (value is None and attribute.default is None)
        case "enum":
            return value in attribute.values
        case "ints":
            right_length = attribute.length is None or len(value) == attribute.length
            return right_length and all(isinstance(item, int) for item in value)
    raise ValueError(f"unknown attribute kind {attribute.kind!r}")


def _wanted(attribute: Attribute) -> str:
    if attribute.kind == "enum":
        return "one of " + ", ".join(attribute.values)
    if attribute.kind == "ints":
        return f"a list of {attribute.length} integers" if attribute.length else "a list of integers"
    return f"of kind {attribute.kind}"


def _check_rank(node: OpView, operand: Operand, tensor: Tensor) -> None:
    low, high = operand.ranks
    if not low <= len(tensor.shape) <= high:
        ranks = str(low) if low == high else f"{low} to {high}"
        node.fail(f"{operand.name} must have rank {ranks} ({operand.shape})", str(tensor))
    if operand.shape == "[1]" and operand.ranks == (1, 1) and tensor.shape != (1,):
        node.fail(f"{operand.name} must have one element", str(tensor))


def _check_shapes(node: OpView) -> None:
    spec: OperatorSpec = node.spec
    if spec.infer is None:
        return
    for name, shape in zip(node.op.outputs, spec.infer(node), strict=True):
        tensor = node.graph.tensor(name)
        if tensor.shape != tuple(shape):
            node.fail(f"the shape of output {name!r} must be {list(shape)}", str(list(tensor.shape)))


def _check_nesting(graph: Graph) -> None:
    """Depth of control flow; a branch that contains itself counts as endless."""
    depths: dict[str, int] = {}
    active: set[str] = set()

    def depth_of(part: Graph) -> int:
        deepest = 0
        for op in part.operators:
            for attribute in OPERATORS[op.op].attributes:
                if attribute.kind == "graph":
                    deepest = max(deepest, 1 + branch_depth(op, op.attributes[attribute.name]))
        return deepest

    def branch_depth(op: Operator, name: str) -> int:
        if name in active:
            raise ModelError(f"{op}: graph {name!r} contains itself")
        if name not in depths:
            if len(active) >= MAX_NESTING:
                raise ModelError(
                    f"{op}: control flow must not nest deeper than {MAX_NESTING} [TOSA 1.0 level 8K]"
                )
            active.add(name)
            depths[name] = depth_of(graph.subgraphs[name])
            active.discard(name)
        return depths[name]

    if depth_of(graph) > MAX_NESTING:
        raise ModelError(f"graph {graph.name!r}: control flow must not nest deeper than {MAX_NESTING}")
