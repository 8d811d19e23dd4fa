"""What travels inside the vector unit: places in a GO's loops, decoded micro-ops, words fetched from memory."""

from amaranth.hdl import Value
from amaranth.lib import data, enum

from ..config import Config
from ..isa import STORE_STREAM, Opcode
from ..layouts import shapes


class Select(enum.Enum, shape=2):  # type: ignore[call-arg]
    """Where a lane's operand comes from. A SCALAR is the same in all lanes."""

    SCALAR = 0
    REGISTER = 1
    LOAD = 2
    ARRAY = 3


Operand = data.StructLayout(
    {
        "select": Select,
        "register": shapes(Opcode.VECTOR_UOP, "a_index")["a_index"],
        "immediate": 1,
        "iteration": 1,
    }
)
"""Source of an operand, decoded; with neither `immediate` nor `iteration` a SCALAR is zero."""

IssueFields = data.StructLayout(
    {
        "a": Operand,
        "b": Operand,
        "loads": STORE_STREAM,  # a bit per load stream: reads it
        "array": 1,  # takes a vector of the array
        "registers": 1,  # reads a register
        "store": 1,  # its result goes to memory
        "bias": 1,  # adds the lanes' biases to A
    }
)
"""What the issue needs to know of a micro-op."""


def stream_of(loads: Value) -> Value:
    """The number of the load stream that is read, 0 if none is: of three streams the bits of the last two."""
    return loads[1:]


Arithmetic = data.StructLayout(
    shapes(Opcode.VECTOR_UOP, "op", "per_channel", "round", "shift", "a_zp", "multiplier")
)
Finish = data.StructLayout(shapes(Opcode.VECTOR_UOP, "clamp", "wrap32", "to_memory", "destination"))
Limits = data.StructLayout(shapes(Opcode.VECTOR_BOUNDS, "low", "high"))
ParameterBlock = data.StructLayout(shapes(Opcode.VECTOR_PARAM, "address", "bias", "scale", "narrow"))
"""Where parameters lie in the activation memory, and which."""


def micro_op_index(config: Config) -> range:
    """Shape of a micro-op's place in the micro-program."""
    return range(max(config.vector_uops, 2))


class LoopPlace(data.StructLayout):
    """A place in the loops of a GO: slot `slot` of micro-op `index`, in a batch of `count` slots; `iteration` is the
    repetition of the body, 0 outside of it."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "index": micro_op_index(config),
                "slot": range(max(config.vector_slots, 2)),
                "count": range(config.vector_slots + 1),
                "iteration": shapes(Opcode.VECTOR_GO, "repeats")["repeats"],
            }
        )


TABLE_ENTRIES = 512


def table_words(config: Config) -> int:
    """Memory words that a full table fills."""
    return TABLE_ENTRIES * 4 // config.columns


class FetchedWord(data.StructLayout):
    """What a word read from the activation memory is, a flag per kind, and its number within its kind."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "bias": 1,
                "narrow_bias": 1,  # of 16 bits
                "multiplier": 1,
                "shift": 1,
                "table": 1,
                "offsets": 1,
                "test": 1,
                "word": range(table_words(config)),
            }
        )
