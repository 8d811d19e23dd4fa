"""One clock has one name: domains that differ in their reset alone are `clk` in every module.

Amaranth names the ports of a module's clock and reset after its clock domain, units_clk and units_rst. Who reads the
Verilog of a module wants to know that there is one clock; and the reset of a module that has only one is `rst`.
"""

from collections.abc import Iterable

from .module import Instance, Module, Signal

CLOCK, RESET = "clk", "rst"


def name_clocks(modules: Iterable[Module]) -> None:
    """Rename, from the top down, the ports of modules that are connected with their parent's clock."""
    by_name = {module.name: module for module in modules}
    inner = {instance.module for module in by_name.values() for instance in module.instances}
    left = [module for name, module in by_name.items() if name not in inner]
    while left:
        module = left.pop()
        for instance in module.instances:
            if instance.module in by_name:
                child = by_name[instance.module]
                _name_ports(instance, child)
                left.append(child)


def _name_ports(instance: Instance, child: Module) -> None:
    inputs = [port.name for port in child.ports if port.direction == "input"]
    clocks = [port for port in inputs if _is(CLOCK, port) and instance.connections.get(port) == CLOCK]
    _rename_ports(instance, child, {port: CLOCK for port in clocks})
    resets = [port for port in inputs if _is(RESET, port)]
    if clocks and len(resets) == 1:
        _rename_ports(instance, child, {resets[0]: RESET})


def _is(kind: str, port: str) -> bool:
    """A domain's own port, and not one of an interface (`a__clk`)."""
    return port == kind or (port.endswith(f"_{kind}") and "__" not in port)


def _rename_ports(instance: Instance, child: Module, names: dict[str, str]) -> None:
    signals: dict[str, Signal] = {}
    for name, signal in child.signals.items():
        signal.name = names.get(name, name)
        signals.setdefault(signal.name, signal)
    child.signals = signals
    child.rename(names)
    instance.connections = {names.get(port, port): value for port, value in instance.connections.items()}


__all__ = ["name_clocks"]
