"""PAD's value and tables that are computed at run time (see `run_time_parameters.py`)."""

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.run_time_arithmetic import (
    binary,
    cast,
    number,
)


def pad(new: Rewriting) -> None:
    """Padding with zeros, of elements that a bitwise exclusive or turns to and fro."""
    data, padding, value = new.operator.inputs
    dtype, output = new.dtype(data), new.operator.outputs[0]
    turn = "LOGICAL_XOR" if dtype is DType.BOOL else "BITWISE_XOR"
    mask = new.reshape(value, (1,) * new.rank(data))
    turned = new.op(turn, data, mask, dtype=dtype)
    padded = new.op("PAD", turned, padding, new.zeros(1, dtype), dtype=dtype)
    new.op(turn, padded, mask, dtype=dtype, output=output)


def table(new: Rewriting) -> None:
    """The table's entries as the vector unit reads them: an int32 with the value, and the next one of an int16 table
    in its high half."""
    data, table = new.operator.inputs
    count, entries = new.shape(table)[0], cast(new, table, DType.INT32)
    if new.dtype(data) is not DType.INT8:
        first, following = (new.slice(entries, (start,), (count - 1,)) for start in (0, 1))
        low = binary(new, "BITWISE_AND", first, number(new, 0xFFFF, first))
        high = binary(new, "LOGICAL_LEFT_SHIFT", following, number(new, 16, following))
        entries = binary(new, "BITWISE_OR", low, high)
    output = new.operator.outputs[0]
    new.op("TABLE", data, entries, dtype=new.dtype(output), output=output)
