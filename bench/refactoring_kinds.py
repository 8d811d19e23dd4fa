"""Changes of source text that keep what it computes: each kind finds its places in a module and makes one of them.

Kinds are careful rather than clever: a place where a change might matter (a generator, a nested scope, a name that may
not be bound, the depth of the stack) is none.
"""

import ast
import builtins
import dataclasses
import io
import re
import tokenize
from collections.abc import Callable, Iterator

FEWEST_STATEMENTS = 6
"""Least number of statements of a function that is split."""
MOST_PARAMETERS = 6
"""Largest number of parameters of a helper that a change makes."""
DEPTH_MATTERS = re.compile(r"stacklevel|_getframe|inspect\.|locals\(|super\(|__class__")

_Function = ast.FunctionDef
_SCOPES = (
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.FunctionDef,
    ast.ClassDef,
)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a change can be made: `apply` returns the module's new text."""

    line: int
    what: str
    apply: Callable[[], str]


def extractions(source: str) -> Iterator[Place]:
    """The value of a `return` becomes a helper of its own."""
    tree, taken = ast.parse(source), _names(source)
    for function in _functions(tree):
        for node in _own_nodes(function):
            if not isinstance(node, ast.Return) or node.value is None:
                continue
            text = ast.get_source_segment(source, node.value) or ""
            size = sum(isinstance(each, ast.Call | ast.BinOp | ast.Compare) for each in ast.walk(node.value))
            inside = _stored([node.value])
            needed = (_loaded([node.value]) & _locals(function)) - inside
            if size < 2 or _is_unsafe(node.value, text) or len(needed) > MOST_PARAMETERS:
                continue
            if inside & _locals(function, without=node.value):
                continue
            name = _fresh(f"_{function.name.strip('_')}_value", taken)
            helper = f"def {name}({', '.join(sorted(needed))}):\n    return {ast.unparse(node.value)}\n"
            call = f"{name}({', '.join(sorted(needed))})"
            yield Place(
                node.lineno,
                f"the value of `{function.name}` as helper `{name}`",
                lambda function=function, node=node, call=call, helper=helper: _before(
                    tree, function, _replaced(source, node.value, call), helper
                ),
            )


def inlinings(source: str) -> Iterator[Place]:
    """A private function of one expression is written where it is called, once."""
    tree = ast.parse(source)
    every = list(ast.walk(tree))
    for helper in tree.body:
        if not isinstance(helper, _Function) or not helper.name.startswith("_") or helper.decorator_list:
            continue
        *before, last = helper.body
        says = all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in before)
        if not says or not isinstance(last, ast.Return) or last.value is None:
            continue
        value, parameters = last.value, _plain_parameters(helper)
        uses = [each for each in every if isinstance(each, ast.Name) and each.id == helper.name]
        calls = [each for each in every if isinstance(each, ast.Call) and each.func in uses]
        if parameters is None or len(uses) != 1 or len(calls) != 1 or _is_unsafe(value, ast.unparse(value)):
            continue
        (call,) = calls
        given = dict(zip(parameters, call.args, strict=False))
        given |= {each.arg: each.value for each in call.keywords if each.arg}
        caller = next((each for each in _functions(tree) if call in ast.walk(each)), None)
        if caller is None or set(given) != set(parameters) or any(map(_is_scope, ast.walk(value))):
            continue
        if any(call in ast.walk(each) for each in ast.walk(caller) if isinstance(each, ast.JoinedStr)):
            continue
        simple = all(isinstance(each, ast.Name | ast.Constant) for each in given.values())
        if not simple or (_loaded([value]) - set(parameters)) & _locals(caller):
            continue
        text = f"({ast.unparse(_Substituted(given).visit(ast.parse(ast.unparse(value), mode='eval').body))})"
        yield Place(
            call.lineno,
            f"helper `{helper.name}` inlined in `{caller.name}`",
            lambda call=call, text=text, helper=helper: _without(
                source, helper, _replaced(source, call, text)
            ),
        )


def renamings(source: str) -> Iterator[Place]:
    """A private function or method has another name."""
    tree, taken = ast.parse(source), _names(source)
    for function in ast.walk(tree):
        if not isinstance(function, _Function) or not re.fullmatch(r"_[a-z]\w*", function.name):
            continue
        if _is_in_a_string(source, function.name):
            continue
        name = _fresh(f"{function.name}_renamed", taken)
        yield Place(
            function.lineno,
            f"`{function.name}` renamed `{name}`",
            lambda old=function.name, new=name: _renamed(source, old, new),
        )


def splits(source: str) -> Iterator[Place]:
    """The second half of a function is a function of its own, whose value the first half returns."""
    tree, taken = ast.parse(source), _names(source)
    lines = source.splitlines(keepends=True)
    for function in _functions(tree):
        body = function.body
        cut = (len(body) + 1) // 2
        if len(body) < FEWEST_STATEMENTS:
            continue
        head, tail = body[:cut], body[cut:]
        text = "".join(lines[function.lineno - 1 : function.end_lineno])
        needed = _loaded(tail) & _locals(function)
        bound = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
        for statement in head:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                bound |= _stored([statement])
        stored_first = _stored(tail) - bound
        needed -= {name for name in stored_first if not _is_read_before_stored(name, tail)}
        if (
            any(_is_unsafe(each, text) for each in tail)
            or not needed <= bound
            or len(needed) > MOST_PARAMETERS
        ):
            continue
        strings = (
            each for node in tail for each in ast.walk(node) if isinstance(each, ast.Constant | ast.JoinedStr)
        )
        if any(each.end_lineno != each.lineno for each in strings):
            continue
        name = _fresh(f"_rest_of_{function.name.strip('_')}", taken)
        parameters = ", ".join(sorted(needed))
        yield Place(
            tail[0].lineno,
            f"`{function.name}` split: `{name}`",
            lambda function=function, tail=tail, name=name, given=parameters: _before(
                tree, function, *_split(lines, function, tail, name, given)
            ),
        )


def computed_once(source: str) -> Iterator[Place]:
    """What a statement reads twice of an object is read before it, once."""
    tree, taken = ast.parse(source), _names(source)
    for function in _functions(tree):
        for node in _own_nodes(function):
            if not isinstance(node, ast.Assign | ast.Return | ast.Expr) or node.value is None:
                continue
            calls = [each for each in ast.walk(node.value) if isinstance(each, ast.Call)]
            plain = all(isinstance(each.func, ast.Name) and hasattr(builtins, each.func.id) for each in calls)
            odd = (*_SCOPES, ast.JoinedStr)
            alone = not source.splitlines()[node.lineno - 1][: node.col_offset].strip()
            if not plain or not alone or any(isinstance(each, odd) for each in ast.walk(node.value)):
                continue
            certain = [ast.unparse(each) for each in _certain(node.value) if isinstance(each, ast.Attribute)]
            reads = [each for each in ast.walk(node.value) if isinstance(each, ast.Attribute)]
            for text in dict.fromkeys(certain):
                same = [each for each in reads if ast.unparse(each) == text]
                if len(same) < 2 or not re.fullmatch(r"\w+(\.\w+)+", text):
                    continue
                name = _fresh(text.rpartition(".")[2].strip("_") + "_once", taken)
                yield Place(
                    node.lineno,
                    f"`{text}` read once in `{function.name}`",
                    lambda node=node, same=same, name=name, text=text: _read_once(
                        source, node, same, name, text
                    ),
                )


KINDS = {
    "extract a helper": extractions,
    "inline a helper": inlinings,
    "rename a private function": renamings,
    "split a function": splits,
    "compute a value once": computed_once,
}


# --- what is in a tree


def _functions(tree: ast.Module) -> Iterator[_Function]:
    """Functions of a module and methods of its classes, without those inside of functions and without generators."""
    for node in tree.body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, _Function) and not _yields(each):
                yield each


def _yields(function: _Function) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom | ast.Await) for each in ast.walk(function))


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """The statements of a function, without those of functions inside of it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, _SCOPES):
            continue
        yield node
        waiting += [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
        for block in ("handlers", "cases"):
            for part in getattr(node, block, ()):
                waiting += part.body


def _is_scope(node: ast.AST) -> bool:
    return isinstance(node, _SCOPES)


def _is_unsafe(node: ast.AST, text: str) -> bool:
    """Whether what a node does may depend on where it stands."""
    odd = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Delete)
    mangled = any(isinstance(each, ast.Attribute) and each.attr.startswith("__") for each in ast.walk(node))
    return (
        mangled or any(isinstance(each, odd) for each in ast.walk(node)) or bool(DEPTH_MATTERS.search(text))
    )


def _loaded(nodes: list) -> set[str]:
    found = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name))
    # What is added to is read, too.
    added = {
        each.target.id
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    }
    return added | {each.id for each in found if isinstance(each.ctx, ast.Load)}


def _stored(nodes: list) -> set[str]:
    found = {
        each.id
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    named = (ast.FunctionDef, ast.ClassDef)
    found |= {each.name for node in nodes for each in ast.walk(node) if isinstance(each, named)}
    captured = (ast.MatchAs, ast.MatchStar)
    found |= {
        each.name for node in nodes for each in ast.walk(node) if isinstance(each, captured) and each.name
    }
    caught = ast.ExceptHandler
    found |= {
        each.name for node in nodes for each in ast.walk(node) if isinstance(each, caught) and each.name
    }
    imports = (ast.Import, ast.ImportFrom)
    aliases = [
        each for node in nodes for part in ast.walk(node) if isinstance(part, imports) for each in part.names
    ]
    return found | {(each.asname or each.name).partition(".")[0] for each in aliases}


def _locals(function: _Function, without: ast.AST | None = None) -> set[str]:
    """Names that a function binds, but those of a part of it."""
    parameters = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    if without is None:
        return parameters | _stored(function.body)
    inside = set(ast.walk(without))
    others = [each for node in function.body for each in ast.walk(node) if each not in inside]
    names = {each.id for each in others if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return parameters | names


def _is_read_before_stored(name: str, statements: list[ast.stmt]) -> bool:
    """Whether a name may be read before one of the statements has bound it for certain."""
    for statement in statements:
        read = statement.value if isinstance(statement, ast.Assign) else statement
        reads = name in _loaded([read])
        if isinstance(statement, ast.Assign) and not reads and name in _stored([statement]):
            return False
        if isinstance(statement, ast.For) and not reads:
            continue
        if reads:
            return not _binds_itself(name, statement)
    return False


def _binds_itself(name: str, statement: ast.stmt) -> bool:
    """Whether all reads of a name are behind its being the target of the statement's own loop, function or block."""
    if isinstance(statement, ast.FunctionDef):
        return statement.name == name
    inner = statement.target if isinstance(statement, ast.For) else None
    return inner is not None and name in _stored([inner]) and name not in _loaded([statement.iter])  # type: ignore[attr-defined]


def _certain(value: ast.expr) -> Iterator[ast.AST]:
    """Parts of an expression that are evaluated whatever the others are."""
    yield value
    match value:
        case ast.BoolOp(values=[first, *_]):
            children: list[ast.AST] = [first]
        case ast.IfExp(test=test):
            children = [test]
        case ast.Compare(left=left, comparators=[second, *_]):
            children = [left, second]
        case _:
            children = list(ast.iter_child_nodes(value))
    for child in children:
        if isinstance(child, ast.expr):
            yield from _certain(child)


def _plain_parameters(function: _Function) -> list[str] | None:
    """None where they are more than names."""
    args = function.args
    if args.vararg or args.kwarg or args.defaults or any(args.kw_defaults):
        return None
    return [each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


class _Substituted(ast.NodeTransformer):
    def __init__(self, given: dict[str, ast.expr]):
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.given.get(node.id, node)


# --- text


def _names(source: str) -> set[str]:
    return set(re.findall(r"\w+", source))


def _fresh(stem: str, taken: set[str]) -> str:
    while stem in taken:
        stem += "_"
    return stem


def _offsets(source: str, node: ast.AST) -> tuple[int, int]:
    """Where a node is in UTF-8: tree columns are bytes."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    first, last = (
        starts[getattr(node, f"{end}lineno") - 1] + getattr(node, f"{end}col_offset") for end in ("", "end_")
    )
    return first, last


def _replaced(source: str, node: ast.AST, text: str) -> str:
    first, last = _offsets(source, node)
    raw = source.encode()
    return (raw[:first] + text.encode() + raw[last:]).decode()


def _before(tree: ast.Module, function: _Function, changed: str, helper: str) -> str:
    """`changed` text with a helper before what a function stands in: a module may call it while it is imported."""
    (outer,) = (each for each in tree.body if function in ast.walk(each))
    first = min([outer.lineno, *(each.lineno for each in getattr(outer, "decorator_list", ()))])
    lines = changed.splitlines(keepends=True)
    return "".join([*lines[: first - 1], helper, "\n\n", *lines[first - 1 :]])


def _is_in_a_string(source: str, name: str) -> bool:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return any(each.type == tokenize.STRING and re.search(rf"\b{name}\b", each.string) for each in tokens)


def _without(source: str, function: _Function, changed: str) -> str:
    """`changed` text without a function that stands in it as in `source`."""
    lines = source.splitlines(keepends=True)
    own = "".join(lines[function.lineno - 1 : function.end_lineno])
    assert changed.count(own) == 1
    return changed.replace(own, "")


def _renamed(source: str, old: str, new: str) -> str:
    tokens = [
        each._replace(string=new) if each.type == tokenize.NAME and each.string == old else each
        for each in tokenize.generate_tokens(io.StringIO(source).readline)
    ]
    lines = source.splitlines(keepends=True)
    for each in reversed(tokens):
        if each.type == tokenize.NAME and each.string == new:
            row, column = each.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + new + line[column + len(old) :]
    return "".join(lines)


def _split(
    lines: list[str], function: _Function, tail: list[ast.stmt], name: str, given: str
) -> tuple[str, str]:
    """The text with a call in place of the tail, and the helper that it calls."""
    first, last = tail[0].lineno - 1, function.end_lineno
    indent = " " * tail[0].col_offset
    moved = [line.removeprefix(indent) if line.strip() else line for line in lines[first:last]]
    helper = f"def {name}({given}):\n" + "".join(f"    {line}" if line.strip() else line for line in moved)
    kept = [*lines[:first], f"{indent}return {name}({given})\n", *lines[last:]]
    return "".join(kept), helper


def _read_once(source: str, node: ast.stmt, same: list[ast.Attribute], name: str, text: str) -> str:
    found = source
    for each in sorted(same, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        found = _replaced(found, each, name)
    lines = found.splitlines(keepends=True)
    lines.insert(node.lineno - 1, f"{' ' * node.col_offset}{name} = {text}\n")
    return "".join(lines)
