"""TensorFlow Lite models to TOSA, by Arm's converter (`tosa-converter-for-tflite`) and the serializer of `tosa-tools`.

Both run as processes of their own: a damaged file may stop them, not Tosaic. Inputs and outputs get the model's names.
"""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import flatbuffers.encode
import flatbuffers.number_types as number_types
from flatbuffers.table import Table

from tosaic.compiler.importers.lowering.allowance import Allowance
from tosaic.compiler.importers.survey import Survey
from tosaic.compiler.ir import Graph, read_tosa
from tosaic.errors import InputError, ModelError, UnsupportedError

_TIME_LIMIT_SECONDS = 600
_TOOL_FREE_BYTES, _TOOL_FACTOR = 3 << 30, 32
"""Address space of the converter and the serializer, which map much of it at once: 3 GiB and 32 times the file."""
_CONVERT = """
import json, sys
import tosa_converter_for_tflite as converter
from tosa_converter_for_tflite import _tflite_flatbuffer_to_tosa_mlir as convert
source, target, shapes = sys.argv[1:]
convert(source, target, converter.TosaConverterOutputFormat.Bytecode, converter.TosaConverterDebugInfo.Disabled,
        json.loads(shapes))
"""
_PASSES = (
    "builtin.module(func.func(tosa-convert-integer-type-to-signless),tosa-attach-target{{specification_version=1.0 "
    "profiles=pro_int,pro_fp extensions=int16,int4,doubleround,controlflow level=8k}},"
    "tosa-validate{{strict-op-spec-alignment=true}},tosa-serialize{{tosa-flatbuffer-filename={target}}})"
)


def import_tflite(
    path: pathlib.Path, shapes: Mapping[str, int | Sequence[int]] | None = None, survey: Survey | None = None
) -> Graph:
    """The TOSA graph of a .tflite file, as the converter makes it. `shapes` binds inputs' shapes by name.

    An open dimension is what the file's `shape` says (1 for a batch), as in TFLite's own interpreter. Raises
    InputError, ModelError (a damaged file) or UnsupportedError (an operator that the converter does not convert, or a
    missing package).
    """
    serializer = _serializer()
    inputs, outputs = _signature(path)
    bound = dict(inputs)
    for name, sizes in (shapes or {}).items():
        if name not in inputs or isinstance(sizes, int):
            known = ", ".join(f"{key}={','.join(map(str, value))}" for key, value in inputs.items())
            raise InputError(f"--shape {name}: a TFLite model's inputs are bound whole: --shape {known}")
        bound[name] = [int(size) for size in sizes]
    with tempfile.TemporaryDirectory(prefix="tosaic-tflite-") as folder:
        mlir, tosa = pathlib.Path(folder, "model.mlirbc"), pathlib.Path(folder, "model.tosa")
        _run(path, [sys.executable, "-c", _CONVERT, str(path), str(mlir), json.dumps(bound)], mlir)
        passes = f"--pass-pipeline={_PASSES.format(target=tosa)}"
        _run(path, [serializer, str(mlir), passes, "-o", "/dev/null"], tosa)
        # What the converter computes of constants is in there.
        Allowance(path.stat().st_size).check(
            tosa.stat().st_size, f"{path.name}: what the converter makes of it"
        )
        graph = read_tosa(tosa)
    if [graph.tensors[name].shape for name in graph.inputs] != [tuple(sizes) for sizes in bound.values()]:
        raise UnsupportedError(
            f"{path.name}: the converter changes the shapes of its inputs; use static shapes"
        )
    _rename(graph, graph.inputs, list(inputs))
    _rename(graph, graph.outputs, outputs)
    return graph


def _serializer() -> str:
    if importlib.util.find_spec("tosa_converter_for_tflite") is not None:
        beside = pathlib.Path(sys.executable).with_name("tosa-opt")
        found = str(beside) if beside.is_file() else shutil.which("tosa-opt")
        if found:
            return found
    raise UnsupportedError(
        "TFLite models need the packages tosa-converter-for-tflite and tosa-tools: pip install 'tosaic[tflite]'"
    )


def _run(path: pathlib.Path, command: list[str], result: pathlib.Path) -> None:
    """Runs a tool; its first complaint in one line when it gives no result."""
    try:
        limit = _TOOL_FREE_BYTES + _TOOL_FACTOR * path.stat().st_size
        limited = ["sh", "-c", f'ulimit -v {limit >> 10}; exec "$@"', "sh", *command]
        done = subprocess.run(
            limited, capture_output=True, text=True, errors="replace", timeout=_TIME_LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise UnsupportedError(
            f"{path.name}: the conversion takes more than {_TIME_LIMIT_SECONDS} s; convert a part of the model"
        ) from None
    if done.returncode == 0 and result.is_file():
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    told = next(
        (line for line in lines if "error:" in line), lines[-1] if lines else f"exit code {done.returncode}"
    )
    told = told.split("error:", 1)[-1].strip()[:300]
    raise UnsupportedError(
        f"{path.name}: the converter from TFLite to TOSA refuses it: {told}; change the model there"
    )


def _signature(path: pathlib.Path) -> tuple[dict[str, list[int]], list[str]]:
    """Shapes of the inputs by name, and names of the outputs, of the first subgraph."""
    data = path.read_bytes()
    if len(data) < 8 or data[4:8] != b"TFL3":
        raise ModelError(f"{path.name} is not a TFLite model: its file identifier is not TFL3")
    try:
        root = Table(data, flatbuffers.encode.Get(number_types.UOffsetTFlags.packer_type, data, 0))
        graph = _tables(root, 2)[0]
        tensors = _tables(graph, 0)
        inputs = {_text(tensors[i], 3): _numbers(tensors[i], 0) for i in _numbers(graph, 1)}
        return inputs, [_text(tensors[i], 3) for i in _numbers(graph, 2)]
    except (
        IndexError,
        ValueError,
        TypeError,
        OverflowError,
        UnicodeDecodeError,
        flatbuffers.packer.struct.error,
    ):
        raise ModelError(f"{path.name} is a damaged TFLite model: its subgraph cannot be read") from None


def _offset(table: Table, field: int) -> int:
    return table.Offset(4 + 2 * field)


def _tables(table: Table, field: int) -> list[Table]:
    """A field that is a vector of tables."""
    at = _offset(table, field)
    start, count = (table.Vector(at), table.VectorLen(at)) if at else (0, 0)
    return [Table(table.Bytes, table.Indirect(start + 4 * i)) for i in range(min(count, len(table.Bytes)))]


def _numbers(table: Table, field: int) -> list[int]:
    """A field that is a vector of int32."""
    at = _offset(table, field)
    start, count = (table.Vector(at), table.VectorLen(at)) if at else (0, 0)
    flags = number_types.Int32Flags
    return [int(table.Get(flags, start + 4 * i)) for i in range(min(count, len(table.Bytes)))]


def _text(table: Table, field: int) -> str:
    at = _offset(table, field)
    return table.String(at + table.Pos).decode() if at else ""


def _rename(graph: Graph, tensors: list[str], names: list[str]) -> None:
    """Gives a graph's inputs or outputs the model's names, where these are names and nothing else has them."""
    if len(set(names)) != len(names) or len(names) != len(tensors) or "" in names:
        return
    for old, new in zip(list(tensors), names, strict=True):
        if new == old or new in graph.tensors:
            continue
        tensor = graph.tensors.pop(old)
        tensor.name = new
        graph.tensors[new] = tensor
        for operator in graph.operators:
            operator.inputs = [new if name == old else name for name in operator.inputs]
            operator.outputs = [new if name == old else name for name in operator.outputs]
        for port in (graph.inputs, graph.outputs):
            port[:] = [new if name == old else name for name in port]
