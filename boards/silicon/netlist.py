"""The netlist that Yosys wrote, flattened: cells with their places in the hierarchy, and nets."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

Modules = Mapping[str, Mapping[str, Any]]
"""`modules` of Yosys' JSON."""
Net = int | None
"""The number of a net; None for a constant."""


@dataclasses.dataclass(frozen=True, slots=True)
class NetlistInstance:
    """A standard cell or a memory."""

    path: tuple[str, ...]
    """Names of the instances around it."""
    name: str
    kind: str
    pins: dict[str, tuple[Net, ...]]
    """Nets by port; a cell's port has one."""


_CONSTANT = -1
"""In place of a net: a 0 or a 1."""


@dataclasses.dataclass(frozen=True)
class FlatNetlist:
    """All instances below the top module, its ports, and what each net is called where it belongs."""

    instances: list[NetlistInstance]
    inputs: dict[str, tuple[Net, ...]]
    """The ports of the top module."""
    outputs: dict[str, tuple[Net, ...]]
    names: list[tuple[tuple[str, ...], str, int]]
    """Names of each net: path of the module that it belongs to, its name there, and the bit."""

    @staticmethod
    def of_yosys(modules: Modules, top: str) -> "FlatNetlist":
        """The netlist of the module `top`. Black boxes and unknown modules are its instances."""
        flat = _Flattening(modules)
        nets: dict[int, int] = {}
        flat.name_nets(top, (), nets)
        ports = {
            way: {
                name: tuple(flat.bits(port["bits"], nets))
                for name, port in modules[top]["ports"].items()
                if port["direction"] == way
            }
            for way in ("input", "output")
        }
        flat.add(top, (), nets)
        instances = [
            NetlistInstance(path, name, kind, {port: flat.joined(bits) for port, bits in pins.items()})
            for path, name, kind, pins in flat.found
        ]
        inputs, outputs = (
            {name: flat.joined(bits) for name, bits in ports[way].items()} for way in ("input", "output")
        )
        return FlatNetlist(instances, inputs, outputs, flat.names)


class _Flattening:
    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.found: list[tuple[tuple[str, ...], str, str, dict[str, list[int]]]] = []
        self.names: list[tuple[tuple[str, ...], str, int]] = []
        self.same: dict[int, int] = {}
        """A net, or _CONSTANT, that is the same as a net: a module may lead an input through, or tie an output."""

    def add(self, name: str, path: tuple[str, ...], nets: dict[int, int]) -> None:
        """The cells of a module, whose bits are these nets."""
        for cell_name, cell in self.modules[name]["cells"].items():
            kind = cell["type"]
            pins = {port: self.bits(bits, nets) for port, bits in cell["connections"].items()}
            inner = self.modules.get(kind)
            if inner is None or "blackbox" in inner["attributes"]:
                self.found.append((path, cell_name, kind, pins))
                continue
            below, own = (*path, cell_name), dict[int, int]()
            for port, description in inner["ports"].items():
                for bit, net in zip(description["bits"], pins.get(port, ()), strict=False):
                    self._connect(bit, net, own)
            self.name_nets(kind, below, own)
            self.add(kind, below, own)

    def _connect(self, bit: int | str, net: int, own: dict[int, int]) -> None:
        """A port's bit inside a module, and the net outside."""
        if isinstance(bit, str):
            self._join(net, _CONSTANT)
        elif bit in own:
            self._join(net, own[bit])
        else:
            own[bit] = net

    def _join(self, one: int, other: int) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            self.same[max(one, other)] = min(one, other)

    def _root(self, net: int) -> int:
        while net in self.same:
            net = self.same[net]
        return net

    def name_nets(self, module: str, path: tuple[str, ...], nets: dict[int, int]) -> None:
        """Numbers the nets of a module that no port of it has brought."""
        for name, wire in self.modules[module]["netnames"].items():
            for place, bit in enumerate(wire["bits"]):
                if isinstance(bit, int) and bit not in nets:
                    nets[bit] = len(self.names)
                    self.names.append((path, name, place + wire.get("offset", 0)))

    @staticmethod
    def bits(bits: list[int | str], nets: dict[int, int]) -> list[int]:
        """Nets of bits that have names."""
        return [_CONSTANT if isinstance(bit, str) else nets[bit] for bit in bits]

    def joined(self, nets: Iterable[int]) -> tuple[Net, ...]:
        """What they are in the end."""
        roots = map(self._root, nets)
        return tuple(None if root == _CONSTANT else root for root in roots)
