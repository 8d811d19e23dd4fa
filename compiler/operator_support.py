"""Which operators of a graph run on an accelerator, found by compiling each one by itself."""

import dataclasses

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph, Operator, validate
from tosaic.compiler.legalize.custom import without_custom
from tosaic.compiler.legalize.decompose import decompose
from tosaic.compiler.legalize.normalise import normalise
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.program import Program
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, Unit, decode


@dataclasses.dataclass(frozen=True)
class Support:
    """The verdict on one operator; `reason` says how it runs, or why it does not."""

    operator: Operator
    runs: bool
    reason: str


def check_support(graph: Graph, config: Config) -> list[Support]:
    """A verdict per operator, in graph order. Raises ModelError when the graph is illegal."""
    validate(graph)
    folded = normalise(graph)
    left = {operator.name for operator in folded.operators}
    verdicts = []
    for operator in graph.operators:
        if operator.name not in left:
            verdicts.append(
                Support(operator, True, "folded: all operands are constants, or nothing reads it")
            )
        elif KIND.get(operator.op) is Kind.RENAMING:
            verdicts.append(Support(operator, True, "renames a tensor, moves nothing"))
        else:
            alone = _alone(folded, operator)
            alone.why_floats = graph.why_floats and "it computes floats: why is told below"
            try:
                how = describe(alone, config)
            except UnsupportedError as error:
                verdicts.append(Support(operator, False, str(error)))
            else:
                verdicts.append(Support(operator, True, f"runs on the accelerator: {how}"))
    return verdicts


def _alone(graph: Graph, operator: Operator) -> Graph:
    """A graph with this operator only; what it reads is a graph input, unless constant."""
    names = dict.fromkeys([*operator.inputs, *operator.outputs])
    return Graph(
        operator.name,
        [name for name in dict.fromkeys(operator.inputs) if graph.tensors[name].data is None],
        list(operator.outputs),
        {name: graph.tensors[name] for name in names},
        [operator],
        graph.version,
        graph.subgraphs,
    )


def describe(graph: Graph, config: Config) -> str:
    """How a graph of one operator runs: "array, vector unit", or what it is decomposed into and then the units.

    Raises UnsupportedError when it does not run.
    """
    program = compile_graph(graph, config, optimize=False)
    before = {operator.op for operator in graph.operators}
    parts = dict.fromkeys(operator.op for operator in decompose(normalise(without_custom(graph))).operators)
    made = [name for name in parts if name not in before]
    units = ", ".join(units_of(program)) or "nothing moves"
    return f"as {', '.join(parts)}: {units}" if made else units


def units_of(program: Program) -> list[str]:
    """Which units compute in a program, in words; the transfers around them count only where there is nothing else."""
    code = program.image[program.program_address : program.program_address + program.program_bytes]
    opcodes = {
        decode(bytes(code[start : start + INSTRUCTION_BYTES])).opcode
        for start in range(0, len(code), INSTRUCTION_BYTES)
    }
    found = []
    if Opcode.ARRAY_GO in opcodes:
        found.append("array")
    if Opcode.ARRAY_DEPTHWISE_GO in opcodes:
        found.append("array (depthwise)")
    if Opcode.VECTOR_GO in opcodes:
        found.append("vector unit")
    plain = {Opcode.BEGIN, Opcode.END, Opcode.NOP}
    if any(opcode.unit is Unit.SEQUENCER and opcode not in plain for opcode in opcodes):
        found.append("sequencer (branches)")
    if not found and Opcode.STORE_GO in opcodes:
        found.append("DMA")
    return found
