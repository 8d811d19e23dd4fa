"""TOSA's reference model."""

from importlib import metadata

from tosaic.driver.conformance.bake import find_model

from ..case import GRAPH, TOSA, Case, input_files, output_files
from ..outcome import Crash, Refusal
from .consumer import Outputs, consumer, placed, scratch
from .programs import run_program

_REFUSES = (1, 2, 3)
"""Its exit codes where it does not compute a graph."""


@consumer("reference-model")
class ReferenceModel:
    """`tosa_reference_model` of tosa-tools."""

    name, form = "reference-model", TOSA

    def __init__(self, _: str = ""):
        self._program = ""

    def version(self) -> str:
        self._program = find_model()
        return f"tosa-tools {metadata.version('tosa-tools')}"

    def run(self, case: Case, limit_seconds: float) -> Outputs:
        graph = case.graph
        if any("," in name for name in (*graph.inputs, *graph.outputs)):
            raise Refusal("its command line takes no names with a comma")
        with scratch() as folder:
            place = placed(case, folder)
            command = [
                self._program or find_model(),
                f"--tosa_file={GRAPH}",
                f"--ifm_name={','.join(graph.inputs)}",
                f"--ifm_file={','.join(input_files(graph))}",
                f"--ofm_name={','.join(graph.outputs)}",
                f"--ofm_file={','.join(output_files(graph))}",
                "--tosa_level=EIGHTK",
            ]
            # Without a path it finds no gdb, which would write a backtrace of each error for two seconds.
            run_program(command, place, limit_seconds, _REFUSES, {"PATH": ""})
            try:
                return case.outputs_in(place)
            except (OSError, ValueError) as error:
                raise Crash(f"an output cannot be read: {error}".replace(folder, "")) from None
