"""Names a reader can follow: those of the Python hierarchy, without the marks by which Amaranth keeps them apart."""

from collections.abc import Mapping

from .clocks import clock_names
from .expressions import Concatenation, Expression, MemoryWord, VerilogOperation, slices
from .fields import by_fields, fields_of, is_python
from .module import Instance, Module
from .phrases import Phrases
from .rtlil import RtlilSlice
from .words import free, plain, word

_KINDS = {
    "?:": "choice",
    "<<": "shifted",
    ">>": "shifted",
    ">>>": "shifted",
    "+": "sum",
    "-": "difference",
    "*": "product",
}
"""Words for operations whose operands and uses have no name."""


def rename(modules: list[Module], top: str) -> list[Module]:
    """Every module, instance and signal gets a plain name; the modules in the order of the hierarchy from `top` on.

    tosaic.accelerator.vector.lanes$350.lane_0 becomes tosaic_vector_lanes_lane_0. What has no name in Python gets one
    by what it is made of or used for."""
    return _Hierarchy(modules).named(top)


class _Hierarchy:
    def __init__(self, modules: list[Module]) -> None:
        self.by_name = {module.name: module for module in modules}
        self.ordered: list[Module] = []
        self.taken: set[str] = set()
        self.words_of_outputs: dict[tuple[str, str], str] = {}

    def named(self, top: str) -> list[Module]:
        """The modules, each behind the one that has it."""
        module = self.by_name[top]
        module.rename(self._signals(module, {}))
        self._visit(module, (top,))
        return self.ordered

    def _visit(self, module: Module, path: tuple[str, ...]) -> None:
        """A module whose signals have their names: its own name, its instances' and what is in these."""
        self.ordered.append(module)
        module.name = free(
            "_".join(path) if len(path) != 1 or not self.taken else f"{path[0]}_core", self.taken
        )
        self.taken.add(module.name)
        used = set(module.signals)
        phrases = Phrases(module, set(), {}, {})
        for instance in module.instances:
            name = plain(instance.name)
            step = () if name == "accelerator" else (name,)
            original, instance.name = instance.name, free(word(name), used)
            module.instance_names[original] = instance.name
            used.add(instance.name)
            child = self.by_name.get(instance.module)
            if child is None:
                continue
            names = self._signals(child, self._given(child, instance, phrases))
            child.rename(names)
            ports = {port: names.get(f"\\{port}", port) for port in instance.connections}
            instance.connections = {ports[port]: value for port, value in instance.connections.items()}
            instance.outputs = {ports[port] for port in instance.outputs}
            self._visit(child, (*path, *step))
            instance.module = child.name

    def _given(self, module: Module, parent: Instance, phrases: Phrases) -> dict[str, str]:
        """Names of clocks, and of ports without one: inputs by what the parent connects, of which `phrases` tells."""
        given = clock_names(module, parent)
        own = {word(signal.name) for signal in module.signals.values() if is_python(signal.name)} | {
            *given.values()
        }
        for port in module.ports:
            if is_python(port.name):
                continue
            if port.direction == "input":
                value = parent.connections[port.name.removeprefix("\\")]
                name = _alias(module, port.whole) or phrases.of(value) or "port"
            else:
                name = self._word_of_output(module, port.name)
            given[port.name] = free(word(name), own)
            own.add(given[port.name])
            module.results.add(port.name)
        return given

    def _word_of_output(self, module: Module, port: str) -> str:
        """The word for an output: its name, else an alias, what drives it further down, or its expression."""
        if is_python(port):
            return port
        key = (module.original, port)
        if key not in self.words_of_outputs:
            self.words_of_outputs[key] = "output"
            driven = self._driven(module).get(port, "").rpartition(".")[2]
            nameless = {name for name in module.signals if not is_python(name)}
            self.words_of_outputs[key] = (
                _alias(module, module.signals[port].whole)
                or driven
                or Phrases(module, nameless, {}, {}).by_expression(port)
                or "output"
            )
        return self.words_of_outputs[key]

    def _driven(self, module: Module) -> dict[str, str]:
        """Words for signals that instances drive: instance and port."""
        words = {}
        for instance in module.instances:
            child = self.by_name.get(instance.module)
            if child is None:
                continue
            for port in instance.outputs:
                name = self._word_of_output(child, "\\" + port)
                for use in slices(instance.connections[port]):
                    words[use.wire] = f"{plain(instance.name)}.{plain(name)}"
        return words

    def _signals(self, module: Module, given: Mapping[str, str]) -> dict[str, str]:
        """Names of all signals by those of RTLIL; those of instances are left to ports alone."""
        names, used = dict(given), set(given.values())
        reserved = {word(instance.name) for instance in module.instances}
        nameless = {
            signal.name
            for signal in module.signals.values()
            if not signal.direction and not is_python(signal.name)
        }
        phrases = Phrases(
            module, nameless, names, {name: plain(text) for name, text in self._driven(module).items()}
        )
        # Ports come first and keep their names, then those that need no change; what has none is named after them.
        order = sorted(
            (signal for signal in module.signals.values() if signal.name not in given),
            key=lambda s: (not s.direction, s.name in nameless, "$" in s.name, "." in s.name),
        )
        for signal in order:
            base = signal.name
            if base in nameless:
                base = phrases.name_of(base) or _kind(phrases, base)
            names[signal.name] = free(word(base), used if signal.direction else used | reserved)
            used.add(names[signal.name])
        module.results = {name for name in nameless | module.results if module.signals[name].bits > 1}
        return names


def _alias(module: Module, port: RtlilSlice) -> str | None:
    """What Python calls a port that has no name: a name of the whole, of the only record that it is bits of, or of its
    parts."""
    named = [(plain(name.wire), value) for name, value in module.aliases if is_python(name.wire)]
    around = [
        (value.bits, name)
        for name, value in named
        if value == port or (isinstance(value, Concatenation) and _is_all_but_constants(value, port))
    ]
    if around:
        return min(around)[1]
    parts = by_fields(port, fields_of(module).get(port.wire, {}))
    return "_".join(plain(part.wire) for part in slices(parts)) if parts != port else None


def _is_all_but_constants(value: Expression, port: RtlilSlice) -> bool:
    """Whether a record is this port and bits that never change."""
    parts = [part for part in slices(value) if part.wire == port.wire]
    others = [part for part in slices(value) if part.wire != port.wire]
    return not others and sum(part.bits for part in set(parts)) == port.bits


def _kind(phrases: Phrases, signal: str) -> str:
    value = phrases.definitions.get(signal)
    if isinstance(value, VerilogOperation):
        return _KINDS.get(value.operator, "value")
    return "read_word" if isinstance(value, MemoryWord) else "selected"
