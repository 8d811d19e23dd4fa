"""Tables as logic."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, ValueLike, unsigned
from amaranth.lib import memory


def lookup(m: Module, name: str, values: Sequence[int], width: int, index: ValueLike) -> Any:
    """`values[index]`, `width` bits, made of logic and not of a block RAM; `name` is the submodule's."""
    table = memory.Memory(shape=unsigned(width), depth=len(values), init=values, attrs={"rom_style": "logic"})
    m.submodules[name] = table
    port = table.read_port(domain="comb")
    m.d.comb += port.addr.eq(index)
    return port.data
