"""Reading ONNX files: the rules of the ONNX IR, each with an error of its own, and the binding of dimensions."""

import math
import pathlib
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tosaic.compiler.importers.bindings import Bindings, Bound, Sizes, Values, bound_array, check_names
from tosaic.compiler.importers.onnx_models import package_process
from tosaic.compiler.importers.onnx_models.contributed import expand_contributed
from tosaic.compiler.importers.onnx_models.dynamic_quantization import expand_dynamic
from tosaic.compiler.importers.onnx_models.errors import first_line
from tosaic.compiler.importers.onnx_models.microsoft_signatures import adopt_operators, check_signature
from tosaic.compiler.importers.onnx_models.opsets import (
    DEFAULT_DOMAINS,
    OLDEST_OPSET,
    all_nodes,
    mixed_as_functions,
    opset_of,
    opset_of_node,
    upgraded,
    with_one_opset,
)
from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.errors import InputError, ModelError, UnsupportedError
from tosaic.nnr.errors import NnrError
from tosaic.nnr.onnx_carriage import carrying_tensors, uncarry

LARGEST_ELEMENTS = 1 << 28
_POSITIVE = frozenset(
    "strides dilations kernel_shape group blocksize block_size num_outputs q_num_heads kv_num_heads hidden_size".split()
)
"""Attributes that are counts."""
_LARGEST_AXIS = 64
"""The largest value of `axis` and `axes`, far above any rank in use."""
_WIDE_PAIRS = 21
"""The opset whose QuantizeLinear has 16 bits."""
_SIXTEEN_BITS = (4, 5)
"""uint16 and int16 in TensorProto.DataType."""


def read_model(source: "str | pathlib.Path | Any", bound: Bound = None) -> Any:
    """A checked ModelProto with external data loaded, local functions expanded, static input shapes and bound inputs.

    `source` is a path or a ModelProto, which is not changed.
    """
    onnx = load_onnx_package()
    package_process.start()  # while the file is read
    if isinstance(source, str | pathlib.Path):
        model = _load(onnx, pathlib.Path(source))
    else:
        model = onnx.ModelProto()
        model.CopyFrom(source)
        model = _without_nnr(onnx, model, None)
    check_versions(onnx, model)
    for graph in _all_graphs(model.graph):
        _sparse_as_nodes(onnx, graph)
    if model.functions:
        model = _without_functions(model)
    expand_dynamic(model)
    expand_contributed(model)
    adopt_operators(model)
    check_graph(onnx, model.graph, opset_of(model), set())
    bindings = Bindings.of(bound)
    bind_shapes(onnx, model, bindings.sizes)
    _bind_values(onnx, model.graph, bindings.values)
    if opset_of(model) < OLDEST_OPSET:
        model = upgraded(onnx, model)
        check_graph(onnx, model.graph, OLDEST_OPSET, set())
    _check_inference(onnx, model)
    return model


def _without_functions(model: Any) -> Any:
    """The model with its local functions expanded."""
    onnx = load_onnx_package()
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(model)
    with_one_opset(skeleton)
    for tensor in skeleton.graph.initializer:  # only the names have to be known
        name = tensor.name
        tensor.Clear()
        tensor.name = name
    try:
        expanded = package_process.inline_local_functions(skeleton)
    except package_process.PackageRefusalError as error:
        raise ModelError(f"the local functions cannot be expanded: {first_line(error)}") from None
    except package_process.PackageCrashError as error:
        raise ModelError(f"the local functions are malformed: expanding them, {error}") from None
    del expanded.graph.initializer[:]
    expanded.graph.initializer.extend(model.graph.initializer)
    return expanded


def _all_graphs(graph: Any) -> Iterator[Any]:
    """A graph and those inside its nodes."""
    yield graph
    for attribute in (attribute for node in all_nodes(graph.node) for attribute in node.attribute):
        yield from (attribute.g,) if attribute.HasField("g") else ()


def _sparse_as_nodes(onnx: Any, graph: Any) -> None:
    """Makes a Constant of each sparse initializer, in place: the package's inference knows those only."""
    made = [
        onnx.helper.make_node("Constant", [], [sparse.values.name], sparse.values.name, sparse_value=sparse)
        for sparse in graph.sparse_initializer
    ]
    if not made:
        return
    names = {node.output[0] for node in made}
    inputs, nodes = [value for value in graph.input if value.name not in names], list(graph.node)
    for field, values in ((graph.input, inputs), (graph.node, made + nodes), (graph.sparse_initializer, [])):
        del field[:]
        field.extend(values)


def stored_bytes(graph: Any) -> int:
    """Bytes of a graph and the graphs inside; in its tensors, numbers of fewer than 32 bits count as float32."""
    total = sum(node.ByteSize() for node in graph.node) + sum(map(_tensor_bytes, graph.initializer))
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.HasField("t"):
            total += _tensor_bytes(attribute.t)
        if attribute.HasField("g"):
            total += stored_bytes(attribute.g)
    return total


def _tensor_bytes(tensor: Any) -> int:
    stored = tensor.ByteSize()
    # What the dimensions say of a damaged tensor need not be there.
    return max(stored, min(4 * max(_elements(tensor.dims), 0), 32 * stored))


def _load(onnx: Any, path: pathlib.Path) -> Any:
    try:
        # External data of NNR units is not for the onnx package.
        model = _without_nnr(onnx, onnx.load(str(path), load_external_data=False), path)
        onnx.load_external_data_for_model(model, str(path.parent))
        return model
    except NnrError as error:
        raise NnrError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read as ONNX: {str(error).splitlines()[0]}") from None
    except Exception as error:
        # protobuf's and the checker's own classes; their import paths differ between releases.
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{path} is not an ONNX model ({first})") from None


def _without_nnr(onnx: Any, model: Any, path: pathlib.Path | None) -> Any:
    """The model with its NNR-coded tensors decoded (NNR, annex B.4), if it has any; external ones from beside
    `path`."""
    if carrying_tensors(model):
        return uncarry(model, path.parent if path else None)
    return model


def check_versions(onnx: Any, model: Any) -> None:
    """IR version and opset imports."""
    if model.ir_version > onnx.IR_VERSION or model.ir_version < 1:
        raise ModelError(
            f"IR version {model.ir_version} is not known; 1 to {onnx.IR_VERSION} are, by the installed onnx package"
        )
    domains: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if domains.setdefault(domain, entry.version) != entry.version:
            raise ModelError(
                f"opset_import names the domain {entry.domain or 'ai.onnx'!r} with the versions {domains[domain]} and "
                f"{entry.version}; keep one"
            )
    if "" not in domains:
        raise ModelError(
            "opset_import does not name the default domain; export the model with an opset version"
        )
    newest, opset = onnx.defs.onnx_opset_version(), opset_of(model)
    if not 1 <= opset <= newest:
        raise UnsupportedError(
            f"opset {opset} cannot be imported: {OLDEST_OPSET} to {newest} can; convert the model with "
            "onnx.version_converter, or install a newer onnx"
        )


def check_graph(onnx: Any, graph: Any, opset: int, outer: set[str]) -> None:
    """SSA, order, names, operators, arity and attributes of a graph and the graphs inside its nodes."""
    inputs = [value.name for value in graph.input]
    constants = [tensor.name for tensor in graph.initializer]
    if len(set(inputs)) != len(inputs):
        raise ModelError(f"graph {graph.name!r} has two inputs of one name; names must be unique")
    for tensor in graph.initializer:
        _check_data_length(onnx, tensor)
    if not graph.name:
        warnings.warn("the ONNX graph has no name", stacklevel=2)
    known = set(inputs) | set(constants) | outer
    produced = {name for node in graph.node for name in node.output if name}
    seen_nodes: set[str] = set()
    for node in graph.node:
        label = node_label(node)
        if node.name and node.name in seen_nodes:
            warnings.warn(f"two ONNX nodes are called {node.name!r}", stacklevel=2)
        seen_nodes.add(node.name)
        for name in node.input:
            if name and name not in known:
                if name in produced:
                    raise ModelError(
                        f"{label} reads {name!r} before the node that writes it: nodes must be sorted, without cycles"
                    )
                raise ModelError(f"{label} reads {name!r}, which nothing defines")
        _check_node(onnx, node, opset_of_node(node, opset))
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs) if attribute.type in (5, 10) else ():
                if attribute.type == 10 and subgraph is attribute.g:
                    continue
                check_graph(onnx, subgraph, opset, known)
        for name in node.output:
            if name and name in known:
                raise ModelError(
                    f"{label} writes {name!r}, which is defined already: each name has one definition"
                )
            if name:
                known.add(name)
    for value in graph.output:
        if value.name not in known:
            raise ModelError(f"graph output {value.name!r} is produced by no node")


def node_label(node: Any) -> str:
    """An operator and its name, or its first output when it has none."""
    return f"{node.op_type} {(node.name or next(iter(node.output), ''))!r}"


def _check_data_length(onnx: Any, tensor: Any) -> None:
    # An element takes two bits or more; the package would make room for what the dimensions say.
    if _elements(tensor.dims) > 4 * tensor.ByteSize():
        raise ModelError(f"initializer {tensor.name!r} does not hold dims {list(tensor.dims)}")
    try:
        onnx.checker.check_tensor(tensor)
        onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ModelError(
            f"initializer {tensor.name!r} does not hold dims {list(tensor.dims)}: {first}"
        ) from None


def _check_node(onnx: Any, node: Any, opset: int) -> None:
    label = node_label(node)
    if node.domain not in DEFAULT_DOMAINS:
        check_signature(node, label)
        return
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
    except Exception:
        raise ModelError(f"{label}: opset {opset} has no operator {node.op_type}") from None
    if schema.deprecated:
        raise ModelError(f"{label}: operator {node.op_type} is deprecated in opset {opset}")
    count = len(node.input)
    if not schema.min_input <= count <= schema.max_input:
        raise ModelError(f"{label} has {count} inputs, not {schema.min_input} to {schema.max_input}")
    if not schema.min_output <= len(node.output) <= schema.max_output:
        raise ModelError(
            f"{label} has {len(node.output)} outputs, not {schema.min_output} to {schema.max_output}"
        )
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    for name, parameter in zip(node.input, schema.inputs, strict=False):
        if not name and parameter.option == single:
            raise ModelError(f"{label}: required input {parameter.name} is empty")
    given = {attribute.name for attribute in node.attribute}
    for attribute in node.attribute:
        if attribute.name not in schema.attributes:
            raise ModelError(f"{label}: operator {node.op_type} has no attribute {attribute.name!r}")
        if (
            attribute.name in _POSITIVE
            and min([*attribute.ints, *([attribute.i] if attribute.type == 2 else [])], default=1) < 1
        ):
            # The package's shape inference divides by them, and so ends the process.
            raise ModelError(f"{label}: attribute {attribute.name!r} holds a number that is not positive")
        if attribute.name in ("axis", "axes") and any(
            abs(axis) > _LARGEST_AXIS for axis in [attribute.i, *attribute.ints]
        ):
            # Some of the package's inferences count up to it in 32 bits, or index by it.
            raise ModelError(f"{label}: attribute {attribute.name!r} names an axis that no tensor has")
        if attribute.name == "num_outputs" and attribute.i != len(node.output):
            raise ModelError(f"{label}: num_outputs is {attribute.i}, and it has {len(node.output)} outputs")
        wanted = schema.attributes[attribute.name].type
        if attribute.type != int(getattr(wanted, "value", wanted)):
            raise ModelError(f"{label}: attribute {attribute.name!r} must be of type {wanted}")
    for name, description in schema.attributes.items():
        if description.required and name not in given:
            raise ModelError(f"{label}: required attribute {name!r} is missing")


# --- shapes ---------------------------------------------------------------------------------------------------


def bind_shapes(onnx: Any, model: Any, shapes: Sizes) -> None:
    """Gives every input a static shape; InputError names the dimension and the option that binds it."""
    constants = {tensor.name for tensor in model.graph.initializer}
    used: set[str] = set()
    for value in model.graph.input:
        if value.name in constants:
            continue
        if not value.type.HasField("tensor_type"):
            raise UnsupportedError(
                f"input {value.name!r} is a sequence, map or optional; TOSA has tensors only"
            )
        tensor = value.type.tensor_type
        if value.name in shapes and not isinstance(shapes[value.name], int):
            sizes = _shape_list(shapes[value.name])
            if tensor.HasField("shape"):
                _check_compatible(value, sizes)
            used.add(value.name)
            del tensor.shape.dim[:]
            for size in sizes:
                tensor.shape.dim.add().dim_value = size
        if not tensor.HasField("shape"):
            raise InputError(
                f"input {value.name!r} has no rank: TOSA needs static shapes; give --shape {value.name}=1,3,224,224"
            )
        for axis, dimension in enumerate(tensor.shape.dim):
            if dimension.WhichOneof("value") == "dim_value" and dimension.dim_value >= 0:
                continue
            name = dimension.dim_param
            bound = shapes.get(name) if name else None
            if bound is None or not isinstance(bound, int):
                what = f"dimension {name!r}" if name else f"axis {axis}"
                option = f"{name}=1" if re.fullmatch(r"\w+", name or "") else f"{value.name}=SIZES"
                raise InputError(
                    f"input {value.name!r}: {what} is open, and TOSA needs static shapes; give --shape {option}"
                )
            used.add(name)
            dimension.dim_value = bound
        # An empty one has no other huge axis either: NumPy multiplies them.
        elements = math.prod(dimension.dim_value or 1 for dimension in tensor.shape.dim)
        if elements >= LARGEST_ELEMENTS:
            sizes = [dimension.dim_value for dimension in tensor.shape.dim]
            raise UnsupportedError(
                f"input {value.name!r} has shape {sizes}; at most {LARGEST_ELEMENTS:,} elements are taken"
            )
    unknown = set(shapes) - used
    if unknown:
        raise InputError(f"--shape {sorted(unknown)[0]}: the model has no such open dimension or input")
    # What the file says of inner values may name the symbols: it is inferred again.
    del model.graph.value_info[:]


def _bind_values(onnx: Any, graph: Any, values: Values) -> None:
    """Makes inputs initializers."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: value.type.tensor_type for value in graph.input if value.name not in constants}
    check_names(values, list(inputs))
    for name, value in values.items():
        shape = [dimension.dim_value for dimension in inputs[name].shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(inputs[name].elem_type)
        array = bound_array(name, value, shape, dtype)
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    kept = [value for value in graph.input if value.name not in values]
    del graph.input[:]
    graph.input.extend(kept)


def _shape_list(sizes: int | Sequence[int]) -> list[int]:
    return [sizes] if isinstance(sizes, int) else [int(size) for size in sizes]


def _check_compatible(value: Any, sizes: Sequence[int]) -> None:
    declared = value.type.tensor_type.shape.dim
    fits = len(declared) == len(sizes) and all(
        d.WhichOneof("value") != "dim_value" or d.dim_value <= 0 or d.dim_value == size
        for d, size in zip(declared, sizes, strict=True)
    )
    if not fits:
        known = [d.dim_value or d.dim_param or "?" for d in declared]
        raise InputError(f"--shape {value.name}: {list(sizes)} does not fit the declared shape {known}")


def _check_inference(onnx: Any, model: Any) -> None:
    """Raises ModelError where declared or operand types and shapes contradict each other."""
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(model)
    _drop_big_data(skeleton.graph)
    for node in skeleton.graph.node:
        if node.domain in DEFAULT_DOMAINS:
            add_defaults(onnx, node, opset_of_node(node, opset_of(model)))
    if opset_of(model) < _WIDE_PAIRS:
        _hide_pairs(onnx, skeleton.graph)
    skeleton.graph.input.extend(_hide_rounded_up(onnx, skeleton.graph))
    mixed_as_functions(onnx, skeleton)
    try:
        package_process.check_types(skeleton)
    except package_process.PackageRefusalError as error:
        message = re.sub(r"^\[\w+\]\s*", "", first_line(error))
        raise ModelError(f"types and shapes contradict each other: {message}") from None
    except package_process.PackageCrashError as error:
        where = "the model" if error.late else _first_crash(onnx, skeleton)
        raise ModelError(f"{where} is malformed: inferring its types and shapes, {error}") from None


def _hide_pairs(onnx: Any, graph: Any) -> None:
    """Casts in the place of QuantizeLinear and DequantizeLinear of 16 bits, which ONNX Runtime has in every opset."""
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        types.update((node.output[0], a.t.data_type) for a in node.attribute if a.name == "value")
    for node in graph.node:
        kind = types.get((*node.input, "", "", "")[2])
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or kind not in _SIXTEEN_BITS:
            continue
        kind = kind if node.op_type == "QuantizeLinear" else onnx.TensorProto.FLOAT
        node.CopyFrom(onnx.helper.make_node("Cast", [node.input[0]], list(node.output), node.name, to=kind))


def _hide_rounded_up(onnx: Any, graph: Any) -> list[Any]:
    """Hides the sizes of pools that round up, behind a Reshape to the sizes that the returned inputs would tell.

    The package counts a last window that begins in the padding, which ONNX leaves out.
    """
    nodes, inputs = list(graph.node), []
    del graph.node[:]
    for node in nodes:
        graph.node.append(node)
        for attribute in graph.node[-1].attribute:
            if attribute.HasField("g"):
                inputs += _hide_rounded_up(onnx, attribute.g)
        if any(attribute.name == "ceil_mode" and attribute.i for attribute in node.attribute):
            held, sizes = node.output[0], f"{node.output[0]}/sizes"
            graph.node[-1].output[0] = f"{held}/rounded_up"
            graph.node.append(onnx.helper.make_node("Reshape", [f"{held}/rounded_up", sizes], [held]))
            inputs.append(onnx.helper.make_tensor_value_info(sizes, onnx.TensorProto.INT64, [None]))
    return inputs


def _first_crash(onnx: Any, model: Any) -> str:
    """The node at which the package's inference crashes, found by halving; the model if it is none."""
    good, bad = 0, len(model.graph.node) + 1
    while bad - good > 1:
        count = (good + bad) // 2
        part = onnx.ModelProto()
        part.CopyFrom(model)
        del part.graph.node[count:]
        del part.graph.output[:]
        try:
            package_process.check_types(part)
        except package_process.PackageCrashError:
            bad = count
        except package_process.PackageRefusalError:
            break
        else:
            good = count
    return node_label(model.graph.node[bad - 1]) if bad <= len(model.graph.node) else "the model"


def add_defaults(onnx: Any, node: Any, opset: int) -> None:
    """Writes down the default attributes of an operator with a function body: the body needs them.

    Of STFT too: shape inference takes `onesided` for 0 where it is not given.
    """
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    if not (schema.has_function or schema.has_context_dependent_function or node.op_type == "STFT"):
        return
    given = {attribute.name for attribute in node.attribute}
    for name, description in schema.attributes.items():
        if name not in given and description.default_value.name:
            node.attribute.append(description.default_value)


def _drop_big_data(graph: Any) -> None:
    """Large initializers become inputs: inference needs their types only."""
    declared = {value.name for value in graph.input}
    for index in reversed(range(len(graph.initializer))):
        tensor = graph.initializer[index]
        if _elements(tensor.dims) <= 1024:
            continue
        if tensor.name not in declared:
            value = graph.input.add()
            value.name = tensor.name
            value.type.tensor_type.elem_type = tensor.data_type
            for size in tensor.dims:
                value.type.tensor_type.shape.dim.add().dim_value = size
            value.type.tensor_type.shape.SetInParent()
        del graph.initializer[index]


def _elements(dims: Iterable[int]) -> int:
    total = 1
    for size in dims:
        total *= size
    return total
