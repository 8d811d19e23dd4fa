"""TOSA's reference model."""

import json
from importlib import metadata

from tosaic.driver.conformance.bake import find_model

from ..case import GRAPH, TOSA, JudgeCase, input_files, output_files
from ..outcome import Crash, Refusal, Undefined
from .consumer import Outputs, consumer, placed, scratch
from .programs import run_program

_REFUSES = (1, 2, 3)
"""Its exit codes where it does not compute a graph."""
_UNDEFINED = "Graph result: UNPREDICTABLE"


@consumer("reference-model")
class ReferenceModel:
    """`tosa_reference_model` of tosa-tools."""

    name, form = "reference-model", TOSA

    def __init__(self, _: str = ""):
        self._program = ""

    def version(self) -> str:
        self._program = find_model()
        return f"tosa-tools {metadata.version('tosa-tools')}"

    def run(self, case: JudgeCase, limit_seconds: float) -> Outputs:
        graph = case.graph
        with scratch() as folder:
            place = placed(case, folder)
            # By options it takes no graph without inputs, and no name with a comma.
            described = {
                "tosa_file": GRAPH,
                "ifm_name": graph.inputs,
                "ifm_file": input_files(graph),
                "ofm_name": graph.outputs,
                "ofm_file": output_files(graph),
                "expected_failure": False,
            }
            (place / "desc.json").write_text(json.dumps(described))
            command = [self._program or find_model(), "--test_desc=desc.json", "--tosa_level=EIGHTK"]
            # Without a path it finds no gdb, which would write a backtrace of each error for two seconds.
            try:
                run_program(command, place, limit_seconds, _REFUSES, {"PATH": ""})
            except Refusal as refusal:
                if _UNDEFINED in str(refusal.__notes__):
                    raise Undefined("the reference model calls the result unpredictable") from None
                raise
            try:
                return case.outputs_in(place)
            except (OSError, ValueError) as error:
                raise Crash(f"an output cannot be read: {error}".replace(f"{folder}/", "")) from None
