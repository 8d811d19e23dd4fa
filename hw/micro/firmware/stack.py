"""How much stack compiled code takes at most, from the compiler's assembly: frames of functions and who calls whom."""

import dataclasses
import re
from collections.abc import Mapping

_FUNCTION = re.compile(r"^\s+\.type\s+(\w+),@function$", re.MULTILINE)
_LABEL = re.compile(r"^(\w+):", re.MULTILINE)
_FRAME = re.compile(r"^\s+addi\s+sp, sp, (-?\d+)$", re.MULTILINE)
_WRITES_SP = re.compile(r"^\s+(?!addi\s+sp, sp, |sw|sh|sb)\w[\w.]*\s+sp\b", re.MULTILINE)
_CALL = re.compile(r"^\s+(?:call|tail|jal|j)\s+(?:ra, )?([A-Za-z_]\w*)$", re.MULTILINE)
_INDIRECT_CALL = re.compile(r"^\s+jalr\b", re.MULTILINE)
_INDIRECT_JUMP = re.compile(r"^\s+jr\s+(?!ra\b)", re.MULTILINE)
_SWITCH_TABLE = ".LJTI"
_TABLE_ENTRY = re.compile(r"^\s+\.word\s+([A-Za-z_]\w*)$", re.MULTILINE)


class StackError(Exception):
    """The stack that code takes cannot be told from its assembly."""


@dataclasses.dataclass(frozen=True)
class StackFrame:
    """Bytes that it takes itself, and what it may call."""

    frame_bytes: int
    calls: frozenset[str]


def functions(assembly: str, but: str = "") -> dict[str, StackFrame]:
    """The functions of RISC-V assembly as clang writes it, `but` the one that sets the stack up. A call through a
    register may go to every function whose address is in a table. StackError for a frame whose size is not constant."""
    names = set(_FUNCTION.findall(assembly)) - {but}
    labels = list(_LABEL.finditer(assembly))
    ends = [label.start() for label in labels[1:]] + [len(assembly)]
    bodies = {label[1]: assembly[label.end() : end] for label, end in zip(labels, ends, strict=True)}
    pointed_at = {
        name
        for label, body in bodies.items()
        if label not in names
        for name in _TABLE_ENTRY.findall(body)
        if name in names
    }
    return {name: _function(name, bodies[name], pointed_at) for name in names}


def _function(name: str, body: str, pointed_at: set[str]) -> StackFrame:
    frames = {-int(size) for size in _FRAME.findall(body) if int(size) < 0}
    if len(frames) > 1 or _WRITES_SP.search(body):
        raise StackError(f"{name} moves the stack pointer by more than one constant")
    if _INDIRECT_JUMP.search(body) and _SWITCH_TABLE not in body:
        raise StackError(f"{name} jumps to an address that no table of a switch has")
    calls = set(_CALL.findall(body))
    if _INDIRECT_CALL.search(body):
        calls |= pointed_at
    return StackFrame(max(frames, default=0), frozenset(calls))


def deepest_path(
    code: Mapping[str, StackFrame], start: str, again: Mapping[str, int] | None = None
) -> tuple[int, list[str]]:
    """The most bytes of stack that `start` and what it calls take, and the calls that take them.

    again: how often a function may be on a path at once; once where it is not named.
    """
    limits = again or {}

    def search(name: str, path: list[str]) -> tuple[int, list[str]]:
        here = [*path, name]
        own = code[name].frame_bytes
        followers = [
            search(callee, here)
            for callee in sorted(code[name].calls)
            if callee in code and here.count(callee) < limits.get(callee, 1)
        ]
        below, deepest = max(followers, default=(0, here))
        return own + below, deepest

    return search(start, [])
