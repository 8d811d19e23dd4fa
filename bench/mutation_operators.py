"""Mutants: one small change each to a function of a source file, as a syntax tree with the lines of the original."""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.USub: ast.UAdd,
}


@dataclass(frozen=True)
class Mutant:
    """`number` counts the mutants of one file, which are always found in the same order."""

    file: str
    number: int
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"


def mutants(root: Path, file: str, wanted: Callable[[int], object]) -> Iterator[tuple[Mutant, ast.Module]]:
    """Every mutant of `root/file` on a `wanted` line, with the tree of the file while it is changed.

    Annotations, decorators, defaults and docstrings stay, and the texts of messages.
    """
    tree = ast.parse((root / file).read_text())
    told = {id(part) for text in _texts(tree) for part in ast.walk(text)}
    number = 0
    for parent, field, index in _places(tree):
        value = getattr(parent, field)
        node = value if index is None else value[index]
        for changed in _changes(node):
            number += 1
            if not wanted(node.lineno) or id(node) in told:
                continue
            ast.copy_location(changed, node)
            mutant = Mutant(file, number, node.lineno, _short(node), _short(changed))
            _put(parent, field, index, changed)
            yield mutant, tree
            _put(parent, field, index, node)


def _places(tree: ast.Module) -> list[tuple[ast.AST, str, int | None]]:
    """Where a node hangs, for each statement and expression in the body of a function."""
    found: list[tuple[ast.AST, str, int | None]] = []

    def walk(node: ast.AST, inside: bool) -> None:
        is_function = isinstance(node, ast.FunctionDef)
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(
                node, ast.Call
            ):
                continue
            below = inside or (is_function and field == "body")
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST):
                    if below and isinstance(child, ast.expr | ast.stmt):
                        found.append((node, field, index))
                    walk(child, below)

    walk(tree, False)
    return found


def _texts(tree: ast.Module) -> Iterator[ast.AST]:
    """What is composed for people: formatted strings, and what only a debugger shows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.FunctionDef) and node.name == "__repr__"):
            yield node


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.UnaryOp(op=op) if type(op) in OPERATORS:
            yield _with(node, op=OPERATORS[type(op)]())
        case ast.Compare(ops=[op]) if type(op) in OPERATORS:
            yield _with(node, ops=[OPERATORS[type(op)]()])
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield _with(node, body=orelse, orelse=body)
        case ast.If(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.AugAssign() | ast.Raise() | ast.Expr(value=ast.Call()) | ast.Continue() | ast.Break():
            yield ast.Pass()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _put(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _short(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:70]


def as_text(root: Path, mutant: Mutant) -> tuple[str, str]:
    """Lines of the mutant's file that occur once in it, and what they become; as many lines."""
    source = (root / mutant.file).read_text()
    lines = source.split("\n")
    node, changed = _of_number(ast.parse(source), mutant.number)
    if isinstance(node, ast.If):
        node, changed = node.test, ast.UnaryOp(ast.Not(), node.test)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    text, breaks = ast.unparse(changed), "\n" * (last - first)
    text = f"({text}{breaks})" if isinstance(node, ast.expr) else text + breaks
    before = lines[first].encode()[: node.col_offset].decode()
    behind = lines[last].encode()[node.end_col_offset :].decode()
    old, new = "\n".join(lines[first : last + 1]), before + text + behind
    while f"\n{source}\n".count(f"\n{old}\n") != 1:
        first -= 1
        old, new = f"{lines[first]}\n{old}", f"{lines[first]}\n{new}"
    return old, new


def _of_number(tree: ast.Module, wanted: int) -> tuple[ast.AST, ast.AST]:
    number = 0
    for parent, field, index in _places(tree):
        value = getattr(parent, field)
        node = value if index is None else value[index]
        for changed in _changes(node):
            number += 1
            if number == wanted:
                return node, changed
    raise ValueError(f"there is no mutant {wanted}")
