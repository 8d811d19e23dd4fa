"""Memories that become instances of a module of another kind: which ones can, and how they are connected."""

from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance
from amaranth.lib import memory


def is_plain(target: memory.Memory) -> bool:
    """Whether a memory begins with zeros and has one write port, and no port has another clock than `sync` or sees what
    is written in the same cycle."""
    return (
        len(target.write_ports) == 1
        and all(port.domain == "sync" for port in (*target.read_ports, *target.write_ports))
        and not any(port.transparent_for for port in target.read_ports)
        and not any(Const.cast(Const(value, target.shape)).value for value in target.init)
    )


def instance(module: str, target: memory.Memory, number: int = 0, **parameters: int) -> Any:
    """A `module` in the place of a plain memory, for one of its read ports."""
    (write,), read = target.write_ports, target.read_ports[number]
    return Instance(
        module,
        **parameters,
        i_clk=ClockSignal(),
        i_read_enable=read.en,
        i_read_address=read.addr,
        o_read_data=read.data,
        i_write_enable=write.en,
        i_write_address=write.addr,
        i_write_data=write.data,
    )
