"""Reads 1.0 and 1.1 files. The graph keeps their meaning unchanged."""

import dataclasses
from typing import Any

import numpy as np

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.elements import decode
from tosaic.compiler.ir.file_parts import READ, Stored, declare, define_constant, nest
from tosaic.compiler.ir.flatbuffer import FlatTable
from tosaic.compiler.ir.graph import Graph
from tosaic.compiler.ir.operators import OPERATORS, Attribute
from tosaic.compiler.ir.operators.common import AXIS, NAN_MODE
from tosaic.compiler.ir.schema_1_0 import tables, to_ir_1_1
from tosaic.compiler.ir.schema_1_0.locations import source_name
from tosaic.compiler.ir.schema_1_0.variables import Variables
from tosaic.compiler.ir.tensors import Operator, Tensor, name_after
from tosaic.compiler.ir.topology import sort_operators
from tosaic.errors import ModelError, UnsupportedError

# Field numbers of the schema's tables.
_GRAPH_REGIONS, _GRAPH_COMPATIBILITY = 1, 3
_COMPATIBILITY_READER, _COMPATIBILITY_FEATURES = 0, 1
_REGION_NAME, _REGION_BLOCKS = 0, 1
_BLOCK_OPERATORS, _BLOCK_TENSORS, _BLOCK_INPUTS, _BLOCK_OUTPUTS, _BLOCK_SHAPES = 1, 2, 3, 4, 5
_OP_OP, _OP_ATTRIBUTE_TYPE, _OP_ATTRIBUTE, _OP_INPUTS, _OP_OUTPUTS, _OP_LOCATION = 0, 1, 2, 3, 4, 5
_LOCATION_TEXT = 0
_TENSOR_NAME, _TENSOR_SHAPE, _TENSOR_TYPE, _TENSOR_DATA, _TENSOR_VARIABLE, _TENSOR_UNRANKED = 0, 1, 2, 3, 4, 5
_TENSOR_VARIABLE_NAME, _TENSOR_OFFSET = 6, 7
_TENSOR_SCALE_TYPE, _TENSOR_SCALES, _TENSOR_BLOCK_SHAPE, _TENSOR_SCALE_OFFSET = 9, 10, 11, 12
_SHAPE_NAME, _SHAPE_RANK, _SHAPE_DATA = 0, 1, 2
# How many fields each table has.
_GRAPH_FIELDS, _COMPATIBILITY_FIELDS, _SOFTWARE_FIELDS, _REGION_FIELDS, _BLOCK_FIELDS = 4, 2, 4, 2, 6
_OP_FIELDS, _LOCATION_FIELDS, _TENSOR_FIELDS, _SHAPE_FIELDS = 6, 1, 14, 3

_NEWEST_LIBRARY = (2026, 8)
"""The serialization library whose schema is known here."""
_KNOWN_FEATURES = 0b11
"""Bit 1 tells of microscaling types, which are refused where they are."""

_ATTRIBUTES_1_1 = (
    AXIS,
    NAN_MODE,
    Attribute("allow_broadcast", "bool"),
    Attribute("acc_type", "dtype"),
    Attribute("block_size", "int"),
)
"""Attributes of the operators that `to_ir_1_1` rewrites."""

_MAX_RANK_IN_FILE = 1 << 16


def read(root: FlatTable, version: tuple[int, ...]) -> Graph:
    """The graph of region "main" (or the only region), with every other region in `subgraphs`."""
    _check_compatibility(root.only(_GRAPH_FIELDS))
    regions = root.tables(_GRAPH_REGIONS, "region")
    if not regions:
        raise ModelError("malformed .tosa file: it has no region, so no graph")
    graphs: dict[str, Graph] = {}
    variables = Variables()
    for region in regions:
        name = region.only(_REGION_FIELDS).string(_REGION_NAME)
        blocks = region.tables(_REGION_BLOCKS, "block")
        if len(blocks) != 1:
            raise UnsupportedError(f"region {name!r} has {len(blocks)} blocks; a region must be one block")
        if name in graphs:
            raise ModelError(f"malformed .tosa file: two regions are called {name!r}")
        graphs[name] = _read_block(blocks[0], name, version, variables)
    main = nest(graphs)
    variables.become_states(main)
    for graph in graphs.values():
        sort_operators(graph)
        to_ir_1_1.to_ir(graph)
    return main


def _check_compatibility(root: FlatTable) -> None:
    """Raises UnsupportedError where the file itself tells that its reader must know more."""
    told = root.table(_GRAPH_COMPATIBILITY, "the file's compatibility")
    if told is None:
        return
    features = told.only(_COMPATIBILITY_FIELDS).uint64(_COMPATIBILITY_FEATURES) & ~_KNOWN_FEATURES
    if features:
        raise UnsupportedError(
            f"the file asks for the compatibility feature {features.bit_length() - 1}, which is unknown; export "
            "the model without it"
        )
    reader = told.table(_COMPATIBILITY_READER, "the version of the file's reader")
    if reader is not None:
        wanted = (reader.only(_SOFTWARE_FIELDS).int32(0, -1), reader.int32(1, -1))
        if wanted > _NEWEST_LIBRARY:
            raise UnsupportedError(
                f"the file asks for version {wanted[0]}.{wanted[1]} of the TOSA serialization library, "
                f"{_NEWEST_LIBRARY[0]}.{_NEWEST_LIBRARY[1]} is known here; export the model for that"
            )


def _read_block(block: FlatTable, name: str, version: tuple[int, ...], variables: Variables) -> Graph:
    """The graph of a region's block; its operators are in the order of the file."""
    block.only(_BLOCK_FIELDS)
    graph = Graph(name, block.strings(_BLOCK_INPUTS), block.strings(_BLOCK_OUTPUTS), version=version)
    data: Stored = {}
    for table in block.tables(_BLOCK_TENSORS, "tensor"):
        tensor, stored = _read_tensor(table), table.bytes(_TENSOR_DATA)
        if table.bool(_TENSOR_VARIABLE):
            variables.declare(
                name, _begun(tensor, stored), table.string(_TENSOR_VARIABLE_NAME) or tensor.name
            )
        else:
            declare(graph, tensor, data, stored)
    for table in block.tables(_BLOCK_SHAPES, "shape"):
        length = table.only(_SHAPE_FIELDS).uint32(_SHAPE_RANK)
        if length > _MAX_RANK_IN_FILE:
            raise ModelError(f"shape {table.string(_SHAPE_NAME)!r} has rank {length}")
        shape = Tensor(table.string(_SHAPE_NAME), (length,), DType.SHAPE)
        declare(graph, shape, data, table.bytes(_SHAPE_DATA))
    for index, table in enumerate(block.tables(_BLOCK_OPERATORS, "operator")):
        op = _read_operator(graph, table, index)
        if op.op in ("CONST", "CONST_SHAPE"):
            define_constant(graph, op, data)
        else:
            graph.operators.append(op)
    return graph


def _begun(tensor: Tensor, stored: memoryview | None) -> Tensor:
    """A variable with the value that it begins as; zeros, where the file has none."""
    if not stored:
        return dataclasses.replace(tensor, data=np.zeros(tensor.shape, tensor.dtype.numpy))
    data = decode(tensor.dtype, tensor.shape, stored, f"variable {tensor.name!r}")
    return dataclasses.replace(tensor, data=data)


def _read_tensor(table: FlatTable) -> Tensor:
    name = table.string(_TENSOR_NAME)
    table.what = f"tensor {name!r}"
    number = table.uint32(_TENSOR_TYPE)
    if number in tables.UNSUPPORTED_DTYPES:
        raise UnsupportedError(
            f"tensor {name!r} has the microscaling type {tables.UNSUPPORTED_DTYPES[number]}"
        )
    if number not in tables.DTYPES:
        raise ModelError(
            f"malformed .tosa file: tensor {name!r} has type number {number}, which does not exist"
        )
    table.only(_TENSOR_FIELDS)
    scaled = (
        table.uint32(_TENSOR_SCALE_TYPE) or table.bytes(_TENSOR_SCALES) or table.uint32(_TENSOR_BLOCK_SHAPE)
    )
    if scaled or table.uint64(_TENSOR_SCALE_OFFSET) > 1:
        raise UnsupportedError(f"tensor {name!r} has scales of a microscaling type")
    if table.bool(_TENSOR_UNRANKED):
        raise UnsupportedError(f"tensor {name!r} has no rank; export the model with static shapes")
    if table.uint64(_TENSOR_OFFSET) > 1:
        raise UnsupportedError(f"tensor {name!r} keeps its data outside the flatbuffer (a file over 2 GB)")
    shape = tuple(table.ints(_TENSOR_SHAPE))
    if any(size < 0 for size in shape):
        raise ModelError(
            f"tensor {name!r} has a negative size in {list(shape)}; if -1 stands for any size, "
            "export the model with static shapes"
        )
    return Tensor(name, shape, tables.DTYPES[number])


def _read_operator(graph: Graph, table: FlatTable, index: int) -> Operator:
    number = table.only(_OP_FIELDS).uint32(_OP_OP)
    if not 0 < number < len(tables.OPERATORS):
        raise ModelError(f"malformed .tosa file: operator {index} has number {number}, which does not exist")
    op = tables.OPERATORS[number]
    label = f"{op}_{index}"
    spec = OPERATORS.get(op)
    if spec is None and op not in to_ir_1_1.OPERATORS:
        raise UnsupportedError(f"{label}: operator {op} is not supported")
    location = table.table(_OP_LOCATION, f"the location of {label}")
    operator = Operator(op, table.strings(_OP_INPUTS), table.strings(_OP_OUTPUTS), {}, label)
    source = source_name(location.only(_LOCATION_FIELDS).string(_LOCATION_TEXT)) if location else ""
    if source:
        name_after(source, [operator])
    fields = tables.ATTRIBUTE_FIELDS.get(op, ())
    attributes = table.table(_OP_ATTRIBUTE, f"the attribute table of {label}")
    if attributes is not None:
        attributes.only(len(fields))
    union_type = table.byte(_OP_ATTRIBUTE_TYPE)
    if op == "IDENTITY" and union_type in tables.VARIABLE_ATTRIBUTES:
        operator.op = tables.OPERATORS[union_type]
        return operator
    if attributes is None or union_type == 0:
        if fields:
            raise ModelError(f"{label}: its attributes ({', '.join(fields)}) are missing in the file")
        return operator
    if union_type != number:
        raise ModelError(f"{label}: its attributes are those of operator number {union_type}, not {number}")
    by_name = {attribute.name: attribute for attribute in (spec.attributes if spec else _ATTRIBUTES_1_1)}
    for field, name in enumerate(fields):
        value = _read_attribute(graph, operator, attributes, field, by_name[name])
        if value is not None:
            operator.attributes[name] = value
    return operator


def _read_attribute(graph: Graph, op: Operator, table: FlatTable, field: int, attribute: Attribute) -> Any:
    match attribute.kind:
        case "dtype":
            return _read_dtype(op, attribute, table.uint32(field))
        case "enum":
            return _read_enum(op, attribute, table.uint32(field))
        case "number":
            return _read_number(graph, op, attribute, table.bytes(field))
    return READ[attribute.kind](table, field)


def _read_dtype(op: Operator, attribute: Attribute, number: int) -> DType | None:
    if number and number not in tables.DTYPES:
        raise ModelError(f"{op}: attribute {attribute.name} has type number {number}, which does not exist")
    return tables.DTYPES.get(number)


def _read_enum(op: Operator, attribute: Attribute, number: int) -> str | None:
    names = tables.ENUMERATIONS[attribute.name]
    if number >= len(names):
        raise ModelError(f"{op}: attribute {attribute.name} has number {number}, which does not exist")
    # nan_mode has no meaning for integers, and writers leave it UNKNOWN there: the default stands.
    return None if number == 0 and attribute.name == "nan_mode" else names[number]


def _read_number(graph: Graph, op: Operator, attribute: Attribute, stored: memoryview | None) -> int | float:
    """CLAMP's bounds: one element of the input's type, little-endian."""
    if not op.inputs:
        raise ModelError(f"{op}: operand input is missing")
    dtype = graph.tensor(op.inputs[0]).dtype
    return decode(dtype, (), stored or memoryview(b""), f"{op}: attribute {attribute.name}").item()
