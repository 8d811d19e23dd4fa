"""Which dimensions of a stream a GO configures: those that its accesses come to."""

from tosaic.compiler.emit.commands import CommandTable
from tosaic.compiler.emit.vector_go import Access, Dim, VectorGo
from tosaic.compiler.fuse.expression import Load, Node
from tosaic.compiler.fuse.microprogram import assemble
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import STORE_STREAM, Element, Op, Opcode

CONFIG = get_config("base")
PROGRAM = assemble(Node(Op.ABS, Load("x", Element.INT8)), CONFIG)


def _go(vectors: int, dims: tuple[Dim, ...], *, tail_lanes: int = 16, indexed: bool = False) -> VectorGo:
    streams = {
        0: Access(0, Element.INT8, dims, indexed=indexed),
        STORE_STREAM: Access(64, Element.INT8, dims),
    }
    return VectorGo(PROGRAM, streams, vectors, 16, 16, tail_lanes, [], [])


def _pairs(wanted: dict) -> list[tuple[int, int]]:
    return [key[1:] for key in wanted if key[0] == Opcode.VECTOR_DIMS]


def test_one_vector_needs_no_dimensions() -> None:
    assert _pairs(_go(1, (Dim(1, 16),)).configuration({}, CommandTable())) == []


def test_pairs_that_no_access_comes_to_are_left_out() -> None:
    assert _pairs(_go(8, (Dim(8, 16),)).configuration({}, CommandTable())) == [(0, 0), (STORE_STREAM, 0)]
    assert (0, 1) in _pairs(_go(64, (Dim(4, 16), Dim(4, 64), Dim(4, 256))).configuration({}, CommandTable()))


def test_what_does_not_matter_stays_as_it_is() -> None:
    held = _go(24, (Dim(8, 16), Dim(3, 128))).configuration({}, CommandTable())
    wanted = _go(8, (Dim(8, 16),)).configuration(held, CommandTable())
    for key in ((Opcode.VECTOR_DIMS, 0, 0), (Opcode.VECTOR_DIMS, STORE_STREAM, 0)):
        assert wanted[key] == held[key]
    other = _go(8, (Dim(8, 32),)).configuration(held, CommandTable())[Opcode.VECTOR_DIMS, 0, 0].instruction
    assert (other.count_low, other.stride_low, other.count_high) == (8, 32, 3)


def test_turns_that_the_unit_compares_are_told() -> None:
    """Shorter vectors come at the last turn of the store stream's dimension 0, and turns of dimension 1 are compared
    with the number of offsets."""
    dims = (Dim(1, 16), Dim(1, 0))
    assert _pairs(_go(1, dims, tail_lanes=3).configuration({}, CommandTable())) == [(STORE_STREAM, 0)]
    assert _pairs(_go(1, dims, indexed=True).configuration({}, CommandTable())) == [(0, 0)]
