"""What ExecuTorch calls for each part that the partitioner chose: to a TOSA graph, and to a program."""

import math
import warnings
from typing import final

import numpy as np
from executorch.backends.arm.tosa.backend import TOSABackend
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export.exported_program import ExportedProgram

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph, read_tosa, validate
from tosaic.driver.configuration import find_config
from tosaic.errors import ModelWarning
from tosaic_executorch.program_blob import program_blob

CONFIG_KEY = "tosaic_config"


@final
class TosaicBackend(BackendDetails):
    """Lowers by ExecuTorch's TOSA back end, and compiles the TOSA graph for a configuration of the accelerator."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """The part's bytes. Raises tosaic.UnsupportedError for a graph that the accelerator does not run."""
        config = next(bytes(spec.value).decode() for spec in compile_specs if spec.key == CONFIG_KEY)
        others = [spec for spec in compile_specs if spec.key != CONFIG_KEY]
        graph = tosa_graph(TOSABackend.preprocess(edge_program, others).processed_bytes)
        program = compile_graph(graph, find_config(config))
        inputs = {name: graph.tensors[name] for name in graph.inputs}
        input_bytes = {
            name: math.prod(tensor.shape) * np.dtype(tensor.dtype.numpy).itemsize
            for name, tensor in inputs.items()
        }
        return PreprocessResult(processed_bytes=program_blob(program, input_bytes, list(graph.outputs)))


def tosa_graph(data: bytes) -> Graph:
    """The graph that ExecuTorch's TOSA back end wrote."""
    with warnings.catch_warnings():
        # It stores the zero points of all channels under shape [1], which the reader tells of.
        warnings.simplefilter("ignore", ModelWarning)
        graph = read_tosa(bytes(data))
    validate(graph)
    return graph
