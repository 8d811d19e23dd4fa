"""What a run executed: instructions in order, and where branches broke the order of the program."""

import dataclasses

from tosaic.hw.isa import Instruction

from .transfer import UnpackedRow


@dataclasses.dataclass
class Trace:
    """`program_instructions` is the program's size; what lies behind the last instruction executed is fetched, too."""

    program_instructions: int
    core: int = 0
    address: int = 0
    """Address of the program in external memory."""
    instructions: list[Instruction] = dataclasses.field(default_factory=list)
    decode_cycles: list[int] = dataclasses.field(default_factory=list)
    """Cycles that the decoder takes for each LOAD_DECODE, from its start to its result."""
    unpacked_rows: list[UnpackedRow] = dataclasses.field(default_factory=list)
    """Rows of packed LOAD_GOs, in their order."""
    streamed_words: int = 0
    """Number of words of weights that are there before the first instruction."""
    jumps: dict[int, int] = dataclasses.field(default_factory=dict)
    """Place in `instructions` of a branch that was taken -> number in the program of the instruction it led to."""
