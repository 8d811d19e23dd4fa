"""Fewer words for the same hardware: every step takes a module and changes its text, never what it does."""

import collections
import re

from .module import Module, Signal
from .readable import make_readable
from .tokens import NAME, closed, identifiers, plain, spell, substitute
from .widths import write_widths
from .writer import LINE_LENGTH

_ALIAS = re.compile(rf"  assign ({NAME})\s*= ({NAME})\s*;")
_ASSIGN = re.compile(rf"  assign ({NAME})\s*= (.*);")
_WHOLE_OR_PART = re.compile(rf"  assign ({NAME}\s*(?:\[\d+(?::\d+)?\])?|\{{[^{{}}]*\}})\s*= (.*);")
_CLOCKED = re.compile(rf"(  always @\(posedge {NAME}\))\n    ({NAME})\s*<= ({NAME})\s*;")
_COMBINATIONAL = re.compile(rf"  always @\* begin\n    if \(({NAME})\) begin end\n(.*)\n  end", re.DOTALL)
_MEMORY_WORD = re.compile(rf"    ({NAME})\s*\[(\d+)\] = (.*);")
_ATOM = rf"(?:{NAME}\s*(?:\[\d+(?::\d+)?\])?|\d+'\w+|\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\))"


def tidy(module: Module, *, for_readers: bool = False) -> None:
    """All steps; `for_readers` as in `convert`."""
    merge_aliases(module)
    merge_registers(module)
    drop_unused(module)
    write_widths(module)
    write_defaults(module)
    if for_readers:
        make_readable(module)
    write_complements(module)
    write_inline(module)
    shorten_memories(module)


def merge_aliases(module: Module) -> None:
    """`assign a = b;` of whole signals: one of the two names is enough; an output keeps its own."""
    same: dict[str, str] = {}

    def find(name: str) -> str:
        while name in same:
            name = same[name]
        return name

    kept = []
    for statement in module.statements:
        match = _ALIAS.fullmatch(statement)
        if match is None:
            kept.append(statement)
            continue
        target, source = (plain(name) for name in match.groups())
        a, b = module.signals[target], module.signals[find(source)]
        if a.bits != b.bits or a.depth or b.depth:
            kept.append(statement)
        elif not a.direction:
            # The better name wins; a port that has none of its own takes it along.
            if "$" in b.name and "$" not in a.name and "." not in a.name and not b.better_name:
                b.better_name = a.name
            same[target] = b.name
            del module.signals[target]
        elif not b.direction and b.name not in same:
            a.is_reg, a.initial = b.is_reg, b.initial
            same[b.name] = target
            del module.signals[b.name]
        else:
            kept.append(statement)
    if same:
        module.statements = kept
        module.rename({name: find(name) for name in same})


def merge_registers(module: Module) -> None:
    """A register and the process that makes its next value become one clocked block."""
    clocked: dict[str, tuple[int, str, str]] = {}
    for index, statement in enumerate(module.statements):
        if match := _CLOCKED.fullmatch(statement):
            clocked[plain(match[3])] = (index, match[1], match[2])
    uses = _uses(module)
    for index, statement in enumerate(module.statements):
        match = _COMBINATIONAL.fullmatch(statement)
        if match is None:
            continue
        body = match[2].split("\n")
        targets = [re.match(rf"\s+({NAME})\s*(?:\[\d+(?::\d+)?\])?\s*= ", line) for line in body]
        names = {plain(target[1]) for target in targets if target}
        if len(names) != 1 or (next_value := names.pop()) not in clocked:
            continue
        # Nobody else may look at the next value, and the block may not look at it itself.
        if uses[next_value] != sum(1 for target in targets if target) + 1:
            continue
        place, head, register = clocked[next_value]
        register = spell(plain(register))
        lines = []
        for line, target in zip(body, targets, strict=True):
            if target:
                line = line.replace(target[1], register, 1).replace(" = ", " <= ", 1)
                line = re.sub(r"^(\s*\S+)\s+(\[\d+(?::\d+)?\])?\s*<= ", r"\1 \2<= ", line)
            lines.append(line)
        hold = re.compile(rf"\s+{re.escape(register.rstrip())}\s*<= {re.escape(register.rstrip())}\s*;")
        if hold.fullmatch(lines[0]):
            lines = lines[1:]
        module.statements[index] = "\n".join([f"{head} begin", *lines, "  end"])
        module.statements[place] = ""
        del module.signals[next_value]
    module.statements = [statement for statement in module.statements if statement]


def drop_unused(module: Module) -> None:
    """Names that nothing reads, such as the fields of structures and the marks of processes."""
    uses = _uses(module)
    defined = collections.defaultdict(list)
    writes: collections.Counter = collections.Counter()
    for index, statement in enumerate(module.statements):
        if match := _WHOLE_OR_PART.fullmatch(statement):
            targets = list(identifiers(match[1]))
            # A part of one name, or parts of it side by side.
            if len(set(targets)) == 1:
                defined[targets[0]].append(index)
                writes[targets[0]] += len(targets)
    pending = [name for name in module.signals if uses[name] <= max(writes[name], 1)]
    while pending:
        name = pending.pop()
        signal = module.signals.get(name)
        if signal is None or signal.direction or uses[name] != writes[name]:
            continue
        del module.signals[name]
        for index in defined[name]:
            statement = module.statements[index]
            module.statements[index] = ""
            for other in identifiers(statement):
                uses[other] -= 1
                if uses[other] == writes[other]:
                    pending.append(other)
    module.statements = [statement for statement in module.statements if statement]


def write_defaults(module: Module) -> None:
    """A case that leaves what it assigns as it is says so for every other value."""
    for index, statement in enumerate(module.statements):
        lines: list[str] = []
        has_default: list[bool] = []
        for line in statement.split("\n"):
            word = line.strip()
            if word.startswith(("case (", "casez (")):
                has_default.append(False)
            elif word.startswith("default:"):
                has_default[-1] = True
            elif word == "endcase" and not has_default.pop():
                margin = line[: len(line) - len(word)]
                lines += [f"{margin}  default:", f"{margin}      /* empty */;"]
            lines.append(line)
        module.statements[index] = "\n".join(lines)


def write_complements(module: Module) -> None:
    """A nameless complement of one bit is as short as its name: it is written wherever it is used."""
    complements: dict[str, str] = {}
    for index, statement in enumerate(module.statements):
        match = _ASSIGN.fullmatch(statement)
        if match is None or not re.fullmatch(r"\$\d+", plain(match[1])):
            continue
        operand = re.fullmatch(rf"~ ?({NAME}\s*(?:\[\d+\])?)\s*", match[2])
        if operand and _is_bit(module, operand[1]):
            complements[plain(match[1])] = f"(!{closed(operand[1])})"
            module.widths[f"(!{closed(operand[1])})"] = 1
            module.statements[index] = ""
    if not complements:
        return

    def replace(name: str) -> str:
        text = complements.get(name, spell(name))
        return substitute(text, replace) if name in complements else text

    module.statements = [substitute(statement, replace) for statement in module.statements if statement]
    for instance in module.instances:
        instance.connections = {
            port: substitute(value, replace) for port, value in instance.connections.items()
        }
    for name in complements:
        del module.signals[name]


def write_inline(module: Module) -> None:
    """Nameless signals of one bit that are used once, and nameless concatenations, move to where they are used.

    Only what means the same in every context: results of comparisons and reductions, logic of single bits, `{}`.
    """
    where: dict[str, list[int]] = collections.defaultdict(list)
    for index, statement in enumerate(module.statements):
        for name in identifiers(statement):
            where[name].append(index)
    uses = _uses(module)
    definitions = {}
    for index, statement in enumerate(module.statements):
        match = _ASSIGN.fullmatch(statement)
        if match and re.fullmatch(r"\$\d+", plain(match[1])) and uses[plain(match[1])] == 2:
            definitions[plain(match[1])] = index
    moved: dict[int, int] = {}
    for name, index in definitions.items():
        match = _ASSIGN.fullmatch(module.statements[index])
        others = [place for place in where[name] if place != index]
        if match is None or not others:
            continue
        user = others[0]
        while user in moved:
            user = moved[user]
        expression = _self_contained(module, name, match[2])
        if expression is None or user == index:
            continue
        text = module.statements[user]
        if _wider_arithmetic(module, text, module.signals[name].bits):
            continue
        use = re.compile(rf"\\{re.escape(name)} (?!\s*\[)")
        found = use.search(text)
        if found is None:
            continue
        module.widths[expression] = module.signals[name].bits
        changed = text[: found.start()] + expression + text[found.end() :]
        if max(map(len, changed.split("\n"))) > max(LINE_LENGTH, *map(len, text.split("\n"))):
            continue
        module.statements[user] = changed
        module.statements[index] = ""
        moved[index] = user
        del module.signals[name]
    module.statements = [statement for statement in module.statements if statement]


def _wider_arithmetic(module: Module, statement: str, bits: int) -> bool:
    """Whether more bits are computed than an operand's `bits`: inside the sum, its own operands would be extended."""
    match = _ASSIGN.fullmatch(statement)
    if bits == 1 or match is None or not re.search(r" [-+*] ", match[2]):
        return False
    return _bits(module, match[1]) != bits


def _self_contained(module: Module, name: str, expression: str) -> str | None:
    """The expression in a form that may stand in any other, or None."""
    if re.fullmatch(r"\{[^{}]*\}", expression):
        return expression
    bits = module.signals[name].bits
    if match := re.fullmatch(rf"({_ATOM})\s* [&|^] ({_ATOM})\s*", expression):
        same = all(_bits(module, atom) == bits for atom in match.groups())
        return f"({closed(expression)})" if same else None
    if match := re.fullmatch(rf"({_ATOM})\s* \? ({_ATOM})\s* : ({_ATOM})\s*", expression):
        same = _bits(module, match[2]) == _bits(module, match[3]) == bits and _bits(module, match[1]) == 1
        return f"({closed(expression)})" if same else None
    if bits != 1:
        return None
    compare = re.fullmatch(rf"({_ATOM})\s* (==|!=|<|<=|>|>=|&&|\|\|) ({_ATOM})\s*", expression)
    if compare or re.fullmatch(rf"[|&!] ?({_ATOM})\s*", expression):
        return f"({closed(expression)})"
    if (match := re.fullmatch(rf"~ ?({_ATOM})\s*", expression)) and _is_bit(module, match[1]):
        return f"(!{closed(match[1])})"
    return None


def _is_bit(module: Module, atom: str) -> bool:
    return _bits(module, atom) == 1


def _bits(module: Module, atom: str) -> int:
    """Bits of a name, a slice, a constant, or of an expression in parentheses that `_self_contained` made; else 0."""
    atom = atom.strip()
    if atom.startswith("("):
        return module.widths.get(atom, 0)
    if match := re.fullmatch(r".*\[(\d+)(?::(\d+))?\]", atom, re.DOTALL):
        return int(match[1]) - int(match[2] or match[1]) + 1
    if atom[0].isdigit():
        return int(atom.split("'")[0])
    signal = module.signals.get(plain(f"{atom} ") if atom.startswith("\\") else atom)
    return signal.bits if signal is not None and not signal.depth else 0


def shorten_memories(module: Module) -> None:
    """Memories that begin with the same word everywhere are filled by a loop."""
    for index, statement in enumerate(module.statements):
        lines = statement.split("\n")
        if not statement.startswith("  initial begin") or len(lines) < 6:
            continue
        words = [word for line in lines[1:-1] if (word := _MEMORY_WORD.fullmatch(line))]
        if len(words) == len(lines) - 2 and len({word[3] for word in words}) == 1:
            memory = words[0][1].rstrip()
            if _has_no_initial_contents(module.signals[plain(words[0][1])]):
                module.statements[index] = ""
                continue
            label = "fill_" + re.sub(r"\W", "_", plain(memory + " ").strip())
            fill = (
                f"  initial begin : {label}\n    integer word_index;\n"
                f"    for (word_index = 0; word_index < {len(words)}; word_index = word_index + 1)\n"
                f"      {words[0][1]}[word_index] = {words[0][3]};\n  end"
            )
            # A device's memories begin with zeros of their own, and Yosys unrolls such a loop word by word: minutes.
            zero = not words[0][3].partition("'")[2].lstrip("bodh").strip("0")
            module.statements[index] = f"`ifndef SYNTHESIS\n{fill}\n`endif" if zero else fill
    module.statements = [statement for statement in module.statements if statement]


def _has_no_initial_contents(memory: Signal) -> bool:
    """Memories that are to be the device's largest ones (iCE40's SPRAM) cannot be filled by the bitstream."""
    return any('ram_style = "huge"' in attribute for attribute in memory.attributes)


def _uses(module: Module) -> collections.Counter:
    uses: collections.Counter = collections.Counter()
    for statement in module.statements:
        uses.update(identifiers(statement))
    for instance in module.instances:
        for value in instance.connections.values():
            uses.update(identifiers(value))
    return uses
