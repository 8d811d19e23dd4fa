"""Names a reader can follow: those of the Python hierarchy, without the marks by which Amaranth keeps them apart."""

import re
from collections.abc import Collection

from .module import Instance, Module, Signal
from .phrases import Phrases
from .tokens import KEYWORDS, plain, spell, substitute

AT_START = "at_start"
"""The signal by which Yosys makes every `always @*` run at time 0."""
_MARK = re.compile(r"\$\d+")
_NAMELESS = re.compile(r"\$\d+|_\d+_|(\$signal|\$like|\$?signature__\w+)(\$\d+)*")
"""What neither Python nor a memory's port says more of."""
_KINDS = (
    (r"[^?]*\?.*", "choice"),
    (r"[^<>]*(<<|>>).*", "shifted"),
    (r".* \+ .*", "sum"),
    (r".* - .*", "difference"),
    (r".* \* .*", "product"),
)
_OTHER_KINDS = ("value", "selected")
"""Of what no form above fits: by an assignment, by a process."""


def rename(modules: list[Module], top: str, *, for_readers: bool = False) -> list[Module]:
    """Every module, instance and signal gets a plain name; the modules in the order of the hierarchy from `top` on.

    tosaic.accelerator.vector.lanes$350.lane_0 becomes tosaic_vector_lanes_lane_0. `for_readers`: what has no name in
    Python gets one by what it is made of or used for."""
    by_name = {module.name: module for module in modules}
    ordered: list[Module] = []
    taken: set[str] = set()

    def visit(module: Module, path: tuple[str, ...], parent: Instance | None) -> None:
        ordered.append(module)
        if parent is not None:
            _name_ports(module, parent)
        for instance in module.instances:
            instance.name = _MARK.sub("", instance.name)
        reserved = {_word(instance.name) for instance in module.instances}
        driven = _driven(module, by_name) if for_readers else None
        names = _name_signals(module, reserved, driven)
        if parent is not None:
            _reconnect(parent, names)
        used = set(module.signals)
        module.name = _free("_".join(path) if parent is None or len(path) > 1 else f"{top}_core", taken)
        taken.add(module.name)
        for instance in module.instances:
            step = () if instance.name == "accelerator" else (instance.name,)
            instance.name = _free(_word(instance.name), used)
            used.add(instance.name)
            child = by_name.get(instance.module)
            if child is not None:
                visit(child, (*path, *step), instance)
                instance.module = child.name

    visit(by_name[top], (top,), None)
    return ordered


def _name_ports(module: Module, parent: Instance) -> None:
    """Ports without a name of their own take that of the signal they are, else of what the parent connects."""
    names: dict[str, str] = {}
    own = {_plain(signal.name) for signal in module.signals.values() if not signal.name.startswith("port$")}
    for port in module.ports:
        if not port.name.startswith("port$") and not port.better_name:
            continue
        name = port.better_name or _connected(parent.connections.get(port.name, "")) or "port"
        names[port.name] = _free(_plain(name), own)
        own.add(names[port.name])
        module.results.add(names[port.name])
    _rename(module, names)
    _reconnect(parent, names)


def _reconnect(parent: Instance, names: dict[str, str]) -> None:
    parent.connections = {names.get(port, port): value for port, value in parent.connections.items()}


def _connected(expression: str) -> str:
    """`word[15:8]` gives word_15_8; nothing for what is long."""
    parts = re.findall(r"[A-Za-z_]\w*|\d+", expression)
    return "_".join(parts) if len(parts) <= 3 else ""


def _driven(module: Module, by_name: dict[str, Module]) -> dict[str, str]:
    """Words for signals that instances drive: instance and port."""
    words = {}
    for instance in module.instances:
        child = by_name.get(instance.module)
        for port, value in instance.connections.items():
            if child is not None and child.signals[port].direction == "output":
                words[plain(value.strip() + " ")] = f"{instance.name}_{_own_name(child, port, by_name)}"
    return words


def _own_name(module: Module, port: str, by_name: dict[str, Module]) -> str:
    """Of a port: its own, or that of what drives it further down."""
    name = module.signals[port].better_name or port
    if not name.startswith("port$"):
        return name
    inner = _driven(module, by_name).get(port, "")
    return inner.rpartition(".")[2] or "output"


def _name_signals(module: Module, reserved: set[str], driven: dict[str, str] | None) -> dict[str, str]:
    """New names by old ones; `reserved` are the names of instances, which only ports may take. `driven`, for readers:
    words for signals that instances drive."""
    kinds = {}
    for statement in module.statements:
        if match := re.match(r"  assign \\(\$\d+)\s+= (.*);", statement):
            kinds[match[1]] = next(
                (kind for form, kind in _KINDS if re.fullmatch(form, match[2])), _OTHER_KINDS[0]
            )
    names: dict[str, str] = {}
    used: set[str] = set()
    # Ports come first and keep their names, then those that need no change.
    order = sorted(
        module.signals.values(),
        key=lambda s: (not s.direction, "$" in s.name or bool(s.better_name), "." in s.name),
    )
    nameless = set()
    if driven is not None:
        nameless = {s.name for s in order if not s.direction and _NAMELESS.fullmatch(_base(s))}
    phrases = Phrases(module, nameless, names, driven or {})
    # What has no name is named after what has one.
    for signal in sorted(order, key=lambda s: s.name in nameless):
        base = _base(signal)
        if re.fullmatch(r"\$\d+", base):
            base = kinds.get(base, _OTHER_KINDS[1] if signal.is_reg else _OTHER_KINDS[0])
        elif re.fullmatch(r"_\d+_", base):
            base = "read_word"
        elif base.startswith("$auto$verilog_backend"):
            base = AT_START
        if signal.name in nameless:
            base = phrases.name_of(signal.name) or base
        name = _free(_plain(base), used if signal.direction else used | reserved)
        used.add(name)
        names[signal.name] = name
    module.results = {names[name] for name in nameless | module.results if module.signals[name].bits > 1}
    _rename(module, names)
    return names


def _base(signal: Signal) -> str:
    return signal.better_name or signal.name


def _rename(module: Module, names: dict[str, str]) -> None:
    def replace(name: str) -> str:
        return spell(names.get(name, name))

    for signal in module.signals.values():
        if signal.name in names:
            signal.name, signal.better_name = names[signal.name], ""
    module.signals = {signal.name: signal for signal in module.signals.values()}
    module.statements = [substitute(statement, replace) for statement in module.statements]
    for instance in module.instances:
        instance.connections = {
            port: substitute(value, replace) for port, value in instance.connections.items()
        }


def _plain(name: str) -> str:
    return _word(_MARK.sub("", name))


def _word(name: str) -> str:
    """A legal identifier like `name`."""
    word = re.sub(r"\W+", "_", name).strip("_") or "value"
    return f"{word}_" if word in KEYWORDS else f"n{word}" if word[0].isdigit() else word


def _free(name: str, taken: Collection[str]) -> str:
    """`name`, or with a number behind it when it is taken."""
    number, free = 2, name
    while free in taken:
        free = f"{name}_{number}"
        number += 1
    return free
