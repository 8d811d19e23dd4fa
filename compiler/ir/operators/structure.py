"""Data nodes, CUSTOM, control flow and variables (2.14 - 2.16)."""

from collections.abc import Sequence

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators.common import FLOAT_MODES, FP8_MODES, OUTPUT, shape_of
from tosaic.compiler.ir.operators.spec import Attribute, Operand, OperatorSpec, OpView, Shape, modes
from tosaic.compiler.ir.operators.traits import BY_ELEMENT, Trait

_IDENTITY_MODES = (
    modes("in_out_t", "bool", "int4: EXT-INT4", "int8", "int16", "int32", "int48: EXT-INT16")
    + FLOAT_MODES
    + FP8_MODES
)


def _signature(node: OpView, names: Sequence[str]) -> str:
    return ", ".join(str(node.graph.tensor(name)).rsplit("' ", 1)[-1] for name in names) or "nothing"


def _branch_fits(node: OpView, attribute: str, inputs: list[str], outputs: list[str] | None) -> str | None:
    """Compares a branch's boundary with the operator's operands; `outputs` None skips the results."""
    branch = node.graph.subgraphs.get(node.attribute(attribute))
    if branch is None:
        return f"no graph {node.attribute(attribute)!r} in the file"
    sides = [("inputs", inputs, branch.inputs)]
    if outputs is not None:
        sides.append(("outputs", outputs, branch.outputs))
    for side, ours, theirs in sides:
        here = [(node.graph.tensor(name).shape, node.graph.tensor(name).dtype) for name in ours]
        there = [(branch.tensor(name).shape, branch.tensor(name).dtype) for name in theirs]
        if here != there:
            inner = OpView(branch, node.op, node.spec)
            return f"{side} {_signature(inner, theirs)} of {branch.name!r} for {_signature(node, ours)}"
    return None


def condition_is_one_bool(node: OpView) -> str | None:
    """condition must be a bool_t tensor with one element."""
    tensor = node.tensor("condition")
    one = all(size == 1 for size in tensor.shape)
    return None if tensor.dtype is DType.BOOL and one else str(tensor)


def then_graph_fits(node: OpView) -> str | None:
    """then_graph must take input_list and give output_list, with the same shapes and types."""
    return _branch_fits(node, "then_graph", node.op.inputs[1:], node.op.outputs)


def else_graph_fits(node: OpView) -> str | None:
    """else_graph must take input_list and give output_list, with the same shapes and types."""
    return _branch_fits(node, "else_graph", node.op.inputs[1:], node.op.outputs)


def loop_keeps_signature(node: OpView) -> str | None:
    """input_list and output_list must have the same shapes and types."""
    ours, theirs = (
        [(node.graph.tensor(name).shape, node.graph.tensor(name).dtype) for name in names]
        for names in (node.op.inputs, node.op.outputs)
    )
    if ours == theirs:
        return None
    return f"{_signature(node, node.op.inputs)} and {_signature(node, node.op.outputs)}"


def body_graph_fits(node: OpView) -> str | None:
    """body_graph must take input_list and give the same list, with the same shapes and types."""
    return _branch_fits(node, "body_graph", node.op.inputs, node.op.inputs)


def cond_graph_fits(node: OpView) -> str | None:
    """cond_graph must take input_list and give one bool_t tensor with one element."""
    found = _branch_fits(node, "cond_graph", node.op.inputs, None)
    if found:
        return found
    branch = node.graph.subgraphs[node.attribute("cond_graph")]
    results = [branch.tensor(name) for name in branch.outputs]
    if len(results) == 1 and results[0].dtype is DType.BOOL and all(size == 1 for size in results[0].shape):
        return None
    return "results " + (", ".join(map(str, results)) or "nothing")


def _input_shapes(node: OpView) -> list[Shape]:
    return [node.graph.tensor(name).shape for name in node.op.inputs]


_INPUT_LIST = Operand("input_list", "", shape="tensor list", variadic=True)
_OUTPUT_LIST = Operand("output_list", "", shape="tensor list", variadic=True)

SPECS = (
    OperatorSpec("CONST", "2.14.1", "data node", (), OUTPUT, _IDENTITY_MODES, None),
    OperatorSpec(
        "CONST_SHAPE",
        "",
        "data node",
        (),
        (Operand("output", DType.SHAPE, (1, 1), "[rank]"),),
        (),
        None,
        versions=("1.0",),
    ),
    OperatorSpec(
        "IDENTITY",
        "2.14.2",
        "data node",
        (Operand("input1", "in_out_t"),),
        OUTPUT,
        _IDENTITY_MODES,
        shape_of("input1"),
        traits=BY_ELEMENT | Trait.MOVES | Trait.REORDERS | Trait.RENAMES | Trait.PICKS,
        degree=1,
    ),
    OperatorSpec(
        "CUSTOM",
        "2.15.1",
        "custom",
        (_INPUT_LIST,),
        (_OUTPUT_LIST,),
        (),
        None,
        (
            Attribute("operator_name", "string", default=""),
            Attribute("domain_name", "string", default=""),
            Attribute("implementation_attrs", "bytes", default=b""),
        ),
    ),
    OperatorSpec(
        "COND_IF",
        "2.16.1",
        "control flow",
        (Operand("condition", DType.BOOL, shape="[1]"), _INPUT_LIST),
        (_OUTPUT_LIST,),
        (),
        None,
        (Attribute("then_graph", "graph"), Attribute("else_graph", "graph")),
        (condition_is_one_bool, then_graph_fits, else_graph_fits),
        extension="EXT-CONTROLFLOW",
    ),
    OperatorSpec(
        "WHILE_LOOP",
        "2.16.2",
        "control flow",
        (_INPUT_LIST,),
        (_OUTPUT_LIST,),
        (),
        _input_shapes,
        (Attribute("cond_graph", "graph"), Attribute("body_graph", "graph")),
        (loop_keeps_signature, cond_graph_fits, body_graph_fits),
        extension="EXT-CONTROLFLOW",
    ),
    OperatorSpec("VARIABLE", "", "variable", (), (), (), None, versions=("1.0",), extension="EXT-VARIABLE"),
    OperatorSpec(
        "VARIABLE_WRITE",
        "",
        "variable",
        (Operand("input1", ""),),
        (),
        (),
        None,
        versions=("1.0",),
        extension="EXT-VARIABLE",
    ),
    OperatorSpec(
        "VARIABLE_READ",
        "",
        "variable",
        (),
        (Operand("output1", ""),),
        (),
        None,
        versions=("1.0",),
        extension="EXT-VARIABLE",
    ),
)
