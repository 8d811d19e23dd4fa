"""The road by ExecuTorch: its TOSA backend lowers a quantized program to one TOSA graph.

What its partitioner leaves outside that graph is refused by name: nothing runs on the host.
"""

import dataclasses
import warnings
from typing import Any

from tosaic.compiler.importers.torch_models.packages import load_executorch
from tosaic.compiler.importers.torch_models.program import (
    OwnedPort,
    check_program,
    input_nodes,
    inputs_of,
    outputs_of,
)
from tosaic.compiler.ir import DType, Graph, read_tosa, validate
from tosaic.compiler.ir.building import fresh_name, rename_tensor
from tosaic.errors import ModelWarning, UnsupportedError

_QUANTIZE, _DEQUANTIZE = "quantize_per_tensor", "dequantize_per_tensor"
_CASTS = ("_to_dim_order_copy", "_to_copy")
_WAY_OUT = "use road='onnx', or compute it outside the module"


@dataclasses.dataclass(frozen=True)
class Pair:
    """The encoding of an input or output: real = scale * (q - zero_point)."""

    dtype: DType
    scale: float
    zero_point: int


@dataclasses.dataclass
class LoweredModule:
    """A TOSA graph whose inputs and outputs have the owner's names, and the encodings of those that are reals."""

    graph: Graph
    inputs: dict[str, Pair]
    outputs: dict[str, Pair]


def compile_spec(int16: bool) -> Any:
    """ExecuTorch's description of the TOSA that is wanted: integers of version 1.0."""
    _, arm = load_executorch()
    return arm.tosa.compile_spec.TosaCompileSpec("TOSA-1.0+INT" + ("+int16" if int16 else ""))


def lower(program: Any) -> LoweredModule:
    """The TOSA graph of a quantized program. UnsupportedError names what is left in floats."""
    exir, _ = load_executorch()
    check_program(program)
    sources, results = inputs_of(program), outputs_of(program)
    partitioner = _partitioner(compile_spec(_uses_int16(program)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            edge = exir.to_edge_transform_and_lower(program, partitioner=[partitioner]).exported_program()
        except Exception as error:  # whatever one of its passes or operators raises
            said = " ".join(str(error).split())[:400]
            raise UnsupportedError(
                f"ExecuTorch cannot lower the program ({type(error).__name__}: {said}); use road='onnx'"
            ) from error
    delegate = _only_delegate(edge, partitioner)
    module = getattr(edge.graph_module, delegate.args[0].target)
    with warnings.catch_warnings():
        # It stores the zero points of all channels under shape [1], which the reader tells of.
        warnings.simplefilter("ignore", ModelWarning)
        graph = read_tosa(bytes(module.processed_bytes))
    lowered = LoweredModule(graph, {}, {})
    _name_inputs(lowered, delegate, edge, sources)
    _name_outputs(lowered, delegate, edge, results)
    validate(graph)
    return lowered


def _uses_int16(program: Any) -> bool:
    import torch

    return any(torch.int16 in node.args for node in program.graph.nodes)


def _partitioner(spec: Any) -> Any:
    """ExecuTorch's partitioner, which remembers why it leaves nodes out."""
    _, arm = load_executorch()
    base: Any = arm.tosa.partitioner.TOSAPartitioner

    class Partitioner(base):
        reasons: dict[str, str] = {}

        def _tag_module(self, module: Any, program: Any, reporter: Any, *rest: Any) -> Any:
            result = super()._tag_module(module, program, reporter, *rest)
            self.reasons = rejections(reporter)
            return result

    return Partitioner(spec)


def rejections(reporter: Any) -> dict[str, str]:
    """Why ExecuTorch's partitioner leaves nodes out, by the node's name."""
    found = getattr(reporter, "_rejected_nodes", {})
    return {node.name: " ".join(str(why).split()) for node, why in found.items()}


def _only_delegate(edge: Any, partitioner: Any) -> Any:
    """The node that runs the TOSA graph; UnsupportedError for every other node that computes."""
    delegates, islands = [], []
    for node in edge.graph.nodes:
        if node.op != "call_function" or operator_of(node) == "getitem":
            continue
        if "executorch_call_delegate" in str(node.target):
            delegates.append(node)
        elif not _is_boundary(node, edge):
            islands.append(node)
    if islands:
        # The pairs around an operator that stayed in floats are its consequence.
        node = next(
            (each for each in islands if operator_of(each) not in (_QUANTIZE, _DEQUANTIZE)), islands[0]
        )
        why = partitioner.reasons.get(node.name)
        more = f" ({len(islands) - 1} more like it)" if len(islands) > 1 else ""
        place = f" of layer {layer_of(node)!r}" if layer_of(node) else ""
        raise UnsupportedError(
            f"{operator_of(node)} {node.name!r} {shape_of(node)}{place} is not lowered to integers by ExecuTorch"
            f"{f': {why}' if why else ''}{more}; {_WAY_OUT}"
        )
    if len(delegates) != 1:
        found = ", ".join(f"{node.name!r} {shape_of(node)}" for node in delegates) or "none"
        raise UnsupportedError(
            f"ExecuTorch splits the program into {len(delegates)} graphs ({found}), one is needed; use road='onnx'"
        )
    return delegates[0]


def _is_boundary(node: Any, edge: Any) -> bool:
    """Whether a node encodes an input or decodes an output, or casts one from int64 to int32 or back.

    The session does that where values enter and leave.
    """
    operator = operator_of(node)
    if operator not in (_QUANTIZE, _DEQUANTIZE) and not _is_index_cast(node):
        return False
    if node.args[0].name in edge.graph_signature.user_inputs:
        return operator != _DEQUANTIZE
    users = {user.op for user in node.users}
    return operator != _QUANTIZE and operator_of(node.args[0]) == "getitem" and users == {"output"}


def _is_index_cast(node: Any) -> bool:
    """Whether a node changes int64 to int32 or back, and nothing else."""
    if operator_of(node).split(".")[-1] not in _CASTS:
        return False
    return {str(each.meta["val"].dtype) for each in (node, node.args[0])} <= {"torch.int32", "torch.int64"}


def operator_of(node: Any) -> str:
    """The operator's plain name: `aten.add`, `quantize_per_tensor`, `getitem`."""
    target = getattr(node.target, "_op", node.target)
    if node.op != "call_function":
        return node.op
    name = str(getattr(target, "_qualified_op_name", "") or getattr(target, "__name__", target))
    name = name.removesuffix(".default").removesuffix(".tensor").replace("::", ".")
    return name.removeprefix("quantized_decomposed.").removesuffix(".default")


def shape_of(node: Any) -> str:
    """Type and shape of what a node gives, as `int8[1, 10]`."""
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(
        f"{str(v.dtype).removeprefix('torch.')}{list(v.shape)}" for v in values if hasattr(v, "shape")
    )


def layer_of(node: Any) -> str:
    """The module's layer that a node comes from; empty where it is not known."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0].removeprefix("L['self'].") if stack else ""


def _pair(node: Any) -> Pair:
    _, scale, zero_point, _, _, dtype = node.args[:6]
    return Pair(DType[str(dtype).removeprefix("torch.").upper()], float(scale), int(zero_point))


def _name_inputs(lowered: LoweredModule, delegate: Any, edge: Any, sources: list[OwnedPort]) -> None:
    graph = lowered.graph
    # ExecuTorch gives inputs names of its own (input_1 for input); their order stays.
    known = {node.name: port.name for node, port in zip(input_nodes(edge), sources, strict=True)}
    named = []
    for tensor, argument in zip(list(graph.inputs), delegate.args[1:], strict=True):
        encoded = operator_of(argument) == _QUANTIZE
        name = known[(argument if argument.op == "placeholder" else argument.args[0]).name]
        if name in named:
            raise UnsupportedError(
                f"input {name!r} enters the integer graph in two encodings; use road='onnx'"
            )
        if encoded:
            lowered.inputs[name] = _pair(argument)
        named.append(name)
        _rename(graph, tensor, name)
    graph.inputs = [port.name for port in sources if port.name in named]


def _name_outputs(lowered: LoweredModule, delegate: Any, edge: Any, results: list[OwnedPort]) -> None:
    graph, tensors = lowered.graph, list(lowered.graph.outputs)
    output = next(node for node in edge.graph.nodes if node.op == "output")
    ordered = []
    for port, value in zip(results, output.args[0], strict=True):
        source = value
        if operator_of(value) == _DEQUANTIZE:
            source, lowered.outputs[port.name] = value.args[0], _pair(value)
        elif value.op == "call_function" and _is_index_cast(value):
            source = value.args[0]
        if operator_of(source) != "getitem" or source.args[0] is not delegate:
            raise UnsupportedError(
                f"output {port.name!r} is an input as it is; leave it out of what forward() returns"
            )
        tensor = tensors[source.args[1]]
        if tensor not in graph.outputs or tensor in graph.inputs:
            raise UnsupportedError(
                f"output {port.name!r} is the same tensor as another output or an input; leave it out of what "
                "forward() returns"
            )
        _rename(graph, tensor, port.name)
        ordered.append(port.name)
    graph.outputs = ordered + [name for name in graph.outputs if name not in ordered]


def _rename(graph: Graph, old: str, new: str) -> None:
    if old == new:
        return
    if new in graph.tensors:  # a tensor inside has the name
        rename_tensor(graph, new, fresh_name(graph, new))
    rename_tensor(graph, old, new)
