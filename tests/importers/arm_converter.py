"""A second opinion: Arm's converter (`tosa-converter-for-tflite`) and the serializer of `tosa-tools`."""

import pathlib
import subprocess
import sys
import tempfile

import tosa_converter_for_tflite as converter
from tosa_converter_for_tflite import _tflite_flatbuffer_to_tosa_mlir as convert

from tosaic.compiler.ir import Graph, read_tosa

_PASSES = (
    "builtin.module(func.func(tosa-convert-integer-type-to-signless),tosa-attach-target{{specification_version=1.0 "
    "profiles=pro_int,pro_fp extensions=int16,int4,doubleround,controlflow level=8k}},"
    "tosa-validate{{strict-op-spec-alignment=true}},tosa-serialize{{tosa-flatbuffer-filename={target}}})"
)


def converted(path: pathlib.Path, shapes: dict[str, list[int]]) -> Graph:
    """The graph that the converter makes of a file; `shapes` are those of all inputs."""
    with tempfile.TemporaryDirectory() as folder:
        mlir, tosa = pathlib.Path(folder, "model.mlirbc"), pathlib.Path(folder, "model.tosa")
        bytecode, silent = (
            converter.TosaConverterOutputFormat.Bytecode,
            converter.TosaConverterDebugInfo.Disabled,
        )
        convert(str(path), str(mlir), bytecode, silent, shapes)
        serializer = str(pathlib.Path(sys.executable).with_name("tosa-opt"))
        passes = f"--pass-pipeline={_PASSES.format(target=tosa)}"
        subprocess.run([serializer, str(mlir), passes, "-o", "/dev/null"], check=True, capture_output=True)
        return read_tosa(tosa)
