"""What the array waits for first comes first: small groups of weights before parameters, and small first boxes."""

from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import INSTRUCTION_BYTES, Instruction, Opcode, Space, decode


def _network(size: int, channels: int) -> Graph:
    build = LayerBuilder(3)
    x = build.input("x", (1, size, size, 16), DType.INT8)
    wide = build.conv(x, channels, (3, 3), pad=(1, 1, 1, 1))
    build.output(build.rescale(wide, DType.INT8, per_channel=True))
    return build.graph


def _loads(graph: Graph) -> list[Instruction]:
    program = compile_graph(graph, get_config("base"))
    code = program.image[program.program_address :][: program.program_bytes]
    found = [decode(code[at : at + INSTRUCTION_BYTES]) for at in range(0, len(code), INSTRUCTION_BYTES)]
    return [each for each in found if each.opcode is Opcode.LOAD_GO]


def test_the_first_weights_come_before_the_parameters() -> None:
    loads = _loads(_network(8, 64))
    params = [load.row_bytes for load in loads].index(4 * 16 * 9)
    assert loads[0].space == Space.AM and [load.space for load in loads[1:params]] == [Space.WM]
